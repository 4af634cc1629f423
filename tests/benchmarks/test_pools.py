# SPDX-License-Identifier: Apache-2.0
"""Every part measures what it says it does, and stops what it started."""

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
from tests.benchmarks.rounds import Measured, Target, sample, targets_table
from zaqar_redis.bench import report
from zaqar_redis.bench.service import Failed

_SHORT = ["--rounds", "1", "--seconds", "1", "--queues", "200", "--messages", "100"]
_ROWS = {
    "routing": {("post-1", "plain"), ("post-1", "pools")},
    "queues": {
        (name, queues)
        for name in ("list-queues", "locate", "show-any", "show-one")
        for queues in ("100", "200")
    },
    "draining": {
        (name, what) for name in ("drain-large", "drain-small") for what in ("post", "move")
    },
}


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.benchmarks.pools", *arguments]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a run has its servers.  Not pytest's: the path of a socket must be short."""
    with tempfile.TemporaryDirectory(prefix="zr-") as made:
        yield Path(made)


def _tables(output: str) -> dict[str, list[list[str]]]:
    """The rows of each table, by its first heading and its last."""
    tables: dict[str, list[list[str]]] = {}
    for block in output.split("\n\n"):
        lines = [line.strip("| ").split("|") for line in block.splitlines() if line[:1] == "|"]
        if lines:
            head, _, *rows = [[cell.strip() for cell in line] for line in lines]
            tables[f"{head[0]}/{head[-1]}"] = rows
    return tables


@pytest.mark.parametrize("part", _ROWS)
def test_a_part_fills_every_table_without_errors(part: str, folder: Path) -> None:
    done = subprocess.run(
        _command("--part", part, *_SHORT),
        capture_output=True,
        text=True,
        timeout=110,
        env=os.environ | {"TMPDIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    tables = _tables(done.stdout)
    rates = tables["workload/unit"]
    assert {(row[0], row[1]) for row in rates} == _ROWS[part]
    assert all(float(row[2]) > 0 and row[8] == "0" for row in rates)
    cpu = tables["CPU µs for each/max"]
    assert {(row[0], row[1]) for row in cpu} == _ROWS[part]
    ratios = tables["workload/max"]
    assert {row[0] for row in ratios} == {name for name, _ in _ROWS[part]}
    assert {row[0] for row in tables["measured/is"]} <= {name for name, _ in _ROWS[part]}
    assert all(row[-1] in ("met", "missed") for row in tables["measured/is"])
    assert f"--part {part}" in done.stdout
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_reports_what_it_has_and_stops_its_servers(
    number: signal.Signals, folder: Path, tmp_path: Path
) -> None:
    progress = tmp_path / "progress"
    with progress.open("w") as told:
        process = subprocess.Popen(
            _command("--part", "draining", "--rounds", "90", "--messages", "1000"),
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            env=os.environ | {"TMPDIR": str(folder)},
        )
    servers.wait_for(lambda: "round 1 of 90, move" in progress.read_text(), "a round to end")
    started = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(started) == 3
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 130, progress.read_text()
    assert "| drain-large " in output
    assert "the run was interrupted" in output
    assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--part", "nonsense"],
        ["--rounds", "0"],
        ["--seconds", "61"],
        ["--queues", "100"],
        ["--messages", "200001"],
    ],
)
def test_arguments_out_of_bounds_are_refused(arguments: list[str]) -> None:
    done = subprocess.run(_command(*arguments), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert arguments[0] in done.stderr


def test_targets_are_held_against_medians_of_ratios_of_rounds() -> None:
    samples = {
        "plain": [sample([1], 0, 0.01), sample([1], 0, 0.02)],
        "pools": [sample([1], 0, 0.01), sample([1], 0, 0.03)],
    }
    finding = report.Finding("post-1", "post", "requests/s", samples)
    targets = [Target("time", "<", 1.25), Target("CPU time", "≤", 2), Target("rate", "≥", 60)]
    cpu = {"plain": [50.0, 50.0], "pools": [100.0, 100.0]}
    rows = _tables(targets_table([Measured(finding, targets, cpu)]))["measured/is"]
    assert [row[3:] for row in rows] == [
        ["1.25", "1.00", "1.50", "< 1.25", "missed"],
        ["2.00", "2.00", "2.00", "≤ 2", "met"],
        ["67", "33", "100", "≥ 60", "met"],
    ]
    assert [row[1] for row in rows] == ["pools : plain", "pools : plain", "pools"]


def test_a_round_in_which_nothing_was_done_is_a_failure() -> None:
    with pytest.raises(Failed, match="3 failed"):
        sample([], 3, 1.0)
