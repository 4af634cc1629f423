# SPDX-License-Identifier: Apache-2.0
"""Each part of the Spark benchmark runs, and leaves no files or processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.benchmark_process import BenchmarkProcess, rows

_SMALL = ["--messages", "10000", "--rounds", "1", "--seconds", "3"]
_SOURCE = "data source, 2 tasks"
#: Figures with a target, and figures that are only reported, by part.
_TARGETS = {
    ("read", f"{_SOURCE} : raw HMGET"),
    ("write", "data source, ledger : raw Lua put"),
    ("write", "data source, ledger : foreachPartition"),
    ("stream", "batches of 2000 after the first"),
    ("latency", "posted to seen, p95"),
    ("latency", "a small trigger, warm"),
    ("latency", "Redis calls of an idle stream"),
}
_WITHOUT_TARGET = {
    ("read", _SOURCE),
    ("read", "raw HMGET"),
    ("write", "data source, ledger"),
    ("write", "raw Lua put"),
    ("write", "foreachPartition"),
    ("latency", "posted to seen, p50"),
}


@pytest.mark.timeout(600)
def test_all_parts_are_measured_beside_their_targets(folder: Path) -> None:
    output = BenchmarkProcess("spark", folder).output(*_SMALL, seconds=540)
    targets, others = rows(output, "is"), rows(output, "rounds")
    assert {(row[0], row[1]) for row in targets} == _TARGETS
    assert {(row[0], row[1]) for row in others} == _WITHOUT_TARGET
    # An idle stream may send no commands at all.
    busy = [row for row in (*targets, *others) if row[2] != "calls/s"]
    assert all(0 < float(row[4]) <= float(row[3]) <= float(row[5]) for row in busy)
    assert {row[-1] for row in targets} <= {"met", "missed"}


@pytest.mark.timeout(600)
def test_an_interrupted_run_reports_what_it_has_and_stops_what_it_started(folder: Path) -> None:
    many = ["--part", "write", "--messages", "20000", "--rounds", "90"]
    output, started = BenchmarkProcess("spark", folder).run_interrupted(
        *many, after="round 2 of 90", seconds=400
    )
    assert "| data source, ledger : raw Lua put " in output
    # Redis, Java, and Python's workers.
    assert started >= 3
