# SPDX-License-Identifier: Apache-2.0
"""The contract of a store of subscriptions.

Errors and times are those of `zaqar_redis.storage.contract`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from zaqar_redis.records import Page, Subscription, SubscriptionChanges


class Subscriptions(Protocol):
    """Subscribers of a queue, to which its messages are sent.  The queue need not exist."""

    def create(
        self,
        project: str,
        queue: str,
        subscriber: str,
        *,
        ttl: int,
        options: dict[str, Any],
        paused: bool = False,
        delivers: bool = False,
        most: int | None = None,
    ) -> Awaitable[str | None]:
        """Subscribes for *ttl* seconds; returns the id, or None when the subscriber has one.

        *delivers*: posts are entered for delivery from now on (`deliveries`); then the queue must
        exist, else it raises NotFound.  *most*: subscriptions that the queue may have; it raises
        TooManySubscriptions beyond them.
        """

    def get(self, project: str, queue: str, id: str) -> Awaitable[Subscription | None]:
        """Returns the subscription, or None."""

    def find(self, project: str, queue: str, subscriber: str) -> Awaitable[Subscription | None]:
        """Returns the subscription of a subscriber, or None."""

    def list(
        self, project: str, queue: str, after: str, limit: int
    ) -> Awaitable[Page[Subscription]]:
        """Returns up to *limit* subscriptions in order of their ids, behind the id *after*."""

    def update(
        self, project: str, queue: str, id: str, changes: SubscriptionChanges
    ) -> Awaitable[bool]:
        """Changes what is given; returns False when there is no such subscription.

        A new TTL counts from now.  What waits for a paused subscription is due when it goes on.
        Raises SubscriberTaken when the new subscriber has a subscription already.
        """

    def delete(self, project: str, queue: str, id: str) -> Awaitable[None]:
        """Deletes the subscription; what waits for it is not delivered any more.  Idempotent."""

    def purge(self, project: str, queue: str) -> Awaitable[None]:
        """Deletes all subscriptions of the queue, and all deliveries.  Idempotent."""
