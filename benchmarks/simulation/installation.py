# SPDX-License-Identifier: Apache-2.0
"""Pools, their queues and a mover in memory, below the real router and the real rebalancer.

Only what these two ask for is simulated: where queues are, which stores answer, and how long a
move takes.  Which pool a queue gets, and which queues move where, they decide themselves.
"""

from __future__ import annotations

import bisect
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from zaqar_redis import errors
from zaqar_redis.pool_records import CatalogueEntry, Job, Pool, PoolsSnapshot, QueueLocation
from zaqar_redis.records import Queue
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.pools.rebalance import REBALANCE_JOB, MoveOutcome, Rebalancer
from zaqar_redis.storage.pools.router import Router

PROJECT = "simulated"
_WEIGHT = 100


class SimulatedStore:
    """The store of a pool: it answers, or does not; its queues have no flavor."""

    transfer = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.fails = False
        self.queues = self

    def route_dead_letters(self, route: object) -> None:
        """There are no messages, and so no dead letters."""

    async def start(self) -> None:
        await self.ping()

    async def ping(self) -> None:
        if self.fails:
            raise errors.StoreUnavailable(self.name)

    async def get(self, project: str, queue: str) -> Queue | None:
        await self.ping()
        return None if self.name == DEFAULT_POOL else Queue(queue, {})

    async def close(self) -> None:
        """Nothing is open."""


class SimulatedPools:
    """The list of pools, as the control store has it."""

    def __init__(self) -> None:
        self.by_name: dict[str, Pool] = {}
        self.version = 0

    def put(self, name: str, *, draining: bool = False) -> None:
        self.by_name[name] = Pool(name, uri=f"redis://{name}", weight=_WEIGHT, draining=draining)
        self.version += 1

    def remove(self, name: str) -> None:
        del self.by_name[name]
        self.version += 1

    async def get(self, name: str) -> Pool | None:
        return self.by_name.get(name)

    async def list(self) -> PoolsSnapshot:
        return PoolsSnapshot(
            self.version, tuple(self.by_name[name] for name in sorted(self.by_name))
        )


class SimulatedCatalogue:
    """The pool of each queue, and the queues of each pool in order of name."""

    def __init__(self, pools: SimulatedPools) -> None:
        self._pools = pools
        self.pool_of: dict[str, str] = {}
        self._queues_of: dict[str, list[str]] = {}

    async def locate(self, project: str, queue: str) -> QueueLocation:
        return QueueLocation(self.pool_of.get(queue))

    async def assign(
        self, project: str, queue: str, pool: str, version: int, expected_epoch: str | None = None
    ) -> str | None:
        if version != self._pools.version:
            return None
        found = self.pool_of.setdefault(queue, pool)
        self._insert(queue, found)
        return found

    async def queues_of(self, pool: str, after: str, limit: int) -> Sequence[CatalogueEntry]:
        names = self._queues_of.get(pool, [])
        start = bisect.bisect_right(names, after)
        return [CatalogueEntry(PROJECT, each, pool, each) for each in names[start : start + limit]]

    async def count(self, pool: str) -> int:
        return len(self._queues_of.get(pool, ()))

    def move(self, queue: str, source: str, target: str) -> None:
        names = self._queues_of[source]
        del names[bisect.bisect_left(names, queue)]
        self.pool_of[queue] = target
        self._insert(queue, target)

    def names(self, pool: str) -> Sequence[str]:
        return self._queues_of.get(pool, ())

    def _insert(self, queue: str, pool: str) -> None:
        bisect.insort(self._queues_of.setdefault(pool, []), queue)


class SimulatedJobs:
    """What the operator has asked for: to rebalance, always."""

    async def get(self, name: str) -> Job | None:
        return Job(running=name == REBALANCE_JOB)


class SimulatedMover:
    """Moves queues in no time, and adds up how long it would have taken."""

    def __init__(self, catalogue: SimulatedCatalogue, seconds_of: Callable[[str], float]) -> None:
        self._catalogue = catalogue
        self._seconds_of = seconds_of
        self.seconds = 0.0

    async def move(self, project: str, queue: str, source: str, target: str) -> int:
        self._catalogue.move(queue, source, target)
        self.seconds += self._seconds_of(queue)
        return 1


class SimulatedControl:
    """The control store."""

    def __init__(self) -> None:
        self.pools = SimulatedPools()
        self.catalogue = SimulatedCatalogue(self.pools)
        self.jobs = SimulatedJobs()


class SimulatedInstallation:
    """Pools of the same weight, the queues in them, and the real code that moves these."""

    def __init__(self, pools: int, seconds_of: Callable[[str], float]) -> None:
        """*seconds_of*: how long the move of a queue takes, by its name."""
        self.control = SimulatedControl()
        self.stores: dict[str, SimulatedStore] = {}
        self.mover = SimulatedMover(self.control.catalogue, seconds_of)
        self._number = 0
        # Any: they have only what routing asks for.
        default: Any = SimulatedStore(DEFAULT_POOL)
        control: Any = self.control
        mover: Any = self.mover
        self._router: Router[Any, Any] = Router(default, control, self._open)
        self._rebalancer = Rebalancer(self._router, mover)
        self.add_pools(pools)

    def _open(self, pool: Pool) -> SimulatedStore:
        return self.stores[pool.name]

    def add_pools(self, count: int) -> None:
        for _ in range(count):
            name = f"pool-{self._number:04d}"
            self._number += 1
            self.stores[name] = SimulatedStore(name)
            self.control.pools.put(name)
        self._router.invalidate(None)

    def names(self) -> list[str]:
        return sorted(self.stores)

    async def create_queue(self, queue: str) -> None:
        await self._router.find(PROJECT, queue, make=True)

    async def drain(self, names: Sequence[str]) -> list[MoveOutcome]:
        """Drains pools, none into another of them; returns what happened to each queue."""
        for name in names:
            self.control.pools.put(name, draining=True)
        self._router.invalidate(None)
        return [each for name in names for each in await _outcomes(self._rebalancer.drain(name))]

    def delete_pool(self, name: str) -> None:
        """Deletes a pool.  Raises PoolInUse when it has queues."""
        if self.control.catalogue.names(name):
            raise errors.PoolInUse(pool=name, count=len(self.control.catalogue.names(name)))
        self.control.pools.remove(name)
        del self.stores[name]
        self._router.invalidate(None)

    async def rebalance(self) -> list[MoveOutcome]:
        return await _outcomes(self._rebalancer.rebalance())


async def _outcomes(moves: AsyncIterator[MoveOutcome]) -> list[MoveOutcome]:
    return [each async for each in moves]
