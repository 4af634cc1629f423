# SPDX-License-Identifier: Apache-2.0
"""Where each queue lives, as this worker knows it.

What it remembers may be old.  That does no harm: a queue that has left a store
leaves a gate there, and whoever meets a gate asks the catalogue again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from zaqar_redis import errors
from zaqar_redis.records import Pool, Pools
from zaqar_redis.storage.control import DEFAULT, Control
from zaqar_redis.storage.driver import Bury, Driver

LOG = logging.getLogger(__name__)

A = TypeVar("A")

#: Queues whose place is remembered: about 300 bytes each.
_REMEMBERED = 10_000
#: Seconds after which everything is asked anew, should news have been lost.
_LIFE = 10.0
#: Seconds to wait for a queue that is on the move, and between looks.
_PATIENCE, _LOOK = 1.0, 0.02
#: Seconds for which a pool that was taken out answers what is under way.
_FAREWELL = 5.0
#: Seconds within which a queue is made that was given a place.  The place of one that is
#: deleted is kept for as long: nothing is left of what was promised when it gets another.
_MADE = 60


class Place:
    """A store, under the name that the catalogue has for it."""

    __slots__ = ("driver", "name", "pool")

    def __init__(self, name: str, driver: Driver, pool: Pool | None) -> None:
        self.name = name
        self.driver = driver
        self.pool = pool


class Places:
    #: how dead letters find their queue
    bury: Bury

    def __init__(self, home: Driver, control: Control, open_pool: Callable[[Pool], Driver]) -> None:
        self.control = control
        self.open_pool = open_pool
        self.home = Place(DEFAULT, home, None)
        self._known: dict[tuple[str, str], Place] = {}
        self._pools: Pools | None = None
        self._opened: dict[str, Place] = {}
        self._opening = asyncio.Lock()
        self._background: set[asyncio.Task[None]] = set()
        #: set when pools have changed, or may have
        self.changed = asyncio.Event()
        #: called with a queue whose place has changed, or None: any may have
        self.moved: list[Callable[[tuple[str, str] | None], None]] = []

    async def start(self) -> None:
        self.home.driver.route_letters(self.bury)
        await asyncio.gather(self.home.driver.start(), self.control.start())
        self._spawn(self._forget_regularly())

    async def close(self) -> None:
        tasks = tuple(self._background)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        drivers = [place.driver for place in (self.home, *self._opened.values())]
        await asyncio.gather(*(driver.close() for driver in drivers), self.control.close())

    async def run(
        self,
        project: str,
        queue: str,
        act: Callable[[Driver], Awaitable[A]],
        *,
        make: bool = False,
        flavor: str = "",
    ) -> A:
        """What *act* gives, done to the store that the queue lives in.

        A queue in no store is looked for in the service's own, unless *make*:
        then it is given a place, in a pool of its *flavor*.
        """
        place = self._known.get((project, queue))
        if place is not None:
            try:
                return await act(place.driver)
            except errors.Gated:
                pass  # what was remembered is old, or the queue is on the move
        loop = asyncio.get_running_loop()
        end = loop.time() + _PATIENCE
        while True:
            place = await self.find(project, queue, make=make, flavor=flavor)
            try:
                return await act(place.driver)
            except errors.Gated as met:
                if loop.time() > end:
                    raise
                if not await self._passed(project, queue, place, met.gate):
                    await asyncio.sleep(_LOOK)

    async def find(
        self, project: str, queue: str, *, make: bool = False, flavor: str = ""
    ) -> Place:
        """Ask the catalogue.  Raises StoreUnavailable when the pool is not to be had."""
        located = await self.control.catalogue.locate(project, queue)
        if located.pool is None:
            if not make:
                return self.home
            located_in = await self._assign(project, queue, flavor, located.promised)
        else:
            located_in = located.pool
        place = await self.place(located_in)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[project, queue] = place
        return place

    async def place(self, name: str) -> Place:
        """The store of a pool, opened.  Raises StoreUnavailable when there is no such pool."""
        if name == DEFAULT:
            return self.home
        pool = (await self.pools()).get(name)
        if pool is None:
            self._pools = None
            pool = (await self.pools()).get(name)
        if pool is None:
            raise errors.StoreUnavailable(name)
        place = self._opened.get(name)
        if place is not None and place.pool == pool:
            return place
        async with self._opening:
            place = self._opened.get(name)
            if place is not None and place.pool == pool:
                return place
            if place is not None and _same_store(place.pool, pool):
                place.pool = pool
                return place
            driver = self.open_pool(pool)
            driver.route_letters(self.bury)
            await driver.start()
            if place is not None:
                self._spawn(self._take_leave(place))
            place = self._opened[name] = Place(name, driver, pool)
            self._known.clear()
        return place

    async def chosen(self, pools: Iterable[Pool], flavor: str) -> Pool | None:
        """A pool for a queue, by weight, of those whose store answers; None: there is none.

        Raises StoreUnavailable when there are some, and none of them answers.
        """
        fit = list(pools)
        away: list[str] = []
        while (pool := choose(fit, flavor)) is not None:
            if await self._answers(pool.name):
                return pool
            fit.remove(pool)
            away.append(pool.name)
        if away:
            raise errors.StoresAway(names=", ".join(away))
        return None

    async def _answers(self, name: str) -> bool:
        try:
            await (await self.place(name)).driver.ping()
        except (errors.Unavailable, errors.BadConfiguration):
            return False
        return True

    async def places(self, names: Sequence[str]) -> list[Place]:
        return list(await asyncio.gather(*map(self.place, names)))

    async def drivers(self) -> list[Driver]:
        """Of the service's own store, and of every pool that can be opened."""
        found = [self.home.driver]
        for name in await self.pools():
            with contextlib.suppress(errors.Unavailable, errors.BadConfiguration):
                found.append((await self.place(name)).driver)
        return found

    async def pools(self) -> Mapping[str, Pool]:
        """All pools by name."""
        return {pool.name: pool for pool in (await self._known_pools()).items}

    async def _known_pools(self) -> Pools:
        if self._pools is None:
            found = await self.control.pools.list()
            for name in self._opened.keys() - {pool.name for pool in found.items}:
                self._spawn(self._take_leave(self._opened.pop(name)))
                self._known.clear()
            self._pools = found
        return self._pools

    def hear(self, news: tuple[str, str] | None) -> None:
        """What the control store announces."""
        if news is None:
            self._known.clear()
            self._pools = None
            self.changed.set()
        else:
            self._known.pop(news, None)
        for tell in self.moved:
            tell(news)

    async def _assign(self, project: str, queue: str, flavor: str, promised: str) -> str:
        catalogue = self.control.catalogue
        while True:
            known = await self._known_pools()
            name = await self._proposed(project, queue, flavor, known.items)
            if promised:
                await self._promise(name, project, queue, promised)
            there = await catalogue.assign(project, queue, name, known.version, promised)
            if there is not None:
                break
            self._pools = None  # they have changed since, or somebody follows it now
            promised = (await catalogue.locate(project, queue)).promised
        if promised and there != DEFAULT:
            await self._promise(DEFAULT, project, queue, "")
        return there

    async def _promise(self, name: str, project: str, queue: str, epoch: str) -> None:
        transfer = (await self.place(name)).driver.transfer
        if transfer is not None:
            await transfer.promise(project, queue, epoch, _MADE)

    async def _proposed(self, project: str, queue: str, flavor: str, pools: Iterable[Pool]) -> str:
        with contextlib.suppress(errors.Gated):
            if await self.home.driver.queues.get(project, queue) is not None:
                return DEFAULT  # older than the catalogue
        pool = await self.chosen(pools, flavor)
        if pool is not None:
            return pool.name
        if flavor:
            raise errors.NoSuchFlavor(name=flavor)
        return DEFAULT

    async def _passed(self, project: str, queue: str, place: Place, gate: str) -> bool:
        """Whether it is worth while to look again at once, behind a gate that was met."""
        self._known.pop((project, queue), None)
        located = await self.control.catalogue.locate(project, queue)
        if (located.pool or DEFAULT) != place.name:
            return True
        kind, _, token = gate.partition(":")
        transfer = place.driver.transfer
        if kind in ("closed", "into") and transfer is not None:
            # The catalogue named this store after the gate was seen: it is meant to be used.
            return await transfer.open(project, queue, gate)
        if kind == "gone" and located.move is not None and located.move.token == token:
            return await self.control.catalogue.commit(project, queue, located.move)
        return False

    async def _forget_regularly(self) -> None:
        while True:
            try:
                await self.control.watch(self.hear)
            except errors.Unavailable:
                LOG.info("no news from the control store", extra={"action": "news_lost"})
            await asyncio.sleep(_LIFE)
            self.hear(None)

    async def _take_leave(self, place: Place) -> None:
        try:
            await asyncio.sleep(_FAREWELL)
        finally:
            await place.driver.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def choose(pools: Iterable[Pool], flavor: str) -> Pool | None:
    """A pool for a new queue, by weight; None: there is none.

    A queue without a flavor goes to a pool without one.
    """
    fit = [
        pool for pool in pools if pool.flavor == flavor and pool.weight > 0 and not pool.draining
    ]
    return random.choices(fit, [pool.weight for pool in fit])[0] if fit else None


def _same_store(one: Pool | None, other: Pool) -> bool:
    return one is not None and (one.uri, one.options) == (other.uri, other.options)
