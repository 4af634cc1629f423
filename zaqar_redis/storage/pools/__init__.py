# SPDX-License-Identifier: Apache-2.0
"""A driver over the drivers of all pools, and the catalogue of their queues."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zaqar_redis import errors, runner
from zaqar_redis.pool_records import CatalogueEntry, Pool
from zaqar_redis.storage.contract import Driver, PostDeadLetter, ProgressCallback, no_progress
from zaqar_redis.storage.control import DEFAULT_POOL, Control
from zaqar_redis.storage.load import load, load_control
from zaqar_redis.storage.move.mover import Mover
from zaqar_redis.storage.pools.adoption import StoreAdoption
from zaqar_redis.storage.pools.checker import PooledChecker
from zaqar_redis.storage.pools.controllers import (
    RoutedAdministration,
    RoutedClaims,
    RoutedMessages,
    RoutedQueues,
    RoutedSubscriptionDeliveries,
    RoutedSubscriptions,
)
from zaqar_redis.storage.pools.pool_stores import exists, opened
from zaqar_redis.storage.pools.rebalance import Rebalancer
from zaqar_redis.storage.pools.retry import DEFAULT_RETRY, RetryPolicy
from zaqar_redis.storage.pools.router import Router, ServiceRouter
from zaqar_redis.storage.pools.watch import RoutedFeed, RoutedLive

LOG = logging.getLogger(__name__)

#: Milliseconds for which the catalogue keeps the entry of a deleted queue: far longer than
#: any worker caches its route.
_TOMBSTONE_MS = 60 * 1000
#: Entries of the catalogue read at once.
_PAGE = 100
#: Seconds after which everything is read again, in case notifications were lost.
_REREAD_SECONDS = 10.0
#: Seconds between looks for stores of removed pools that nobody uses any more.
_CLOSE_DRAINED_SECONDS = 5.0


class PooledDriver:
    """The store of all queues: each is in the default pool or in one of the others."""

    transfer = None
    deliveries = None
    ownership = None
    figures = None

    def __init__(
        self,
        default: Driver,
        control: Control,
        open_pool: Callable[[Pool], Driver],
        retry: RetryPolicy = DEFAULT_RETRY,
    ) -> None:
        self.control = control
        self.router: ServiceRouter = Router(default, control, open_pool, retry)
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self.queues = RoutedQueues(self.router)
        self.messages = RoutedMessages(self.router)
        self.claims = RoutedClaims(self.router)
        self.administration = RoutedAdministration(self.router)
        self.subscriptions = RoutedSubscriptions(self.router)
        self.subscription_deliveries = RoutedSubscriptionDeliveries(self.router)
        self.feed = RoutedFeed(self.router)
        self.live = RoutedLive(self.router)
        self.sweeper = self
        self.mover = Mover(self.router)
        self.jobs = Rebalancer(self.router, self.mover)
        self.checker = PooledChecker(self.router, self.jobs, self.mover)
        self.adoption = StoreAdoption(default, control, open_pool)

    async def start(self) -> None:
        default = self.router.stores.default.driver
        await asyncio.gather(default.start(), self.control.start())
        self._tasks = (
            asyncio.create_task(self._watch_control_store()),
            asyncio.create_task(self._close_drained()),
        )

    async def close(self) -> None:
        await runner.cancel(*self._tasks)
        await asyncio.gather(self.router.stores.close(), self.control.close())

    async def _watch_control_store(self) -> None:
        while True:
            try:
                await self.control.watch(self.router.invalidate)
            except errors.Unavailable:
                LOG.info(
                    "the control store sends no notifications: it is unavailable",
                    extra={"action": "news_lost"},
                )
            await asyncio.sleep(_REREAD_SECONDS)
            self.router.invalidate(None)

    async def _close_drained(self) -> None:
        while True:
            await asyncio.sleep(_CLOSE_DRAINED_SECONDS)
            await self.router.stores.close_drained()

    def route_dead_letters(self, dead_letter: PostDeadLetter) -> None:
        raise TypeError("a pool cannot consist of pools")

    async def ping(self) -> None:
        """Raises StoresUnavailable, which names the pools; without pools StoreUnavailable."""
        stores = await self.stores()
        if len(stores) == 1:
            await self.ping_default()
            return
        answers = await asyncio.gather(*map(_is_available, stores.values()))
        unavailable = [name for name, good in zip(stores, answers, strict=True) if not good]
        if unavailable:
            raise errors.StoresUnavailable(names=", ".join(unavailable))

    async def ping_default(self) -> None:
        """Raises StoreUnavailable."""
        await self.router.stores.default.driver.ping()

    async def ping_pool(self, name: str) -> None:
        """Opens the store of a pool, if it is not open.  Raises StoreUnavailable."""
        await (await self.router.stores.get(name)).driver.ping()

    async def stores(self) -> dict[str, Driver | None]:
        """Returns every store by name; None: a pool that cannot be opened.

        Raises StoreUnavailable when the control store is unreachable.
        """
        await self.control.ping()
        names = [DEFAULT_POOL, *await self.router.stores.pools()]
        drivers = await asyncio.gather(*map(self.router.stores.driver_or_none, names))
        return dict(zip(names, drivers, strict=True))

    async def identity(self) -> str:
        return await self.router.stores.default.driver.identity()

    async def identity_of(self, pool: Pool) -> str:
        """Returns the identity of the store of a pool, which need not exist yet.

        Raises BadConfiguration when the URI cannot be used and StoreUnavailable when
        the store does not answer.
        """
        async with opened(self.router.stores.open_pool, pool) as driver:
            return await driver.identity()

    async def has_any_queue(self, pool: Pool, placed: Sequence[CatalogueEntry]) -> bool:
        """Returns whether the store of a pool has one of these queues.

        Raises StoreUnavailable when it does not answer.
        """
        async with opened(self.router.stores.open_pool, pool) as driver:
            for each in placed:
                if await exists(driver, each.project, each.queue):
                    return True
        return False

    async def identities(self) -> dict[str, str]:
        """Returns the identity of every store that answers, by name."""
        opened = {name: each for name, each in (await self.stores()).items() if each is not None}
        told = await asyncio.gather(
            *(each.identity() for each in opened.values()), return_exceptions=True
        )
        found = {}
        for name, identity in zip(opened, told, strict=True):
            if isinstance(identity, str):
                found[name] = identity
            elif not isinstance(identity, errors.Unavailable):
                raise identity
        return found

    async def sweep(self, turn: float, on_progress: ProgressCallback = no_progress) -> int:
        """Sweeps every store that answers, and forgets queues deleted a while ago."""
        settled = 0
        for name in (DEFAULT_POOL, *await self.router.stores.pools()):
            try:
                store = await self.router.stores.get(name)
                if store.driver.sweeper is not None:
                    settled += await store.driver.sweeper.sweep(turn, on_progress)
            except errors.Unavailable:
                continue  # the others still need sweeping
        if not turn or await self.control.lead("tidy", turn):
            settled += await self.forget_deleted(_TOMBSTONE_MS)
        return settled

    async def forget_deleted(self, age: int, pool: str | None = None) -> int:
        """Removes queues deleted *age* ms ago from the catalogue; returns how many."""
        forgotten = passed_over = 0
        while True:
            page = await self.control.catalogue.deleted_since(age, passed_over, _PAGE)
            for placed in page:
                if pool in (None, placed.pool) and await self._forget(placed):
                    forgotten += 1
                else:
                    passed_over += 1
            if len(page) < _PAGE:
                return forgotten

    async def _forget(self, placed: CatalogueEntry) -> bool:
        """Returns whether the queue is not marked as deleted any more."""
        try:
            return await self.router.forget(placed.project, placed.queue, placed.pool)
        except errors.Unavailable:
            return False


async def _is_available(driver: Driver | None) -> bool:
    try:
        if driver is not None:
            await driver.ping()
    except errors.Unavailable:
        return False
    return driver is not None


def create(
    uri: str,
    control_uri: str,
    options: Mapping[str, Any],
    retry: RetryPolicy = DEFAULT_RETRY,
) -> PooledDriver:
    """Returns the driver of a service with pools.

    Raises BadConfiguration as `load` and `load_control` do.
    """

    def open_pool(pool: Pool) -> Driver:
        return load(pool.uri, {**options, **pool.options, "name": pool.name})

    control = load_control(control_uri, options)
    return PooledDriver(load(uri, options), control, open_pool, retry)
