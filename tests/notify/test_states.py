# SPDX-License-Identifier: Apache-2.0
"""The table of a lane's states, walked cell by cell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from tests.notify.lanes import NEVER, LaneHarness
from zaqar_redis.notify.states import LANE_TRANSITIONS, LaneEvent, LaneState
from zaqar_redis.notify.target import Outcome, Result
from zaqar_redis.storage.deliveries import PendingDelivery


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
    harness.lane.hand_over(NEVER)
    return harness


STATES: dict[LaneState, Callable[[], LaneHarness]] = {
    LaneState.FLOWING: LaneHarness,
    LaneState.CATCHING_UP: _catching_up,
    LaneState.HELD: lambda: LaneHarness(waits=True),
    LaneState.HANDED_OVER: _handed_over,
    LaneState.ENDED: _ended,
}
EVENTS: dict[LaneEvent, Callable[[LaneHarness], object]] = {
    LaneEvent.OVERFLOW: LaneHarness.fill,
    LaneEvent.WAKE: lambda harness: harness.lane.catch_up(),
    LaneEvent.DRAIN: lambda harness: harness.lane.end_backlog(),
    LaneEvent.HOLD: LaneHarness.pause,
    LaneEvent.HAND_OVER: lambda harness: harness.lane.hand_over(NEVER),
    LaneEvent.END: lambda harness: harness.lane.end(),
}
#: The table once more, by rows: what each event leads to, "-" where it cannot happen.
EXPECTED = {
    # overflow, wake, drain, hold, hand over, end
    "flowing": ("catching up", "catching up", "-", "held", "handed over", "ended"),
    "catching up": ("-", "catching up", "flowing", "held", "handed over", "ended"),
    "held": ("-", "catching up", "-", "held", "handed over", "ended"),
    "handed over": ("-", "-", "-", "-", "-", "handed over"),
    "ended": ("-", "ended", "-", "-", "ended", "ended"),
}
CELLS = [
    (state, event, after)
    for state, row in zip(LaneState, EXPECTED.values(), strict=True)
    for event, after in zip(LaneEvent, row, strict=True)
]


def test_table_is_as_expected() -> None:
    assert set(STATES) == set(LaneState)
    assert set(EVENTS) == set(LaneEvent)
    found = {
        state.value: tuple(row[event].value if event in row else "-" for event in LaneEvent)
        for state, row in LANE_TRANSITIONS.items()
    }
    assert found == EXPECTED


@pytest.mark.parametrize(("state", "event", "after"), [cell for cell in CELLS if cell[2] != "-"])
async def test_event_leads_to_the_state_of_its_cell(
    state: LaneState, event: LaneEvent, after: str
) -> None:
    harness = STATES[state]()
    assert harness.lane.state is state
    EVENTS[event](harness)
    assert harness.lane.state.value == after
    await harness.slots.close()


@pytest.mark.parametrize("state", [LaneState.CATCHING_UP, LaneState.HELD, LaneState.ENDED])
async def test_what_comes_where_nothing_flows_changes_no_state(state: LaneState) -> None:
    harness = STATES[state]()
    harness.fill()
    assert harness.lane.state is state
    stored = len(harness.settlement.take().pending)
    assert stored == (0 if state is LaneState.ENDED else 2)


async def test_store_is_told_when_what_waits_is_due_and_when_nothing_does() -> None:
    harness = LaneHarness()
    lane, settlement = harness.lane, harness.settlement
    harness.fill()
    ((id, due),) = settlement.take().holds
    assert (id, due is not None) == ("id", True)
    lane.backlog.position = "id 0"
    lane.catch_up()  # again, since something was added
    assert not lane.backlog.end()
    assert lane.backlog.position == ""
    harness.held.goes_on.set()
    await harness.slots.wait(60)
    harness.pause()
    assert settlement.take().holds == [("id", None)]
    lane.adopt(harness.settings())
    assert lane.state is LaneState.CATCHING_UP
    await harness.slots.close()


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize(
    "leave", [LaneEvent.WAKE, LaneEvent.HOLD, LaneEvent.HAND_OVER, LaneEvent.END]
)
async def test_lane_that_leaves_its_state_during_an_attempt_settles_each_message_once(
    leave: LaneEvent, outcome: Outcome
) -> None:
    harness = LaneHarness()
    harness.held.result = Result(outcome, "an error")
    harness.post(3)
    await asyncio.sleep(0)  # the first one is under way
    await asyncio.sleep(0)
    assert harness.memory.used > 0
    EVENTS[leave](harness)
    if outcome is not Outcome.RETRY or leave is not LaneEvent.WAKE:
        harness.held.goes_on.set()
        await harness.slots.wait(60)
    settled = harness.settlement.take()
    stored = {each.id for each in (*settled.pending, *settled.failed)}
    delivered = sum(count.delivered for _, count in settled.counts)
    if harness.lane.state is LaneState.ENDED:
        assert settled.entries == [b"1-0"]
        assert len(stored) == (2 if leave is LaneEvent.HOLD else 0)
    elif leave is LaneEvent.HAND_OVER:
        # What is under way is stored, and made by another notifier if it is not made late.
        assert len(stored) == 3
        assert len(harness.context.made_late) == delivered == int(outcome is Outcome.DELIVERED)
    elif leave is LaneEvent.HOLD:
        assert len(stored) + delivered == 3
    await harness.slots.close()


@pytest.mark.parametrize("leave", [LaneEvent.HOLD, LaneEvent.END])
@pytest.mark.parametrize("number", [0, 3])
async def test_lane_that_leaves_while_its_backlog_is_read_takes_nothing_of_it(
    leave: LaneEvent, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = _catching_up()
    pending = [PendingDelivery("id", f"{rank:016d}", NEVER, notice=b"{}") for rank in range(number)]

    async def read(*_: object) -> Sequence[PendingDelivery]:
        EVENTS[leave](harness)
        return pending

    monkeypatch.setattr(harness.context.leased, "backlog", read)
    await harness.reader.read(harness.offer)
    assert harness.lane.state.value == EXPECTED["catching up"][[*LaneEvent].index(leave)]
    assert harness.in_flight.number == 0
    assert harness.settlement.take().pending == []
