# SPDX-License-Identifier: Apache-2.0
"""A driver made of drivers: queues spread over pools, and a catalogue of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zaqar_redis import errors
from zaqar_redis.records import Placed, Pool
from zaqar_redis.storage.control import DEFAULT, Control
from zaqar_redis.storage.driver import Bury, Driver, Told
from zaqar_redis.storage.load import load, load_control
from zaqar_redis.storage.pooled.adoption import Adoption
from zaqar_redis.storage.pooled.checker import Checker
from zaqar_redis.storage.pooled.following import Feed, Live
from zaqar_redis.storage.pooled.jobs import Jobs
from zaqar_redis.storage.pooled.mover import Mover
from zaqar_redis.storage.pooled.nouns import Claims, Messages, Queues, Subscriptions
from zaqar_redis.storage.pooled.places import Places

#: Milliseconds for which the place of a deleted queue is kept: far longer than any
#: worker remembers it.
_KEPT = 60 * 1000
#: Entries of the catalogue read at once.
_PAGE = 100


class PooledDriver:
    """Every queue in the service's own store, *home*, or in one of the pools."""

    transfer = None
    ownership = None

    def __init__(self, home: Driver, control: Control, open_pool: Callable[[Pool], Driver]) -> None:
        self.control = control
        self.places = Places(home, control, open_pool)
        self.queues = Queues(self.places)
        self.messages = Messages(self.places)
        self.places.bury = self.messages.bury
        self.claims = Claims(self.places)
        self.subscriptions = Subscriptions(self.places)
        self.topics = home.topics
        self.feed = Feed(self.places)
        self.live = Live(self.places)
        self.sweeper = self
        self.mover = Mover(self.places)
        self.jobs = Jobs(self.places, self.mover)
        self.checker = Checker(self.places, self.jobs, self.mover)
        self.adoption = Adoption(home, control, open_pool)

    async def start(self) -> None:
        await self.places.start()

    async def close(self) -> None:
        await self.places.close()

    def route_letters(self, bury: Bury) -> None:
        raise TypeError("pools of pools are not made")

    async def ping(self) -> None:
        """Raises StoresAway, which names the pools, and StoreUnavailable without pools."""
        stores = await self.stores()
        if len(stores) == 1:
            await self.places.home.driver.ping()
            return
        answers = await asyncio.gather(*map(_answers, stores.values()))
        away = [name for name, good in zip(stores, answers, strict=True) if not good]
        if away:
            raise errors.StoresAway(names=", ".join(away))

    async def stores(self) -> dict[str, Driver | None]:
        """Every store by name; None: a pool that cannot be opened.

        Raises StoreUnavailable when the control store is away.
        """
        await self.control.ping()
        names = [DEFAULT, *await self.places.pools()]
        return dict(zip(names, await asyncio.gather(*map(self._opened, names)), strict=True))

    async def identity(self) -> str:
        return await self.places.home.driver.identity()

    async def identity_of(self, pool: Pool) -> str:
        """Of the store of a pool that there need not be yet.

        Raises BadConfiguration when the URI cannot be used and StoreUnavailable when
        the store does not answer.
        """
        driver = self.places.open_pool(pool)
        try:
            await driver.start()
            return await driver.identity()
        finally:
            await driver.close()

    async def has_any(self, pool: Pool, placed: Sequence[Placed]) -> bool:
        """Whether the store of a pool has one of these queues.

        Raises StoreUnavailable when it does not answer.
        """
        driver = self.places.open_pool(pool)
        try:
            await driver.start()
            for each in placed:
                try:
                    if await driver.queues.get(each.project, each.queue) is not None:
                        return True
                except errors.Gated:
                    return True
            return False
        finally:
            await driver.close()

    async def identities(self) -> dict[str, str]:
        """Of every store that answers, by name."""
        found = {}
        for name, driver in (await self.stores()).items():
            with contextlib.suppress(errors.Unavailable):
                if driver is not None:
                    found[name] = await driver.identity()
        return found

    async def sweep(self, turn: float, told: Told = str) -> int:
        """Sweep every store that answers, and forget queues deleted a while ago."""
        settled = 0
        for name in (DEFAULT, *await self.places.pools()):
            try:
                place = await self.places.place(name)
                if place.driver.sweeper is not None:
                    settled += await place.driver.sweeper.sweep(turn, told)
            except errors.Unavailable:
                continue  # the others are no less in need of it
        if not turn or await self.control.lead("tidy", turn):
            settled += await self.forget_deleted(_KEPT)
        return settled

    async def forget_deleted(self, age: int, pool: str | None = None) -> int:
        """Take queues deleted *age* ms ago out of the catalogue; how many those were."""
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

    async def _forget(self, placed: Placed) -> bool:
        """Whether the queue is not noted as deleted any more."""
        catalogue = self.control.catalogue
        try:
            transfer = (await self.places.place(placed.pool)).driver.transfer
            if transfer is None:
                return False
            if await transfer.close(placed.project, placed.queue):
                return await catalogue.release(placed.project, placed.queue, placed.pool)
        except errors.Unavailable:
            return False
        await catalogue.alive(placed.project, placed.queue)
        return True

    async def _opened(self, name: str) -> Driver | None:
        try:
            return (await self.places.place(name)).driver
        except (errors.Unavailable, errors.BadConfiguration):
            return None


async def _answers(driver: Driver | None) -> bool:
    try:
        if driver is not None:
            await driver.ping()
    except errors.Unavailable:
        return False
    return driver is not None


def create(uri: str, control_uri: str, options: Mapping[str, Any]) -> PooledDriver:
    """The store of a service and its pools.

    Raises BadConfiguration as `load` and `load_control` do.
    """

    def open_pool(pool: Pool) -> Driver:
        return load(pool.uri, {**options, **pool.options, "name": pool.name})

    return PooledDriver(load(uri, options), load_control(control_uri, options), open_pool)
