# SPDX-License-Identifier: Apache-2.0
"""The number of queues that each pool should have, by weight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from zaqar_redis.records import Pool
from zaqar_redis.storage.control import DEFAULT_POOL


def apportion(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Splits *total* by weight into whole numbers; the rest goes to the largest remainders."""
    weight_sum = sum(weights.values())
    split = {name: divmod(total * weight, weight_sum) for name, weight in weights.items()}
    found = {name: share for name, (share, _) in split.items()}
    order = sorted(split, key=lambda name: (-split[name][1], name))
    for name in order[: total - sum(found.values())]:
        found[name] += 1
    return found


def imbalances(
    pools: Iterable[Pool], counts: Mapping[str, int]
) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """Yields for each flavor the surplus and the shortage of queues, by pool.

    *counts* are those that the pools have.  The default pool has no flavor and weight 0;
    a draining pool counts as weight 0 in its flavor.
    """
    groups: dict[str, dict[str, int]] = {"": {DEFAULT_POOL: 0}}
    for pool in pools:
        groups.setdefault(pool.flavor, {})[pool.name] = 0 if pool.draining else pool.weight
    for weights in groups.values():
        if not any(weights.values()):
            continue  # no pool takes queues
        actual = {name: counts.get(name, 0) for name in weights}
        target = apportion(sum(actual.values()), weights)
        surplus = {
            name: actual[name] - target[name] for name in weights if actual[name] > target[name]
        }
        wanting = {
            name: target[name] - actual[name] for name in weights if actual[name] < target[name]
        }
        yield surplus, wanting
