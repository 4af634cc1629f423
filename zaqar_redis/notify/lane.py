# SPDX-License-Identifier: Apache-2.0
"""The deliveries of one source to one subscription, as its notifier makes them.

A lane has a bounded number of messages in memory.  What is too much, and what has to wait, is
stored as pending and read again: so a subscriber that is slow, or away, delays no other, and costs
no memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Coroutine, Sequence
from enum import Enum, auto
from time import perf_counter_ns
from typing import Any, Protocol

import msgspec

from zaqar_redis import errors
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.notify import schedule
from zaqar_redis.notify.circuit import Circuit
from zaqar_redis.notify.target import Delivery, Outcome, Result, Target
from zaqar_redis.records import Message, Subscription
from zaqar_redis.retry_policies import DeliveryRetryPolicy
from zaqar_redis.service.subscription_options import SubscriptionOptions
from zaqar_redis.storage.deliveries import DeliveryCount, EnteredMessage, PendingDelivery

LOG = logging.getLogger(__name__)

#: Pending deliveries that are read at once.
_PAGE = 200
#: Seconds beyond an attempt's time-out after which its target is broken: they end it themselves.
_TIMEOUT_GRACE_SECONDS = 5.0
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


class EntryWork:
    """An entry, and how many deliveries of it are not made yet."""

    __slots__ = ("id", "left")

    def __init__(self, id: bytes) -> None:
        self.id = id
        self.left = 0


class Item:
    """A message, or a notice, on its way to the subscriber."""

    __slots__ = ("alone", "attempts", "entry", "epoch", "message", "pending", "stored")

    def __init__(
        self,
        epoch: str,
        stored: EnteredMessage | None,
        message: Message | None,
        entry: EntryWork | None = None,
        pending: PendingDelivery | None = None,
    ) -> None:
        """*message* is *stored*, decrypted; *entry* or *pending* says where it comes from."""
        self.epoch = epoch
        self.stored = stored
        self.message = message
        self.entry = entry
        self.pending = pending
        self.attempts = pending.attempts if pending is not None else 0
        #: it was refused together with others, and is tried by itself
        self.alone = False

    @property
    def key(self) -> str:
        if self.pending is not None:
            return self.pending.key
        return f"{self.stored.message.rank:016d}" if self.stored is not None else ""

    @property
    def expires(self) -> int:
        if self.stored is not None:
            return self.stored.message.expires
        return self.pending.expires if self.pending is not None else 0

    @property
    def notice(self) -> bytes:
        return self.pending.notice if self.pending is not None else b""

    @property
    def is_replayed(self) -> bool:
        return self.pending is not None and self.pending.replayed


class LaneOwner(Protocol):
    """What a lane needs of the source that it belongs to."""

    project: str
    queue: str

    def now(self) -> int:
        """Returns the store's time, ms."""

    def begin(self, attempt: Coroutine[Any, Any, None], *, internal: bool) -> None:
        """Runs an attempt."""

    def may_begin(self, lane: Lane) -> bool:
        """Returns whether the process may make another attempt now; else `Lane.pump` is called."""

    def end_item(self, item: Item) -> None:
        """Notes that a delivery was made, was stored as pending, or needs not be made."""

    def store(self, pending: PendingDelivery, *, failed: bool) -> None:
        """Stores a pending delivery with the next step."""

    def hold(self, subscription: str, until: int | None) -> None:
        """Notes when what waits for a subscription is due; None: nothing waits."""

    def count(self, subscription: str, count: DeliveryCount) -> None: ...

    def read_backlog(self, lane: Lane) -> None:
        """Reads what waits for a lane, as long as it is catching up."""

    async def dead_letter(self, lane: Lane, item: Item, result: Result) -> None:
        """Posts a message that was given up to the dead-letter queue.  Raises Unavailable."""

    async def end_subscription(self, subscription: Subscription) -> bool:
        """Ends it, unless it has another subscriber meanwhile; returns whether it has ended."""

    def items_max(self, *, internal: bool) -> int:
        """Returns how many messages a lane may have in memory."""


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
        #: ids of pending deliveries that it has, or that the store does not know to be done
        self._read: set[str] = set()
        #: id of the pending delivery that was read last
        self.position = ""
        #: ids of pending deliveries that the store has not got yet, or as they were before
        self._unstored: set[str] = set()
        #: the store knows when what waits is due
        self._is_due = False
        self.state = LaneState.FLOWING
        #: something was added before the position meanwhile
        self._reads_again = False
        self._has_ended = False
        self._circuit = Circuit()
        #: event loop's time when the next message may be sent, by the rate
        self._next_send = 0.0
        self._timer: asyncio.TimerHandle | None = None
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
        was_paused = self.subscription.paused
        if subscription.subscriber != self.subscription.subscriber:
            self._circuit = Circuit()
        self.subscription, self.options, self._policy = subscription, options, policy
        self._set_target(target)
        if subscription.paused:
            self._hold(None)
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
        return self.is_catching_up and len(self._items) <= self._items_max // 2

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

    def wait(self) -> None:
        """Goes behind what another notifier has stored: the store says when that is due."""
        self.state = LaneState.HELD

    @property
    def first_unstored(self) -> str | None:
        """The first pending delivery that the store has not got yet; None: it has all.

        Those behind it are not read before it: they would be delivered before it.
        """
        return min(self._unstored, default=None)

    def note_stored(self, pending: PendingDelivery) -> None:
        self._unstored.discard(pending.id)
        if self.is_catching_up and pending.due is None and pending.id <= self.position:
            self._reads_again = True

    def offer(self, item: Item) -> None:
        """Takes a new message."""
        if self._has_ended:
            self._owner.end_item(item)
            return
        if self.state is LaneState.FLOWING and len(self._items) < self._items_max:
            self._items.append(item)
            self.pump()
            return
        if self.state is LaneState.FLOWING:
            self._begin_backlog()
            self._owner.hold(self.subscription.id, self._owner.now())
        self._put_off(item, None)

    def offer_pending(self, item: Item) -> bool:
        """Takes a delivery that was pending; returns False when it has it already."""
        assert item.pending is not None  # noqa: S101  # that is what it is for
        if self._has_ended:
            self._owner.end_item(item)
            return True
        if item.pending.id in self._unstored:
            return False  # it is read as it will be
        if item.pending.id in self._read:
            return False
        if self.state is LaneState.HELD and not item.notice:
            self._put_off(item, None)
            return True
        self._read.add(item.pending.id)
        self._items.append(item)
        self.pump()
        return True

    def forget(self, id: str) -> None:
        """Takes a pending delivery when it is read again: the store knows what became of it."""
        self._read.discard(id)
        self._end_hold()

    def catch_up(self) -> None:
        """Delivers what waits; for a lane that was held, or has something to replay."""
        if self.subscription.paused:
            self._owner.hold(self.subscription.id, None)
            return
        if self.state is LaneState.CATCHING_UP:
            self._reads_again = True
            return
        self._begin_backlog()
        self.pump()

    def _begin_backlog(self) -> None:
        self.state, self.position, self._is_due = LaneState.CATCHING_UP, "", True
        self._owner.read_backlog(self)

    def end_backlog(self) -> None:
        """Goes on with what comes: nothing waits behind the position any more."""
        if self._reads_again:
            self._reads_again, self.position = False, ""
        elif not self._unstored:
            self.state = LaneState.FLOWING
            self._end_hold()

    def _end_hold(self) -> None:
        """Nothing is due any more; while something is being delivered, another may have to."""
        if self._is_due and self.state is LaneState.FLOWING and not self._read:
            self._is_due = False
            self._owner.hold(self.subscription.id, None)

    def end(self) -> None:
        """Delivers nothing any more: the subscription is gone."""
        self._has_ended = True
        for item in self._items:
            self._owner.end_item(item)
        self.abandon()

    def abandon(self) -> int:
        """Forgets what it has, for another notifier; returns how much that was."""
        if self._timer is not None:
            self._timer.cancel()
        number = len(self._items)
        self._items.clear()
        return number

    def pump(self) -> None:
        """Begins attempts, as many as may be under way."""
        self._timer = None
        limit = 1 if self._in_order or not self._circuit.is_closed else self.options.concurrency
        while self._items and self._running < limit and self._owner.may_begin(self):
            if wait := self._seconds_to_wait():
                self._timer = asyncio.get_running_loop().call_later(wait, self.pump)
                return
            chunk = self._next_chunk()
            if chunk:
                self._running += 1
                self._owner.begin(self._attempt(chunk), internal=self._target.internal)

    def _seconds_to_wait(self) -> float:
        if not self.options.rate:
            return 0.0
        return max(0.0, self._next_send - asyncio.get_running_loop().time())

    def _next_chunk(self) -> list[Item]:
        """Removes what goes into one attempt; nothing when it has expired."""
        items, now = self._items, self._owner.now()
        chunk: list[Item] = []
        while items and len(chunk) < self._batch:
            single = items[0].alone or items[0].is_replayed or items[0].message is None
            if chunk and (single or items[0].epoch != chunk[0].epoch):
                break
            item = items.popleft()
            if item.expires <= now:
                self._give_up(item, Result(Outcome.REFUSED, "it expired before it was delivered"))
                continue
            chunk.append(item)
            if single:
                break
        if chunk and self.options.rate:
            begun = max(self._next_send, asyncio.get_running_loop().time())
            self._next_send = begun + len(chunk) / self.options.rate
        return chunk

    async def _attempt(self, chunk: Sequence[Item]) -> None:
        begun = perf_counter_ns()
        subscription = self.subscription
        try:
            attempt = self._target.deliver(self._delivery(chunk))
            if self._target.internal:  # stores have time-outs of their own
                result = await attempt
            else:
                async with asyncio.timeout(self.options.timeout + _TIMEOUT_GRACE_SECONDS):
                    result = await attempt
        except TimeoutError:
            result = Result(Outcome.RETRY, f"no answer within {self.options.timeout:g} s")
        except Exception:
            LOG.exception("a delivery failed", extra={"action": "delivery_failed"})
            result = Result(Outcome.RETRY, "the service failed to make the attempt")
        metrics.NOTIFICATION_DURATIONS.add(perf_counter_ns() - begun, self._scheme)
        metrics.NOTIFICATIONS.add(self._scheme, result.outcome.value)
        try:
            await self._settle(chunk, result, subscription)
        finally:
            self._running -= 1
        self.pump()

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
            f"{subscription.id}.{_name(chunk)}",
            first.is_replayed,
        )

    async def _settle(
        self, chunk: Sequence[Item], result: Result, subscription: Subscription
    ) -> None:
        """*subscription*: as it was when the attempt began."""
        if result.outcome is Outcome.DELIVERED:
            if self._circuit.record_success():
                LOG.info("the endpoint answers again", extra=self._about("circuit_closed"))
            for item in chunk:
                self._owner.end_item(item)
            self._owner.count(self.subscription.id, DeliveryCount(delivered=len(chunk)))
            metrics.NOTIFIED.add(self._scheme, by=len(chunk))
        elif self._has_ended:
            for item in chunk:
                self._owner.end_item(item)
        elif result.outcome is Outcome.GONE:
            if await self._owner.end_subscription(subscription):
                self.end()
                for item in chunk:
                    self._owner.end_item(item)
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
        pause = 0.0 if self.state is LaneState.HELD else self._circuit.record_failure()
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
        base = item.pending or PendingDelivery(
            self.subscription.id, item.key, item.expires, epoch=item.epoch, stored=item.stored
        )
        changes: dict[str, Any] = {"attempts": item.attempts, "due": due}
        if result is not None:
            changes |= {"status": result.status, "error": result.error}
        self._owner.store(msgspec.structs.replace(base, **changes), failed=False)
        self._unstored.add(base.id)
        item.pending = None  # it stays
        self._owner.end_item(item)
        self.forget(base.id)  # `_unstored` has it

    def _give_up(self, item: Item, result: Result) -> None:
        LOG.info(
            "a delivery is given up",
            extra=self._about("delivery_given_up") | {"error": result.error},
        )
        if item.message is None or item.expires <= self._owner.now():
            self._count_failed(result)
            self._owner.end_item(item)
        elif self.options.dead_letter_queue:
            self._running += 1
            self._owner.begin(self._dead_letter(item, result), internal=True)
        else:
            self._keep_failed(item, result)

    def _count_failed(self, result: Result) -> None:
        count = DeliveryCount(failed=1, error=result.error, status=result.status)
        self._owner.count(self.subscription.id, count)

    def _keep_failed(self, item: Item, result: Result) -> None:
        self._count_failed(result)
        pending = PendingDelivery(
            self.subscription.id,
            item.key,
            item.expires,
            epoch=item.epoch,
            stored=item.stored,
            status=result.status,
            error=result.error,
        )
        self._owner.store(pending, failed=True)
        item.pending = None  # it stays, as one that failed
        self._owner.end_item(item)

    async def _dead_letter(self, item: Item, result: Result) -> None:
        try:
            await self._owner.dead_letter(self, item, result)
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
            self._owner.end_item(item)
        self._running -= 1
        self.pump()

    def _about(self, action: str) -> dict[str, str]:
        return {
            "action": action,
            "project": self._owner.project,
            "queue": self._owner.queue,
            "subscription": self.subscription.id,
        }


def _name(chunk: Sequence[Item]) -> str:
    """Returns what names these deliveries among those of the subscription, in each attempt.

    Others may be with them in the next attempt.  That gets another name: a receiver that has had
    the first one would else think that it has had all of them.
    """
    names = [item.message.id if item.message is not None else item.key for item in chunk]
    if len(names) == 1:
        return names[0]
    return hashlib.blake2b(" ".join(names).encode(), digest_size=16).hexdigest()
