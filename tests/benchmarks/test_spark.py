# SPDX-License-Identifier: Apache-2.0
"""Every part of the benchmark of the data source runs, and nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.benchmarks.spark_memory import descendants

_SMALL = ["--messages", "20000", "--rounds", "1", "--seconds", "3"]
_SOURCE = "data source, 2 tasks"
#: What has a target, and what is only told, by part.
_TARGETS = {
    ("memory", "largest worker, 20000 messages"),
    ("memory", "largest worker, 200000 messages"),
    ("memory", "time for 10 times as many"),
    ("read", f"{_SOURCE} : raw HMGET"),
    ("read", f"{_SOURCE} : row tuples, 2 tasks"),
    ("read", f"{_SOURCE} : list and createDataFrame"),
    ("write", "data source, ledger : raw Lua put"),
    ("write", "data source, ledger : foreachPartition"),
    ("stream", "batches of 4000 after the first"),
    ("latency", "posted to seen, p95"),
    ("latency", "a small trigger, warm"),
    ("latency", "Redis calls of an idle stream"),
    ("together", "posts beside a job : alone"),
}
_TOLD = {
    ("read", _SOURCE),
    ("read", "raw HMGET"),
    ("read", "row tuples, 2 tasks"),
    ("read", "list and createDataFrame"),
    ("write", "data source, ledger"),
    ("write", "raw Lua put"),
    ("write", "foreachPartition"),
    ("latency", "posted to seen, p50"),
    ("together", "posts alone"),
    ("together", "posts beside a job"),
    ("together", "the job beside posts"),
}


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.benchmarks.spark", *arguments]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a run has its servers.  Not pytest's: the path of a socket must be short."""
    with tempfile.TemporaryDirectory(prefix="zr-") as made:
        yield Path(made)


@contextlib.contextmanager
def _running(folder: Path, progress: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with progress.open("w") as told:
        process = subprocess.Popen(
            _command(*arguments),
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            env=os.environ | {"TMPDIR": str(folder)},
        )
    try:
        yield process
    finally:  # killed, it would leave servers behind
        process.terminate()
        process.communicate(timeout=60)


def _rows(output: str, last: str) -> list[list[str]]:
    """Of the table whose last heading this is."""
    for block in output.split("\n\n"):
        lines = [line.strip("| ").split("|") for line in block.splitlines() if line[:1] == "|"]
        table = [[cell.strip() for cell in line] for line in lines]
        if table and table[0][-1] == last:
            return table[2:]
    return []


@pytest.mark.timeout(240)  # the job steps back for whatever else the machine does
def test_all_parts_are_measured_beside_their_targets(folder: Path, tmp_path: Path) -> None:
    with _running(folder, tmp_path / "progress", *_SMALL) as process:
        output, _ = process.communicate(timeout=170)
    assert process.returncode == 0, (tmp_path / "progress").read_text()
    targets, told = _rows(output, "is"), _rows(output, "rounds")
    assert {(row[0], row[1]) for row in targets} == _TARGETS
    assert {(row[0], row[1]) for row in told} == _TOLD
    # An idle stream may ask nothing at all.
    busy = [row for row in (*targets, *told) if row[2] != "calls/s"]
    assert all(0 < float(row[4]) <= float(row[3]) <= float(row[5]) for row in busy)
    assert {row[-1] for row in targets} <= {"met", "missed"}
    assert list(folder.iterdir()) == []


def test_an_interrupted_run_reports_what_it_has_and_stops_what_it_started(
    folder: Path, tmp_path: Path
) -> None:
    progress = tmp_path / "progress"
    many = ["--part", "write", "--messages", "20000", "--rounds", "90"]
    with _running(folder, progress, *many) as process:
        servers.wait_for(lambda: "round 2 of 90" in progress.read_text(), "a round to end", 100)
        started = descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, progress.read_text()
    assert "| data source, ledger : raw Lua put " in output
    assert "the run was interrupted" in output
    # Redis, Java, and Python's workers.
    assert len(started) >= 3
    servers.wait_for(
        lambda: not [pid for pid in started if Path(f"/proc/{pid}").exists()], "all to end"
    )
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [["--part", "nonsense"], ["--rounds", "0"], ["--seconds", "2"], ["--messages", "9999"]],
)
def test_arguments_out_of_bounds_are_refused(arguments: list[str]) -> None:
    done = subprocess.run(_command(*arguments), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert arguments[0] in done.stderr
