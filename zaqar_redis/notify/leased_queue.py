# SPDX-License-Identifier: Apache-2.0
"""A queue or topic in its store, as the notifier sees it that has its lease."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from zaqar_redis import errors
from zaqar_redis.records import Subscription
from zaqar_redis.retry_policies import DeliveryRetryPolicy, retry_policy
from zaqar_redis.storage.contract import Queues
from zaqar_redis.storage.deliveries import (
    Deliveries,
    DeliveryLease,
    DeliveryReads,
    DeliveryStep,
    PendingDelivery,
    SettledDeliveries,
)
from zaqar_redis.storage.subscriptions import Subscriptions

#: Subscriptions that are read at once.
_SUBSCRIPTIONS = 500


class LeasedQueue:
    """All raise Unavailable, and MoveLocked while the queue moves to another store."""

    def __init__(
        self,
        queues: Queues,
        subscriptions: Subscriptions,
        deliveries: Deliveries,
        names: tuple[str, str],
        lease: DeliveryLease,
    ) -> None:
        """*names*: project and queue."""
        self._queues = queues
        self._subscriptions = subscriptions
        self._deliveries = deliveries
        self.project, self.queue = names
        self._names = names
        self.lease = lease

    async def take(self) -> bool:
        """Returns whether it has the lease now; else another notifier does."""
        return await self._deliveries.take(*self._names, self.lease)

    async def release(self) -> None:
        await self._deliveries.release(*self._names, self.lease)

    async def made(self, ids: Sequence[str]) -> None:
        """Settles deliveries that were made after the release."""
        await self._deliveries.made(*self._names, ids)

    async def step(self, settled: SettledDeliveries, reads: DeliveryReads) -> DeliveryStep | None:
        """Keeps the lease, settles, and reads what is next; see `Deliveries.step`."""
        return await self._deliveries.step(*self._names, self.lease, settled, reads)

    async def backlog(self, subscription: str, after: str, limit: int) -> Sequence[PendingDelivery]:
        """Returns what waits for a subscription behind the delivery *after*."""
        return await self._deliveries.backlog(*self._names, subscription, after, limit)

    async def waiting(self) -> set[str]:
        """Returns the subscriptions with deliveries that another notifier left to be made."""
        found: list[str] = []
        while True:
            after = found[-1] if found else ""
            page = await self._deliveries.waiting(*self._names, after, _SUBSCRIPTIONS)
            found += page
            if len(page) < _SUBSCRIPTIONS:
                return set(found)

    async def subscriptions(self) -> AsyncIterator[Subscription]:
        after = ""
        while True:
            page = await self._subscriptions.list(*self._names, after, _SUBSCRIPTIONS)
            for each in page.items:
                yield each
            after = page.marker
            if len(page.items) < _SUBSCRIPTIONS:
                return

    async def end_subscription(self, subscription: Subscription) -> bool:
        """Deletes it, unless it has another subscriber meanwhile; returns whether it has ended."""
        try:
            found = await self._subscriptions.get(*self._names, subscription.id)
            if found is not None and found.subscriber != subscription.subscriber:
                return False
            await self._subscriptions.delete(*self._names, subscription.id)
        except errors.Problem:
            return False
        return True

    async def retry_policy(self) -> DeliveryRetryPolicy | None:
        """Returns the one of the queue; None: it has none."""
        queue = await self._queues.get(*self._names)
        if queue is not None:
            with contextlib.suppress(errors.BadRequest):  # of a release that knew other rules
                return retry_policy(queue.metadata.get("_retry_policy"))
        return None
