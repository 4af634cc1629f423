# SPDX-License-Identifier: Apache-2.0
"""The benchmark of failovers measures how long posts fail, and finds all that was acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.benchmark_process import BenchmarkProcess, rows


def test_failover_is_measured_and_loses_nothing(folder: Path) -> None:
    words = ("--part", "kill", "--rounds", "1", "--rate", "100", "--down-after", "500")
    output = BenchmarkProcess("failover", folder).output(*words)
    found = {row[1]: float(row[3]) for row in rows(output, "rounds")}
    assert found["away, s"] > 0.5
    assert found["acknowledged"] > 100
    assert found["lost"] == found["twice"] == 0


@pytest.mark.parametrize("arguments", [["--rate", "9"], ["--down-after", "499"]])
def test_arguments_out_of_bounds_are_refused(arguments: list[str], folder: Path) -> None:
    BenchmarkProcess("failover", folder).expect_usage_error(*arguments)
