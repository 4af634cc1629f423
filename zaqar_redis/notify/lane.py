# SPDX-License-Identifier: Apache-2.0
"""The deliveries of one source to one subscription, as its notifier makes them.

A lane has a bounded number of messages in memory.  What is too much, and what has to wait, is
stored as pending and read again: so a subscriber that is slow, or away, delays no other, and costs
no memory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Any

import msgspec

from zaqar_redis import errors
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.notify import schedule
from zaqar_redis.notify.attempt import LaneAttempts, attempt
from zaqar_redis.notify.backlog import Backlog
from zaqar_redis.notify.circuit import LONGEST_PAUSE_SECONDS, Circuit
from zaqar_redis.notify.held_items import HeldItems
from zaqar_redis.notify.items import Item, delivery_of
from zaqar_redis.notify.owner import LaneOwner
from zaqar_redis.notify.target import Outcome, Result, Target
from zaqar_redis.records import Message, Subscription
from zaqar_redis.retry_policies import DeliveryRetryPolicy
from zaqar_redis.service.subscription_options import SubscriptionOptions
from zaqar_redis.storage.deliveries import DeliveryCount, PendingDelivery

LOG = logging.getLogger(__name__)

#: Pending deliveries that are read at once.
_PAGE = 200
#: Messages in one delivery to a store: a millisecond or so of its time.
_INTERNAL_BATCH = 100
#: Milliseconds until a dead letter is posted again to a store that was away.
_DEAD_LETTER_PAUSE_MS = 1000


def _messages(items: Sequence[Item]) -> int:
    """Returns how many are messages, which a subscription's state counts, and not notices."""
    return sum(item.stored is not None for item in items)


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
        self._items = HeldItems(self._items_max, owner.bytes_max)
        #: it waits until the process may make another attempt
        self.waits = False
        self.backlog = Backlog()
        #: the store knows when what waits is due
        self._is_due = False
        self.state = LaneState.FLOWING
        self._has_ended = False
        #: another notifier makes what is under way, if it fails
        self._is_handed_over = False
        #: items of attempts
        self._under_way: dict[Item, None] = {}
        self.circuit = Circuit()
        self._attempts = LaneAttempts(self, owner, options.rate)
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
        self._attempts.set_rate(options.rate)
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
    def project(self) -> str:
        return self._owner.project

    @property
    def is_internal(self) -> bool:
        return self._target.internal

    @property
    def has_items(self) -> bool:
        """Whether some wait for their turn."""
        return bool(self._items)

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
        return self._items.is_half_full

    @property
    def is_catching_up(self) -> bool:
        return self.state is LaneState.CATCHING_UP

    @property
    def page(self) -> int:
        """How many waiting deliveries are to be read at once."""
        return min(_PAGE, self._items_max())

    def _items_max(self) -> int:
        return self._owner.items_max(internal=self._target.internal)

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
        if len(items) > 1 and not self._items.has_room(items):
            for item in items:
                self.offer([item])
            return
        fits = self.state is LaneState.FLOWING and self._items.has_room(items)
        self._items.take(items)
        if self._has_ended:
            self._end_items(items)
        elif fits:
            self._items.append(items)
            self._attempts.pump_soon()
        else:
            for item in items:
                self._put_behind(item)

    def offer_due(self, item: Item, pending: PendingDelivery) -> bool:
        """Takes a delivery that is due; returns False when it has it already, or comes to it."""
        if self._in_order and self.is_catching_up and not item.notice:
            return False
        fits = self.state is not LaneState.HELD and self._items.has_room([item])
        return self._offer_pending(item, pending, fits=fits)

    def offer_waiting(self, item: Item, pending: PendingDelivery) -> bool:
        """Takes a delivery of its backlog, as `offer_due` does: `wants_more` has asked for it."""
        return self._offer_pending(item, pending, fits=self.state is not LaneState.HELD)

    def _offer_pending(self, item: Item, pending: PendingDelivery, *, fits: bool) -> bool:
        if self.backlog.has(pending.id) and not self._has_ended:
            return False  # what is about to be stored is read as it will be
        self._items.take([item])
        if self._has_ended:
            self._end_items([item])
        elif fits or item.notice:
            self.backlog.take(pending.id)
            self._items.append([item])
            self._attempts.pump_soon()
        else:
            self._put_behind(item)
        return True

    def _put_behind(self, item: Item) -> None:
        """Stores an item behind what waits, to be read when there is room."""
        if self.state is LaneState.FLOWING:
            self._begin_backlog()
            self._owner.hold(self.subscription.id, self._owner.now())
        self._put_off(item, None)

    def _end_items(self, items: Sequence[Item]) -> None:
        for item in items:
            self._items.end(item)
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
            self._end_items([self._items.pop()])
        self._attempts.stop()

    def store_held(self, time: float) -> None:
        """Stores what is under way, and what waits for its turn, if that came until *time* of the
        event loop.

        Other subscribers would else get it again after this process was killed.
        """
        old = [item for item in self._under_way if item.began <= time]
        self._store_under_way(old, None)
        if self.state is not LaneState.HELD and (old or self._items.has_waited_since(time)):
            self._hold(self._owner.now())

    def stop(self) -> None:
        """Begins no attempt any more, and stores what waits, for another notifier."""
        self._attempts.stop()
        if self._items:
            self._hold(self._owner.now())

    def hand_over(self, until: int) -> None:
        """Stores what is under way, too: another notifier makes it at that time of the store,
        unless it is settled as made before."""
        self._is_handed_over = True
        self._attempts.stop()
        self._store_under_way(self._under_way, None if self._in_order else until)
        if self.subscription.paused:
            return
        if self._in_order and self._under_way:
            self._hold(until)
        elif self._items or (self._is_due and self.state is not LaneState.HELD):
            self._hold(self._owner.now())

    def _store_under_way(self, items: Iterable[Item], due: int | None) -> None:
        for item in items:
            base = item.pending or item.new_pending(self.subscription.id)
            pending = msgspec.structs.replace(base, attempts=item.attempts, due=due)
            self.backlog.take(pending.id)
            self._owner.store_under_way(item, pending)

    def pump(self) -> None:
        """Begins attempts, as many as may be under way."""
        self._attempts.pump()

    @property
    def attempts_max(self) -> int:
        """How many may be under way."""
        return 1 if self._in_order or not self.circuit.is_closed else self.options.concurrency

    def next_chunk(self) -> Sequence[Item]:
        """Removes what goes into one attempt; nothing: nothing waits for its turn."""
        chunk: Sequence[Item] = ()
        while self._items and not chunk and not self._is_handed_over:
            chunk, expired = self._items.next_chunk(self._batch, self._owner.now())
            for item in expired:
                self._expire(item)
        return chunk

    async def attempt(self, chunk: Sequence[Item]) -> None:
        """Attempts to deliver these items, and settles how that went."""
        subscription = self.subscription
        source = self._owner.project, self._owner.queue
        delivery = delivery_of(chunk, source, subscription, self.options)
        self._under_way.update(dict.fromkeys(chunk))
        result = await attempt(self._target, delivery)
        for item in chunk:
            self._under_way.pop(item, None)
        await self._settle(chunk, result, subscription)

    async def _settle(
        self, chunk: Sequence[Item], result: Result, subscription: Subscription
    ) -> None:
        """*subscription*: as it was when the attempt began."""
        if result.outcome is Outcome.DELIVERED:
            if self.circuit.record_success():
                LOG.info("the endpoint answers again", extra=self._about("circuit_closed"))
            given_up = self._owner.failures.end(subscription)
            if given_up:
                LOG.info(
                    "messages are delivered again; %d had been given up",
                    given_up,
                    extra=self._about("deliveries_resumed"),
                )
            if self._is_handed_over:
                self._owner.note_made_late(chunk)
            self._end_items(chunk)
            self._owner.count(self.subscription.id, DeliveryCount(delivered=_messages(chunk)))
            metrics.NOTIFIED.add(self._scheme, by=len(chunk))
        elif self._is_handed_over:
            pass
        elif self._has_ended:
            self._end_items(chunk)
        elif result.outcome is Outcome.GONE:
            if await self._owner.end_subscription(subscription):
                if not self._has_ended:  # by another attempt
                    LOG.warning(
                        "a subscription ends: its endpoint is gone",
                        extra=self._about("subscription_gone"),
                    )
                self.end()
                self._end_items(chunk)
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
        messages = _messages(chunk)
        self._owner.count(
            self.subscription.id,
            DeliveryCount(retried=messages, error=result.error, status=result.status),
        )
        if messages:
            self._owner.failures.note(self.subscription, result.error)
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
        was_closed = self.circuit.is_closed
        pause = 0.0 if self.state is LaneState.HELD else self.circuit.record_failure()
        if pause:
            if was_closed:
                metrics.CIRCUITS_OPENED.add(self._scheme)
            LOG.log(
                logging.WARNING if was_closed else logging.DEBUG,  # one line for all probes
                "the endpoint fails: no attempt is made for %.0f s, then single ones after pauses "
                "of up to %.0f s",
                pause,
                LONGEST_PAUSE_SECONDS,
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
            self._items.put_first(items)

    def _delay(self, item: Item, result: Result) -> float | None:
        """Returns the seconds until the next attempt; None: there is none."""
        if not self._target.internal:
            return schedule.delay(self._policy, item.attempts, result.retry_after)
        return schedule.internal_delay(item.attempts)

    def _hold(self, until: int | None) -> None:
        """Delivers nothing until that time of the store; None: until it is resumed."""
        self.state, self._is_due = LaneState.HELD, until is not None
        self._owner.hold(self.subscription.id, until)
        while self._items:
            self._put_off(self._items.pop(), None)

    def _put_off(self, item: Item, due: int | None, result: Result | None = None) -> None:
        """Stores an item, to be tried at a time; None: with all that waits."""
        base = item.pending or item.new_pending(self.subscription.id)
        changes: dict[str, Any] = {"attempts": item.attempts, "due": due}
        if result is not None:
            changes |= {"status": result.status, "error": result.error}
        self._owner.store(msgspec.structs.replace(base, **changes), failed=False)
        self.backlog.put_back(base.id)
        item.pending = None  # it stays
        self._end_items([item])
        self._end_hold()

    def _expire(self, item: Item) -> None:
        reason = "it expired before it was delivered"
        if item.stored is not None:
            last = self._owner.failures.last_error(self.subscription)
            self._tell_given_up(f"{reason}; the last attempt: {last}" if last else reason)
            self._count_failed(item, None)
        else:
            self._count_failed(item, Result(Outcome.REFUSED, reason))
        self._end_items([item])

    def _tell_given_up(self, error: str) -> None:
        if self._owner.failures.note_given_up(self.subscription):
            LOG.warning(
                "a message is given up; those that follow have no line until one is delivered",
                extra=self._about("delivery_given_up") | {"error": error},
            )

    def _give_up(self, item: Item, result: Result) -> None:
        if item.stored is not None:
            self._owner.failures.note(self.subscription, result.error)
            self._tell_given_up(result.error)
        if item.stored is None or item.expires <= self._owner.now():
            self._count_failed(item, result)
            self._end_items([item])
        elif self.options.dead_letter_queue:
            self._attempts.begin(self._dead_letter(item, item.stored.message, result))
        else:
            self._keep_failed(item, result)

    def _count_failed(self, item: Item, result: Result | None) -> None:
        """*result*: None: no attempt was made, since it has expired."""
        failed = _messages([item])
        metrics.GIVEN_UP.add(self._scheme, by=failed)
        count = DeliveryCount(failed=failed)
        if result is not None:
            count = DeliveryCount(failed=failed, error=result.error, status=result.status)
        self._owner.count(self.subscription.id, count)

    def _keep_failed(self, item: Item, result: Result) -> None:
        self._count_failed(item, result)
        pending = item.new_pending(self.subscription.id, result.status, result.error)
        self._owner.store(pending, failed=True)
        item.pending = None  # it stays, as one that failed
        self._end_items([item])

    async def _dead_letter(self, item: Item, message: Message, result: Result) -> None:
        try:
            await self._owner.dead_letter(self, message, result)
        except errors.Unavailable:  # given up again later
            if self._in_order and self.state is not LaneState.HELD:
                self._items.put_first([item])
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
            self._count_failed(item, result)
            self._end_items([item])

    def _about(self, action: str) -> dict[str, str]:
        return {
            "action": action,
            "project": self._owner.project,
            "queue": self._owner.queue,
            "subscription": self.subscription.id,
        }
