# SPDX-License-Identifier: Apache-2.0
"""How many queues each pool should have, by weight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from zaqar_redis.records import Pool
from zaqar_redis.storage.control import DEFAULT


def of(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """*total* split by weight into whole numbers: what is left goes to the largest remainders."""
    whole = sum(weights.values())
    split = {name: divmod(total * weight, whole) for name, weight in weights.items()}
    found = {name: share for name, (share, _) in split.items()}
    order = sorted(split, key=lambda name: (-split[name][1], name))
    for name in order[: total - sum(found.values())]:
        found[name] += 1
    return found


def transfers(
    pools: Iterable[Pool], counts: Mapping[str, int]
) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """For each flavor: how many queues too many, and how many too few, by pool.

    *counts* are those that the pools have.  The service's own store is one of no
    flavor and of weight 0, as is a pool that is draining of its flavor.
    """
    groups: dict[str, dict[str, int]] = {"": {DEFAULT: 0}}
    for pool in pools:
        groups.setdefault(pool.flavor, {})[pool.name] = 0 if pool.draining else pool.weight
    for weights in groups.values():
        if not any(weights.values()):
            continue  # nobody takes any
        have = {name: counts.get(name, 0) for name in weights}
        due = of(sum(have.values()), weights)
        surplus = {name: have[name] - due[name] for name in weights if have[name] > due[name]}
        wanting = {name: due[name] - have[name] for name in weights if have[name] < due[name]}
        yield surplus, wanting
