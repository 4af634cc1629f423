# SPDX-License-Identifier: Apache-2.0
"""The distribution of queues over pools."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zaqar_redis.pool_records import Pool
from zaqar_redis.storage.pools.rebalance import apportion, imbalances

WEIGHTS = st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 2**32), min_size=1)


@given(st.integers(0, 10**6), WEIGHTS.filter(lambda weights: any(weights.values())))
def test_queues_are_distributed_by_pool_weight(total: int, weights: dict[str, int]) -> None:
    found = apportion(total, weights)
    whole = sum(weights.values())
    assert sum(found.values()) == total
    for name, weight in weights.items():
        assert abs(found[name] - total * weight / whole) < 1.001
        assert weight or found[name] == 0


def pool(name: str, weight: int, flavor: str = "", draining: bool = False) -> Pool:
    return Pool(name=name, uri="", weight=weight, flavor=flavor, draining=draining)


def test_queues_are_distributed_within_each_flavor() -> None:
    pools = [pool("a", 1), pool("b", 1, "fast"), pool("c", 3, "fast")]
    counts = {"default": 2, "a": 1, "b": 4, "c": 0}
    assert list(imbalances(pools, counts)) == [({"default": 2}, {"a": 2}), ({"b": 3}, {"c": 3})]


def test_balanced_queues_are_not_moved() -> None:
    assert list(imbalances([pool("a", 5)], {"default": 0, "a": 9})) == [({}, {})]


def test_queues_stay_when_no_pool_accepts_any() -> None:
    pools = [pool("a", 0), pool("b", 5, draining=True), pool("c", 1, "fast")]
    assert list(imbalances(pools, {"default": 3, "a": 1, "b": 1, "c": 1})) == [({}, {})]
