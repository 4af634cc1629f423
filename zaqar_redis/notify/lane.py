# SPDX-License-Identifier: Apache-2.0
"""The deliveries of one source to one subscription, as its notifier makes them.

A lane has a bounded number of messages in memory.  What is too much, and what has to wait, is
stored as pending and read again: so a subscriber that is slow, or away, delays no other, and costs
no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from zaqar_redis import errors
from zaqar_redis.notify.attempt import LaneAttempts, attempt
from zaqar_redis.notify.backlog import Backlog
from zaqar_redis.notify.circuit import Circuit
from zaqar_redis.notify.held_items import HeldItems
from zaqar_redis.notify.items import Item, delivery_of
from zaqar_redis.notify.lane_context import LaneContext, LaneSettings
from zaqar_redis.notify.lane_reports import LaneReports
from zaqar_redis.notify.states import LANE_TRANSITIONS, LaneEvent, LaneState
from zaqar_redis.notify.target import Outcome, Result
from zaqar_redis.records import Message, Subscription
from zaqar_redis.storage.deliveries import PendingDelivery

#: Milliseconds until a dead letter is posted again to a store that was away.
_DEAD_LETTER_PAUSE_MS = 1000


class Lane:
    def __init__(
        self,
        context: LaneContext,
        settings: LaneSettings,
        circuit: Circuit,
        read_backlog: Callable[[Lane], None],
        *,
        waits: bool,
    ) -> None:
        """*read_backlog* reads what waits for a lane, as long as it is catching up.

        *waits*: another notifier has stored some: the store says when these are due.
        """
        self.project = context.leased.project
        self._context = context
        self.settings = settings
        self._read_backlog = read_backlog
        self.circuit = circuit
        in_flight = context.in_flight
        self._items = HeldItems(in_flight, self.items_max)
        #: items of attempts
        self._under_way: dict[Item, None] = {}
        #: it waits until the process may make another attempt
        self.waits = False
        subscription = settings.subscription
        self.backlog = Backlog(subscription.id, in_flight, context.settlement)
        self.state = LaneState.HELD if waits or subscription.paused else LaneState.FLOWING
        names = self.project, context.leased.queue
        self._reports = LaneReports(names, subscription, context.settlement, context.failures)
        self._attempts = LaneAttempts(self, context.slots, context.watch, settings.options.rate)

    def adopt(self, settings: LaneSettings) -> None:
        """Goes on with the subscription as it is now; what it has goes to a new subscriber."""
        before, self.settings = self.settings, settings
        subscription = settings.subscription
        is_another = subscription.subscriber != before.subscription.subscriber
        if is_another:
            self.circuit = Circuit()
        self._reports.set_subscription(subscription)
        self._attempts.set_rate(settings.options.rate)
        if subscription.paused:
            self._hold(None)
        elif is_another or settings.is_in_order > before.is_in_order:
            self._hold(self._now())  # all that it has, and what waits, goes in order
        elif before.subscription.paused:
            self.catch_up()

    # -- what it is ------------------------------------------------------------------------------

    @property
    def is_internal(self) -> bool:
        return self.settings.target.internal

    @property
    def has_items(self) -> bool:
        return bool(self._items) and self.state is not LaneState.HANDED_OVER

    @property
    def is_half_full(self) -> bool:
        """Whether it has enough to do while more is read."""
        return self._items.is_half_full

    @property
    def wants_more(self) -> bool:
        """Whether waiting deliveries are to be read."""
        return self.state is LaneState.CATCHING_UP and not self.is_half_full

    def items_max(self) -> int:
        """Returns how many messages it may have."""
        return self._context.in_flight.items_max(internal=self.is_internal)

    @property
    def attempts_max(self) -> int:
        if self.settings.is_in_order or not self.circuit.is_closed:
            return 1
        return self.settings.options.concurrency

    def _now(self) -> int:
        return self._context.clock.now()

    def _change(self, event: LaneEvent) -> None:
        self.state = LANE_TRANSITIONS[self.state][event]

    # -- what it is offered ------------------------------------------------------------------------

    def offer(self, items: Sequence[Item]) -> None:
        """Takes new messages, at least one."""
        if len(items) > 1 and not self._items.has_room(items):
            for item in items:
                self.offer([item])
            return
        fits = self.state is LaneState.FLOWING and self._items.has_room(items)
        self._items.take(items)
        if self.state is LaneState.ENDED:
            self._end_items(items)
        elif fits:
            self._items.append(items)
            self._attempts.pump_soon()
        else:
            for item in items:
                self._put_behind(item)

    def offer_pending(self, item: Item, pending: PendingDelivery, *, is_asked: bool) -> None:
        """Takes a delivery that is due, unless it has it already, or comes to it.

        *is_asked*: it is of the backlog, and `wants_more` has asked for it.
        """
        if self.state is LaneState.ENDED:
            self._items.take([item])
            self._items.end(item)
            return
        comes_to_it = self.settings.is_in_order and self.state is LaneState.CATCHING_UP
        if comes_to_it and not (is_asked or item.notice):
            return
        if self.backlog.has(pending.id):
            return  # what is about to be stored is read as it will be
        fits = self.state is not LaneState.HELD and (is_asked or self._items.has_room([item]))
        self._items.take([item])
        if fits or item.notice:
            self.backlog.take(pending.id)
            self._items.append([item])
            self._attempts.pump_soon()
        else:
            self._put_behind(item)

    def _put_behind(self, item: Item) -> None:
        """Stores an item behind what waits, to be read when there is room."""
        if self.state is LaneState.FLOWING:
            self._change(LaneEvent.OVERFLOW)
            self._begin_backlog()
            self.backlog.tell_due(self._now())
        self._put_off(item, None)

    # -- what waits in the store -------------------------------------------------------------------

    def forget(self, id: str) -> None:
        """Takes a pending delivery when it is read again: the store knows what became of it."""
        self.backlog.forget(id)
        self._end_hold()

    def catch_up(self) -> None:
        """Delivers what waits; for a lane that was held, or has something to replay."""
        if self.settings.subscription.paused:
            self.backlog.tell_due(None)
            return
        before = self.state
        self._change(LaneEvent.WAKE)
        if before is LaneState.CATCHING_UP:
            self.backlog.begin_again()
        elif self.state is LaneState.CATCHING_UP:
            self._begin_backlog()
            self.pump()

    def _begin_backlog(self) -> None:
        self.backlog.begin()
        self._read_backlog(self)

    def end_backlog(self) -> None:
        """Goes on with what comes, unless something was added to what waits."""
        if self.backlog.end():
            self._change(LaneEvent.DRAIN)
            self._end_hold()

    def _end_hold(self) -> None:
        if self.state is LaneState.FLOWING:
            self.backlog.end_due()

    def _hold(self, until: int | None) -> None:
        """Delivers nothing until that time of the store; None: until it is resumed."""
        self._change(LaneEvent.HOLD)
        self._put_all_off(until)

    def _put_all_off(self, until: int | None) -> None:
        self.backlog.tell_due(until)
        while self._items:
            self._put_off(self._items.pop(), None)

    def _put_off(self, item: Item, due: int | None, result: Result | None = None) -> None:
        """Has the store keep an item until it is due; None: with all that waits."""
        self.backlog.put_off(item, due, result)
        self._items.end(item)
        self._end_hold()

    def store_held(self, time: float) -> None:
        """Stores what is under way, and what waits for its turn, if that came until *time* of the
        event loop.

        Other subscribers would else get it again after this process was killed.
        """
        old = [item for item in self._under_way if item.began <= time]
        self.backlog.store_under_way(old, None)
        is_open = self.state in (LaneState.FLOWING, LaneState.CATCHING_UP)
        if is_open and (old or self._items.has_waited_since(time)):
            self._hold(self._now())

    # -- how it ends -------------------------------------------------------------------------------

    def stop(self) -> None:
        """Begins no attempt any more, and stores what waits, for another notifier."""
        self._attempts.stop()
        if self._items:
            self._hold(self._now())

    def hand_over(self, until: int) -> None:
        """Stores what is under way, too: another notifier makes it at that time of the store,
        unless it is settled as made before."""
        before = self.state
        self._change(LaneEvent.HAND_OVER)
        self._attempts.stop()
        is_in_order = self.settings.is_in_order
        self.backlog.store_under_way(self._under_way, None if is_in_order else until)
        if self.settings.subscription.paused or self.state is LaneState.ENDED:
            return
        if is_in_order and self._under_way:
            self._put_all_off(until)
        elif self._items or (self.backlog.is_due and before is not LaneState.HELD):
            self._put_all_off(self._now())

    def end(self) -> None:
        """Delivers nothing any more: the subscription is gone, or another notifier has it."""
        self._change(LaneEvent.END)
        while self._items:
            self._items.end(self._items.pop())
        self._attempts.stop()

    def _end_items(self, items: Iterable[Item]) -> None:
        for item in items:
            self._items.end(item)

    # -- its attempts ------------------------------------------------------------------------------

    def pump(self) -> None:
        self._attempts.pump()

    def next_chunk(self) -> Sequence[Item]:
        chunk: Sequence[Item] = ()
        while self.has_items and not chunk:
            chunk, expired = self._items.next_chunk(self.settings.batch, self._now())
            for item in expired:
                self._reports.expired(item)
            self._end_items(expired)
        return chunk

    async def attempt(self, chunk: Sequence[Item]) -> None:
        """Attempts to deliver these items, and settles how that went."""
        subscription = self.settings.subscription
        source = self.project, self._context.leased.queue
        delivery = delivery_of(chunk, source, subscription, self.settings.options)
        self._under_way.update(dict.fromkeys(chunk))
        result = await attempt(self.settings.target, delivery)
        for item in chunk:
            self._under_way.pop(item, None)
        if result.outcome is Outcome.DELIVERED:
            self._settle_delivered(chunk, subscription)
        else:
            await self._settle_failed(chunk, result, subscription)

    def _settle_delivered(self, chunk: Sequence[Item], subscription: Subscription) -> None:
        """*subscription*: as it was when the attempt began."""
        has_recovered = self.circuit.record_success()
        if self.state is LaneState.HANDED_OVER:
            stored = [item.pending.id for item in chunk if item.pending is not None]
            self._context.made_late.extend(stored)
        self._end_items(chunk)
        self._reports.delivered(chunk, subscription, has_recovered=has_recovered)

    async def _settle_failed(
        self, chunk: Sequence[Item], result: Result, subscription: Subscription
    ) -> None:
        is_gone = (
            result.outcome is Outcome.GONE
            and self.state not in (LaneState.HANDED_OVER, LaneState.ENDED)
            and await self._context.leased.end_subscription(subscription)
        )
        if self.state is LaneState.HANDED_OVER:
            return  # another notifier makes it
        if is_gone and self.state is not LaneState.ENDED:  # by another attempt
            self._reports.subscription_gone()
            self.end()
        if self.state is LaneState.ENDED:
            self._end_items(chunk)
        elif result.outcome is Outcome.REFUSED and len(chunk) > 1:
            for item in chunk:
                item.alone = True
            self._put_back(chunk)
        elif result.outcome is Outcome.REFUSED:
            self._give_up(chunk[0], result)
        else:
            self._retry(chunk, result)

    def _retry(self, chunk: Sequence[Item], result: Result) -> None:
        self._reports.failed(chunk, result)
        is_in_order = self.settings.is_in_order
        again: list[Item] = []
        latest = 0.0
        for item in chunk:
            item.attempts += 1
            delay = self.settings.delay(item.attempts, result)
            if delay is None:
                self._give_up(item, result)
            elif delay == 0:
                again.append(item)
            else:
                latest = max(latest, delay)
                due = None if is_in_order else self._now() + round(delay * 1000)
                self._put_off(item, due, result)
        self._put_back(again)
        # Attempts that were under way when it opened say nothing new.
        was_closed = self.circuit.is_closed
        pause = 0.0 if self.state is LaneState.HELD else self.circuit.record_failure()
        if pause:
            self._reports.circuit_opened(pause, result.error, is_first=was_closed)
        if (pause or (latest and is_in_order)) and not self.settings.subscription.paused:
            self._hold(self._now() + round(max(pause, latest) * 1000))

    def _put_back(self, items: Sequence[Item]) -> None:
        """Has items tried next; or, when the lane is held, with all that waits."""
        if self.state is LaneState.HELD:
            for item in items:
                self._put_off(item, None)
        else:
            self._items.put_first(items)

    def _give_up(self, item: Item, result: Result) -> None:
        self._reports.given_up(item, result)
        if item.stored is None or item.expires <= self._now():
            self._reports.lost(item, result)
            self._items.end(item)
        elif self.settings.options.dead_letter_queue:
            self._attempts.begin(self._dead_letter(item, item.stored.message, result))
        else:
            self._keep_failed(item, result)

    def _keep_failed(self, item: Item, result: Result) -> None:
        self._reports.lost(item, result)
        self.backlog.keep_failed(item, result)
        self._items.end(item)

    async def _dead_letter(self, item: Item, message: Message, result: Result) -> None:
        letters, queue = self._context.dead_letters, self.settings.options.dead_letter_queue
        try:
            await letters.post(self.settings.subscription.id, queue, message, result)
        except errors.Unavailable:  # given up again later
            self._give_up_later(item)
        except Exception as problem:
            self._reports.dead_letter_refused(errors.reason(problem))
            self._keep_failed(item, result)
        else:
            self._reports.lost(item, result)
            self._items.end(item)

    def _give_up_later(self, item: Item) -> None:
        later = self._now() + _DEAD_LETTER_PAUSE_MS
        if self.state is LaneState.HANDED_OVER:
            return  # another notifier makes it
        if self.state is LaneState.ENDED:
            self._items.end(item)
        elif not self.settings.is_in_order:
            self._put_off(item, later)
        elif self.state is LaneState.HELD:
            self._put_off(item, None)
        else:
            self._items.put_first([item])
            self._hold(later)
