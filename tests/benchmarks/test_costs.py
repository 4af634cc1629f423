# SPDX-License-Identifier: Apache-2.0
"""Each part of the benchmark of costs measures what it says, and stops its servers."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.benchmarks.benchmark_process import BenchmarkProcess, rows

_SHORT = ["--rounds", "1", "--seconds", "0.3", "--queues", "200", "--messages", "2000"]

#: Acts, as doc/scale.md has them.
_POSTS_AND_CLAIMS = ("post of 1", "post of 100", "claim of 10, and deletion")
_WAITING = "long poll that waits, each second"


@pytest.mark.parametrize(
    ("part", "acts"),
    [
        ("long-polls", {"post of 1, and the long poll that it ends", _WAITING}),
        ("publications", {"publication", "publication, kept"}),
        (
            "requests",
            {*_POSTS_AND_CLAIMS, "claim of 1, and deletion", "list of 10", "get of 1"},
        ),
    ],
)
def test_each_act_costs_the_worker_and_redis_time(part: str, acts: set[str], folder: Path) -> None:
    output = BenchmarkProcess("costs", folder).output("--part", part, "--polls", "20", *_SHORT)
    found = rows(output, "rounds")
    assert {row[0] for row in found} == acts
    assert all(float(row[3]) > 0 for row in found if row[0] != _WAITING)
    assert len(found) == 2 * len(acts) + (part == "long-polls")  # and their memory


def test_a_cluster_is_compared_with_one_redis(folder: Path) -> None:
    output = BenchmarkProcess("costs", folder).output("--part", "clusters", *_SHORT)
    found = rows(output, "rounds")
    acts = {tuple(row[0].rsplit(", ", 1)) for row in found}
    sides = ("one Redis", "cluster")
    assert acts == set(itertools.product(_POSTS_AND_CLAIMS, sides))
    assert all(float(row[3]) > 0 for row in found)


def test_memory_is_measured_of_messages_queues_and_routes(folder: Path) -> None:
    output = BenchmarkProcess("costs", folder).output("--part", "memory", *_SHORT)
    found = {row[0]: float(row[3]) for row in rows(output, "rounds")}
    assert 150 < found["message of 150 bytes"] < found["message of 1000 bytes"] - 500
    assert found["message of 10000 bytes"] > 10_000
    assert found["queue with one message"] > found["queue without messages"] > 0
    assert found["messages of 150 bytes"] > 0
