# SPDX-License-Identifier: Apache-2.0
"""A queue or topic whose messages this notifier delivers at the moment.

It reads entries and pending deliveries, gives each message to the lanes of the subscriptions that
want it, and tells the store in the next step what is done.  While it has the lease no other
notifier delivers for the queue; when it dies, the next one begins where its last step ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Protocol

from zaqar_redis import errors, rules
from zaqar_redis.notify.circuit import FailingCircuits
from zaqar_redis.notify.failures import FailureRuns
from zaqar_redis.notify.items import EntryWork, Item
from zaqar_redis.notify.lane import Lane
from zaqar_redis.notify.leased_queue import LeasedQueue
from zaqar_redis.notify.limits import DeliverySlots, MessageMemory
from zaqar_redis.notify.settlement import DeliverySettlement
from zaqar_redis.notify.target import HOPS_MAX, Result, Target
from zaqar_redis.records import IdempotencyKey, Message, NewMessage, Subscription
from zaqar_redis.retry_policies import DeliveryRetryPolicy
from zaqar_redis.service.messages import MessageService
from zaqar_redis.service.subscription_filters import LazyBody
from zaqar_redis.service.subscription_options import (
    SubscriptionOptions,
    effective,
    parse,
)
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.deliveries import (
    DeliveryCount,
    DeliveryEntry,
    DeliveryStep,
    PendingDelivery,
    SettledDeliveries,
)

LOG = logging.getLogger(__name__)

#: Seconds for which a queue without work is kept: the next post finds its notifier ready.
_LINGER_SECONDS = 2.0
#: Seconds between two steps while little is done: the store has less to do.
_STEP_SECONDS = 0.004
#: Deliveries that are settled at once, without waiting for more.
_SETTLE_MIN = 100
#: Deliveries in memory: some megabytes, and enough for all attempts of a process.
_OUTSTANDING_MAX = 10_000
#: Of these, of one subscription: enough for ten attempts with batches of 100 while more are read.
_LANE_MAX = 2000
#: Entries, and pending deliveries, that are read at once.
_ENTRIES, _DUE, _DROPPED = 64, 200, 200
#: Subscriptions whose backlogs are read between two steps: the lease must not end meanwhile.
_BACKLOGS = 64
#: Seconds for which entries wait for lanes that are full: fast ones have room again before, and
#: what they would get is not stored and read once more.
_FULL_SECONDS = 1.0
#: Seconds after which deliveries that are not made are stored, and the entry that they came with is
#: settled; and seconds between two looks at what there is.
_HELD_SECONDS = 2.0
#: Seconds in which a process tells the store of attempts that have ended after it gave the queue
#: away; and so many at once.
_LATE_SECONDS, _LATE_MAX = 2.0, 1000
#: Seconds after which a store that has not answered a step is away.
_AWAY_SECONDS = 1.0
#: Seconds between attempts to reach the store.
_OUTAGE_PAUSE_SECONDS = 0.5
#: Milliseconds for which a dead-letter queue recognises a message.
_DEAD_LETTER_WINDOW_MS = 24 * 3600 * 1000


class SourceContext(Protocol):
    """What all sources of a process share."""

    driver: Driver
    messages: MessageService
    requires_confirmation: bool
    slots: DeliverySlots
    memory: MessageMemory
    circuits: FailingCircuits
    failures: FailureRuns

    def target(self, subscriber: str) -> Target | None:
        """Returns what delivers to a subscriber; None: this process does not."""


class Source:
    def __init__(self, context: SourceContext, leased: LeasedQueue) -> None:
        self.project = leased.project
        self.queue = leased.queue
        self.failures = context.failures
        self._context = context
        self._leased = leased
        self._lanes: dict[str, Lane] = {}
        #: those that read what waits for them
        self._reading: dict[Lane, None] = {}
        self._version = 0
        self._after = b"0"
        #: entries that were read, and wait for room
        self._unread: deque[DeliveryEntry] = deque()
        self._unread_bytes = 0
        #: event loop's time; None: a lane has room
        self._full_since: float | None = None
        self._outstanding = 0
        #: event loop's time when it looked for what is to be stored
        self._looked_at = 0.0
        #: bytes of the messages that it has in memory
        self._size = 0
        self._wake = asyncio.Event()
        #: entries may be left that no hint tells of: the last step has got some, or has read none
        self._reads_on = True
        #: the store's clock less the event loop's, ms
        self._clock_offset = 0.0
        self._loop = asyncio.get_running_loop()
        #: no attempt begins: what it delivers could not be settled, and would come again
        self._is_store_away = False
        self._is_stopping = False
        self._is_handed_over = False
        #: ids of pending deliveries that were made since then
        self._made_late: list[str] = []
        #: the store's time when attempts have ended that are under way at a stop, ms
        self._attempts_end = 0
        #: what attempts that outlast it have done is nobody's
        self._has_ended = False
        #: since it last read
        self.was_hinted = False
        #: event loop's time when something that waits is due; None: as far as it knows, never
        self.due_at: float | None = None
        self._settlement = DeliverySettlement()

    # -- what lanes call --------------------------------------------------------------------

    def now(self) -> int:
        return round(self._loop.time() * 1000 + self._clock_offset)

    def begin(self, attempt: Coroutine[Any, Any, None], *, internal: bool) -> None:
        self._context.slots.begin(attempt, self.project, internal=internal)

    def may_begin(self, lane: Lane) -> bool:
        return not self._is_store_away and self._context.slots.may_begin(lane)

    def may_go_on(self, lane: Lane) -> bool:
        return not self._is_store_away and self._context.slots.may_go_on(lane)

    def end_item(self, item: Item) -> None:
        self._outstanding -= 1
        if item.pending is not None:
            self._settlement.made.append(item.pending.id)
        if item.entry is None:
            self._give_back(item.size)
        else:
            self._end_part(item.entry)
        self._settlement.done += 1
        self._wake.set()

    def _end_part(self, entry: EntryWork) -> None:
        entry.left -= 1
        if not entry.left:
            self._give_back(entry.size)
            self._settlement.entries.append(entry.id)
            self._wake.set()

    def _take_memory(self, size: int) -> None:
        if self._has_ended:
            return  # nobody would give it back
        self._size += size
        self._context.memory.take(size)

    def _give_back(self, size: int) -> None:
        size = min(size, self._size)  # nothing is left when an attempt outlasts `run`
        self._size -= size
        self._context.memory.give_back(size)

    def store(self, pending: PendingDelivery, *, failed: bool) -> None:
        self._take_memory(pending.size)
        (self._settlement.failed if failed else self._settlement.pending).append(pending)
        self._wake.set()

    def store_under_way(self, item: Item, pending: PendingDelivery) -> None:
        self.store(pending, failed=False)
        entry, item.entry, item.pending = item.entry, None, pending
        if entry is not None:
            self._take_memory(item.size)
            self._end_part(entry)

    def note_made_late(self, items: Sequence[Item]) -> None:
        self._made_late += [item.pending.id for item in items if item.pending is not None]

    def hold(self, subscription: str, until: int | None) -> None:
        self._settlement.holds[subscription] = until
        self._wake.set()

    def count(self, subscription: str, count: DeliveryCount) -> None:
        self._settlement.add(subscription, count)

    async def dead_letter(self, lane: Lane, message: Message, result: Result) -> None:
        if message.hops >= HOPS_MAX:  # its dead-letter queue has a subscription that fails, too
            raise errors.BadRequest(why=f"it has gone through {HOPS_MAX} queues: they form a loop")
        reason: dict[str, str | int] = {
            "delivery-subscription": lane.subscription.id,
            "delivery-error": result.error,
            "delivery-status": result.status,
        }
        letter = NewMessage(
            body=message.body,
            ttl=message.ttl,
            delay=0,
            checksum=message.checksum,
            origin=self.queue,
            encrypted=message.encrypted,
            attributes={**(message.attributes or {}), **reason},
            hops=message.hops + 1,
        )
        key = IdempotencyKey(
            key=f"undelivered {lane.subscription.id} {message.id}",
            fingerprint=b"",
            window=_DEAD_LETTER_WINDOW_MS,
        )
        await self._context.driver.messages.dead_letter(
            self.project,
            lane.options.dead_letter_queue,
            letter,
            client=message.client,
            idempotency_key=key,
        )

    async def end_subscription(self, subscription: Subscription) -> bool:
        return await self._leased.end_subscription(subscription)

    def items_max(self, *, internal: bool) -> int:
        # Internal ones are fast, and many.
        if internal:
            return _LANE_MAX
        return max(1, min(_LANE_MAX, _OUTSTANDING_MAX // (2 * max(1, len(self._lanes)))))

    def bytes_max(self) -> int:
        return self._context.memory.lane_max

    def read_backlog(self, lane: Lane) -> None:
        self._reading[lane] = None
        self._wake.set()

    # -- the source's own --------------------------------------------------------------------

    def hint(self) -> None:
        """Reads soon: something is due."""
        self.was_hinted = True
        self._wake.set()

    def stop(self, grace: float) -> None:
        """Ends soon: begins nothing new, and settles what is done; *grace*: seconds that attempts
        may take."""
        self._is_stopping = True
        self._attempts_end = self.now() + round((grace + _LATE_SECONDS) * 1000)
        self._drop_unread()
        for lane in self._lanes.values():
            lane.stop()
        self._wake.set()

    async def run(self) -> None:
        """Delivers until nothing is due, or another notifier has the queue.

        Raises nothing but CancelledError: what it could not do is due again.
        """
        try:
            taken = await self._leased.take()
        except errors.Problem:  # it moves, or the store is away: it is found again in the index
            return
        if not taken:
            return
        try:
            if await self._serve():
                await self._leased.release()
        except asyncio.CancelledError:
            with contextlib.suppress(errors.Problem):
                await self._hand_over()
            raise
        except errors.MoveLocked:
            pass  # who has the queue next delivers what is not settled
        except errors.Problem as problem:
            LOG.warning(
                "deliveries of a queue are interrupted",
                extra={
                    "action": "deliveries_interrupted",
                    "queue": self.queue,
                    "error": errors.reason(problem),
                },
            )
        finally:
            for lane in self._lanes.values():
                lane.end()
                self._context.circuits.put_back(lane.subscription, lane.circuit)
            self._give_back(self._size)
            self._has_ended = True

    async def _hand_over(self) -> None:
        """Gives the queue to another notifier while attempts are under way."""
        for lane in self._lanes.values():
            lane.hand_over(self._attempts_end)
        while not self._settlement.is_empty:
            settled = self._settlement.take()
            if await self._leased.step(settled, after=self._after, limit=0, due_limit=0) is None:
                return
        await self._leased.release()
        self._is_handed_over = True

    async def settle_late(self) -> None:
        """Settles what was made since the queue was handed over.  Raises Problem."""
        while self._is_handed_over and self._made_late:
            page = self._made_late[:_LATE_MAX]
            await self._leased.made(page)
            del self._made_late[: len(page)]

    async def _serve(self) -> bool:
        """Returns whether it still has the lease, and nothing is under way."""
        idle_since = self._loop.time()
        while True:
            self._wake.clear()
            step = await self._step()
            if step is None:
                return False
            with self._watching_store():
                await self._take_in(step)
            if self._outstanding or self._unread or step.entries or step.due or step.holds:
                idle_since = self._loop.time()
            elif self._is_stopping or self._loop.time() - idle_since >= _LINGER_SECONDS:
                if self._settlement.is_empty:
                    return True
                continue
            if self._is_stopping and not self._outstanding:
                continue
            await self._pause(step)

    async def _pause(self, step: DeliveryStep) -> None:
        """Waits for something to do, and then a little for more."""
        if self._reads_on and not self._unread and self._room():
            return
        seconds = min(_LINGER_SECONDS, self._leased.lease_ms / 3000)
        if self._room():
            if self.due_at is not None:
                seconds = min(seconds, self.due_at - self._loop.time())
            if self._unread and self._full_since is not None:
                seconds = min(seconds, self._full_since + _FULL_SECONDS - self._loop.time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._wake.wait()
        if self._settlement.done < _SETTLE_MIN:
            await asyncio.sleep(_STEP_SECONDS)

    async def _step(self) -> DeliveryStep | None:
        while True:
            settled = self._settlement.take()
            self.was_hinted = False
            try:
                room = self._room()
                limit = 0 if self._unread else room
                with self._watching_store():
                    step = await self._leased.step(
                        settled, after=self._after, limit=limit, due_limit=_DUE if room else 0
                    )
            except errors.MoveLocked:
                raise
            except asyncio.CancelledError:
                self._settlement.put_back(settled)  # it may not have been sent
                raise
            except errors.Unavailable:
                self._settlement.put_back(settled)
                self._note_store_away()
                await asyncio.sleep(_OUTAGE_PAUSE_SECONDS)
                continue
            if step is None:
                self.was_hinted = True  # after a purge nobody has it
                return None
            if self._is_store_away:
                self._is_store_away = False
                for lane in self._lanes.values():
                    lane.pump()
            self._reads_on = not limit or bool(step.entries)
            self._note_settled(settled)
            if not self._settlement.is_large:
                return step
            # More was done than one step settles: what this one has read comes first.
            with self._watching_store():
                await self._take_in(step)

    @contextlib.contextmanager
    def _watching_store(self) -> Iterator[None]:
        """Begins no attempt while the store lets it wait, until a step succeeds."""
        late = self._loop.call_later(_AWAY_SECONDS, self._note_store_away)
        try:
            yield
        finally:
            late.cancel()

    def _note_store_away(self) -> None:
        self._is_store_away = True

    def _note_settled(self, settled: SettledDeliveries) -> None:
        self._give_back(sum(each.size for each in (*settled.pending, *settled.failed)))
        for pending in settled.pending:
            if pending.subscription in self._lanes:
                self._lanes[pending.subscription].note_stored(pending)
        for id in (*settled.made, *(each.id for each in settled.failed)):
            lane = self._lanes.get(id.partition(" ")[0])
            if lane is not None:
                lane.forget(id)

    def _room(self) -> int:
        """Returns how many entries may be read now."""
        most = max(_OUTSTANDING_MAX, 4 * len(self._lanes))
        if self._is_stopping or self._outstanding >= most or self._settlement.is_large:
            return 0
        if not self._context.memory.has_room:
            return 0 if self._size else 1
        room = (most - self._outstanding) // max(1, len(self._lanes))
        return max(1, min(_ENTRIES, room))

    async def _take_in(self, step: DeliveryStep) -> None:
        self._clock_offset = step.now - self._loop.time() * 1000
        self.due_at = None
        if step.next_due is not None:
            self.due_at = (step.next_due - self._clock_offset) / 1000
        if self._is_stopping:
            return  # what it has read is not settled, and due again
        if step.version != self._version or (step.version and not self._lanes):
            await self._load(step.version)
            if self._is_stopping:
                return
        self._unread.extend(step.entries)
        self._dispatch_unread()
        for id in filter(self._settlement.begin_due, step.holds):
            if id in self._lanes:
                self._lanes[id].catch_up()
            else:
                await self._drop_backlog(id)
        for pending in step.due:
            self._offer_pending(pending, Lane.offer_due)
        await self._read_backlogs()
        self._store_held()

    def _store_held(self) -> None:
        now = self._loop.time()
        if self._outstanding and now - self._looked_at >= _HELD_SECONDS:
            self._looked_at = now
            for lane in self._lanes.values():
                lane.store_held(now - _HELD_SECONDS)

    def _dispatch_unread(self) -> None:
        self._give_back(self._unread_bytes)  # what is dispatched is counted by itself
        while self._unread and self._may_dispatch():
            entry = self._unread.popleft()
            self._after = entry.id
            self._dispatch(entry)
        self._unread_bytes = sum(entry.size for entry in self._unread)
        self._take_memory(self._unread_bytes)
        if self._is_stopping or not self._context.memory.has_room:
            self._drop_unread()

    def _drop_unread(self) -> None:
        """Forgets what it has not dispatched, which is read again."""
        self._unread.clear()
        self._give_back(self._unread_bytes)
        self._unread_bytes = 0

    def _may_dispatch(self) -> bool:
        if not self._room():
            return False
        states = (lane.is_half_full for lane in self._lanes.values() if lane.is_flowing)
        # None is flowing: what comes is stored anyway.
        if not next(states, False) or not all(states):
            self._full_since = None
            return True
        now = self._loop.time()
        self._full_since = self._full_since or now
        return now - self._full_since > _FULL_SECONDS

    def _dispatch(self, entry: DeliveryEntry) -> None:
        work = EntryWork(entry.id, entry.size, self._loop.time())
        work.left = 1  # until all lanes have got it
        self._take_memory(work.size)
        messages = [
            (stored, decrypted, LazyBody(decrypted.body))
            for stored in entry.messages
            if (decrypted := self._decrypted(stored.message)) is not None
        ]
        for lane in self._lanes.values():
            if not self._is_live(lane.subscription):
                continue
            wanted = lane.options.filter
            items = [
                Item(entry.epoch, stored, decrypted, entry=work)
                for stored, decrypted, body in messages
                if wanted is None or wanted.matches(decrypted.attributes, body)
            ]
            if items:
                work.left += len(items)
                self._outstanding += len(items)
                lane.offer(items)
        self._end_part(work)

    def _offer_pending(
        self, pending: PendingDelivery, offer: Callable[[Lane, Item, PendingDelivery], bool]
    ) -> None:
        lane = self._lanes.get(pending.subscription)
        decrypted = None
        if pending.stored is not None:
            decrypted = self._decrypted(pending.stored.message)
        self._outstanding += 1
        item = Item(pending.epoch, pending.stored, decrypted, pending=pending)
        self._take_memory(item.size)
        deliverable = pending.stored is None or decrypted is not None
        if lane is not None and not self._is_live(lane.subscription):
            deliverable = pending.stored is None  # its subscriber is another one, or has left
        if lane is None or not deliverable:
            self.end_item(item)
        elif not offer(lane, item, pending):
            self._outstanding -= 1  # it has it already
            self._give_back(item.size)

    def _decrypted(self, message: Message) -> Message | None:
        """Returns the message as its poster wrote it; None: it cannot be read any more."""
        if not message.encrypted:
            return message
        try:
            return self._context.messages.decrypted(self.project, [message])[0]
        except errors.Problem as problem:
            LOG.error(
                "a message cannot be delivered: it cannot be decrypted",
                extra={
                    "action": "unreadable",
                    "queue": self.queue,
                    "error": errors.reason(problem),
                },
            )
            return None

    def _is_live(self, subscription: Subscription) -> bool:
        return (
            subscription.confirmed
            or not self._context.requires_confirmation
            or rules.is_own_subscriber(subscription.subscriber)
        )

    async def _read_backlogs(self) -> None:
        self._reading = {lane: None for lane in self._reading if lane.is_catching_up}
        wanting = [lane for lane in self._reading if lane.wants_more]
        if len(wanting) > _BACKLOGS:
            self._wake.set()
        for lane in wanting[:_BACKLOGS]:
            if self._size and not self._context.memory.has_room:
                break
            del self._reading[lane]
            self._reading[lane] = None  # the last one the next time
            backlog = lane.backlog
            page = await self._leased.backlog(lane.subscription.id, backlog.position, lane.page)
            if self._is_stopping:
                return
            if not page:
                lane.end_backlog()
                self._wake.set()
                continue
            first = backlog.first_unstored
            for pending in page:
                if first is not None and pending.id >= first:
                    break
                backlog.position = pending.id
                if lane.is_next(pending):
                    self._offer_pending(pending, Lane.offer_waiting)
            self._wake.set()

    async def _drop_backlog(self, subscription: str) -> None:
        """Deletes what waits for a subscription that does not exist any more."""
        page = await self._leased.backlog(subscription, "", _DROPPED)
        self._settlement.made += [pending.id for pending in page]
        self.hold(subscription, self.now() if page else None)

    async def _load(self, version: int) -> None:
        """Reads the subscriptions, which have changed."""
        policy = await self._leased.retry_policy()
        waiting = await self._leased.waiting() if version and not self._version else set()
        found: dict[str, Lane] = {}
        if version:
            async for subscription in self._leased.subscriptions():
                lane = self._lane(subscription, policy)
                if lane is not None:
                    if subscription.id in waiting:
                        lane.wait()
                    found[subscription.id] = lane
        for id in self._lanes.keys() - found.keys():
            self._lanes[id].end()
            self.failures.end(self._lanes[id].subscription)
        self._lanes, self._version = found, version

    def _lane(self, subscription: Subscription, policy: DeliveryRetryPolicy | None) -> Lane | None:
        target = self._context.target(subscription.subscriber)
        if target is None:
            return None
        try:
            options = parse(subscription.options)
        except errors.BadRequest:  # of a service that knew fewer rules
            options = SubscriptionOptions(raw=subscription.options)
        chosen = effective(options.retry_policy, policy)
        lane = self._lanes.get(subscription.id)
        if lane is None:
            lane = Lane(self, subscription, options, chosen, target)
            lane.circuit = self._context.circuits.take(subscription)
            return lane
        lane.adopt(subscription, options, chosen, target)
        return lane
