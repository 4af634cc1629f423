# SPDX-License-Identifier: Apache-2.0
"""A lane by itself: what it settles is looked at, and no source takes steps."""

from __future__ import annotations

import asyncio
import uuid

from zaqar_redis.notify.backlog_reader import BacklogReader
from zaqar_redis.notify.circuit import Circuit
from zaqar_redis.notify.dead_letters import DeadLetters
from zaqar_redis.notify.failures import FailureRuns
from zaqar_redis.notify.in_flight import InFlight
from zaqar_redis.notify.items import Item
from zaqar_redis.notify.lane import Lane
from zaqar_redis.notify.lane_context import LaneContext, LaneSettings
from zaqar_redis.notify.leased_queue import LeasedQueue
from zaqar_redis.notify.limits import DeliverySlots, MessageMemory
from zaqar_redis.notify.settlement import DeliverySettlement
from zaqar_redis.notify.store_watch import StoreClock, StoreWatch
from zaqar_redis.notify.target import DELIVERED, Delivery, Result, Target
from zaqar_redis.records import Message, Subscription
from zaqar_redis.retry_policies import DeliveryRetryPolicy
from zaqar_redis.service.subscription_options import SubscriptionOptions
from zaqar_redis.storage.deliveries import (
    DeliveryEntry,
    DeliveryLease,
    EnteredMessage,
    PendingDelivery,
)
from zaqar_redis.storage.load import load

#: ms: no store has this time.
NEVER = 2**50


class HeldTarget:
    """Takes everything, as soon as it is let."""

    internal = False

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.result = DELIVERED

    def check(self, subscriber: str, options: SubscriptionOptions) -> None:
        """Accepts all."""

    async def deliver(self, delivery: Delivery) -> Result:
        await self.goes_on.wait()
        return self.result

    async def close(self) -> None:
        """Has nothing open."""


class LaneHarness:
    def __init__(
        self,
        target: Target | None = None,
        options: SubscriptionOptions | None = None,
        *,
        waits: bool = False,
        leased: LeasedQueue | None = None,
    ) -> None:
        driver = load(f"memory://{uuid.uuid4()}", {})
        assert driver.subscriptions
        assert driver.deliveries
        queue = LeasedQueue(
            driver.queues,
            driver.subscriptions,
            driver.deliveries,
            ("p", "q"),
            DeliveryLease("token", 10_000),
        )
        self.settlement, self.memory = DeliverySettlement(), MessageMemory()
        self.in_flight = InFlight(self.settlement, self.memory)
        self.slots = DeliverySlots(10)
        self.clock = StoreClock()
        self.dead_letters = DeadLetters(driver.messages.dead_letter, "p", "q")
        self.context = LaneContext(
            leased=leased or queue,
            clock=self.clock,
            watch=StoreWatch(),
            slots=self.slots,
            in_flight=self.in_flight,
            settlement=self.settlement,
            dead_letters=self.dead_letters,
            failures=FailureRuns(),
            made_late=[],
        )
        self.held = HeldTarget()
        self.options = options or SubscriptionOptions(concurrency=1)
        self.target = target or self.held
        self.reader = BacklogReader(self.context)
        self.lane = Lane(self.context, self.settings(), Circuit(), self.reader.add, waits=waits)
        self._ranks = self._entries = 0

    def settings(self, *, paused: bool = False, subscriber: str = "http://h/") -> LaneSettings:
        subscription = Subscription("id", "q", subscriber, 60, 0, {}, paused=paused)
        return LaneSettings(subscription, self.options, DeliveryRetryPolicy(), self.target)

    def pause(self) -> None:
        self.lane.adopt(self.settings(paused=True))

    def post(self, number: int, began: float = 0.0, expires: int = NEVER) -> bytes:
        """Offers an entry with so many messages, as a dispatcher does; returns its id."""
        stored = [
            EnteredMessage(
                Message(str(rank), rank, 0, 60, b"1", created=0, expires=expires), b"envelope"
            )
            for rank in range(self._ranks, self._ranks + number)
        ]
        self._ranks += number
        self._entries += 1
        id = b"%d-0" % self._entries
        entry = DeliveryEntry(id, "e", stored, sum(each.size for each in stored))
        work = self.in_flight.begin_entry(entry, began)
        self.lane.offer([Item("e", each, each.message, entry=work) for each in stored])
        self.in_flight.end_part(work)
        return id

    def offer(self, lane: Lane, pending: PendingDelivery, *, is_asked: bool = True) -> None:
        """Offers a pending delivery, as a dispatcher does."""
        message = pending.stored.message if pending.stored is not None else None
        item = Item(pending.epoch, pending.stored, message, pending=pending)
        lane.offer_pending(item, pending, is_asked=is_asked)

    def fill(self) -> None:
        """Posts more than the lane has room for."""
        self.in_flight.lanes = 10_000  # each has room for one
        self.post(2)
