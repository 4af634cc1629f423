# SPDX-License-Identifier: Apache-2.0
"""Processes with a log of their own, which may be killed and started again."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.support.servers import RestartableServer, start_logged
from zaqar_redis.benchmarks.logs import check_log
from zaqar_redis.benchmarks.service import BenchmarkFailed

P = TypeVar("P", bound="LoggedProcess")

#: Seconds that a process may take to end when it is asked to.
_END_SECONDS = 40.0
#: Characters of a log that a failure shows.
_LOG_CHARACTERS = 2000

PYTHON = (sys.executable, "-m")
ZAQAR_REDIS = (*PYTHON, "zaqar_redis.cli.main")


def run(
    command: Sequence[object], *, timeout: float = 60, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end; returns its exit code and its output.

    *options* are those of `subprocess.run`.
    """
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, **options)


class LoggedProcess(RestartableServer):
    """A process that may be killed, and started again."""

    def __init__(self, name: str, command: Callable[[int], Sequence[str]], log: Path) -> None:
        """*command*: gets how often it has been started before."""
        self.name = name
        self.log = log
        self._command = command
        self._starts = 0

    def start(self) -> None:
        self._process = start_logged(self._command(self._starts), self.log)
        self._starts += 1

    def kill(self) -> None:
        """Raises BenchmarkFailed when it has ended by itself: starting it again would hide that."""
        if not self.is_alive:
            raise BenchmarkFailed(f"the {self.name} ended by itself: {self._tail()}")
        super().kill()

    def restart(self) -> None:
        """Kills it (SIGKILL), and starts it again."""
        self.kill()
        self.start()

    def end(self, number: int = signal.SIGTERM) -> int | None:
        """Asks it to end by a signal; returns the exit code, None: it goes on."""
        if self.is_alive:
            self.resume()
            self.signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._started.wait(_END_SECONDS)
        return self._started.poll()

    def finish(self) -> None:
        """Asks it to end.  Raises BenchmarkFailed when it does not, or had ended."""
        if self.end() not in (0, -signal.SIGTERM):
            self.stop()
            raise BenchmarkFailed(f"the {self.name} failed: {self._tail()}")
        check_log(f"the {self.name}", self._text())

    def _tail(self) -> str:
        return self._text()[-_LOG_CHARACTERS:]

    def _text(self) -> str:
        return self.log.read_text(errors="replace")


@contextlib.contextmanager
def started(process: P) -> Iterator[P]:
    """Starts a process, and kills it in the end if it has not finished."""
    process.start()
    try:
        yield process
    finally:
        process.stop()
