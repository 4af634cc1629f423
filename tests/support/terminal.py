# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis`` in a pseudo terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping

from tests.support import servers


class Terminal:
    """A command in a pseudo terminal."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self._terminal = terminal
        self._shown = b""

    @property
    def lines(self) -> list[str]:
        """What the command has written so far, without control sequences."""
        while select.select([self._terminal], [], [], 0)[0]:
            try:
                self._shown += os.read(self._terminal, 65536)
            except OSError:  # it has ended
                break
        written = self._shown.decode(errors="replace")
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", " ", written).splitlines()

    @property
    def shown(self) -> str:
        """The same in one line."""
        return " ".join(" ".join(self.lines).split())

    def wait_for(self, text: str) -> None:
        try:
            servers.wait_for(lambda: text in self.shown, text)
        except TimeoutError as late:
            raise TimeoutError(f"{text}, but it shows: {self.shown[-2000:]}") from late

    def press(self, key: str) -> None:
        os.write(self._terminal, key.encode())

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self._terminal)[3] & termios.ECHO)


@contextlib.contextmanager
def terminal(
    *words: str, columns: int = 120, environment: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    mine, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "zaqar_redis.cli.main", *words],
        stdin=its,
        stdout=its,
        stderr=its,
        env={name: os.environ[name] for name in ("HOME", "PATH")}
        | {"TERM": "xterm"}
        | dict(environment or {}),
        start_new_session=True,
    )
    try:
        yield Terminal(process, mine)
    finally:
        process.kill()
        process.wait()
        os.close(its)
        os.close(mine)
