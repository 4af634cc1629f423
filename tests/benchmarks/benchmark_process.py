# SPDX-License-Identifier: Apache-2.0
"""Runs of a benchmark's command, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import psutil

from tests.support import processes, servers


class BenchmarkProcess:
    """``python -m benchmarks.NAME``."""

    def __init__(self, name: str, folder: Path) -> None:
        """*folder*: for its servers' files; it must be empty after each run."""
        self._command = [*processes.PYTHON, f"benchmarks.{name}"]
        self._folder = folder
        self._environment = os.environ | {"TMPDIR": str(folder)}

    def output(self, *arguments: str, seconds: float = 110) -> str:
        """Returns the output of a complete run."""
        command = [*self._command, *arguments]
        done = processes.run(command, timeout=seconds, env=self._environment)
        assert done.returncode == 0, done.stderr
        assert list(self._folder.iterdir()) == []
        return done.stdout

    def run_interrupted(
        self,
        *arguments: str,
        after: str,
        stop_signal: signal.Signals = signal.SIGTERM,
        seconds: float = 100,
    ) -> tuple[str, int]:
        """Returns the output of a run that gets *stop_signal* after a text of its progress,
        and the number of its child processes; all of them have ended.

        *seconds*: until the text comes."""
        progress = self._folder.with_suffix(".progress")
        with progress.open("w") as stderr_file:
            process = subprocess.Popen(
                [*self._command, *arguments],
                stdout=subprocess.PIPE,
                stderr=stderr_file,
                text=True,
                env=self._environment,
            )
        try:
            servers.wait_for(lambda: after in progress.read_text(), after, seconds)
            started = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(stop_signal)
            output, _ = process.communicate(timeout=60)
            assert process.returncode == 130, progress.read_text()
        finally:  # SIGTERM: after SIGKILL its servers would go on
            process.terminate()
            process.communicate(timeout=60)
            progress.unlink()
        servers.wait_for(lambda: not any(each.is_running() for each in started), "all to end")
        assert "the run was interrupted" in output
        assert list(self._folder.iterdir()) == []
        return output, len(started)


def rows(output: str, last: str, first: str | None = None) -> list[list[str]]:
    """Returns the rows of the table with these first and last headings."""
    for block in output.split("\n\n"):
        lines = [line.strip("| ").split("|") for line in block.splitlines() if line[:1] == "|"]
        table = [[cell.strip() for cell in line] for line in lines]
        if table and table[0][-1] == last and first in (None, table[0][0]):
            return table[2:]
    return []
