# SPDX-License-Identifier: Apache-2.0
"""Subscriptions to queues and topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import UNSET

from zaqar_redis import errors
from zaqar_redis.api import decoding, documents
from zaqar_redis.api.exchange import DONE, Answer, Request
from zaqar_redis.api.subscription_schemas import (
    ConfirmationIn,
    CreatedSubscriptionOut,
    ReplayIn,
    ReplayOut,
    SubscriptionChangeIn,
    SubscriptionIn,
    SubscriptionListQuery,
    SubscriptionPageOut,
    SubscriptionQuery,
    SubscriptionTestOut,
)
from zaqar_redis.auth import signed_urls
from zaqar_redis.auth.policy import PolicyEnforcer
from zaqar_redis.notify.tester import SubscriptionTester
from zaqar_redis.records import Subscription
from zaqar_redis.service import subscription_options
from zaqar_redis.service.replays import ReplayService
from zaqar_redis.service.subscriptions import SubscriptionService
from zaqar_redis.storage.deliveries import DeliveryState


class SubscriptionHandlers:
    def __init__(
        self,
        subscriptions: SubscriptionService,
        replays: ReplayService,
        tester: SubscriptionTester,
        policy: PolicyEnforcer,
        stored: Callable[[str], str] = str,
    ) -> None:
        """*stored*: from the name in the path to that of the queue."""
        self._subscriptions = subscriptions
        self._replays = replays
        self._tester = tester
        self._policy = policy
        self._stored = stored

    async def create(self, request: Request[None, SubscriptionIn], source: str) -> Answer:
        """Subscribes.

        Messages that are posted from now on are sent to the subscriber.  Creates the queue or
        topic if it does not exist.  A subscriber that has subscribed and not confirmed it gets the
        same subscription, unchanged, and is asked to confirm again.
        """
        given = request.document
        options = given.options or {}
        self._policy.authorize_subscription(
            request.identity, request.project, given.subscriber, options
        )
        created = await self._subscriptions.create(
            request.project,
            self._stored(source),
            given.subscriber,
            ttl=given.ttl,
            options=options,
            paused=bool(given.paused),
            longest=longest(request),
            token=keystone_token(request),
        )
        if not created.is_new:
            found = await self._subscriptions.get(request.project, self._stored(source), created.id)
            request.ignored = [*request.ignored, *_differing(given, found)]
        document = CreatedSubscriptionOut(created.id, created.secret or UNSET)
        # API: not the path of the subscription
        return Answer(documents.encode(document), 201, (("location", request.path),))

    async def list(self, request: Request[SubscriptionListQuery, None], source: str) -> Answer:
        """Lists subscriptions, by id."""
        query, queue = request.query, self._stored(source)
        page = await self._subscriptions.list(request.project, queue, query.marker, query.limit)
        links = documents.next_link(request.path, query, page.marker)
        states: Sequence[DeliveryState | None] = [None] * len(page.items)
        if query.detailed:
            states = await self._subscriptions.states(request.project, queue, page.items)
        shown = list(map(documents.subscription, page.items, states))
        return Answer(documents.encode(SubscriptionPageOut(shown, links)))

    async def get(
        self, request: Request[SubscriptionQuery, None], source: str, subscription: str
    ) -> Answer:
        """Shows a subscription."""
        queue, state = self._stored(source), None
        found = await self._subscriptions.get(request.project, queue, subscription)
        if request.query.detailed:
            [state] = await self._subscriptions.states(request.project, queue, [found])
        return Answer(documents.encode(documents.subscription(found, state)))

    async def update(
        self, request: Request[None, SubscriptionChangeIn], source: str, subscription: str
    ) -> Answer:
        """Changes a subscription.

        A `ttl` counts from now.  Where subscribers must confirm, a new one must, too.  While it
        is paused its messages wait.
        """
        changes = decoding.subscription_changes(request.document)
        self._policy.authorize_subscription(
            request.identity, request.project, changes.subscriber, changes.options
        )
        await self._subscriptions.update(
            request.project,
            self._stored(source),
            subscription,
            changes,
            longest=longest(request),
            token=keystone_token(request),
        )
        return _changed(request)

    async def delete(self, request: Request[None, None], source: str, subscription: str) -> Answer:
        """Deletes a subscription."""
        await self._subscriptions.delete(request.project, self._stored(source), subscription)
        return DONE

    async def confirm(
        self, request: Request[None, ConfirmationIn], source: str, subscription: str
    ) -> Answer:
        """Confirms a subscription, or takes that back.

        A subscriber that was asked to confirm does so by the pre-signed URL in the document that
        it was sent.
        """
        await self._subscriptions.confirm(
            request.project,
            self._stored(source),
            subscription,
            confirmed=request.document.confirmed,
        )
        return _changed(request)

    async def replay(
        self, request: Request[None, ReplayIn], source: str, subscription: str
    ) -> Answer:
        """Delivers again what was given up.

        With `history` what the topic has kept, instead.
        """
        given, queue = request.document, self._stored(source)
        if given.history:
            found = await self._replays.history(
                request.project,
                queue,
                subscription,
                after=None if given.after is UNSET else given.after,
                limit=None if given.limit is UNSET else given.limit,
            )
        elif given.after is not UNSET or given.limit is not UNSET:
            raise errors.BadRequest(why='"after" and "limit" need "history": true.')
        else:
            found = await self._replays.failed(request.project, queue, subscription)
        return Answer(documents.encode(ReplayOut(found.replayed, found.marker or UNSET)))

    async def test(self, request: Request[None, None], source: str, subscription: str) -> Answer:
        """Sends a test message, signed, once.

        Answers when the subscriber has answered, or its time is up.
        """
        tested = await self._tester.test(request.project, self._stored(source), subscription)
        result = tested.result
        document = SubscriptionTestOut(
            result.outcome.value,
            result.status,
            result.error,
            round(tested.seconds, 3),
            result.answer,
        )
        return Answer(documents.encode(document))


def longest(request: Request[Any, Any]) -> int | None:
    """Returns the seconds that a subscription may last: a pre-signed URL opens nothing for longer.

    None: as long as it wants.
    """
    expires = request.header(b"url-expires")
    return None if expires is None else signed_urls.seconds_left(expires)


def keystone_token(request: Request[Any, Any]) -> str | None:
    """Returns the token of Keystone that a request was admitted with; None: it was not."""
    return request.header(b"x-auth-token") if request.identity.strategy == "keystone" else None


def _changed(request: Request[Any, Any]) -> Answer:
    return Answer(status=204, headers=(("location", request.path),))


def _differing(given: SubscriptionIn, found: Subscription) -> Iterator[str]:
    """Yields the fields that are given, and are not those of the subscription."""
    known = {
        "ttl": found.ttl,
        "options": subscription_options.as_given(found.options),
        "paused": found.paused,
    }
    for name, value in known.items():
        if getattr(given, name) not in (None, value):
            yield name
