# SPDX-License-Identifier: Apache-2.0
"""The benchmark of notifications measures its parts, and leaves no files or processes."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.benchmark_process import BenchmarkProcess, rows

_LARGE = [f"--part={part}" for part in ("forward", "fanout", "http")]
#: Parts, and rows of each.
_ROWS = {
    "forward": 2,
    "fanout": 2,
    "http, 1 each": 4,
    "http, 100 each": 4,
}


def test_both_sides_of_each_part_are_measured_beside_the_targets(folder: Path) -> None:
    small = ["--rounds", "1", "--seconds", "0.1", "--subscriptions", "10"]
    output = BenchmarkProcess("notifications", folder).output(*_LARGE, *small)
    found = rows(output, "is", "part")
    parts = [row[0] for row in found]
    assert {part: parts.count(part) for part in parts} == _ROWS
    assert all(float(row[2]) > 0 and float(row[3]) > 0 for row in found)
    targets = {row[0] for row in found if row[-1] in ("met", "missed")}
    assert targets == set(_ROWS)
