# SPDX-License-Identifier: Apache-2.0
"""Commands as a person calls them, at a service and straight at the store."""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from zaqar_redis.cli import target
from zaqar_redis.cli.main import main

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


class Here:
    """``zaqar-redis`` within this process: much faster than a `Shell`."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *words: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        self._capsys.readouterr()
        with _logging_as_it_was():
            try:
                code = main(list(words))
            except SystemExit as usage:  # argparse's
                code = int(usage.code or 0)
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def done(self, *words: str) -> tuple[str, str]:
        code, out, err = self.run(*words)
        assert code == 0, err
        return out, err

    def shown(self, *words: str) -> Any:
        return json.loads(self.done(*words, "-f", "json")[0])

    def refused(self, *words: str) -> str:
        code, out, err = self.run(*words)
        assert (code, out) == (1, ""), err
        return err


@contextlib.contextmanager
def _logging_as_it_was() -> Iterator[None]:
    """A command arranges logging for its process, and writes to its own stderr."""
    rooms = [logging.getLogger(name) for name in (None, "zaqar_redis", "httpx")]
    levels = [room.level for room in rooms]
    handlers = logging.root.handlers[:]
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        for room, level in zip(rooms, levels, strict=True):
            room.setLevel(level)


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(capsys)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder of the test's own, without profiles, configuration and data."""
    for name in (target.URL, target.URI, "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    # Not pytest's: the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="zr-home-") as folder:
        monkeypatch.setenv("HOME", folder)
        yield Path(folder)
