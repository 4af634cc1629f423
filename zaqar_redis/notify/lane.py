# SPDX-License-Identifier: Apache-2.0
"""The deliveries of one source to one subscription, as its notifier makes them.

A lane has a bounded number of messages in memory.  What is too much, and what has to wait, is
stored as pending and read again: so a subscriber that is slow, or away, delays no other, and costs
no memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

import msgspec

from zaqar_redis import errors
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.notify import schedule
from zaqar_redis.notify.attempt import attempt
from zaqar_redis.notify.backlog import Backlog
from zaqar_redis.notify.circuit import Circuit
from zaqar_redis.notify.items import Item, delivery_name
from zaqar_redis.notify.owner import LaneOwner
from zaqar_redis.notify.pace import Pace
from zaqar_redis.notify.target import Delivery, Outcome, Result, Target
from zaqar_redis.records import Message, Subscription
from zaqar_redis.retry_policies import DeliveryRetryPolicy
from zaqar_redis.service.subscription_options import SubscriptionOptions
from zaqar_redis.storage.deliveries import DeliveryCount, PendingDelivery

LOG = logging.getLogger(__name__)

#: Pending deliveries that are read at once.
_PAGE = 200
#: Messages in one delivery to a store: a millisecond or so of its time.
_INTERNAL_BATCH = 100
#: Seconds between attempts to deliver inside the installation: they double up to the second.
_INTERNAL_RETRY_SECONDS, _INTERNAL_RETRY_MAX_SECONDS = 0.5, 15.0

#: Milliseconds until a dead letter is posted again to a store that was away.
_DEAD_LETTER_PAUSE_MS = 1000


class LaneState(Enum):
    #: delivers what comes, from memory
    FLOWING = auto()
    #: reads what waits in the store, and delivers it; what comes is stored behind it
    CATCHING_UP = auto()
    #: delivers nothing; what comes is stored
    HELD = auto()


class Lane:
    def __init__(
        self,
        owner: LaneOwner,
        subscription: Subscription,
        options: SubscriptionOptions,
        policy: DeliveryRetryPolicy,
        target: Target,
    ) -> None:
        self._owner = owner
        self.subscription = subscription
        self.options = options
        self._policy = policy
        self._set_target(target)
        self._items: deque[Item] = deque()
        #: it waits until the process may make another attempt
        self.waits = False
        #: attempts under way
        self._running = 0
        #: messages that it has, with those under way, and their bytes
        self._held = 0
        self._held_bytes = 0
        self.backlog = Backlog()
        #: the store knows when what waits is due
        self._is_due = False
        self.state = LaneState.FLOWING
        self._has_ended = False
        self.circuit = Circuit()
        self._pace = Pace(options.rate)
        self._timer: asyncio.TimerHandle | None = None
        self._pumps_soon = False
        if subscription.paused:
            self.state = LaneState.HELD

    def adopt(
        self,
        subscription: Subscription,
        options: SubscriptionOptions,
        policy: DeliveryRetryPolicy,
        target: Target,
    ) -> None:
        """Goes on with the subscription as it is now; what it has goes to a new subscriber."""
        was_paused, was_in_order = self.subscription.paused, self._in_order
        is_another = subscription.subscriber != self.subscription.subscriber
        if is_another:
            self.circuit = Circuit()
        self.subscription, self.options, self._policy = subscription, options, policy
        self._pace.set_rate(options.rate)
        self._set_target(target)
        if subscription.paused:
            self._hold(None)
        elif is_another or self._in_order > was_in_order:
            self._hold(self._owner.now())  # all that it has, and what waits, goes in order
        elif was_paused:
            self.catch_up()

    def _set_target(self, target: Target) -> None:
        self._target = target
        self._scheme = self.subscription.subscriber.partition(":")[0]
        self._batch = _INTERNAL_BATCH if target.internal else self.options.batch
        self._in_order = self.options.ordered or target.internal

    @property
    def is_internal(self) -> bool:
        return self._target.internal

    @property
    def wants_more(self) -> bool:
        """Whether waiting deliveries are to be read."""
        return self.is_catching_up and not self.is_half_full

    @property
    def is_flowing(self) -> bool:
        return self.state is LaneState.FLOWING

    @property
    def is_half_full(self) -> bool:
        """Whether it has enough to do while more is read."""
        return self._held > self._items_max // 2 or (
            self._held > 0 and self._held_bytes > self._owner.bytes_max() // 2
        )

    @property
    def is_catching_up(self) -> bool:
        return self.state is LaneState.CATCHING_UP

    @property
    def page(self) -> int:
        """How many waiting deliveries are to be read at once."""
        return min(_PAGE, self._items_max)

    @property
    def _items_max(self) -> int:
        return self._owner.items_max(internal=self._target.internal)

    def _has_room(self, item: Item) -> bool:
        if self._held >= self._items_max:
            return False
        return not self._held or self._held_bytes + item.size <= self._owner.bytes_max()

    def wait(self) -> None:
        """Goes behind what another notifier has stored: the store says when that is due."""
        self.state = LaneState.HELD

    def is_next(self, pending: PendingDelivery) -> bool:
        """Whether a delivery that waits may be made now, in its turn."""
        # A subscriber before this one may have left some to be tried again later: a queue that
        # gets younger ones first passes over these.
        return self._in_order or pending.due is None or pending.due <= self._owner.now()

    def note_stored(self, pending: PendingDelivery) -> None:
        self.backlog.note_stored(pending, is_reading=self.is_catching_up)

    def offer(self, items: Sequence[Item]) -> None:
        """Takes new messages, at least one."""
        number, size = self._held + len(items), self._held_bytes + sum(item.size for item in items)
        fits = number <= self._items_max and size <= self._owner.bytes_max()
        if fits and self.state is LaneState.FLOWING and not self._has_ended:
            self._held, self._held_bytes = number, size
            self._items.extend(items)
            self._pump_soon()
            return
        for item in items:
            self._offer(item)

    def _offer(self, item: Item) -> None:
        fits = self._has_room(item)
        self._hold_item(item)
        if self._has_ended:
            self._end_item(item)
        elif self.state is LaneState.FLOWING and fits:
            self._items.append(item)
            self._pump_soon()
        else:
            self._put_behind(item)

    def offer_due(self, item: Item, pending: PendingDelivery) -> bool:
        """Takes a delivery that is due; returns False when it has it already, or comes to it."""
        if self._in_order and self.is_catching_up and not item.notice:
            return False
        fits = self.state is not LaneState.HELD and self._has_room(item)
        return self._offer_pending(item, pending, fits=fits)

    def offer_waiting(self, item: Item, pending: PendingDelivery) -> bool:
        """Takes a delivery of its backlog, as `offer_due` does: `wants_more` has asked for it."""
        return self._offer_pending(item, pending, fits=self.state is not LaneState.HELD)

    def _offer_pending(self, item: Item, pending: PendingDelivery, *, fits: bool) -> bool:
        if self.backlog.has(pending.id) and not self._has_ended:
            return False  # what is about to be stored is read as it will be
        self._hold_item(item)
        if self._has_ended:
            self._end_item(item)
        elif fits or item.notice:
            self.backlog.take(pending.id)
            self._items.append(item)
            self._pump_soon()
        else:
            self._put_behind(item)
        return True

    def _put_behind(self, item: Item) -> None:
        """Stores an item behind what waits, to be read when there is room."""
        if self.state is LaneState.FLOWING:
            self._begin_backlog()
            self._owner.hold(self.subscription.id, self._owner.now())
        self._put_off(item, None)

    def _hold_item(self, item: Item) -> None:
        self._held += 1
        self._held_bytes += item.size

    def _end_item(self, item: Item) -> None:
        self._held -= 1
        self._held_bytes -= item.size
        self._owner.end_item(item)

    def forget(self, id: str) -> None:
        """Takes a pending delivery when it is read again: the store knows what became of it."""
        self.backlog.forget(id)
        self._end_hold()

    def catch_up(self) -> None:
        """Delivers what waits; for a lane that was held, or has something to replay."""
        if self.subscription.paused:
            self._owner.hold(self.subscription.id, None)
            return
        if self.is_catching_up:
            self.backlog.begin_again()
            return
        self._begin_backlog()
        self.pump()

    def _begin_backlog(self) -> None:
        self.state, self._is_due = LaneState.CATCHING_UP, True
        self.backlog.begin()
        self._owner.read_backlog(self)

    def end_backlog(self) -> None:
        """Goes on with what comes, unless something was added to what waits."""
        if self.backlog.end():
            self.state = LaneState.FLOWING
            self._end_hold()

    def _end_hold(self) -> None:
        """Nothing is due any more; while something is being delivered, another may have to."""
        if self._is_due and self.state is LaneState.FLOWING and not self.backlog.is_read:
            self._is_due = False
            self._owner.hold(self.subscription.id, None)

    def end(self) -> None:
        """Delivers nothing any more: the subscription is gone, or another notifier has it."""
        self._has_ended = True
        while self._items:
            self._end_item(self._items.popleft())
        self.abandon()

    def abandon(self) -> int:
        """Forgets what it has, for another notifier; returns how much that was."""
        if self._timer is not None:
            self._timer.cancel()
        number = len(self._items)
        self._held -= number
        self._held_bytes -= sum(item.size for item in self._items)
        self._items.clear()
        return number

    def _pump_soon(self) -> None:
        """Begins attempts when all that is offered at once is there: it goes in one batch."""
        if not self._pumps_soon:
            self._pumps_soon = True
            asyncio.get_running_loop().call_soon(self._pump_offered)

    def _pump_offered(self) -> None:
        self._pumps_soon = False
        self.pump()

    def pump(self) -> None:
        """Begins attempts, as many as may be under way."""
        if self._timer is not None:
            self._timer.cancel()  # each that is left would set another one
            self._timer = None
        while self._items and self._running < self._limit and self._owner.may_begin(self):
            if wait := self._pace.wait():
                self._timer = asyncio.get_running_loop().call_later(wait, self.pump)
                return
            chunk = self._next_chunk()
            if chunk:
                self._running += 1
                self._owner.begin(self._attempt(chunk), internal=self._target.internal)

    @property
    def _limit(self) -> int:
        """Attempts that may be under way."""
        return 1 if self._in_order or not self.circuit.is_closed else self.options.concurrency

    def _next_chunk(self) -> list[Item]:
        """Removes what goes into one attempt; nothing when it has expired."""
        items, now = self._items, self._owner.now()
        chunk: list[Item] = []
        while items and len(chunk) < self._batch:
            single = items[0].is_single
            if chunk and (single or items[0].epoch != chunk[0].epoch):
                break
            item = items.popleft()
            if item.expires <= now:
                self._give_up(item, Result(Outcome.REFUSED, "it expired before it was delivered"))
                continue
            chunk.append(item)
            if single:
                break
        self._pace.note(len(chunk))
        return chunk

    async def _attempt(self, chunk: Sequence[Item]) -> None:
        # A task for each attempt would take a tenth of its time.
        while chunk:
            subscription = self.subscription
            result = await attempt(self._target, self._delivery(chunk))
            try:
                await self._settle(chunk, result, subscription)
            finally:
                self._running -= 1
            chunk = self._following_chunk()
            self.pump()

    def _following_chunk(self) -> Sequence[Item]:
        """Returns what a task goes on with; nothing: its turn is over."""
        if self._running >= self._limit or not self._owner.may_go_on(self) or self._pace.wait():
            return ()
        chunk = self._next_chunk()
        self._running += bool(chunk)
        return chunk

    def _delivery(self, chunk: Sequence[Item]) -> Delivery:
        first = chunk[0]
        subscription = self.subscription
        return Delivery(
            self._owner.project,
            self._owner.queue,
            subscription,
            self.options,
            [item.message for item in chunk if item.message is not None],
            [item.stored.message for item in chunk if item.stored is not None],
            first.epoch,
            first.notice,
            f"{subscription.id}.{delivery_name(chunk)}",
            first.is_replayed,
        )

    async def _settle(
        self, chunk: Sequence[Item], result: Result, subscription: Subscription
    ) -> None:
        """*subscription*: as it was when the attempt began."""
        if result.outcome is Outcome.DELIVERED:
            if self.circuit.record_success():
                LOG.info("the endpoint answers again", extra=self._about("circuit_closed"))
            for item in chunk:
                self._end_item(item)
            self._owner.count(self.subscription.id, DeliveryCount(delivered=len(chunk)))
            metrics.NOTIFIED.add(self._scheme, by=len(chunk))
        elif self._has_ended:
            for item in chunk:
                self._end_item(item)
        elif result.outcome is Outcome.GONE:
            if await self._owner.end_subscription(subscription):
                self.end()
                for item in chunk:
                    self._end_item(item)
            else:
                self._retry(chunk, result)
        elif result.outcome is Outcome.REFUSED and len(chunk) > 1:
            for item in chunk:
                item.alone = True
            self._put_back(chunk)
        elif result.outcome is Outcome.REFUSED:
            self._give_up(chunk[0], result)
        else:
            self._retry(chunk, result)

    def _retry(self, chunk: Sequence[Item], result: Result) -> None:
        self._owner.count(
            self.subscription.id,
            DeliveryCount(retried=len(chunk), error=result.error, status=result.status),
        )
        again: list[Item] = []
        latest = 0.0
        for item in chunk:
            item.attempts += 1
            delay = self._delay(item, result)
            if delay is None:
                self._give_up(item, result)
            elif delay == 0:
                again.append(item)
            else:
                latest = max(latest, delay)
                due = None if self._in_order else self._owner.now() + round(delay * 1000)
                self._put_off(item, due, result)
        self._put_back(again)
        # Attempts that were under way when it opened say nothing new.
        pause = 0.0 if self.state is LaneState.HELD else self.circuit.record_failure()
        if pause:
            metrics.CIRCUITS_OPENED.add(self._scheme)
            LOG.warning(
                "the endpoint fails: no attempt is made for %.0f s",
                pause,
                extra=self._about("circuit_opened") | {"error": result.error},
            )
        if (pause or (latest and self._in_order)) and not self.subscription.paused:
            self._hold(self._owner.now() + round(max(pause, latest) * 1000))

    def _put_back(self, items: Sequence[Item]) -> None:
        """Has items tried next; or, when the lane is held, with all that waits."""
        if self.state is LaneState.HELD:
            for item in items:
                self._put_off(item, None)
        else:
            self._items.extendleft(reversed(items))

    def _delay(self, item: Item, result: Result) -> float | None:
        """Returns the seconds until the next attempt; None: there is none."""
        if not self._target.internal:
            return schedule.delay(self._policy, item.attempts, result.retry_after)
        doubled: float = _INTERNAL_RETRY_SECONDS * 2 ** min(item.attempts - 1, 8)
        return min(_INTERNAL_RETRY_MAX_SECONDS, doubled)

    def _hold(self, until: int | None) -> None:
        """Delivers nothing until that time of the store; None: until it is resumed."""
        self.state, self._is_due = LaneState.HELD, until is not None
        self._owner.hold(self.subscription.id, until)
        while self._items:
            self._put_off(self._items.popleft(), None)

    def _put_off(self, item: Item, due: int | None, result: Result | None = None) -> None:
        """Stores an item, to be tried at a time; None: with all that waits."""
        base = item.pending or item.new_pending(self.subscription.id)
        changes: dict[str, Any] = {"attempts": item.attempts, "due": due}
        if result is not None:
            changes |= {"status": result.status, "error": result.error}
        self._owner.store(msgspec.structs.replace(base, **changes), failed=False)
        self.backlog.put_back(base.id)
        item.pending = None  # it stays
        self._end_item(item)
        self._end_hold()

    def _give_up(self, item: Item, result: Result) -> None:
        LOG.info(
            "a delivery is given up",
            extra=self._about("delivery_given_up") | {"error": result.error},
        )
        if item.stored is None or item.expires <= self._owner.now():
            self._count_failed(result)
            self._end_item(item)
        elif self.options.dead_letter_queue:
            self._running += 1
            self._owner.begin(self._dead_letter(item, item.stored.message, result), internal=True)
        else:
            self._keep_failed(item, result)

    def _count_failed(self, result: Result) -> None:
        count = DeliveryCount(failed=1, error=result.error, status=result.status)
        self._owner.count(self.subscription.id, count)

    def _keep_failed(self, item: Item, result: Result) -> None:
        self._count_failed(result)
        pending = item.new_pending(self.subscription.id, result.status, result.error)
        self._owner.store(pending, failed=True)
        item.pending = None  # it stays, as one that failed
        self._end_item(item)

    async def _dead_letter(self, item: Item, message: Message, result: Result) -> None:
        try:
            await self._owner.dead_letter(self, message, result)
        except errors.Unavailable:  # given up again later
            if self._in_order and self.state is not LaneState.HELD:
                self._items.appendleft(item)
                self._hold(self._owner.now() + _DEAD_LETTER_PAUSE_MS)
            else:
                due = None if self._in_order else self._owner.now() + _DEAD_LETTER_PAUSE_MS
                self._put_off(item, due)
        except Exception as problem:
            LOG.warning(
                "the dead-letter queue of a subscription takes nothing",
                extra=self._about("dead_letter_failed") | {"error": errors.reason(problem)},
            )
            self._keep_failed(item, result)
        else:
            self._count_failed(result)
            self._end_item(item)
        self._running -= 1
        self.pump()

    def _about(self, action: str) -> dict[str, str]:
        return {
            "action": action,
            "project": self._owner.project,
            "queue": self._owner.queue,
            "subscription": self.subscription.id,
        }
