# SPDX-License-Identifier: Apache-2.0
"""The benchmark of filters, with small numbers."""

from __future__ import annotations

import subprocess
import sys

from benchmarks import filters


def test_filters_are_measured() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.filters", "--rounds", "2", "--messages", "10"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"| {what} " in done.stdout for what in filters.FILTERS)
