# SPDX-License-Identifier: Apache-2.0
"""The route of each queue: which store it is in, as this worker knows it.

A cached route may be old.  That does no harm: a queue that has moved leaves a move
lock in its old store, and a caller that meets a move lock reads the catalogue again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from zaqar_redis import errors
from zaqar_redis.records import Pool, PoolsSnapshot
from zaqar_redis.storage.contract import Driver, PostDeadLetter
from zaqar_redis.storage.control import DEFAULT_POOL, Control

LOG = logging.getLogger(__name__)

A = TypeVar("A")

#: Most queues whose route is cached: about 300 bytes each.
_ROUTE_CACHE_SIZE = 10_000
#: Seconds after which everything is read again, in case notifications were lost.
_ROUTE_TTL_SECONDS = 10.0
#: Seconds to wait for a queue that is being moved, and between attempts.
_MOVE_TIMEOUT_SECONDS, _RETRY_DELAY_SECONDS = 1.0, 0.02
#: Seconds for which a removed pool still serves requests in progress.
_DRAIN_GRACE_SECONDS = 5.0
#: Seconds within which a queue is created after its pool was chosen.  The entry of a deleted
#: queue is kept for as long, so its reserved epoch is gone before it gets another pool.
_RESERVED_EPOCH_TTL_SECONDS = 60


class Route:
    """A store, under the name that the catalogue has for it."""

    __slots__ = ("driver", "name", "pool")

    def __init__(self, name: str, driver: Driver, pool: Pool | None) -> None:
        self.name = name
        self.driver = driver
        self.pool = pool


class Router:
    """The routes of all queues, and the open stores of all pools."""

    #: how dead letters reach their queue
    dead_letter: PostDeadLetter

    def __init__(
        self, default: Driver, control: Control, open_pool: Callable[[Pool], Driver]
    ) -> None:
        self.control = control
        self.open_pool = open_pool
        self.default = Route(DEFAULT_POOL, default, None)
        self._route_cache: dict[tuple[str, str], Route] = {}
        self._pools: PoolsSnapshot | None = None
        self._opened: dict[str, Route] = {}
        self._opening = asyncio.Lock()
        self._background: set[asyncio.Task[None]] = set()
        #: set when pools have changed, or may have
        self.pools_changed = asyncio.Event()
        #: called with a queue whose pool has changed, or None: any may have
        self.move_listeners: list[Callable[[tuple[str, str] | None], None]] = []

    async def start(self) -> None:
        self.default.driver.route_dead_letters(self.dead_letter)
        await asyncio.gather(self.default.driver.start(), self.control.start())
        self._spawn(self._watch_control_store())

    async def close(self) -> None:
        tasks = tuple(self._background)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        drivers = [store.driver for store in (self.default, *self._opened.values())]
        await asyncio.gather(*(driver.close() for driver in drivers), self.control.close())

    async def route(
        self,
        project: str,
        queue: str,
        act: Callable[[Driver], Awaitable[A]],
        *,
        make: bool = False,
        flavor: str = "",
    ) -> A:
        """Returns the result of *act* on the store of the queue.

        A queue without a catalogue entry is looked up in the default pool, unless *make*:
        then a pool of its *flavor* is assigned to it.
        """
        store = self._route_cache.get((project, queue))
        if store is not None:
            try:
                return await act(store.driver)
            except errors.MoveLocked:
                pass  # the cached route is old, or the queue is being moved
        loop = asyncio.get_running_loop()
        end = loop.time() + _MOVE_TIMEOUT_SECONDS
        while True:
            store = await self.find(project, queue, make=make, flavor=flavor)
            try:
                return await act(store.driver)
            except errors.MoveLocked as met:
                if loop.time() > end:
                    raise
                if not await self._retry_at_once(project, queue, store, met.move_lock):
                    await asyncio.sleep(_RETRY_DELAY_SECONDS)

    async def find(
        self, project: str, queue: str, *, make: bool = False, flavor: str = ""
    ) -> Route:
        """Returns the route by the catalogue.  Raises StoreUnavailable when it cannot be opened."""
        located = await self.control.catalogue.locate(project, queue)
        if located.pool is None:
            if not make:
                return self.default
            pool = await self._assign(project, queue, flavor, located.reserved_epoch)
        else:
            pool = located.pool
        store = await self.store(pool)
        if len(self._route_cache) >= _ROUTE_CACHE_SIZE:
            self._route_cache.clear()
        self._route_cache[project, queue] = store
        return store

    async def store(self, name: str) -> Route:
        """Opens and returns the store of a pool.  Raises StoreUnavailable when there is none."""
        if name == DEFAULT_POOL:
            return self.default
        pool = (await self.pools()).get(name)
        if pool is None:
            self._pools = None
            pool = (await self.pools()).get(name)
        if pool is None:
            raise errors.StoreUnavailable(name)
        store = self._opened.get(name)
        if store is not None and store.pool == pool:
            return store
        async with self._opening:
            store = self._opened.get(name)
            if store is not None and store.pool == pool:
                return store
            if store is not None and _same_store(store.pool, pool):
                store.pool = pool
                return store
            driver = self.open_pool(pool)
            driver.route_dead_letters(self.dead_letter)
            await driver.start()
            if store is not None:
                self._spawn(self._close_after_grace(store))
            store = self._opened[name] = Route(name, driver, pool)
            self._route_cache.clear()
        return store

    async def choose_available(self, pools: Iterable[Pool], flavor: str) -> Pool | None:
        """Returns a pool for a queue, by weight, whose store answers; None: no pool fits.

        Raises StoresUnavailable when pools fit, and none of them answers.
        """
        fit = list(pools)
        unavailable: list[str] = []
        while (pool := choose_by_weight(fit, flavor)) is not None:
            if await self._is_available(pool.name):
                return pool
            fit.remove(pool)
            unavailable.append(pool.name)
        if unavailable:
            raise errors.StoresUnavailable(names=", ".join(unavailable))
        return None

    async def _is_available(self, name: str) -> bool:
        try:
            await (await self.store(name)).driver.ping()
        except (errors.Unavailable, errors.BadConfiguration):
            return False
        return True

    async def routes(self, names: Sequence[str]) -> list[Route]:
        return list(await asyncio.gather(*map(self.store, names)))

    async def drivers(self) -> list[Driver]:
        """Returns the drivers of the default pool, and of every other that can be opened."""
        found = [self.default.driver]
        for name in await self.pools():
            with contextlib.suppress(errors.Unavailable, errors.BadConfiguration):
                found.append((await self.store(name)).driver)
        return found

    async def pools(self) -> Mapping[str, Pool]:
        """Returns all pools by name."""
        return {pool.name: pool for pool in (await self._load_pools()).items}

    async def _load_pools(self) -> PoolsSnapshot:
        if self._pools is None:
            found = await self.control.pools.list()
            for name in self._opened.keys() - {pool.name for pool in found.items}:
                self._spawn(self._close_after_grace(self._opened.pop(name)))
                self._route_cache.clear()
            self._pools = found
        return self._pools

    def invalidate(self, changed_queue: tuple[str, str] | None) -> None:
        """Drops cached routes after a change that the control store announced."""
        if changed_queue is None:
            self._route_cache.clear()
            self._pools = None
            self.pools_changed.set()
        else:
            self._route_cache.pop(changed_queue, None)
        for listener in self.move_listeners:
            listener(changed_queue)

    async def _assign(self, project: str, queue: str, flavor: str, reserved_epoch: str) -> str:
        catalogue = self.control.catalogue
        while True:
            known = await self._load_pools()
            name = await self._propose_pool(project, queue, flavor, known.items)
            if reserved_epoch:
                await self._reserve_epoch(name, project, queue, reserved_epoch)
            assigned = await catalogue.assign(project, queue, name, known.version, reserved_epoch)
            if assigned is not None:
                break
            self._pools = None  # pools have changed, or an epoch was reserved meanwhile
            reserved_epoch = (await catalogue.locate(project, queue)).reserved_epoch
        if reserved_epoch and assigned != DEFAULT_POOL:
            await self._reserve_epoch(DEFAULT_POOL, project, queue, "")
        return assigned

    async def _reserve_epoch(self, name: str, project: str, queue: str, epoch: str) -> None:
        transfer = (await self.store(name)).driver.transfer
        if transfer is not None:
            await transfer.reserve_epoch(project, queue, epoch, _RESERVED_EPOCH_TTL_SECONDS)

    async def _propose_pool(
        self, project: str, queue: str, flavor: str, pools: Iterable[Pool]
    ) -> str:
        with contextlib.suppress(errors.MoveLocked):
            if await self.default.driver.queues.get(project, queue) is not None:
                return DEFAULT_POOL  # the queue is older than the catalogue
        pool = await self.choose_available(pools, flavor)
        if pool is not None:
            return pool.name
        if flavor:
            raise errors.NoSuchFlavor(name=flavor)
        return DEFAULT_POOL

    async def _retry_at_once(self, project: str, queue: str, store: Route, move_lock: str) -> bool:
        """Returns whether to try again at once after a move lock was met."""
        self._route_cache.pop((project, queue), None)
        located = await self.control.catalogue.locate(project, queue)
        if (located.pool or DEFAULT_POOL) != store.name:
            return True
        kind, _, token = move_lock.partition(":")
        transfer = store.driver.transfer
        if kind in ("closed", "into") and transfer is not None:
            # The catalogue named this store after the move lock was read: the lock is left over.
            return await transfer.unlock(project, queue, move_lock)
        if kind == "gone" and located.move is not None and located.move.token == token:
            return await self.control.catalogue.commit(project, queue, located.move)
        return False

    async def _watch_control_store(self) -> None:
        while True:
            try:
                await self.control.watch(self.invalidate)
            except errors.Unavailable:
                LOG.info(
                    "the control store sends no notifications: it is unavailable",
                    extra={"action": "news_lost"},
                )
            await asyncio.sleep(_ROUTE_TTL_SECONDS)
            self.invalidate(None)

    async def _close_after_grace(self, store: Route) -> None:
        try:
            await asyncio.sleep(_DRAIN_GRACE_SECONDS)
        finally:
            await store.driver.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def choose_by_weight(pools: Iterable[Pool], flavor: str) -> Pool | None:
    """Returns a pool for a new queue, by weight; None: no pool fits.

    A queue without a flavor goes to a pool without one.
    """
    fit = [
        pool for pool in pools if pool.flavor == flavor and pool.weight > 0 and not pool.draining
    ]
    return random.choices(fit, [pool.weight for pool in fit])[0] if fit else None


def _same_store(one: Pool | None, other: Pool) -> bool:
    return one is not None and (one.uri, one.options) == (other.uri, other.options)
