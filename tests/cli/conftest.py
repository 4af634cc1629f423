# SPDX-License-Identifier: Apache-2.0
"""Commands as a person calls them, at a service and straight at the store."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import servers

ADMIN: dict[str, dict[str, object]] = {"DEFAULT": {"admin_mode": True}}


class Shell:
    """``zaqar-redis`` as a person calls it."""

    def __init__(self, where: list[str]) -> None:
        self.where = where

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "zaqar_redis.cli.main", *words, *self.where],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )

    def done(self, *words: str) -> str:
        outcome = self.run(*words)
        assert outcome.returncode == 0, outcome.stderr
        return outcome.stdout

    def shown(self, *words: str) -> Any:
        return json.loads(self.done(*words, "-f", "json"))

    def refused(self, *words: str) -> str:
        outcome = self.run(*words)
        assert outcome.returncode == 1
        assert outcome.stdout == ""
        assert "Traceback" not in outcome.stderr
        return outcome.stderr


class Running:
    """A command that goes on; what it writes is in files."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process = process
        self._out = out
        self._err = err

    @property
    def lines(self) -> list[str]:
        return self._out.read_text().splitlines()

    @property
    def notices(self) -> str:
        return self._err.read_text()

    def writes(self, number: int) -> list[str]:
        """Its lines, once there are so many."""
        servers.wait_for(lambda: len(self.lines) >= number, f"{number} lines")
        return self.lines

    def tells(self, text: str, times: int = 1) -> None:
        """Returns once it has said this so often."""
        servers.wait_for(lambda: self.notices.count(text) >= times, text)

    def interrupted(self) -> str:
        """What it says when it is interrupted."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(30) == 130
        assert "Traceback" not in self.notices
        assert self.notices.endswith("\ninterrupted\n")
        return self.notices


@contextlib.contextmanager
def running(shell: Shell, folder: Path, *words: str) -> Iterator[Running]:
    out, err = folder / "out", folder / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "zaqar_redis.cli.main", *words, *shell.where],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
    try:
        yield Running(process, out, err)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(params=["storage", "url"])
def shell(request: pytest.FixtureRequest) -> Iterator[Shell]:
    with servers.redis_server() as home:
        if request.param == "storage":
            yield Shell(["--storage", home.uri])
        else:
            with servers.service(home.uri, options=ADMIN) as service:
                yield Shell(["--url", service.url])
