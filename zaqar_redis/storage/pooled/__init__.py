# SPDX-License-Identifier: Apache-2.0
"""A driver made of drivers: queues spread over pools, and a catalogue of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from zaqar_redis import errors
from zaqar_redis.records import Placed, Pool
from zaqar_redis.storage.control import DEFAULT, Control
from zaqar_redis.storage.driver import Bury, Driver
from zaqar_redis.storage.load import load, load_control
from zaqar_redis.storage.pooled.feed import Feed
from zaqar_redis.storage.pooled.nouns import Claims, Messages, Queues
from zaqar_redis.storage.pooled.places import Places

#: Milliseconds for which the place of a deleted queue is kept: far longer than any
#: worker remembers it.
_KEPT = 60 * 1000
#: Entries of the catalogue read at once.
_PAGE = 100


class PooledDriver:
    """Every queue in the service's own store, *home*, or in one of the pools."""

    transfer = None

    def __init__(self, home: Driver, control: Control, open_pool: Callable[[Pool], Driver]) -> None:
        self.control = control
        self.places = Places(home, control, open_pool)
        self.queues = Queues(self.places)
        self.messages = Messages(self.places)
        self.places.bury = self.messages.bury
        self.claims = Claims(self.places)
        self.feed = Feed(self.places)
        self.sweeper = self

    async def start(self) -> None:
        await self.places.start()

    async def close(self) -> None:
        await self.places.close()

    def route_letters(self, bury: Bury) -> None:
        raise TypeError("pools of pools are not made")

    async def ping(self) -> None:
        """Raises StoresAway, which names the pools."""
        away = [name for name, error in (await self.stores_away()).items() if error]
        if away:
            raise errors.StoresAway(names=", ".join(away))

    async def stores_away(self) -> dict[str, bool]:
        """Every store by name, and whether it fails to answer.

        Raises StoreUnavailable when the control store is away.
        """
        await self.control.ping()
        names = [DEFAULT, *await self.places.pools()]
        outcomes = await asyncio.gather(*map(self._ping, names), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, errors.Unavailable):
                raise outcome
        return {name: outcome is not None for name, outcome in zip(names, outcomes, strict=True)}

    async def sweep(self, turn: float) -> int:
        """Sweep every store that answers, and forget queues deleted a while ago."""
        settled = 0
        for name in (DEFAULT, *await self.places.pools()):
            try:
                place = await self.places.place(name)
                if place.driver.sweeper is not None:
                    settled += await place.driver.sweeper.sweep(turn)
            except errors.Unavailable:
                continue  # the others are no less in need of it
        if await self.control.lead("tidy", turn):
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

    async def _ping(self, name: str) -> None:
        await (await self.places.place(name)).driver.ping()


def create(uri: str, control_uri: str, options: Mapping[str, Any]) -> PooledDriver:
    """The store of a service and its pools.

    Raises BadConfiguration as `load` and `load_control` do.
    """

    def open_pool(pool: Pool) -> Driver:
        return load(pool.uri, {**options, **pool.options})

    return PooledDriver(load(uri, options), load_control(control_uri, options), open_pool)
