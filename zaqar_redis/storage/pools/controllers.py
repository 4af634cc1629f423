# SPDX-License-Identifier: Apache-2.0
"""The resources of the contract: each verb is routed to the store of its queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zaqar_redis import errors
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, Verb, verb
from zaqar_redis.records import (
    Claim,
    ClaimResult,
    ClaimSummary,
    Forwarding,
    IdempotencyKey,
    Message,
    NewMessage,
    Page,
    PartialPage,
    PeekPage,
    PostResult,
    Queue,
    QueueSize,
    Stats,
    Subscription,
)
from zaqar_redis.storage.administration import Administration
from zaqar_redis.storage.contract import Driver, Store
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.deliveries import DeliveryState
from zaqar_redis.storage.pools.listing import Cursor, PartialCursor, merged_page
from zaqar_redis.storage.pools.pool_stores import Route
from zaqar_redis.storage.pools.router import Router

#: The attribute of a queue that names the group of pools it may live in.
_FLAVOR = "_flavor"


class RoutedQueues(ComposedVerbs):
    def __init__(self, router: Router[Any, Any]) -> None:
        self._router = router

    @verb
    def create(self, project: str, queue: str, metadata: dict[str, Any]) -> Steps[bool]:
        flavor = metadata.get(_FLAVOR) or ""
        # The catalogue may still name the pool of a queue of this name that was deleted.
        if not (yield from self._is_flavor(flavor)) and (yield self.get(project, queue)) is None:
            raise errors.NoSuchFlavor(name=flavor)
        created: bool = yield self._router.route(
            project,
            queue,
            lambda driver: driver.queues.create(project, queue, metadata),
            make=True,
            flavor=flavor,
        )
        return created

    def _is_flavor(self, flavor: Any) -> Steps[bool]:
        """Returns whether a queue may have it: none, or one that pools have."""
        return not flavor or (yield self._router.stores.has(lambda pool: pool.flavor == flavor))

    def get(self, project: str, queue: str) -> Verb[Queue | None]:
        return self._router.route(project, queue, lambda driver: driver.queues.get(project, queue))

    @verb
    def update(self, project: str, queue: Queue, metadata: dict[str, Any]) -> Steps[bool]:
        flavor = metadata.get(_FLAVOR)
        if flavor != queue.metadata.get(_FLAVOR) and not (yield from self._is_flavor(flavor)):
            raise errors.NoSuchFlavor(name=flavor)
        updated: bool = yield self._router.route(
            project, queue.name, lambda driver: driver.queues.update(project, queue, metadata)
        )
        return updated

    @verb
    def delete(self, project: str, queue: str) -> Steps[None]:
        yield self._router.route(
            project, queue, lambda driver: driver.queues.delete(project, queue)
        )
        yield self._router.control.catalogue.deleted(project, queue)

    @verb
    def list(
        self,
        project: str,
        after: str,
        limit: int,
        wanted: Callable[[Queue], bool] | None,
        *,
        topics: bool = False,
    ) -> Steps[Page[Queue]]:
        stores = yield from self._stores(project)
        cursors = [Cursor(store.driver, after, topics=topics) for store in stores]
        return (yield from merged_page(cursors, project, limit, wanted))

    @verb
    def list_partially(
        self,
        project: str,
        after: str,
        limit: int,
        wanted: Callable[[Queue], bool] | None,
        *,
        topics: bool = False,
    ) -> Steps[PartialPage]:
        """Returns the same although stores are unavailable: of their queues the names.

        These are the catalogue's, which may have a queue whose creation failed, and lacks those
        that are older than itself: so this is for operators, and not what `list` returns.
        """
        catalogue = self._router.control.catalogue
        pools = yield catalogue.pools_of(project)
        names = [DEFAULT_POOL, *(pools.keys() - {DEFAULT_POOL})]
        drivers = yield [self._open(name) for name in names]
        cursors = [
            PartialCursor(driver, after, name, catalogue, topics=topics)
            for name, driver in zip(names, drivers, strict=True)
        ]
        page: Page[Queue] = yield from merged_page(cursors, project, limit, wanted)
        unavailable = tuple(each.name for each in cursors if each.is_unavailable)
        return PartialPage(page.items, page.marker, unavailable=unavailable)

    @verb
    def _open(self, name: str) -> Steps[Store | None]:
        """Returns the driver of a store; None: it cannot be opened."""
        try:
            route: Route[Any] = yield self._router.stores.get(name)
        except (errors.Unavailable, errors.BadConfiguration):
            return None
        return route.driver  # type: ignore[no-any-return]  # of a router of any stores

    @verb
    def count(self, project: str) -> Steps[int]:
        stores = yield from self._stores(project)
        return sum((yield [store.driver.queues.count(project) for store in stores]))

    def stats(self, project: str, queue: str) -> Verb[Stats]:
        return self._router.route(
            project, queue, lambda driver: driver.queues.stats(project, queue)
        )

    def size(self, project: str, queue: str) -> Verb[QueueSize]:
        return self._router.route(project, queue, lambda driver: driver.queues.size(project, queue))

    def purge(self, project: str, queue: str) -> Verb[None]:
        return self._router.route(
            project, queue, lambda driver: driver.queues.purge(project, queue)
        )

    def _stores(self, project: str) -> Steps[Sequence[Route[Any]]]:
        """Returns the stores that have queues of the project, and the default pool."""
        names = yield self._router.control.catalogue.pools_of(project)
        found: Sequence[Route[Any]] = yield self._router.stores.routes(
            [DEFAULT_POOL, *(names.keys() - {DEFAULT_POOL})]
        )
        return found


class RoutedMessages:
    def __init__(self, router: Router[Any, Any]) -> None:
        self._router = router

    def post(
        self, project: str, queue: str, drafts: Sequence[NewMessage], **how: Any
    ) -> Verb[PostResult]:
        return self._router.route(
            project,
            queue,
            lambda driver: driver.messages.post(project, queue, drafts, **how),
            make=True,
        )

    def dead_letter(
        self,
        project: str,
        queue: str,
        message: NewMessage,
        *,
        client: bytes,
        idempotency_key: IdempotencyKey,
    ) -> Verb[None]:
        return self._router.dead_letter(
            project, queue, message, client=client, idempotency_key=idempotency_key
        )

    def forward(
        self, project: str, queue: str, forwarded: Sequence[NewMessage], *, by: Forwarding
    ) -> Verb[None]:
        return self._router.route(
            project,
            queue,
            lambda driver: driver.messages.forward(project, queue, forwarded, by=by),
            make=True,
        )

    def list(self, project: str, queue: str, **what: Any) -> Verb[Page[Message]]:
        return self._router.route(
            project, queue, lambda driver: driver.messages.list(project, queue, **what)
        )

    def get(self, project: str, queue: str, ids: Sequence[str]) -> Verb[Sequence[Message]]:
        return self._router.route(
            project, queue, lambda driver: driver.messages.get(project, queue, ids)
        )

    def delete(self, project: str, queue: str, ids: Sequence[str], **how: Any) -> Verb[None]:
        return self._router.route(
            project, queue, lambda driver: driver.messages.delete(project, queue, ids, **how)
        )

    def pop(self, project: str, queue: str, limit: int) -> Verb[ClaimResult]:
        return self._router.route(
            project, queue, lambda driver: driver.messages.pop(project, queue, limit)
        )


class RoutedClaims:
    def __init__(self, router: Router[Any, Any]) -> None:
        self._router = router

    def create(self, project: str, queue: str, **what: Any) -> Verb[ClaimResult]:
        return self._router.route(
            project, queue, lambda driver: driver.claims.create(project, queue, **what)
        )

    def get(self, project: str, queue: str, claim: str) -> Verb[Claim | None]:
        return self._router.route(
            project, queue, lambda driver: driver.claims.get(project, queue, claim)
        )

    def update(self, project: str, queue: str, claim: str, **what: Any) -> Verb[bool]:
        return self._router.route(
            project, queue, lambda driver: driver.claims.update(project, queue, claim, **what)
        )

    def delete(self, project: str, queue: str, claim: str) -> Verb[None]:
        return self._router.route(
            project, queue, lambda driver: driver.claims.delete(project, queue, claim)
        )


class RoutedSubscriptions:
    def __init__(self, router: Router[Any, Any]) -> None:
        self._router = router

    def create(self, project: str, queue: str, subscriber: str, **how: Any) -> Verb[str | None]:
        return self._router.route(
            project,
            queue,
            lambda driver: driver.subscriptions.create(project, queue, subscriber, **how),
            make=True,
        )

    def get(self, project: str, queue: str, id: str) -> Verb[Subscription | None]:
        return self._router.route(
            project, queue, lambda driver: driver.subscriptions.get(project, queue, id)
        )

    def find(self, project: str, queue: str, subscriber: str) -> Verb[Subscription | None]:
        return self._router.route(
            project, queue, lambda driver: driver.subscriptions.find(project, queue, subscriber)
        )

    def list(self, project: str, queue: str, after: str, limit: int) -> Verb[Page[Subscription]]:
        return self._router.route(
            project, queue, lambda driver: driver.subscriptions.list(project, queue, after, limit)
        )

    def update(self, project: str, queue: str, id: str, **what: Any) -> Verb[bool]:
        return self._router.route(
            project, queue, lambda driver: driver.subscriptions.update(project, queue, id, **what)
        )

    def delete(self, project: str, queue: str, id: str) -> Verb[None]:
        return self._router.route(
            project, queue, lambda driver: driver.subscriptions.delete(project, queue, id)
        )

    def purge(self, project: str, queue: str) -> Verb[None]:
        return self._router.route(
            project, queue, lambda driver: driver.subscriptions.purge(project, queue)
        )


class RoutedSubscriptionDeliveries:
    def __init__(self, router: Router[Any, Any]) -> None:
        self._router = router

    def send_notice(
        self, project: str, queue: str, subscription: str, notice: bytes, ttl: int
    ) -> Verb[bool]:
        return self._route(
            project,
            queue,
            lambda store: store.send_notice(project, queue, subscription, notice, ttl),
        )

    def replay(self, project: str, queue: str, subscription: str) -> Verb[int]:
        return self._route(project, queue, lambda store: store.replay(project, queue, subscription))

    def enqueue_messages(
        self, project: str, queue: str, subscription: str, messages: Sequence[Message]
    ) -> Verb[int]:
        return self._route(
            project,
            queue,
            lambda store: store.enqueue_messages(project, queue, subscription, messages),
        )

    def states(
        self, project: str, queue: str, subscriptions: Sequence[str]
    ) -> Verb[Sequence[DeliveryState]]:
        return self._route(
            project, queue, lambda store: store.states(project, queue, subscriptions)
        )

    def _route(self, project: str, queue: str, act: Callable[[Any], Any]) -> Verb[Any]:
        return self._router.route(
            project, queue, lambda driver: act(driver.subscription_deliveries)
        )


class RoutedAdministration:
    def __init__(self, router: Router[Any, Any]) -> None:
        self._router = router

    def peek(self, project: str, queue: str, **what: Any) -> Verb[PeekPage]:
        return self._router.route(
            project, queue, lambda driver: _of(driver).peek(project, queue, **what)
        )

    def list_claims(self, project: str, queue: str, **what: Any) -> Verb[Page[ClaimSummary]]:
        return self._router.route(
            project, queue, lambda driver: _of(driver).list_claims(project, queue, **what)
        )

    def move(self, project: str, queue: str, ids: Sequence[str], **how: Any) -> Verb[Sequence[str]]:
        return self._router.route(
            project, queue, lambda driver: _of(driver).move(project, queue, ids, **how)
        )

    def copy(self, project: str, queue: str, ids: Sequence[str], **how: Any) -> Verb[Sequence[str]]:
        return self._router.route(
            project, queue, lambda driver: _of(driver).copy(project, queue, ids, **how)
        )


def _of(driver: Driver) -> Administration:
    if driver.administration is None:
        raise errors.BadRequest(why="The store of this queue cannot show and move its messages.")
    return driver.administration
