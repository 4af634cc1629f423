# SPDX-License-Identifier: Apache-2.0
"""What a lane needs of the source that it belongs to."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from zaqar_redis.notify.failures import FailureRuns
from zaqar_redis.notify.items import Item
from zaqar_redis.notify.target import Result
from zaqar_redis.records import Message, Subscription
from zaqar_redis.storage.deliveries import DeliveryCount, PendingDelivery

if TYPE_CHECKING:
    from zaqar_redis.notify.lane import Lane


class LaneOwner(Protocol):
    project: str
    queue: str
    #: of all subscriptions of the process
    failures: FailureRuns

    def now(self) -> int:
        """Returns the store's time, ms."""

    def begin(self, attempt: Coroutine[Any, Any, None], *, internal: bool) -> None:
        """Runs an attempt."""

    def may_begin(self, lane: Lane) -> bool:
        """Returns whether the process may make another attempt now; else `Lane.pump` is called."""

    def may_go_on(self, lane: Lane) -> bool:
        """Returns whether a task may make another attempt: no other lane waits for its slot."""

    def end_item(self, item: Item) -> None:
        """Notes that a delivery was made, was stored as pending, or needs not be made."""

    def note_made_late(self, items: Sequence[Item]) -> None:
        """Notes deliveries that were made after the queue was handed over."""

    def store(self, pending: PendingDelivery, *, failed: bool) -> None:
        """Stores a pending delivery with the next step."""

    def store_under_way(self, item: Item, pending: PendingDelivery) -> None:
        """Stores a delivery that is under way, so that its entry needs not wait for it."""

    def hold(self, subscription: str, until: int | None) -> None:
        """Notes when what waits for a subscription is due; None: nothing waits."""

    def count(self, subscription: str, count: DeliveryCount) -> None: ...

    def read_backlog(self, lane: Lane) -> None:
        """Reads what waits for a lane, as long as it is catching up."""

    async def dead_letter(self, lane: Lane, message: Message, result: Result) -> None:
        """Posts a message, as stored, to the dead-letter queue.  Raises Unavailable."""

    async def end_subscription(self, subscription: Subscription) -> bool:
        """Ends it, unless it has another subscriber meanwhile; returns whether it has ended."""

    def items_max(self, *, internal: bool) -> int:
        """Returns how many messages a lane may have in memory."""

    def bytes_max(self) -> int:
        """Returns how many bytes of messages a lane may have in memory, beside a first message."""
