# SPDX-License-Identifier: Apache-2.0
"""The resources of the contract: each verb is routed to the store of its queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from zaqar_redis import errors
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, Verb, verb
from zaqar_redis.records import Page, PartialPage, Queue
from zaqar_redis.storage.administration import Administration
from zaqar_redis.storage.contract import Claims, Driver, Messages, Queues
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.deliveries import SubscriptionDeliveries
from zaqar_redis.storage.pools.listing import Cursor, PartialCursor, merged_page
from zaqar_redis.storage.pools.pool_stores import Route
from zaqar_redis.storage.pools.router import Router
from zaqar_redis.storage.subscriptions import Subscriptions

P = ParamSpec("P")
A = TypeVar("A")

#: The attribute of a queue that names the group of pools it may live in.
_FLAVOR = "_flavor"


class RoutedVerb(Protocol[P, A]):
    """A method with the parameters of a verb of the contract."""

    def __get__(self, instance: object, owner: type[object]) -> Callable[P, Verb[A]]: ...


class RoutedResource:
    """Base of the resources of the contract."""

    def __init__(self, router: Router[Any, Any]) -> None:
        self._router = router


def routed(
    resource: Callable[[Any], Any],
    verb: Callable[Concatenate[Any, P], Awaitable[A]],
    *,
    make: bool = False,
) -> RoutedVerb[P, A]:
    """Returns a method that runs a verb of the contract on the store of its queue.

    *resource* returns what has the verb, of a store.  The verb's first two arguments are project
    and queue.  *make*: a queue that no store has gets one.
    """
    name = verb.__name__

    def route(self: RoutedResource, project: str, queue: str, *args: Any, **how: Any) -> Verb[A]:
        return self._router.route(
            project,
            queue,
            lambda store: getattr(resource(store), name)(project, queue, *args, **how),
            make=make,
        )

    return cast(RoutedVerb[P, A], route)


_queues, _messages, _claims, _subscriptions, _deliveries = map(
    attrgetter, ("queues", "messages", "claims", "subscriptions", "subscription_deliveries")
)


def _administration(store: Driver) -> Administration:
    if store.administration is None:
        raise errors.BadRequest(why="The store of this queue cannot show and move its messages.")
    return store.administration


class RoutedQueues(RoutedResource, ComposedVerbs):
    get = routed(_queues, Queues.get)
    stats = routed(_queues, Queues.stats)
    size = routed(_queues, Queues.size)
    purge = routed(_queues, Queues.purge)

    @verb
    def create(self, project: str, queue: str, metadata: dict[str, Any]) -> Steps[bool]:
        flavor = metadata.get(_FLAVOR) or ""
        # The catalogue may still name the pool of a queue of this name that was deleted.
        is_known = not flavor or (yield self._router.stores.has_flavor(flavor))
        if not is_known and (yield self.get(project, queue)) is None:
            raise errors.NoSuchFlavor(name=flavor)
        yield self._router.expect_flavor(project, queue, flavor)
        created: bool = yield self._router.route(
            project,
            queue,
            lambda driver: driver.queues.create(project, queue, metadata),
            make=True,
            flavor=flavor,
        )
        return created

    @verb
    def update(self, project: str, queue: Queue, metadata: dict[str, Any]) -> Steps[bool]:
        flavor = metadata.get(_FLAVOR)
        is_new = flavor and flavor != queue.metadata.get(_FLAVOR)
        if is_new and not (yield self._router.stores.has_flavor(flavor)):
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
        drivers = yield [self._router.stores.driver_or_none(name) for name in names]
        cursors = [
            PartialCursor(driver, after, name, catalogue, topics=topics)
            for name, driver in zip(names, drivers, strict=True)
        ]
        page: Page[Queue] = yield from merged_page(cursors, project, limit, wanted)
        unavailable = tuple(each.name for each in cursors if each.is_unavailable)
        return PartialPage(page.items, page.marker, unavailable=unavailable)

    @verb
    def count(self, project: str) -> Steps[int]:
        stores = yield from self._stores(project)
        return sum((yield [store.driver.queues.count(project) for store in stores]))

    def _stores(self, project: str) -> Steps[Sequence[Route[Any]]]:
        """Returns the stores that have queues of the project, and the default pool."""
        names = yield self._router.control.catalogue.pools_of(project)
        found: Sequence[Route[Any]] = yield self._router.stores.routes(
            [DEFAULT_POOL, *(names.keys() - {DEFAULT_POOL})]
        )
        return found


class RoutedMessages(RoutedResource):
    post = routed(_messages, Messages.post, make=True)
    dead_letter = routed(_messages, Messages.dead_letter, make=True)
    forward = routed(_messages, Messages.forward, make=True)
    list = routed(_messages, Messages.list)
    get = routed(_messages, Messages.get)
    delete = routed(_messages, Messages.delete)
    pop = routed(_messages, Messages.pop)


class RoutedClaims(RoutedResource):
    create = routed(_claims, Claims.create)
    get = routed(_claims, Claims.get)
    update = routed(_claims, Claims.update)
    release = routed(_claims, Claims.release)
    delete = routed(_claims, Claims.delete)


class RoutedSubscriptions(RoutedResource):
    create = routed(_subscriptions, Subscriptions.create, make=True)
    get = routed(_subscriptions, Subscriptions.get)
    find = routed(_subscriptions, Subscriptions.find)
    list = routed(_subscriptions, Subscriptions.list)
    update = routed(_subscriptions, Subscriptions.update)
    delete = routed(_subscriptions, Subscriptions.delete)
    purge = routed(_subscriptions, Subscriptions.purge)


class RoutedSubscriptionDeliveries(RoutedResource):
    send_notice = routed(_deliveries, SubscriptionDeliveries.send_notice)
    replay = routed(_deliveries, SubscriptionDeliveries.replay)
    enqueue_messages = routed(_deliveries, SubscriptionDeliveries.enqueue_messages)
    states = routed(_deliveries, SubscriptionDeliveries.states)


class RoutedAdministration(RoutedResource):
    peek = routed(_administration, Administration.peek)
    list_claims = routed(_administration, Administration.list_claims)
    move = routed(_administration, Administration.move)
    copy = routed(_administration, Administration.copy)
