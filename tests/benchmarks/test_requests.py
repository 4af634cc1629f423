# SPDX-License-Identifier: Apache-2.0
"""The benchmark of requests measures this checkout beside another one, here beside itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.benchmark_process import BenchmarkProcess, rows


def test_requests_of_two_checkouts_are_compared(folder: Path) -> None:
    options = ["--workload", "get", "--rounds", "1", "--seconds", "1"]
    output = BenchmarkProcess("requests", folder).output("--beside", ".", *options)
    found = rows(output, "greatest")
    assert [row[:2] for row in found] == [
        ["get", "worker, CPU µs"],
        ["get", "Redis, CPU µs"],
        ["get", "done/s"],
    ]
    for row in found:
        beside, here, median, least, greatest = (float(cell) for cell in row[2:])
        assert beside > 0
        assert median == least == greatest == pytest.approx(here / beside, rel=0.1)
