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

from zaqar_redis import errors
from zaqar_redis.notify.backlog_reader import BacklogReader
from zaqar_redis.notify.dead_letters import DeadLetters
from zaqar_redis.notify.dispatcher import Dispatcher
from zaqar_redis.notify.in_flight import InFlight
from zaqar_redis.notify.lane_context import LaneContext
from zaqar_redis.notify.leased_queue import LeasedQueue
from zaqar_redis.notify.roster import LaneRoster
from zaqar_redis.notify.settlement import DeliverySettlement
from zaqar_redis.notify.source_context import SourceContext
from zaqar_redis.notify.states import LaneState
from zaqar_redis.notify.store_watch import StoreClock, StoreWatch
from zaqar_redis.storage.deliveries import DeliveryReads, DeliveryStep, SettledDeliveries

LOG = logging.getLogger(__name__)

#: Seconds for which a queue without work is kept: the next post finds its notifier ready.
_LINGER_SECONDS = 2.0
#: Seconds between two steps while little is done: the store has less to do.
_STEP_SECONDS = 0.004
#: Deliveries that are settled at once, without waiting for more.
_SETTLE_MIN = 100
#: Pending deliveries that are read at once.
_DUE = 200
#: Seconds after which deliveries that are not made are stored, and the entry that they came with is
#: settled; and seconds between two looks at what there is.
_HELD_SECONDS = 2.0
#: Seconds in which a process tells the store of attempts that have ended after it gave the queue
#: away; and so many at once.
_LATE_SECONDS, _LATE_MAX = 2.0, 1000
#: Seconds between attempts to reach the store.
_OUTAGE_PAUSE_SECONDS = 0.5


class Source:
    def __init__(self, process: SourceContext, leased: LeasedQueue) -> None:
        self._leased = leased
        self._settlement = settlement = DeliverySettlement()
        self._clock = StoreClock()
        self._watch = StoreWatch()
        self._in_flight = InFlight(settlement, process.memory)
        #: ids of pending deliveries that were made since it was handed over
        self._made_late: list[str] = []
        context = LaneContext(
            leased=leased,
            clock=self._clock,
            watch=self._watch,
            slots=process.slots,
            in_flight=self._in_flight,
            settlement=settlement,
            dead_letters=DeadLetters(
                process.driver.messages.dead_letter, leased.project, leased.queue
            ),
            failures=process.failures,
            made_late=self._made_late,
        )
        self._backlogs = BacklogReader(context)
        self._roster = LaneRoster(process, context, self._backlogs.add)
        self._dispatcher = Dispatcher(process, context, self._roster)
        self._loop = asyncio.get_running_loop()
        #: event loop's time when it looked for what is to be stored
        self._looked_at = 0.0
        #: entries may be left that no hint tells of: the last step has got some, or has read none
        self._reads_on = True
        self._is_handed_over = False
        #: the store's time when attempts have ended that are under way at a stop, ms
        self._attempts_end = 0
        #: since it last read
        self.was_hinted = False
        #: event loop's time when something that waits is due; None: as far as it knows, never
        self.due_at: float | None = None

    def hint(self) -> None:
        """Reads soon: something is due."""
        self.was_hinted = True
        self._settlement.wake.set()

    def stop(self, grace: float) -> None:
        """Ends soon: begins nothing new, and settles what is done; *grace*: seconds that attempts
        may take."""
        self._in_flight.is_stopped = True
        self._attempts_end = self._clock.now() + round((grace + _LATE_SECONDS) * 1000)
        self._dispatcher.drop()
        for lane in self._roster:
            lane.stop()
        self._settlement.wake.set()

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
                    "queue": self._leased.queue,
                    "error": errors.reason(problem),
                },
            )
        finally:
            self._roster.close()
            self._in_flight.close()

    async def _hand_over(self) -> None:
        """Gives the queue to another notifier while attempts are under way."""
        for lane in self._roster:
            lane.hand_over(self._attempts_end)
        while not self._settlement.is_empty:
            reads = DeliveryReads(self._dispatcher.after)
            if await self._leased.step(self._settlement.take(), reads) is None:
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
        in_flight = self._in_flight
        while True:
            self._settlement.wake.clear()
            step = await self._step()
            if step is None:
                return False
            with self._watch.waiting():
                await self._take_in(step)
            is_busy = in_flight.number or self._dispatcher.is_behind
            if is_busy or step.entries or step.due or step.holds:
                idle_since = self._loop.time()
            elif in_flight.is_stopped or self._loop.time() - idle_since >= _LINGER_SECONDS:
                if self._settlement.is_empty:
                    return True
                continue
            if in_flight.is_stopped and not in_flight.number:
                continue
            await self._pause()

    async def _pause(self) -> None:
        """Waits for something to do, and then a little for more."""
        has_room = bool(self._in_flight.room())
        if self._reads_on and not self._dispatcher.is_behind and has_room:
            return
        seconds = min(_LINGER_SECONDS, self._leased.lease.ms / 3000)
        if has_room:
            for until in (self.due_at, self._dispatcher.goes_on_at):
                if until is not None:
                    seconds = min(seconds, until - self._loop.time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._settlement.wake.wait()
        if self._settlement.done < _SETTLE_MIN:
            await asyncio.sleep(_STEP_SECONDS)

    async def _step(self) -> DeliveryStep | None:
        """Tells the store what is done, and reads what is next; None: another has the queue."""
        while True:
            settled = self._settlement.take()
            self.was_hinted = False
            room = self._in_flight.room()
            limit = 0 if self._dispatcher.is_behind else room
            reads = DeliveryReads(self._dispatcher.after, limit, _DUE if room else 0)
            try:
                with self._watch.waiting():
                    step = await self._leased.step(settled, reads)
            except errors.MoveLocked:
                raise
            except asyncio.CancelledError:
                self._settlement.put_back(settled)  # it may not have been sent
                raise
            except errors.Unavailable:
                self._settlement.put_back(settled)
                self._watch.note_away()
                await asyncio.sleep(_OUTAGE_PAUSE_SECONDS)
                continue
            if step is None:
                self.was_hinted = True  # after a purge nobody has it
                return None
            if self._watch.note_answer():
                for lane in self._roster:
                    lane.pump()
            self._reads_on = not limit or bool(step.entries)
            self._note_settled(settled)
            if not self._settlement.is_large:
                return step
            # More was done than one step settles: what this one has read comes first.
            with self._watch.waiting():
                await self._take_in(step)

    def _note_settled(self, settled: SettledDeliveries) -> None:
        self._in_flight.note_stored(settled)
        for pending in settled.pending:
            if lane := self._roster.get(pending.subscription):
                is_reading = lane.state is LaneState.CATCHING_UP
                lane.backlog.note_stored(pending, is_reading=is_reading)
        for id in (*settled.made, *(each.id for each in settled.failed)):
            if lane := self._roster.get(id.partition(" ")[0]):
                lane.forget(id)

    async def _take_in(self, step: DeliveryStep) -> None:
        self._clock.set(step.now)
        self.due_at = None
        if step.next_due is not None:
            self.due_at = self._clock.loop_time(step.next_due)
        if self._in_flight.is_stopped:
            return  # what it has read is not settled, and due again
        if self._roster.is_old(step.version):
            await self._roster.load(step.version)
            if self._in_flight.is_stopped:
                return
        self._dispatcher.take(step.entries)
        for id in filter(self._settlement.begin_due, step.holds):
            if lane := self._roster.get(id):
                lane.catch_up()
            else:
                await self._backlogs.drop(id)
                if self._in_flight.is_stopped:
                    return
        for pending in step.due:
            self._dispatcher.offer_due(pending)
        await self._backlogs.read(self._dispatcher.offer_waiting)
        self._store_held()

    def _store_held(self) -> None:
        now = self._loop.time()
        if self._in_flight.number and now - self._looked_at >= _HELD_SECONDS:
            self._looked_at = now
            for lane in self._roster:
                lane.store_held(now - _HELD_SECONDS)
