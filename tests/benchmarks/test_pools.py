# SPDX-License-Identifier: Apache-2.0
"""Each part of the pool benchmark fills its tables, and stops its servers."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.benchmarks.benchmark_process import BenchmarkProcess, rows

_SHORT = ["--rounds", "1", "--seconds", "0.3", "--queues", "200", "--messages", "100"]
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


@pytest.mark.parametrize("part", _ROWS)
def test_a_part_fills_every_table_without_errors(part: str, folder: Path) -> None:
    output = BenchmarkProcess("pools", folder).output("--part", part, *_SHORT)
    rates = rows(output, "unit", "workload")
    assert {(row[0], row[1]) for row in rates} == _ROWS[part]
    assert all(float(row[2]) > 0 and row[8] == "0" for row in rates)
    cpu = rows(output, "max", "CPU µs for each")
    assert {(row[0], row[1]) for row in cpu} == _ROWS[part]
    ratios = rows(output, "max", "workload")
    assert {row[0] for row in ratios} == {name for name, _ in _ROWS[part]}
    targets = rows(output, "is", "measured")
    assert {row[0] for row in targets} <= {name for name, _ in _ROWS[part]}
    assert all(row[-1] in ("met", "missed") for row in targets)
    assert f"--part {part}" in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_reports_what_it_has_and_stops_its_servers(
    number: signal.Signals, folder: Path
) -> None:
    many = ["--part", "draining", "--rounds", "90", "--messages", "1000"]
    bench = BenchmarkProcess("pools", folder)
    output, started = bench.run_interrupted(*many, after="round 1 of 90, move", stop_signal=number)
    assert "| drain-large " in output
    assert started == 3
