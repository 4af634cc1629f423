# SPDX-License-Identifier: Apache-2.0
"""Arguments that a benchmark refuses before it starts anything."""

from __future__ import annotations

import pytest

from tests.support.command_line import run_module

#: By benchmark.
_REFUSED = {
    "channels": ("--part nonsense", "--rounds 0", "--seconds 61", "--subscribers 1"),
    "costs": ("--part nonsense", "--polls 0", "--queues 99", "--messages 9"),
    "notifications": ("--part nonsense", "--subscriptions 0"),
    "pools": ("--part nonsense", "--rounds 0", "--seconds 61", "--queues 100", "--messages 200001"),
    "spark": ("--part nonsense", "--rounds 0", "--seconds 2", "--messages 9999"),
    "stock": ("--part nonsense", "--rounds 0", "--seconds 61", "--claimed 50001"),
}


@pytest.mark.parametrize(
    ("name", "arguments"), [(name, each) for name, refused in _REFUSED.items() for each in refused]
)
def test_arguments_out_of_bounds_are_refused(name: str, arguments: str) -> None:
    option, value = arguments.split()
    done = run_module(f"benchmarks.{name}", option, value)
    assert (done.returncode, done.stdout) == (2, "")
    assert option in done.stderr
