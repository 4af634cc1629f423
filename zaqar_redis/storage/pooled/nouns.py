# SPDX-License-Identifier: Apache-2.0
"""The nouns of the contract, each verb done where the queue lives."""

from __future__ import annotations

import asyncio
import heapq
import operator
from collections.abc import Callable, Sequence
from typing import Any

from zaqar_redis import errors
from zaqar_redis.records import (
    Claim,
    Draft,
    Message,
    Page,
    Posted,
    Queue,
    Retry,
    Stats,
    Subscription,
    Taken,
)
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.driver import Driver
from zaqar_redis.storage.pooled.places import Place, Places

#: The attribute of a queue that names the group of pools it may live in.
_FLAVOR = "_flavor"


class Queues:
    def __init__(self, places: Places) -> None:
        self._places = places

    async def create(self, project: str, queue: str, metadata: dict[str, Any]) -> bool:
        return await self._places.run(
            project,
            queue,
            lambda driver: driver.queues.create(project, queue, metadata),
            make=True,
            flavor=metadata.get(_FLAVOR) or "",
        )

    async def get(self, project: str, queue: str) -> Queue | None:
        return await self._places.run(
            project, queue, lambda driver: driver.queues.get(project, queue)
        )

    async def update(self, project: str, queue: Queue, metadata: dict[str, Any]) -> bool:
        flavor = metadata.get(_FLAVOR)
        if flavor and flavor != queue.metadata.get(_FLAVOR):
            pools = (await self._places.pools()).values()
            if not any(pool.flavor == flavor for pool in pools):
                raise errors.NoSuchFlavor(name=flavor)
        return await self._places.run(
            project, queue.name, lambda driver: driver.queues.update(project, queue, metadata)
        )

    async def delete(self, project: str, queue: str) -> None:
        await self._places.run(project, queue, lambda driver: driver.queues.delete(project, queue))
        await self._places.control.catalogue.deleted(project, queue)

    async def list(
        self, project: str, after: str, limit: int, wanted: Callable[[Queue], bool] | None
    ) -> Page[Queue]:
        stores = await self._stores(project)
        # Each store is asked for its share of the page, and a little more: all of the
        # page of each would be as many times too much as there are stores.
        share = min(limit, 2 * limit // len(stores) + 2)
        shelves = [_Shelf(place.driver, after) for place in stores]
        reading = shelves
        while True:
            await asyncio.gather(*(shelf.read(project, share, wanted) for shelf in reading))
            ends = [shelf.after for shelf in shelves if shelf.goes_on]
            # Behind the first end there may be names that were not read yet.
            found = _merged(shelves, min(ends, default=None))
            if len(found) >= limit or not ends:
                found = found[:limit]
                return Page(items=found, marker=found[-1].name if found else "")
            reading = [shelf for shelf in shelves if shelf.goes_on and shelf.after == min(ends)]

    async def count(self, project: str) -> int:
        stores = await self._stores(project)
        return sum(await asyncio.gather(*(place.driver.queues.count(project) for place in stores)))

    async def stats(self, project: str, queue: str) -> Stats:
        return await self._places.run(
            project, queue, lambda driver: driver.queues.stats(project, queue)
        )

    async def purge(self, project: str, queue: str) -> None:
        await self._places.run(project, queue, lambda driver: driver.queues.purge(project, queue))

    async def _stores(self, project: str) -> Sequence[Place]:
        """Those that have queues of the project, and the service's own."""
        names = await self._places.control.catalogue.pools_of(project)
        return await self._places.places([DEFAULT, *(names.keys() - {DEFAULT})])


class _Shelf:
    """The queues of one store, as far as they have been read."""

    def __init__(self, driver: Driver, after: str) -> None:
        self._driver = driver
        self.after = after
        self.goes_on = True
        self.queues: list[Queue] = []

    async def read(self, project: str, limit: int, wanted: Callable[[Queue], bool] | None) -> None:
        page = await self._driver.queues.list(project, self.after, limit, wanted)
        self.queues += page.items
        self.goes_on = len(page.items) == limit
        self.after = page.marker


def _merged(shelves: Sequence[_Shelf], upto: str | None) -> list[Queue]:
    """What was read, in order of name, each once: one that moves may be in two stores."""
    found: list[Queue] = []
    of_name = operator.attrgetter("name")
    for queue in heapq.merge(*(shelf.queues for shelf in shelves), key=of_name):
        if upto is not None and queue.name > upto:
            break
        if not found or found[-1].name != queue.name:
            found.append(queue)
    return found


class Messages:
    def __init__(self, places: Places) -> None:
        self._places = places

    async def post(self, project: str, queue: str, drafts: Sequence[Draft], **how: Any) -> Posted:
        return await self._places.run(
            project,
            queue,
            lambda driver: driver.messages.post(project, queue, drafts, **how),
            make=True,
        )

    async def bury(
        self, project: str, queue: str, letter: Draft, *, client: bytes, retry: Retry
    ) -> None:
        await self._places.run(
            project,
            queue,
            lambda driver: driver.messages.bury(project, queue, letter, client=client, retry=retry),
            make=True,
        )

    async def list(self, project: str, queue: str, **what: Any) -> Page[Message]:
        return await self._places.run(
            project, queue, lambda driver: driver.messages.list(project, queue, **what)
        )

    async def get(self, project: str, queue: str, ids: Sequence[str]) -> Sequence[Message]:
        return await self._places.run(
            project, queue, lambda driver: driver.messages.get(project, queue, ids)
        )

    async def delete(self, project: str, queue: str, ids: Sequence[str], **how: Any) -> None:
        await self._places.run(
            project, queue, lambda driver: driver.messages.delete(project, queue, ids, **how)
        )

    async def pop(self, project: str, queue: str, limit: int) -> Taken:
        return await self._places.run(
            project, queue, lambda driver: driver.messages.pop(project, queue, limit)
        )


class Claims:
    def __init__(self, places: Places) -> None:
        self._places = places

    async def create(self, project: str, queue: str, **what: Any) -> Taken:
        return await self._places.run(
            project, queue, lambda driver: driver.claims.create(project, queue, **what)
        )

    async def get(self, project: str, queue: str, claim: str) -> Claim | None:
        return await self._places.run(
            project, queue, lambda driver: driver.claims.get(project, queue, claim)
        )

    async def update(self, project: str, queue: str, claim: str, **what: Any) -> bool:
        return await self._places.run(
            project, queue, lambda driver: driver.claims.update(project, queue, claim, **what)
        )

    async def delete(self, project: str, queue: str, claim: str) -> None:
        await self._places.run(
            project, queue, lambda driver: driver.claims.delete(project, queue, claim)
        )


class Subscriptions:
    def __init__(self, places: Places) -> None:
        self._places = places

    async def create(
        self, project: str, queue: str, subscriber: str, *, ttl: int, options: dict[str, Any]
    ) -> str | None:
        return await self._places.run(
            project,
            queue,
            lambda driver: driver.subscriptions.create(
                project, queue, subscriber, ttl=ttl, options=options
            ),
            make=True,
        )

    async def get(self, project: str, queue: str, id: str) -> Subscription | None:
        return await self._places.run(
            project, queue, lambda driver: driver.subscriptions.get(project, queue, id)
        )

    async def find(self, project: str, queue: str, subscriber: str) -> Subscription | None:
        return await self._places.run(
            project, queue, lambda driver: driver.subscriptions.find(project, queue, subscriber)
        )

    async def list(self, project: str, queue: str, after: str, limit: int) -> Page[Subscription]:
        return await self._places.run(
            project, queue, lambda driver: driver.subscriptions.list(project, queue, after, limit)
        )

    async def update(self, project: str, queue: str, id: str, **what: Any) -> bool:
        return await self._places.run(
            project, queue, lambda driver: driver.subscriptions.update(project, queue, id, **what)
        )

    async def delete(self, project: str, queue: str, id: str) -> None:
        await self._places.run(
            project, queue, lambda driver: driver.subscriptions.delete(project, queue, id)
        )
