# SPDX-License-Identifier: Apache-2.0
"""The open stores of all pools, by the names of the pools."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from zaqar_redis import errors
from zaqar_redis.keyspace.script import ComposedVerbs, Pause, Steps, verb
from zaqar_redis.pool_records import Pool, PoolsSnapshot
from zaqar_redis.storage.contract import PostDeadLetter, Store
from zaqar_redis.storage.control import DEFAULT_POOL, Pools

#: Seconds between looks at a store that another caller opens.
_OPENING_DELAY_SECONDS = 0.01
#: Seconds for which a removed pool still serves requests in progress.
_DRAIN_GRACE_SECONDS = 5.0

StoreT = TypeVar("StoreT", bound=Store)


@dataclass(slots=True, eq=False)
class Route(Generic[StoreT]):
    """A store, under the name that the catalogue has for it."""

    name: str
    driver: StoreT
    pool: Pool | None


class PoolStores(ComposedVerbs, Generic[StoreT]):
    """The store of the default pool, and those of the others, opened when they are needed."""

    def __init__(
        self,
        default: StoreT,
        control_pools: Pools,
        open_pool: Callable[[Pool], StoreT],
        dead_letter: PostDeadLetter,
        *,
        on_change: Callable[[], None],
        cache_ttl: float,
    ) -> None:
        """*on_change* is called when another store than before serves a pool.

        *cache_ttl*: seconds for which the list of pools is cached.
        """
        self.default = Route(DEFAULT_POOL, default, None)
        self.open_pool = open_pool
        self._control_pools = control_pools
        self._dead_letter = dead_letter
        self._on_change = on_change
        self._cache_ttl = cache_ttl
        self._pools: PoolsSnapshot | None = None
        #: how often the list was dropped: one that is being read then is old
        self._dropped = 0
        #: the pools of the last snapshot: each request whose route is not cached looks one up
        self._by_name: Mapping[str, Pool] = {}
        self._pools_until = 0.0
        self._opened: dict[str, Route[StoreT]] = {}
        #: names of pools whose stores are being opened
        self._opening: set[str] = set()
        #: stores that are not used any more, and until when they serve (monotonic)
        self._drained: list[tuple[float, StoreT]] = []
        default.route_dead_letters(dead_letter)

    @verb
    def close(self) -> Steps[None]:
        stores = [self.default.driver, *(route.driver for route in self._opened.values())]
        yield [store.close() for store in (*stores, *(store for _, store in self._drained))]

    @verb
    def get(self, name: str) -> Steps[Route[StoreT]]:
        """Opens and returns the store of a pool.  Raises StoreUnavailable when there is none."""
        if name == DEFAULT_POOL:
            return self.default
        while True:
            pool = (yield from self._pools_by_name()).get(name)
            if pool is None:
                self._pools = None
                pool = (yield from self._pools_by_name()).get(name)
            if pool is None:
                raise errors.StoreUnavailable(name) from LookupError(f'there is no pool "{name}"')
            route = self._opened.get(name)
            if route is not None and route.pool == pool:
                return route
            if route is not None and _same_store(route.pool, pool):
                route.pool = pool
                return route
            if name not in self._opening:
                return (yield from self._open(name, pool))
            yield Pause(_OPENING_DELAY_SECONDS)

    def _open(self, name: str, pool: Pool) -> Steps[Route[StoreT]]:
        self._opening.add(name)
        try:
            driver = self.open_pool(pool)
            driver.route_dead_letters(self._dead_letter)
            yield driver.start()
        finally:
            self._opening.discard(name)
        if name in self._opened:
            self._drain(self._opened[name])
        route = self._opened[name] = Route(name, driver, pool)
        self._on_change()
        return route

    @verb
    def choose_available(self, pools: Iterable[Pool], flavor: str) -> Steps[Pool | None]:
        """Returns a pool for a queue, by weight, whose store answers; None: no pool fits.

        Raises StoresUnavailable when pools fit, and none of them answers.
        """
        fit = list(pools)
        unavailable: list[str] = []
        while (pool := choose_by_weight(fit, flavor)) is not None:
            try:
                route = yield self.get(pool.name)
                yield route.driver.ping()
            except (errors.Unavailable, errors.BadConfiguration):
                fit.remove(pool)
                unavailable.append(pool.name)
            else:
                return pool
        if unavailable:
            raise errors.StoresUnavailable(names=", ".join(unavailable))
        return None

    @verb
    def routes(self, names: Sequence[str]) -> Steps[list[Route[StoreT]]]:
        found: list[Route[StoreT]] = yield [self.get(name) for name in names]
        return found

    @verb
    def drivers(self) -> Steps[list[StoreT]]:
        """Returns the drivers of the default pool, and of every other that can be opened."""
        names = [*(yield from self._pools_by_name())]
        # Side by side: to open one that is away takes as long as to connect.
        found: list[StoreT | None] = yield [self.driver_or_none(name) for name in names]
        return [self.default.driver, *(each for each in found if each is not None)]

    @verb
    def driver_or_none(self, name: str) -> Steps[StoreT | None]:
        """Returns the driver of a store; None: it cannot be opened."""
        try:
            route: Route[StoreT] = yield self.get(name)
        except (errors.Unavailable, errors.BadConfiguration):
            return None
        return route.driver

    @verb
    def pools(self) -> Steps[Mapping[str, Pool]]:
        """Returns all pools by name."""
        return (yield from self._pools_by_name())

    def _pools_by_name(self) -> Steps[Mapping[str, Pool]]:
        found = yield from self._load_pools()
        if found is self._pools:
            return self._by_name
        return {pool.name: pool for pool in found.items}

    @verb
    def has(self, fits: Callable[[Pool], bool]) -> Steps[bool]:
        """Returns whether there is such a pool: the cached list is not believed when it says no.

        It may be older than what a client was answered, by another process or by this one.
        """
        if not any(map(fits, (yield from self._load_pools()).items)):
            self.invalidate()
        return any(map(fits, (yield from self._load_pools()).items))

    @verb
    def has_flavor(self, flavor: Any, *, takes_queues: bool = False) -> Steps[bool]:
        """Returns whether a queue may have it: none, or that of a pool, which *takes_queues*."""

        def fits(pool: Pool) -> bool:
            return pool.flavor == flavor and (not takes_queues or _takes_queues(pool))

        return not flavor or (yield self.has(fits))

    @verb
    def snapshot(self) -> Steps[PoolsSnapshot]:
        """Returns all pools, and the version that `Catalogue.assign` wants."""
        return (yield from self._load_pools())

    def _load_pools(self) -> Steps[PoolsSnapshot]:
        if self._pools is not None and time.monotonic() <= self._pools_until:
            return self._pools
        dropped = self._dropped
        found: PoolsSnapshot = yield self._control_pools.list()
        if self._dropped != dropped:
            return found
        for name in self._opened.keys() - {pool.name for pool in found.items}:
            self._drain(self._opened.pop(name))
            self._on_change()
        self._pools, self._pools_until = found, time.monotonic() + self._cache_ttl
        self._by_name = {pool.name: pool for pool in found.items}
        yield self.close_drained()
        return found

    def invalidate(self) -> None:
        """Drops the cached list of pools: they have changed."""
        self._dropped += 1
        self._pools = None

    @verb
    def close_drained(self) -> Steps[None]:
        """Closes stores that are not used any more, after their requests had time to end."""
        now = time.monotonic()
        due = [store for until, store in self._drained if until <= now]
        self._drained = [each for each in self._drained if each[0] > now]
        for store in due:
            yield store.close()

    def _drain(self, route: Route[StoreT]) -> None:
        self._drained.append((time.monotonic() + _DRAIN_GRACE_SECONDS, route.driver))


async def exists(store: Store, project: str, queue: str) -> bool:
    """Returns whether a store has a queue, perhaps one that is being moved."""
    try:
        return await store.queues.get(project, queue) is not None
    except errors.MoveLocked:
        return True


@contextlib.asynccontextmanager
async def opened(open_pool: Callable[[Pool], StoreT], pool: Pool) -> AsyncIterator[StoreT]:
    """Opens the store of a pool, which need not exist yet, for a while."""
    store = open_pool(pool)
    try:
        await store.start()
        yield store
    finally:
        await store.close()


def _takes_queues(pool: Pool) -> bool:
    """Returns whether new queues may be in a pool."""
    return pool.weight > 0 and not pool.draining


def choose_by_weight(pools: Iterable[Pool], flavor: str) -> Pool | None:
    """Returns a pool for a new queue, by weight; None: no pool fits.

    A queue without a flavor goes to a pool without one.
    """
    fit = [pool for pool in pools if pool.flavor == flavor and _takes_queues(pool)]
    return random.choices(fit, [pool.weight for pool in fit])[0] if fit else None


def _same_store(one: Pool | None, other: Pool) -> bool:
    return one is not None and (one.uri, one.options) == (other.uri, other.options)
