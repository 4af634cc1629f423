# SPDX-License-Identifier: Apache-2.0
"""Both drivers are measured in stock Zaqar, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers

_PLAIN = ("post-1", "claim-delete", "claim-delete-each", "list-10")
#: What is only told.
_NO_TARGET = ("claim-delete-each",)
_CLAIMED = ("list-100", "claim-100")
_DRIVERS = ("zaqar-redis", "redis")


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.benchmarks.stock", *arguments]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a run has its servers.  Not pytest's: the path of a socket must be short."""
    with tempfile.TemporaryDirectory(prefix="zr-") as made:
        yield Path(made)


def _rows(output: str, first: str, last: str) -> list[list[str]]:
    """Of the table with these headings at its ends."""
    for block in output.split("\n\n"):
        lines = [line.strip("| ").split("|") for line in block.splitlines() if line[:1] == "|"]
        table = [[cell.strip() for cell in line] for line in lines]
        if table and (table[0][0], table[0][-1]) == (first, last):
            return table[2:]
    return []


@pytest.mark.parametrize(("part", "workloads"), [("plain", _PLAIN), ("claimed", _CLAIMED)])
def test_a_part_measures_both_drivers_without_errors(
    part: str, workloads: tuple[str, ...], folder: Path
) -> None:
    small = ["--rounds", "1", "--seconds", "1", "--claimed", "100"]
    done = subprocess.run(
        _command("--part", part, *small),
        capture_output=True,
        text=True,
        timeout=110,
        env=os.environ | {"TMPDIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    both = {(name, driver) for name in workloads for driver in _DRIVERS}
    rates = _rows(done.stdout, "workload", "unit")
    assert {(row[0], row[1]) for row in rates} == both
    assert all(float(row[2]) > 0 and row[8] == "0" for row in rates)
    cpu = _rows(done.stdout, "CPU µs for each", "max")
    assert {(row[0], row[1]) for row in cpu} == both
    ratios = _rows(done.stdout, "CPU time of the process", "max")
    assert [row[0] for row in ratios] == list(workloads)
    targets = _rows(done.stdout, "measured", "is")
    assert [row[0] for row in targets] == [name for name in workloads if name not in _NO_TARGET]
    assert all(row[-1] in ("met", "missed") for row in targets)
    assert list(folder.iterdir()) == []


def test_an_interrupted_run_reports_what_it_has_and_stops_what_it_started(
    folder: Path, tmp_path: Path
) -> None:
    progress = tmp_path / "progress"
    with progress.open("w") as told:
        process = subprocess.Popen(
            _command("--part", "plain", "--rounds", "90", "--seconds", "1"),
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            env=os.environ | {"TMPDIR": str(folder)},
        )
    servers.wait_for(lambda: "round 1 of 90, redis" in progress.read_text(), "a round to end")
    started = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 130, progress.read_text()
    assert "| post-1 " in output
    assert "the run was interrupted" in output
    # Two servers, four workers, and what Python watches over them with.
    assert len(started) >= 6
    servers.wait_for(
        lambda: not [pid for pid in started if Path(f"/proc/{pid}").exists()], "all to end"
    )
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [["--part", "nonsense"], ["--rounds", "0"], ["--seconds", "61"], ["--claimed", "50001"]],
)
def test_arguments_out_of_bounds_are_refused(arguments: list[str]) -> None:
    done = subprocess.run(_command(*arguments), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert arguments[0] in done.stderr
