# SPDX-License-Identifier: Apache-2.0
"""The stock benchmark measures both drivers, and leaves no files or processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.benchmark_process import BenchmarkProcess, rows

_PLAIN = ("post-1", "claim-delete", "claim-delete-each", "list-10")
#: Workloads without a target.
_NO_TARGET = ("claim-delete-each",)
_CLAIMED = ("list-100", "claim-100")
_DRIVERS = ("zaqar-redis", "redis")


@pytest.mark.parametrize(("part", "workloads"), [("plain", _PLAIN), ("claimed", _CLAIMED)])
def test_a_part_measures_both_drivers_without_errors(
    part: str, workloads: tuple[str, ...], folder: Path
) -> None:
    small = ["--rounds", "1", "--seconds", "0.3", "--claimed", "100"]
    output = BenchmarkProcess("stock", folder).output("--part", part, *small)
    both = {(name, driver) for name in workloads for driver in _DRIVERS}
    rates = rows(output, "unit", "workload")
    assert {(row[0], row[1]) for row in rates} == both
    assert all(float(row[2]) > 0 and row[8] == "0" for row in rates)
    cpu = rows(output, "max", "CPU µs for each")
    assert {(row[0], row[1]) for row in cpu} == both
    ratios = rows(output, "max", "CPU time of the process")
    assert [row[0] for row in ratios] == list(workloads)
    targets = rows(output, "is", "measured")
    assert [row[0] for row in targets] == [name for name in workloads if name not in _NO_TARGET]
    assert all(row[-1] in ("met", "missed") for row in targets)


def test_an_interrupted_run_reports_what_it_has_and_stops_what_it_started(folder: Path) -> None:
    many = ["--part", "plain", "--rounds", "90", "--seconds", "0.3"]
    output, started = BenchmarkProcess("stock", folder).run_interrupted(
        *many, after="round 1 of 90, redis"
    )
    assert "| post-1 " in output
    # Two servers, four workers, and Python's resource tracker.
    assert started >= 6
