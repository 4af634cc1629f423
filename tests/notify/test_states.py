# SPDX-License-Identifier: Apache-2.0
"""The table of a lane's states, walked cell by cell with lanes over a store in memory."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import msgspec
import pytest

from zaqar_redis.notify.backlog_reader import BacklogReader
from zaqar_redis.notify.circuit import Circuit
from zaqar_redis.notify.clock import StoreClock
from zaqar_redis.notify.dead_letters import DeadLetters
from zaqar_redis.notify.failures import FailureRuns
from zaqar_redis.notify.in_flight import InFlight
from zaqar_redis.notify.items import Item
from zaqar_redis.notify.lane import Lane
from zaqar_redis.notify.lane_context import LaneContext, LaneSettings
from zaqar_redis.notify.leased_queue import LeasedQueue
from zaqar_redis.notify.limits import DeliverySlots, MessageMemory
from zaqar_redis.notify.settlement import DeliverySettlement
from zaqar_redis.notify.states import LANE_TRANSITIONS, LaneEvent, LaneState
from zaqar_redis.notify.store_watch import StoreWatch
from zaqar_redis.notify.target import DELIVERED, Delivery, Outcome, Result
from zaqar_redis.records import Message, Subscription
from zaqar_redis.retry_policies import DeliveryRetryPolicy
from zaqar_redis.service.subscription_options import SubscriptionOptions
from zaqar_redis.storage.deliveries import DeliveryEntry, EnteredMessage
from zaqar_redis.storage.load import load

_FOREVER = 2**50


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
    """A lane whose source takes no step: what it settles is looked at instead."""

    def __init__(self, *, waits: bool = False) -> None:
        driver = load(f"memory://{uuid.uuid4()}", {})
        assert driver.subscriptions
        assert driver.deliveries
        leased = LeasedQueue(
            driver.queues, driver.subscriptions, driver.deliveries, ("p", "q"), ("token", 10_000)
        )
        self.settlement, self.memory = DeliverySettlement(), MessageMemory()
        self.in_flight = InFlight(self.settlement, self.memory)
        self.slots = DeliverySlots(10)
        context = LaneContext(
            leased=leased,
            clock=StoreClock(),
            watch=StoreWatch(),
            slots=self.slots,
            in_flight=self.in_flight,
            settlement=self.settlement,
            dead_letters=DeadLetters(driver.messages.dead_letter, "p", "q"),
            failures=FailureRuns(),
            made_late=[],
        )
        self.target = HeldTarget()
        self.settings = LaneSettings(
            Subscription("id", "q", "http://h/", 60, 0, {}),
            SubscriptionOptions(concurrency=1),
            DeliveryRetryPolicy(),
            self.target,
        )
        reader = BacklogReader(context)
        self.lane = Lane(context, self.settings, Circuit(), reader.add, waits=waits)

    def pause(self) -> None:
        paused = msgspec.structs.replace(self.settings.subscription, paused=True)
        settings = self.settings
        self.lane.adopt(LaneSettings(paused, settings.options, settings.policy, settings.target))

    def post(self, number: int) -> None:
        """Offers an entry with so many messages, as a dispatcher does."""
        stored = [
            EnteredMessage(Message(str(rank), rank, 0, 60, b"1", 0, _FOREVER), b"envelope")
            for rank in range(number)
        ]
        size = sum(each.size for each in stored)
        work = self.in_flight.begin_entry(DeliveryEntry(b"1-0", "e", stored, size), 0.0)
        self.lane.offer([Item("e", each, each.message, entry=work) for each in stored])
        self.in_flight.end_part(work)

    def overflow(self) -> None:
        self.in_flight.lanes = 10_000  # each has room for one
        self.post(2)


def _ended() -> LaneHarness:
    harness = LaneHarness()
    harness.lane.end()
    return harness


def _catching_up() -> LaneHarness:
    harness = LaneHarness()
    harness.lane.catch_up()
    return harness


def _handed_over() -> LaneHarness:
    harness = LaneHarness()
    harness.lane.hand_over(_FOREVER)
    return harness


STATES: dict[LaneState, Callable[[], LaneHarness]] = {
    LaneState.FLOWING: LaneHarness,
    LaneState.CATCHING_UP: _catching_up,
    LaneState.HELD: lambda: LaneHarness(waits=True),
    LaneState.HANDED_OVER: _handed_over,
    LaneState.ENDED: _ended,
}
EVENTS: dict[LaneEvent, Callable[[LaneHarness], None]] = {
    LaneEvent.OVERFLOW: LaneHarness.overflow,
    LaneEvent.WAKE: lambda harness: harness.lane.catch_up(),
    LaneEvent.DRAIN: lambda harness: harness.lane.end_backlog(),
    LaneEvent.HOLD: LaneHarness.pause,
    LaneEvent.HAND_OVER: lambda harness: harness.lane.hand_over(_FOREVER),
    LaneEvent.END: lambda harness: harness.lane.end(),
}
CELLS = [(state, event) for state, row in LANE_TRANSITIONS.items() for event in row]


def test_table_has_every_state_and_event() -> None:
    assert set(LANE_TRANSITIONS) == set(STATES) == set(LaneState)
    assert {event for _, event in CELLS} == set(EVENTS) == set(LaneEvent)


@pytest.mark.parametrize(("state", "event"), CELLS)
def test_event_leads_to_the_state_of_its_cell(state: LaneState, event: LaneEvent) -> None:
    async def scenario() -> None:
        harness = STATES[state]()
        assert harness.lane.state is state
        EVENTS[event](harness)
        assert harness.lane.state is LANE_TRANSITIONS[state][event]
        await harness.slots.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("state", LaneState)
def test_nothing_is_in_flight_when_all_that_came_in_a_state_is_settled(
    state: LaneState, outcome: Outcome
) -> None:
    """Whatever the lane does with it: it is delivered, stored or given up, once."""

    async def scenario() -> None:
        harness = STATES[state]()
        harness.target.result = Result(outcome, "an error")
        harness.target.goes_on.set()
        harness.post(3)
        await harness.slots.wait(60)
        while harness.lane.has_items:  # retries without delay, one after another
            await asyncio.sleep(0)
            await harness.slots.wait(60)
        settled = harness.settlement.take()
        assert harness.in_flight.number == 0
        assert settled.entries == [b"1-0"]
        kept = len(settled.pending) + len(settled.failed)
        counts = [count for _, count in settled.counts]
        made = sum(count.delivered for count in counts)
        has_ended = harness.lane.state is LaneState.ENDED
        assert has_ended == (
            state is LaneState.ENDED or (state, outcome) == (LaneState.FLOWING, Outcome.GONE)
        )
        assert kept + made == (0 if has_ended else 3)
        harness.in_flight.note_stored(settled)
        assert harness.memory.used == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("leave", [LaneEvent.HOLD, LaneEvent.HAND_OVER, LaneEvent.END])
def test_lane_that_leaves_its_state_during_an_attempt_loses_nothing(
    leave: LaneEvent, outcome: Outcome
) -> None:
    async def scenario() -> None:
        harness = LaneHarness()
        harness.target.result = Result(outcome, "an error")
        harness.post(3)
        await asyncio.sleep(0)  # the first one is under way
        await asyncio.sleep(0)
        EVENTS[leave](harness)
        harness.target.goes_on.set()
        await harness.slots.wait(60)
        settled = harness.settlement.take()
        stored = {each.id for each in (*settled.pending, *settled.failed)}
        delivered = sum(count.delivered for _, count in settled.counts)
        if leave is LaneEvent.END:
            assert (stored, settled.entries) == (set(), [b"1-0"])
        elif harness.lane.state is LaneState.ENDED:
            assert (leave, outcome) == (LaneEvent.HOLD, Outcome.GONE)
        else:
            assert len(stored - set(settled.made)) + delivered >= 3
        # What has failed since the queue was handed over is for another notifier.
        failed_late = leave is LaneEvent.HAND_OVER and outcome is not Outcome.DELIVERED
        assert harness.in_flight.number == int(failed_late)
        harness.in_flight.note_stored(settled)
        harness.in_flight.close()
        assert harness.memory.used == 0

    asyncio.run(scenario())
