# SPDX-License-Identifier: Apache-2.0
"""The benchmark of verbs measures this checkout beside another one, here beside itself."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.benchmark_process import BenchmarkProcess


def test_a_checkout_is_compared_with_itself(folder: Path) -> None:
    words = ("--beside", ".", "--rounds", "1", "--workload", "post-100")
    assert "post-100" in BenchmarkProcess("posting", folder).output(*words)
