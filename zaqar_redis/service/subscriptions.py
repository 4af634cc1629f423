# SPDX-License-Identifier: Apache-2.0
"""Operations on subscriptions.  Whoever serves a kind of subscriber sends messages to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from zaqar_redis import clock, errors, rules
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.records import Page, Record, Subscription, SubscriptionChanges
from zaqar_redis.service import subscription_options, subscription_trusts
from zaqar_redis.service.notices import SubscriptionNotices
from zaqar_redis.service.queues import QueueService
from zaqar_redis.service.subscription_options import SubscriptionOptions
from zaqar_redis.service.subscription_trusts import SubscriptionTrusts
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.deliveries import DeliveryState, SubscriptionDeliveries
from zaqar_redis.storage.subscriptions import Subscriptions
from zaqar_redis.storage.watched import Live

#: Of the URIs of sockets, which no client can give.
SOCKET = "websocket:"
#: Subscribers whose deliveries are signed.
_WEBHOOKS = ("http", "https", "trust+http", "trust+https")
#: How often a subscription is created that others create and delete meanwhile.
_CREATE_TRIES = 5

#: Takes a URI and the options: raises BadRequest, naming the field, when nothing could be
#: delivered there.
CheckSubscriber = Callable[[str, SubscriptionOptions], None]


class CreatedSubscription(Record, frozen=True):
    id: str
    #: the key that signs what is delivered, if it was created with the subscription
    secret: str = ""
    #: False: the subscriber had subscribed already, and has not confirmed it yet
    is_new: bool = True


class SubscriptionService(ComposedVerbs):
    def __init__(
        self,
        driver: Driver,
        limits: rules.Limits,
        queues: QueueService,
        check_subscriber: CheckSubscriber,
        notices: SubscriptionNotices | None = None,
        trusts: SubscriptionTrusts | None = None,
    ) -> None:
        """*notices*: None: subscribers need not confirm.  *trusts*: None: there are none."""
        self._driver = driver
        self._limits = limits
        self._queues = queues
        self._check_subscriber = check_subscriber
        self._notices = notices
        self._trusts = trusts

    @property
    def live(self) -> Live:
        """Sends messages as they are posted.  Raises BadRequest when the store cannot."""
        if self._driver.live is None:
            raise errors.BadRequest(why="The store of this service cannot push messages.")
        return self._driver.live

    @property
    def _store(self) -> Subscriptions:
        if self._driver.subscriptions is None:
            raise errors.BadRequest(why="The store of this service has no subscriptions.")
        return self._driver.subscriptions

    @property
    def deliveries(self) -> SubscriptionDeliveries:
        """Raises BadRequest when the store delivers to no subscribers."""
        if self._driver.subscription_deliveries is None:
            raise errors.BadRequest(why="The store of this service delivers to no subscribers.")
        return self._driver.subscription_deliveries

    @verb
    def create(
        self,
        project: str,
        queue: str,
        subscriber: str,
        *,
        ttl: int | None,
        options: dict[str, Any],
        paused: bool = False,
        longest: int | None = None,
        token: str | None = None,
    ) -> Steps[CreatedSubscription]:
        """Subscribes; asks to confirm it, also a subscriber that had subscribed and has not.

        *longest*: seconds after which it ends in any case.  *token*: of Keystone, of whoever sends
        the request.  API: creates the queue if it does not exist.
        Raises SubscriberTaken for one that has confirmed, TooManySubscriptions, QuotaExceeded.
        """
        _check_other(queue, subscriber, options)
        stored = self._checked(subscriber, options)
        notices = self._notices_to(subscriber)
        if notices is not None:
            notices.check(project)
        seconds = self._seconds(ttl, longest)
        granted = yield from self._granted(project, subscriber, stored, token, seconds)
        try:
            yield self._queues.create(project, queue, {})
            created = yield from self._create(
                project, queue, subscriber, ttl=seconds, options=granted, paused=paused
            )
        except errors.Problem as problem:
            yield from self._end_trust_after(problem, subscriber, granted)
            raise
        if notices is not None:
            yield from self._ask_to_confirm(notices, project, queue, created.id)
        if not created.is_new:
            yield from self._end_trust(subscriber, granted)
            return created
        is_given = options.get("secrets") is not None
        secrets = [] if is_given else granted.get("secrets", [])
        return CreatedSubscription(created.id, *secrets)

    def _create(
        self, project: str, queue: str, subscriber: str, **given: Any
    ) -> Steps[CreatedSubscription]:
        store = self._store
        for _ in range(_CREATE_TRIES):
            id: str | None = yield store.create(
                project,
                queue,
                subscriber,
                **given,
                delivers=True,
                most=self._limits.max_subscriptions,
            )
            if id is not None:
                return CreatedSubscription(id)
            found: Subscription | None = yield store.find(project, queue, subscriber)
            if found is not None and found.confirmed:
                raise errors.SubscriberTaken(subscriber=subscriber)
            if found is not None:
                return CreatedSubscription(found.id, is_new=False)
        raise errors.Conflict(why=f'"{subscriber}" is being subscribed and deleted by others.')

    @verb
    def create_for_socket(
        self,
        project: str,
        queue: str,
        socket: str,
        *,
        ttl: int | None,
        options: dict[str, Any],
        longest: int | None,
    ) -> Steps[str]:
        """Subscribes the socket of a URI; returns the id.  Raises SubscriberTaken, as `create`."""
        seconds = self._seconds(ttl, longest)
        yield self._queues.create(project, queue, {})
        id: str | None = yield self._store.create(
            project, queue, socket, ttl=seconds, options=options
        )
        if id is None:
            raise errors.SubscriberTaken(subscriber=socket)
        return id

    @verb
    def get(self, project: str, queue: str, id: str) -> Steps[Subscription]:
        """Raises NotFound."""
        found: Subscription | None = yield self._store.get(project, queue, id)
        if found is None:
            raise _missing(queue, id)
        return found

    def list(
        self, project: str, queue: str, marker: str | None, limit: int | None
    ) -> Awaitable[Page[Subscription]]:
        most = rules.limit(limit, self._limits.max_subscriptions_per_page)
        return self._store.list(project, queue, marker or "", most)

    @verb
    def update(
        self,
        project: str,
        queue: str,
        id: str,
        changes: SubscriptionChanges,
        *,
        longest: int | None = None,
        token: str | None = None,
    ) -> Steps[None]:
        """Changes what is given; the TTL counts from now.  *longest*, *token*: as `create`.

        A new subscriber has to confirm, whatever *changes* say of that.
        Raises NotFound, SubscriberTaken.
        """
        found: Subscription = yield self.get(project, queue, id)
        subscriber, options = changes.subscriber, changes.options
        seconds = None if changes.ttl is None else self._seconds(changes.ttl, longest)
        uri = found.subscriber if subscriber is None else subscriber
        if (subscriber, options) != (None, None):
            _check_other(queue, uri, options or {})
        changed = subscriber, options, changes.paused
        if changed != (None, None, None) and found.subscriber.startswith(SOCKET):
            raise errors.BadRequest(why='The subscriber is a socket: only its "ttl" can change.')
        renewed = seconds is not None and subscription_trusts.needs_trust(uri)
        if subscriber is not None or options is not None or renewed:
            given = subscription_options.as_given(found.options) if options is None else options
            options = self._checked(uri, given, found)
            left = max(1, found.ttl - found.age) if seconds is None else seconds
            options = yield from self._granted(project, uri, options, token, left)
        asking = None if uri == found.subscriber else self._notices_to(uri)
        try:
            confirmed = None if asking is None else False
            stored = replace(changes, ttl=seconds, options=options, confirmed=confirmed)
            done = yield self._store.update(project, queue, id, stored)
            if not done:
                raise _missing(queue, id)
        except errors.Problem as problem:
            yield from self._end_trust_after(problem, uri, options or {})
            raise
        if options is not None:
            yield from self._end_trust(found.subscriber, found.options)
        if asking is not None:
            yield from self._ask_to_confirm(asking, project, queue, id)

    @verb
    def states(
        self, project: str, queue: str, subscriptions: Sequence[Subscription]
    ) -> Steps[Sequence[DeliveryState]]:
        """Returns how deliveries to each go."""
        if not subscriptions:
            return ()
        ids = [each.id for each in subscriptions]
        found: Sequence[DeliveryState] = yield self.deliveries.states(project, queue, ids)
        return found

    @verb
    def get_reachable(self, project: str, queue: str, id: str) -> Steps[Subscription]:
        """Returns a subscription that messages may be delivered to.

        Raises NotFound; BadRequest for a socket; Conflict for one that is to confirm first.
        """
        found: Subscription = yield self.get(project, queue, id)
        if found.subscriber.startswith(SOCKET):
            raise errors.BadRequest(
                why="The subscriber is a socket: it gets messages only as they are posted."
            )
        if self._notices_to(found.subscriber) is not None and not found.confirmed:
            raise errors.Conflict(why=f"The subscriber has not confirmed subscription {id}.")
        return found

    @verb
    def confirm(self, project: str, queue: str, id: str, *, confirmed: bool) -> Steps[None]:
        """Confirms a subscription, or takes that back.  Raises NotFound."""
        done = yield self._store.update(
            project, queue, id, SubscriptionChanges(confirmed=confirmed)
        )
        if not done:
            raise _missing(queue, id)
        if self._notices is None or confirmed:
            return
        found: Subscription = yield self.get(project, queue, id)
        notices = self._notices_to(found.subscriber)
        if notices is not None:
            yield notices.tell_unsubscribed(project, found)

    @verb
    def delete(self, project: str, queue: str, id: str) -> Steps[None]:
        found: Subscription | None = None
        if self._trusts is not None:
            found = yield self._store.get(project, queue, id)
        yield self._store.delete(project, queue, id)
        if found is not None:
            yield from self._end_trust(found.subscriber, found.options)

    @verb
    def purge(self, project: str, queue: str) -> Steps[None]:
        """Deletes all subscriptions of a queue, and all deliveries to them."""
        if self._driver.subscriptions is not None:
            yield self._store.purge(project, queue)

    def _notices_to(self, subscriber: str) -> SubscriptionNotices | None:
        """Returns what asks a subscriber to confirm; None: it need not."""
        return None if rules.is_own_subscriber(subscriber) else self._notices

    def _ask_to_confirm(
        self, notices: SubscriptionNotices, project: str, queue: str, id: str
    ) -> Steps[None]:
        found: Subscription | None = yield self._store.get(project, queue, id)
        if found is not None:
            yield notices.ask_to_confirm(project, found)

    def _granted(
        self, project: str, subscriber: str, options: dict[str, Any], token: str | None, ttl: int
    ) -> Steps[dict[str, Any]]:
        """Returns the options with the trust that the subscriber needs, if any."""
        if self._trusts is None:
            return options
        granted: dict[str, Any] = yield self._trusts.grant(
            project, subscriber, options, token=token, ttl=ttl
        )
        return granted

    def _end_trust(self, subscriber: str, options: dict[str, Any]) -> Steps[None]:
        if self._trusts is not None:
            yield self._trusts.end(subscriber, options)

    def _end_trust_after(
        self, problem: errors.Problem, subscriber: str, options: dict[str, Any]
    ) -> Steps[None]:
        """Ends the trust of options that were not stored; nobody knows that after an outage."""
        if not isinstance(problem, errors.Unavailable):
            yield from self._end_trust(subscriber, options)

    def _seconds(self, ttl: int | None, longest: int | None) -> int:
        seconds = rules.subscription_ttl(ttl, self._limits, clock.process() / 1000)
        return seconds if longest is None else min(seconds, longest)

    def _checked(
        self, subscriber: str, options: dict[str, Any], found: Subscription | None = None
    ) -> dict[str, Any]:
        """Returns the options to store; webhooks always have a secret.  Raises BadRequest.

        *found*: the subscription that they are for; None: it is a new one.
        """
        known = {} if found is None else found.options
        stored = subscription_options.with_stored_secrets(options, known)
        before = "" if found is None else found.subscriber
        stored = subscription_trusts.without_granted(stored, before, known)
        if subscriber.partition(":")[0] in _WEBHOOKS:
            stored = subscription_options.with_generated_secret(stored)
        self._check_subscriber(subscriber, subscription_options.parse(stored))
        return stored


def _check_other(queue: str, subscriber: str, options: Mapping[str, Any]) -> None:
    """Raises BadRequest for a queue or topic that would send its messages to itself."""
    if options.get("dead_letter_queue") == queue:
        raise errors.BadRequest(
            why='"dead_letter_queue" in "options": it must be another queue than the source.'
        )
    if subscriber in (queue, f"queue:{queue}"):
        raise errors.BadRequest(
            why=f'"subscriber": the {rules.described(queue)} cannot subscribe to itself.'
        )


def _missing(queue: str, id: str) -> errors.NotFound:
    return errors.NotFound(why=f"Subscription {id} for {rules.described(queue)} does not exist.")
