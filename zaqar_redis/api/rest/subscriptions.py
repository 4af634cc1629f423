# SPDX-License-Identifier: Apache-2.0
"""Subscriptions to queues and topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from zaqar_redis.api import documents
from zaqar_redis.api.exchange import DONE, Answer, Request
from zaqar_redis.api.subscription_schemas import (
    ConfirmationIn,
    CreatedSubscriptionOut,
    SubscriptionChangeIn,
    SubscriptionIn,
    SubscriptionListQuery,
    SubscriptionPageOut,
)
from zaqar_redis.auth import signed_urls
from zaqar_redis.service.subscriptions import SubscriptionService


class SubscriptionHandlers:
    def __init__(
        self, subscriptions: SubscriptionService, stored: Callable[[str], str] = str
    ) -> None:
        """*stored*: from the name in the path to that of the queue."""
        self._subscriptions = subscriptions
        self._stored = stored

    async def create(self, request: Request[None, SubscriptionIn], source: str) -> Answer:
        """Subscribes.

        Messages that are posted from now on are sent to the subscriber.  Creates the queue or
        topic if it does not exist.  A subscriber that has subscribed and not confirmed it gets the
        same subscription, unchanged, and is asked to confirm again.
        """
        given = request.document
        created = await self._subscriptions.create(
            request.project,
            self._stored(source),
            given.subscriber,
            ttl=None if given.ttl is UNSET else given.ttl,
            options=given.options,
            longest=longest(request),
            token=keystone_token(request),
        )
        document = CreatedSubscriptionOut(created.id, created.secret or UNSET)
        # API: not the path of the subscription
        return Answer(documents.encode(document), 201, (("location", request.path),))

    async def list(self, request: Request[SubscriptionListQuery, None], source: str) -> Answer:
        """Lists subscriptions, by id."""
        query = request.query
        page = await self._subscriptions.list(
            request.project, self._stored(source), query.marker, query.limit
        )
        links = documents.next_link(request.path, query, page.marker)
        shown = [documents.subscription(each) for each in page.items]
        return Answer(documents.encode(SubscriptionPageOut(shown, links)))

    async def get(self, request: Request[None, None], source: str, subscription: str) -> Answer:
        """Shows a subscription."""
        found = await self._subscriptions.get(request.project, self._stored(source), subscription)
        return Answer(documents.encode(documents.subscription(found)))

    async def update(
        self, request: Request[None, SubscriptionChangeIn], source: str, subscription: str
    ) -> Answer:
        """Changes a subscription.

        A `ttl` counts from now.  Where subscribers must confirm, a new one must, too.  While it
        is paused its messages wait.
        """
        await self._subscriptions.update(
            request.project,
            self._stored(source),
            subscription,
            longest=longest(request),
            token=keystone_token(request),
            **documents.subscription_changes(request.document),
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
