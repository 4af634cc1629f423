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
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from zaqar_redis import errors
from zaqar_redis.notify.lane import EntryWork, Item, Lane
from zaqar_redis.notify.target import Result, Target
from zaqar_redis.records import IdempotencyKey, Message, NewMessage, Subscription
from zaqar_redis.retry_policies import DeliveryRetryPolicy, retry_policy
from zaqar_redis.service.messages import MessageService
from zaqar_redis.service.subscription_filters import LazyBody
from zaqar_redis.service.subscription_options import (
    SubscriptionOptions,
    effective,
    parse,
)
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.deliveries import (
    Deliveries,
    DeliveryCount,
    DeliveryEntry,
    DeliveryStep,
    PendingDelivery,
    SettledDeliveries,
)
from zaqar_redis.storage.subscriptions import Subscriptions

LOG = logging.getLogger(__name__)

#: Seconds for which a queue without work is kept: the next post finds its notifier ready.
_LINGER_SECONDS = 2.0
#: Seconds between two steps while little is done: the store has less to do.
_STEP_SECONDS = 0.004
#: Deliveries that are settled at once, without waiting; and, a few times as many, the most.
_SETTLE_MIN, _SETTLE_MAX = 100, 1000
#: Deliveries in memory: some megabytes, and enough for all attempts of a process.
_OUTSTANDING_MAX = 10_000
#: Of these, of one subscription: enough to keep the fastest endpoint busy while more are read.
_LANE_MAX = 1000
#: Entries, and pending deliveries, that are read at once.
_ENTRIES, _DUE, _DROPPED = 64, 200, 200
#: Subscriptions whose backlogs are read between two steps: the lease must not end meanwhile.
_BACKLOGS = 64
#: Subscriptions that are read at once.
_SUBSCRIPTIONS = 500
#: Seconds between attempts to reach the store.
_OUTAGE_PAUSE_SECONDS = 0.5
#: Milliseconds for which a dead-letter queue recognises a message.
_DEAD_LETTER_WINDOW_MS = 24 * 3600 * 1000


class AttemptRunner(Protocol):
    """Runs the attempts of a process, so many at a time."""

    def begin(self, attempt: Coroutine[Any, Any, None], *, internal: bool) -> None: ...

    def may_begin(self, lane: Lane) -> bool: ...


class SourceContext(Protocol):
    """What all sources of a process share."""

    driver: Driver
    messages: MessageService
    requires_confirmation: bool
    #: for which a queue is taken
    lease_ms: int

    @property
    def runner(self) -> AttemptRunner: ...

    def target(self, subscriber: str) -> Target | None:
        """Returns what delivers to a subscriber; None: this process does not."""


class Source:
    def __init__(
        self, context: SourceContext, store: Driver, project: str, queue: str, token: str
    ) -> None:
        """*store* is the one that the queue is in."""
        assert store.deliveries is not None  # noqa: S101  # else nobody calls
        assert store.subscriptions is not None  # noqa: S101
        self.project = project
        self.queue = queue
        self._context = context
        self._store = store
        self._deliveries: Deliveries = store.deliveries
        self._subscriptions: Subscriptions = store.subscriptions
        self._token = token
        self._lease_ms = context.lease_ms
        self._lanes: dict[str, Lane] = {}
        #: those that read what waits for them
        self._reading: dict[Lane, None] = {}
        self._version = 0
        self._after = b"0"
        self._outstanding = 0
        self._wake = asyncio.Event()
        #: the store's clock less the event loop's, ms
        self._clock_offset = 0.0
        self._loop = asyncio.get_running_loop()
        self._is_stopping = False
        #: since it last read
        self.was_hinted = False
        self._settlement = _Settling()

    # -- what lanes call --------------------------------------------------------------------

    def now(self) -> int:
        return round(self._loop.time() * 1000 + self._clock_offset)

    def begin(self, attempt: Coroutine[Any, Any, None], *, internal: bool) -> None:
        self._context.runner.begin(attempt, internal=internal)

    def may_begin(self, lane: Lane) -> bool:
        return self._context.runner.may_begin(lane)

    def end_item(self, item: Item) -> None:
        self._outstanding -= 1
        if item.pending is not None:
            self._settlement.made.append(item.pending.id)
        if item.entry is not None:
            item.entry.left -= 1
            if not item.entry.left:
                self._settlement.entries.append(item.entry.id)
        self._settlement.done += 1
        self._wake.set()

    def store(self, pending: PendingDelivery, *, failed: bool) -> None:
        (self._settlement.failed if failed else self._settlement.pending).append(pending)
        self._wake.set()

    def hold(self, subscription: str, until: int | None) -> None:
        self._settlement.holds[subscription] = until
        self._wake.set()

    def count(self, subscription: str, count: DeliveryCount) -> None:
        self._settlement.add(subscription, count)

    async def dead_letter(self, lane: Lane, item: Item, result: Result) -> None:
        assert item.stored is not None  # noqa: S101  # notices are no messages
        message = item.stored.message
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
        key = (self.project, self.queue, subscription.id)
        try:
            found = await self._subscriptions.get(*key)
            if found is not None and found.subscriber != subscription.subscriber:
                return False
            await self._subscriptions.delete(*key)
        except errors.Problem:
            return False
        LOG.warning(
            "a subscription ends: its endpoint is gone",
            extra={"action": "subscription_gone", "subscription": subscription.id},
        )
        return True

    def items_max(self, *, internal: bool) -> int:
        # Internal ones are fast, and many.
        if internal:
            return _LANE_MAX
        return max(1, min(_LANE_MAX, _OUTSTANDING_MAX // (2 * max(1, len(self._lanes)))))

    def read_backlog(self, lane: Lane) -> None:
        self._reading[lane] = None
        self._wake.set()

    # -- the source's own --------------------------------------------------------------------

    def hint(self) -> None:
        """Reads soon: something is due."""
        self.was_hinted = True
        self._wake.set()

    def stop(self) -> None:
        """Ends soon: begins nothing new, and settles what is done."""
        self._is_stopping = True
        for lane in self._lanes.values():
            self._outstanding -= lane.abandon()
        self._wake.set()

    async def run(self) -> None:
        """Delivers until nothing is due, or another notifier has the queue.

        Raises nothing but CancelledError: what it could not do is due again.
        """
        try:
            taken = await self._deliveries.take(
                self.project, self.queue, self._token, self._lease_ms
            )
        except errors.Problem:  # it moves, or the store is away: it is found again in the index
            return
        if not taken:
            return
        try:
            if await self._serve():
                await self._deliveries.release(self.project, self.queue, self._token)
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
                lane.abandon()

    async def _serve(self) -> bool:
        """Returns whether it still has the lease, and nothing is under way."""
        idle_since = self._loop.time()
        while True:
            self._wake.clear()
            step = await self._step()
            if step is None:
                return False
            await self._take_in(step)
            if self._outstanding or step.entries or step.due or step.holds:
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
        if step.entries and self._room():
            return
        seconds = min(_LINGER_SECONDS, self._lease_ms / 3000)
        if step.next_due is not None and not self._is_stopping:
            seconds = min(seconds, max(0.0, (step.next_due - self.now()) / 1000))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        if self._settlement.done < _SETTLE_MIN:
            await asyncio.sleep(_STEP_SECONDS)

    async def _step(self) -> DeliveryStep | None:
        while True:
            settled = self._settlement.take()
            self.was_hinted = False
            try:
                step = await self._deliveries.step(
                    self.project,
                    self.queue,
                    self._token,
                    self._lease_ms,
                    settled,
                    after=self._after,
                    limit=self._room(),
                    due_limit=0 if self._is_stopping else _DUE,
                )
            except errors.MoveLocked:
                raise
            except errors.Unavailable:
                self._settlement.put_back(settled)
                await asyncio.sleep(_OUTAGE_PAUSE_SECONDS)
                continue
            if step is None:
                self.was_hinted = True  # after a purge nobody has it
                return None
            self._note_settled(settled)
            if not self._settlement.is_large:
                return step
            # More was done than one step settles: what this one has read comes first.
            await self._take_in(step)

    def _note_settled(self, settled: SettledDeliveries) -> None:
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
        if self._is_stopping or self._outstanding >= most:
            return 0
        room = (most - self._outstanding) // max(1, len(self._lanes))
        return max(1, min(_ENTRIES, room))

    async def _take_in(self, step: DeliveryStep) -> None:
        self._clock_offset = step.now - self._loop.time() * 1000
        if self._is_stopping:
            return  # what it has read is not settled, and due again
        if step.version != self._version or (step.version and not self._lanes):
            await self._load(step.version)
        for entry in step.entries:
            self._after = entry.id
            self._dispatch(entry)
        for id in step.holds:
            if id in self._lanes:
                self._lanes[id].catch_up()
            else:
                await self._drop_backlog(id)
        for pending in step.due:
            self._offer_pending(pending)
        await self._read_backlogs()

    def _dispatch(self, entry: DeliveryEntry) -> None:
        work = EntryWork(entry.id)
        work.left = 1  # until all lanes have got it
        for stored in entry.messages:
            decrypted = self._decrypted(stored.message)
            if decrypted is None:
                continue
            body = LazyBody(decrypted.body)
            for lane in self._lanes.values():
                wanted = lane.options.filter
                if not self._is_live(lane.subscription):
                    continue
                if wanted is not None and not wanted.matches(decrypted.attributes, body):
                    continue
                work.left += 1
                self._outstanding += 1
                lane.offer(Item(entry.epoch, stored, decrypted, entry=work))
        work.left -= 1
        if not work.left:
            self._settlement.entries.append(work.id)
            self._wake.set()

    def _offer_pending(self, pending: PendingDelivery) -> None:
        lane = self._lanes.get(pending.subscription)
        decrypted = None
        if pending.stored is not None:
            decrypted = self._decrypted(pending.stored.message)
        self._outstanding += 1
        item = Item(pending.epoch, pending.stored, decrypted, pending=pending)
        deliverable = pending.stored is None or decrypted is not None
        if lane is not None and not self._is_live(lane.subscription):
            deliverable = pending.stored is None  # its subscriber is another one, or has left
        if lane is None or not deliverable:
            self.end_item(item)
        elif not lane.offer_pending(item):
            self._outstanding -= 1  # it has it already

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
        return subscription.confirmed or not self._context.requires_confirmation

    async def _read_backlogs(self) -> None:
        self._reading = {lane: None for lane in self._reading if lane.is_catching_up}
        wanting = [lane for lane in self._reading if lane.wants_more]
        if len(wanting) > _BACKLOGS:
            self._wake.set()
        for lane in wanting[:_BACKLOGS]:
            del self._reading[lane]
            self._reading[lane] = None  # the last one the next time
            page = await self._deliveries.backlog(
                self.project, self.queue, lane.subscription.id, lane.position, lane.page
            )
            if not page:
                lane.end_backlog()
                self._wake.set()
                continue
            first = lane.first_unstored
            for pending in page:
                if first is not None and pending.id >= first:
                    break
                lane.position = pending.id
                if pending.due is None or pending.due <= self.now():
                    self._offer_pending(pending)
            self._wake.set()

    async def _drop_backlog(self, subscription: str) -> None:
        """Deletes what waits for a subscription that does not exist any more."""
        page = await self._deliveries.backlog(self.project, self.queue, subscription, "", _DROPPED)
        self._settlement.made += [pending.id for pending in page]
        self.hold(subscription, self.now() if page else None)

    async def _load(self, version: int) -> None:
        """Reads the subscriptions, which have changed."""
        policy = await self._queue_policy()
        waiting = await self._waiting() if version and not self._version else set()
        found: dict[str, Lane] = {}
        after = ""
        while version:
            page = await self._subscriptions.list(self.project, self.queue, after, _SUBSCRIPTIONS)
            for subscription in page.items:
                lane = self._lane(subscription, policy)
                if lane is not None:
                    if subscription.id in waiting:
                        lane.wait()
                    found[subscription.id] = lane
            after = page.marker
            if len(page.items) < _SUBSCRIPTIONS:
                break
        for id in self._lanes.keys() - found.keys():
            self._lanes[id].end()
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
            return Lane(self, subscription, options, chosen, target)
        lane.adopt(subscription, options, chosen, target)
        return lane

    async def _waiting(self) -> set[str]:
        """Returns the subscriptions with deliveries that another notifier left to be made."""
        found: list[str] = []
        while True:
            after = found[-1] if found else ""
            page = await self._deliveries.waiting(self.project, self.queue, after, _SUBSCRIPTIONS)
            found += page
            if len(page) < _SUBSCRIPTIONS:
                return set(found)

    async def _queue_policy(self) -> DeliveryRetryPolicy | None:
        queue = await self._store.queues.get(self.project, self.queue)
        if queue is not None:
            with contextlib.suppress(errors.BadRequest):  # of a service that knew fewer rules
                return retry_policy(queue.metadata.get("_retry_policy"))
        return None


class _Settling:
    """What is done, and not settled yet."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.made: list[str] = []
        self.pending: list[PendingDelivery] = []
        self.failed: list[PendingDelivery] = []
        self.holds: dict[str, int | None] = {}
        self._counts: dict[str, list[Any]] = {}
        #: deliveries
        self.done = 0

    def add(self, subscription: str, count: DeliveryCount) -> None:
        totals = self._counts.setdefault(subscription, [0, 0, 0, "", 0])
        totals[0] += count.delivered
        totals[1] += count.failed
        totals[2] += count.retried
        if count.error:
            totals[3:] = count.error, count.status

    @property
    def is_empty(self) -> bool:
        return not (
            self.entries or self.made or self.pending or self.failed or self.holds or self._counts
        )

    @property
    def is_large(self) -> bool:
        """Whether one step cannot settle it."""
        lists: Sequence[Sequence[Any]] = (self.entries, self.made, self.pending, self.failed)
        return any(len(each) > _SETTLE_MAX for each in lists)

    def take(self) -> SettledDeliveries:
        """Returns what a step settles.

        An entry is settled with what was stored of it, or after that.
        """
        pending, self.pending = self.pending[:_SETTLE_MAX], self.pending[_SETTLE_MAX:]
        failed, self.failed = self.failed[:_SETTLE_MAX], self.failed[_SETTLE_MAX:]
        made, self.made = self.made[:_SETTLE_MAX], self.made[_SETTLE_MAX:]
        entries: list[bytes] = []
        if not (self.pending or self.failed):
            entries, self.entries = self.entries[:_SETTLE_MAX], self.entries[_SETTLE_MAX:]
        ids = [*self.holds][:_SETTLE_MAX]
        holds = [(id, self.holds.pop(id)) for id in ids]
        counted = [*self._counts][:_SETTLE_MAX]
        counts = [(id, DeliveryCount(*self._counts.pop(id))) for id in counted]
        self.done = 0
        return SettledDeliveries(entries, made, pending, failed, holds, counts)

    def put_back(self, settled: SettledDeliveries) -> None:
        """Takes back what a step has not settled."""
        self.entries[:0] = settled.entries
        self.made[:0] = settled.made
        self.pending[:0] = settled.pending
        self.failed[:0] = settled.failed
        for id, until in settled.holds:
            self.holds.setdefault(id, until)
        for id, count in settled.counts:
            self.add(id, count)
