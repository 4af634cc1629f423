# SPDX-License-Identifier: Apache-2.0
"""Commands within the process of the tests, and as a process that is interrupted."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from tests.support import servers
from zaqar_redis.cli.main import main
from zaqar_redis.conf.environment import variable


class CommandLine:
    """``zaqar-redis`` within this process: one of its own takes a second to start.

    It tries for *patience* seconds to connect to a store.
    """

    def __init__(
        self,
        target_options: Sequence[str] = (),
        *,
        patience: float = servers.CONNECT_TIMEOUT,
    ) -> None:
        self.target_options = list(target_options)
        self._environment = {variable("redis", "connect_timeout"): str(patience)}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        out, err = io.StringIO(), io.StringIO()
        arguments = [*words, *self.target_options]
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            # Commands about configurations show what their tests have set, and nothing else.
            mock.patch.dict(os.environ, {} if words[0] == "config" else self._environment),
            logging_restored(),
        ):
            try:
                code = main(arguments)
            except SystemExit as usage:  # raised by argparse
                code = int(usage.code or 0)
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    def done(self, *words: str) -> str:
        return self._done(*words).stdout

    def notices(self, *words: str) -> str:
        """Returns what a command that succeeds writes to stderr."""
        return self._done(*words).stderr

    def _done(self, *words: str) -> subprocess.CompletedProcess[str]:
        outcome = self.run(*words)
        assert outcome.returncode == 0, outcome.stderr
        return outcome

    def shown(self, *words: str) -> Any:
        return json.loads(self.done(*words, "-f", "json"))

    def refused(self, *words: str) -> str:
        outcome = self.run(*words)
        assert (outcome.returncode, outcome.stdout) == (1, ""), outcome.stderr
        assert "Traceback" not in outcome.stderr
        return outcome.stderr

    def misused(self, *words: str) -> str:
        """Returns what a command that the parser refuses writes to stderr."""
        outcome = self.run(*words)
        assert (outcome.returncode, outcome.stdout) == (2, ""), outcome.stderr
        return outcome.stderr


def without_store() -> CommandLine:
    """A command line whose store is never there: no patience would change the outcome."""
    return CommandLine(["--storage", "redis://127.0.0.1:1"], patience=0.1)


def run_module(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs ``python -m NAME`` within this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", [name, *words]),
    ):
        try:
            runpy.run_module(name, run_name="__main__")
        except SystemExit as ended:
            return subprocess.CompletedProcess(
                words, int(ended.code or 0), out.getvalue(), err.getvalue()
            )
    raise AssertionError(f"{name} has no exit code")


def _loggers() -> list[logging.Logger]:
    return [logging.root, *map(logging.getLogger, logging.root.manager.loggerDict)]


@contextlib.contextmanager
def logging_restored() -> Iterator[None]:
    """Restores logging: a command configures it for the whole process."""
    levels = {logger: logger.level for logger in _loggers()}
    handlers = logging.root.handlers[:]
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        for logger in _loggers():
            level = levels.get(logger, logging.NOTSET)
            if logger.level != level:  # to set it costs a look at all loggers
                logger.setLevel(level)


class RunningCommand:
    """A running command; its output is in files."""

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

    def wait_for_lines(self, number: int) -> list[str]:
        """Waits for *number* lines on stdout; returns all lines."""
        servers.wait_for(lambda: len(self.lines) >= number, f"{number} lines")
        return self.lines

    def wait_for_notice(self, text: str, times: int = 1) -> None:
        """Waits until *text* is on stderr *times* times."""
        servers.wait_for(lambda: self.notices.count(text) >= times, text)

    def interrupt(self) -> str:
        """Sends SIGINT; checks exit code 130 and returns stderr."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) == 130
        assert "Traceback" not in self.notices
        assert self.notices.endswith("\ninterrupted\n")
        return self.notices


@contextlib.contextmanager
def running(shell: CommandLine, folder: Path, *words: str) -> Iterator[RunningCommand]:
    out, err = folder / "out", folder / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "zaqar_redis.cli.main", *words, *shell.target_options],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
    try:
        yield RunningCommand(process, out, err)
    finally:
        process.kill()
        process.wait()
