# SPDX-License-Identifier: Apache-2.0
"""The resources of the contract: each verb is routed to the store of its queue."""

from __future__ import annotations

import asyncio
import heapq
import operator
from collections.abc import Callable, Sequence
from typing import Any

from zaqar_redis import errors
from zaqar_redis.records import (
    Claim,
    ClaimResult,
    IdempotencyKey,
    Message,
    NewMessage,
    Page,
    PostResult,
    Queue,
    Stats,
    Subscription,
)
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.pools.router import Route, Router

#: The attribute of a queue that names the group of pools it may live in.
_FLAVOR = "_flavor"


class RoutedQueues:
    def __init__(self, router: Router) -> None:
        self._router = router

    async def create(self, project: str, queue: str, metadata: dict[str, Any]) -> bool:
        return await self._router.route(
            project,
            queue,
            lambda driver: driver.queues.create(project, queue, metadata),
            make=True,
            flavor=metadata.get(_FLAVOR) or "",
        )

    async def get(self, project: str, queue: str) -> Queue | None:
        return await self._router.route(
            project, queue, lambda driver: driver.queues.get(project, queue)
        )

    async def update(self, project: str, queue: Queue, metadata: dict[str, Any]) -> bool:
        flavor = metadata.get(_FLAVOR)
        if flavor and flavor != queue.metadata.get(_FLAVOR):
            pools = (await self._router.pools()).values()
            if not any(pool.flavor == flavor for pool in pools):
                raise errors.NoSuchFlavor(name=flavor)
        return await self._router.route(
            project, queue.name, lambda driver: driver.queues.update(project, queue, metadata)
        )

    async def delete(self, project: str, queue: str) -> None:
        await self._router.route(
            project, queue, lambda driver: driver.queues.delete(project, queue)
        )
        await self._router.control.catalogue.deleted(project, queue)

    async def list(
        self, project: str, after: str, limit: int, wanted: Callable[[Queue], bool] | None
    ) -> Page[Queue]:
        stores = await self._stores(project)
        # Read each store's share of the page, and a little more: a full page of each would
        # be as many times too much as there are stores.
        share = min(limit, 2 * limit // len(stores) + 2)
        cursors = [_Cursor(store.driver, after) for store in stores]
        reading = cursors
        while True:
            await asyncio.gather(*(cursor.read(project, share, wanted) for cursor in reading))
            ends = [cursor.after for cursor in cursors if cursor.has_more]
            # Behind the lowest cursor there may be names that were not read yet.
            found = _merged(cursors, min(ends, default=None))
            if len(found) >= limit or not ends:
                found = found[:limit]
                return Page(items=found, marker=found[-1].name if found else "")
            reading = [
                cursor for cursor in cursors if cursor.has_more and cursor.after == min(ends)
            ]

    async def count(self, project: str) -> int:
        stores = await self._stores(project)
        return sum(await asyncio.gather(*(store.driver.queues.count(project) for store in stores)))

    async def stats(self, project: str, queue: str) -> Stats:
        return await self._router.route(
            project, queue, lambda driver: driver.queues.stats(project, queue)
        )

    async def purge(self, project: str, queue: str) -> None:
        await self._router.route(project, queue, lambda driver: driver.queues.purge(project, queue))

    async def _stores(self, project: str) -> Sequence[Route]:
        """Returns the stores that have queues of the project, and the default pool."""
        names = await self._router.control.catalogue.pools_of(project)
        return await self._router.routes([DEFAULT_POOL, *(names.keys() - {DEFAULT_POOL})])


class _Cursor:
    """A cursor over the queues of one store, with those that were read."""

    def __init__(self, driver: Driver, after: str) -> None:
        self._driver = driver
        self.after = after
        self.has_more = True
        self.queues: list[Queue] = []

    async def read(self, project: str, limit: int, wanted: Callable[[Queue], bool] | None) -> None:
        page = await self._driver.queues.list(project, self.after, limit, wanted)
        self.queues += page.items
        self.has_more = len(page.items) == limit
        self.after = page.marker


def _merged(cursors: Sequence[_Cursor], upto: str | None) -> list[Queue]:
    """Returns the queues read, by name, each once: one that moves may be in two stores."""
    found: list[Queue] = []
    of_name = operator.attrgetter("name")
    for queue in heapq.merge(*(cursor.queues for cursor in cursors), key=of_name):
        if upto is not None and queue.name > upto:
            break
        if not found or found[-1].name != queue.name:
            found.append(queue)
    return found


class RoutedMessages:
    def __init__(self, router: Router) -> None:
        self._router = router

    async def post(
        self, project: str, queue: str, drafts: Sequence[NewMessage], **how: Any
    ) -> PostResult:
        return await self._router.route(
            project,
            queue,
            lambda driver: driver.messages.post(project, queue, drafts, **how),
            make=True,
        )

    async def dead_letter(
        self,
        project: str,
        queue: str,
        message: NewMessage,
        *,
        client: bytes,
        idempotency_key: IdempotencyKey,
    ) -> None:
        await self._router.route(
            project,
            queue,
            lambda driver: driver.messages.dead_letter(
                project, queue, message, client=client, idempotency_key=idempotency_key
            ),
            make=True,
        )

    async def list(self, project: str, queue: str, **what: Any) -> Page[Message]:
        return await self._router.route(
            project, queue, lambda driver: driver.messages.list(project, queue, **what)
        )

    async def get(self, project: str, queue: str, ids: Sequence[str]) -> Sequence[Message]:
        return await self._router.route(
            project, queue, lambda driver: driver.messages.get(project, queue, ids)
        )

    async def delete(self, project: str, queue: str, ids: Sequence[str], **how: Any) -> None:
        await self._router.route(
            project, queue, lambda driver: driver.messages.delete(project, queue, ids, **how)
        )

    async def pop(self, project: str, queue: str, limit: int) -> ClaimResult:
        return await self._router.route(
            project, queue, lambda driver: driver.messages.pop(project, queue, limit)
        )


class RoutedClaims:
    def __init__(self, router: Router) -> None:
        self._router = router

    async def create(self, project: str, queue: str, **what: Any) -> ClaimResult:
        return await self._router.route(
            project, queue, lambda driver: driver.claims.create(project, queue, **what)
        )

    async def get(self, project: str, queue: str, claim: str) -> Claim | None:
        return await self._router.route(
            project, queue, lambda driver: driver.claims.get(project, queue, claim)
        )

    async def update(self, project: str, queue: str, claim: str, **what: Any) -> bool:
        return await self._router.route(
            project, queue, lambda driver: driver.claims.update(project, queue, claim, **what)
        )

    async def delete(self, project: str, queue: str, claim: str) -> None:
        await self._router.route(
            project, queue, lambda driver: driver.claims.delete(project, queue, claim)
        )


class RoutedSubscriptions:
    def __init__(self, router: Router) -> None:
        self._router = router

    async def create(
        self, project: str, queue: str, subscriber: str, *, ttl: int, options: dict[str, Any]
    ) -> str | None:
        return await self._router.route(
            project,
            queue,
            lambda driver: driver.subscriptions.create(
                project, queue, subscriber, ttl=ttl, options=options
            ),
            make=True,
        )

    async def get(self, project: str, queue: str, id: str) -> Subscription | None:
        return await self._router.route(
            project, queue, lambda driver: driver.subscriptions.get(project, queue, id)
        )

    async def find(self, project: str, queue: str, subscriber: str) -> Subscription | None:
        return await self._router.route(
            project, queue, lambda driver: driver.subscriptions.find(project, queue, subscriber)
        )

    async def list(self, project: str, queue: str, after: str, limit: int) -> Page[Subscription]:
        return await self._router.route(
            project, queue, lambda driver: driver.subscriptions.list(project, queue, after, limit)
        )

    async def update(self, project: str, queue: str, id: str, **what: Any) -> bool:
        return await self._router.route(
            project, queue, lambda driver: driver.subscriptions.update(project, queue, id, **what)
        )

    async def delete(self, project: str, queue: str, id: str) -> None:
        await self._router.route(
            project, queue, lambda driver: driver.subscriptions.delete(project, queue, id)
        )
