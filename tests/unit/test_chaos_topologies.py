# SPDX-License-Identifier: Apache-2.0
"""What a run of chaos sees of failovers, also of those that end where they began."""

from __future__ import annotations

from collections.abc import Set

import pytest

from benchmarks.chaos.topologies import Topology
from tests.support.redis_node import RedisNode


class _Replaced(Topology):
    """Names other primaries each time it is asked; well when it has named the last ones."""

    faults = ()

    def __init__(self) -> None:
        self.coming: list[Set[int]] = []

    @property
    def uri(self) -> str:
        return "redis://changing"

    def node(self, target: str) -> RedisNode | None:
        return None

    def primaries(self) -> Set[int]:
        if not self.coming[0]:
            raise KeyboardInterrupt
        return self.coming.pop(0)

    def is_settled(self) -> bool:
        return not self.coming


def _replacements(first: Set[int], *then: Set[int]) -> int:
    topology = _Replaced()
    topology.coming = [first]
    topology.settle()
    topology.coming = [*then]
    return topology.settle()


def test_primary_that_is_replaced_and_comes_back_was_replaced_twice() -> None:
    assert _replacements({1}, {1}, {2}, {2}, {1}) == 2


def test_primaries_that_stay_were_not_replaced() -> None:
    assert _replacements({1, 2, 3}, {1, 2, 3}, {1, 2, 3}) == 0


def test_replica_that_takes_the_place_of_one_of_several_primaries_replaces_one() -> None:
    assert _replacements({1, 2, 3}, {2, 3}, {2, 3, 4}) == 1


def test_replacement_seen_before_an_interrupt_is_counted_afterwards() -> None:
    topology = _Replaced()
    topology.coming = [{1}]
    topology.settle()
    topology.coming = [{2}, set()]
    with pytest.raises(KeyboardInterrupt):
        topology.settle()
    topology.coming = [{2}]
    assert topology.settle() == 1
