# SPDX-License-Identifier: Apache-2.0
"""Attempts to deliver: one by itself, and those of a lane."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from time import perf_counter_ns
from typing import Any, Protocol

from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.notify.items import Item
from zaqar_redis.notify.limits import DeliverySlots, WaitingLane
from zaqar_redis.notify.store_watch import StoreWatch
from zaqar_redis.notify.target import Delivery, Outcome, Result, Target
from zaqar_redis.rate_limiter import RateLimiter

LOG = logging.getLogger(__name__)


async def attempt(target: Target, delivery: Delivery) -> Result:
    """Returns how it went, which is measured; raises nothing."""
    begun = perf_counter_ns()
    try:
        result = await target.deliver(delivery)
    except Exception:
        LOG.exception("a delivery failed", extra={"action": "delivery_failed"})
        result = Result(Outcome.RETRY, "the service failed to make the attempt")
    scheme = delivery.subscription.subscriber.partition(":")[0]
    metrics.NOTIFICATION_DURATIONS.add(perf_counter_ns() - begun, scheme)
    metrics.NOTIFICATIONS.add(scheme, result.outcome.value)
    return result


class AttemptingLane(WaitingLane, Protocol):
    """What has attempts made."""

    @property
    def has_items(self) -> bool:
        """Whether some wait for their turn."""

    @property
    def attempts_max(self) -> int:
        """How many may be under way."""

    def next_chunk(self) -> Sequence[Item]:
        """Removes what goes into one attempt; nothing: nothing waits for its turn."""

    async def attempt(self, chunk: Sequence[Item]) -> None:
        """Makes one, and settles how that went."""


class LaneAttempts:
    """The attempts of a lane: as many at a time as its subscription and the process allow."""

    def __init__(
        self, lane: AttemptingLane, slots: DeliverySlots, watch: StoreWatch, rate: float
    ) -> None:
        """*rate*: messages a second; 0: as many as can be."""
        self._lane = lane
        self._slots = slots
        self._watch = watch
        self._running = 0
        self._pace = RateLimiter(rate)
        self._timer: asyncio.TimerHandle | None = None
        self._pumps_soon = False

    def set_rate(self, rate: float) -> None:
        self._pace.rate = rate

    def pump_soon(self) -> None:
        """Begins attempts when all that is offered at once is there: it goes in one batch."""
        if not self._pumps_soon:
            self._pumps_soon = True
            asyncio.get_running_loop().call_soon(self._pump_offered)

    def _pump_offered(self) -> None:
        self._pumps_soon = False
        self.pump()

    def pump(self) -> None:
        """Begins attempts, as many as may be under way."""
        self.stop()  # each timer that is left would set another one
        lane = self._lane
        while lane.has_items and self._running < lane.attempts_max and self._may_begin():
            if wait := self._pace.delay():
                self._timer = asyncio.get_running_loop().call_later(wait, self.pump)
                return
            if chunk := self._next_chunk():
                self._slots.begin(self._run(chunk), lane.project, internal=lane.is_internal)

    def _may_begin(self) -> bool:
        """Whether the process may make another attempt now; else it pumps the lane later."""
        return not self._watch.is_away and self._slots.may_begin(self._lane)

    def begin(self, other: Coroutine[Any, Any, None]) -> None:
        """Runs what is to be done inside the installation as one of the attempts."""
        self._running += 1
        self._slots.begin(self._run_other(other), self._lane.project, internal=True)

    def stop(self) -> None:
        """Begins none by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next_chunk(self) -> Sequence[Item]:
        chunk = self._lane.next_chunk()
        self._pace.advance(len(chunk))
        self._running += bool(chunk)
        return chunk

    async def _run(self, chunk: Sequence[Item]) -> None:
        # A task for each attempt would take a tenth of its time.
        while chunk:
            try:
                await self._lane.attempt(chunk)
            finally:
                self._running -= 1
            chunk = self._following_chunk()
            self.pump()

    def _following_chunk(self) -> Sequence[Item]:
        """Returns what a task goes on with; nothing: its turn is over."""
        lane = self._lane
        if self._running >= lane.attempts_max or self._watch.is_away:
            return ()
        if not self._slots.may_go_on(lane):  # another lane waits for its slot
            return ()
        return () if self._pace.delay() else self._next_chunk()

    async def _run_other(self, other: Coroutine[Any, Any, None]) -> None:
        try:
            await other
        finally:
            self._running -= 1
        self.pump()
