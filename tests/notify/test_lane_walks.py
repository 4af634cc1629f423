# SPDX-License-Identifier: Apache-2.0
"""Lanes at random, seeded: whatever happens at whatever await, each message is settled once.

A model of the store takes what a lane settles, and is read by the lane's reader; attempts, dead
letters, the end of the subscription and reads of the store take some turns of the event loop, in
which the subscription is paused, resumed, gets another subscriber, or ends.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from tests.notify.lanes import NEVER, LaneHarness
from zaqar_redis import errors
from zaqar_redis.notify.states import LaneState
from zaqar_redis.notify.target import Delivery, Outcome, Result
from zaqar_redis.records import Subscription
from zaqar_redis.service.subscription_options import SubscriptionOptions
from zaqar_redis.storage.deliveries import PendingDelivery

#: Walks of one test: a second or so.
_WALKS = 150


class _RandomTarget:
    def __init__(self, rng: random.Random) -> None:
        self.internal = rng.random() < 0.2
        self._rng = rng
        self._weights = 6, 4, 3, rng.choice([0, 1, 8])
        self._turns = rng.choice([2, 4, 12])

    def check(self, subscriber: str, options: SubscriptionOptions) -> None:
        """Accepts all."""

    async def deliver(self, delivery: Delivery) -> Result:
        await _turns(self._rng, self._turns)
        (outcome,) = self._rng.choices(list(Outcome), self._weights)
        return Result(outcome, "an error")

    async def close(self) -> None:
        """Has nothing open."""


async def _turns(rng: random.Random, most: int) -> None:
    for _ in range(rng.randrange(most)):
        await asyncio.sleep(0)


class _Walk:
    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        options = SubscriptionOptions(
            concurrency=rng.choice([1, 3]),
            batch=rng.choice([1, 3]),
            ordered=rng.random() < 0.4,
            dead_letter_queue=rng.choice(["", "dead"]),
        )
        self.harness = LaneHarness(
            _RandomTarget(rng), options, waits=rng.random() < 0.2, leased=self._leased()
        )
        self.harness.dead_letters._post = self._post_dead_letter
        self.harness.in_flight.lanes = rng.choice([1, 1000])
        self.lane = self.harness.lane
        #: what the store has, by id, and when what waits is due
        self.pending: dict[str, PendingDelivery] = {}
        self.hold = 0 if self.lane.state is LaneState.HELD else None
        self.entries: Counter[bytes] = Counter()
        self._notices = 0

    def _leased(self) -> Any:
        walk = self

        class Leased:
            project, queue = "p", "q"

            async def end_subscription(self, subscription: Subscription) -> bool:
                await _turns(walk.rng, 3)
                return walk.rng.random() < 0.7

            async def backlog(
                self, subscription: str, after: str, limit: int
            ) -> Sequence[PendingDelivery]:
                await _turns(walk.rng, 9)
                return [each for id, each in sorted(walk.pending.items()) if id > after][:limit]

        return Leased()

    async def _post_dead_letter(self, *_: object, **__: object) -> None:
        await _turns(self.rng, 3)
        if (chance := self.rng.random()) < 0.3:
            raise errors.StoreUnavailable("dead")
        if chance < 0.5:
            raise errors.BadRequest(why="it takes nothing")

    def step(self) -> None:
        """Settles, as a step of the source does."""
        settled = self.harness.settlement.take()
        for each in settled.pending:
            self.pending[each.id] = each
        for id in (*settled.made, *(each.id for each in settled.failed)):
            self.pending.pop(id, None)
        self.entries.update(settled.entries)
        self.harness.in_flight.note_stored(settled)
        for _, until in settled.holds:
            if until is not None:
                self.hold = until
            elif self.hold is not None and self.hold > self.harness.clock.now():
                self.hold = None
        for each in settled.pending:
            is_reading = self.lane.state is LaneState.CATCHING_UP
            self.lane.backlog.note_stored(each, is_reading=is_reading)
        for id in (*settled.made, *(each.id for each in settled.failed)):
            self.lane.forget(id)

    async def act(self) -> None:
        """Does something at random."""
        rng, harness, lane = self.rng, self.harness, self.lane
        acts: list[Callable[[], Awaitable[None] | None]] = [
            self._post,
            self._post,
            self._send_notice,
            self._wake,
            self.step,
            lambda: harness.reader.read(harness.offer),
            lambda: harness.reader.read(harness.offer),
            self._adopt,
            lambda: lane.store_held(1.0),
            self._offer_due,
            lambda: _turns(rng, 4),
            lambda: _turns(rng, 4),
        ]
        waiting = rng.choice(acts)()
        if waiting is not None:
            await waiting

    def _post(self) -> None:
        expires = NEVER if self.rng.random() < 0.9 else 1
        self.entries[
            self.harness.post(self.rng.randrange(1, 4), self.rng.choice([0.0, 1e9]), expires)
        ] += 0

    def _send_notice(self) -> None:
        self._notices += 1
        name = f"notice {self._notices}"
        notice = PendingDelivery("id", name, NEVER, notice=b"{}", due=0)
        self.pending[notice.id] = notice
        self.harness.offer(self.lane, notice, is_asked=False)

    def _wake(self) -> None:
        if self.hold is not None:
            self.hold = self.harness.clock.now() + 10_000  # as a step puts it off
            if self.harness.settlement.begin_due("id"):
                self.lane.catch_up()

    def _adopt(self) -> None:
        if self.lane.state is LaneState.ENDED:
            return  # the roster makes another one
        subscriber = self.rng.choice(["http://h/", "http://h/", "http://g/"])
        after = self.harness.settings(paused=self.rng.random() < 0.4, subscriber=subscriber)
        if self.lane.settings.subscription.paused and not after.subscription.paused:
            self.hold = self.harness.clock.now() - 1  # as subscription_update.lua
        self.lane.adopt(after)

    def _offer_due(self) -> None:
        for each in [*self.pending.values()][:2]:
            if each.due is not None:
                self.harness.offer(self.lane, each, is_asked=False)

    async def until_calm(self) -> bool:
        """Returns whether nothing is under way, or waits for its turn, any more."""
        if self.rng.random() < 0.5:
            self.lane.stop()
        for _ in range(400):
            await asyncio.sleep(0)
            self.step()
        return await self.harness.slots.wait(0) and not self.lane.has_items

    def check(self) -> None:
        lane, harness = self.lane, self.harness
        is_paused = lane.settings.subscription.paused
        waiting = [each for each in self.pending.values() if each.due is None]
        if lane.state is LaneState.FLOWING:
            assert not waiting
        if lane.state is LaneState.HELD and not is_paused:
            assert self.hold is not None
        if lane.state is LaneState.CATCHING_UP:
            assert self.hold is not None
            assert lane in harness.reader._lanes
        if is_paused:
            assert lane.state in (LaneState.HELD, LaneState.ENDED)
        assert harness.in_flight.number == 0
        assert not lane.is_half_full
        assert harness.memory.used == 0
        assert set(self.entries.values()) <= {1}

    async def hand_over(self) -> None:
        self.lane.stop()
        await _turns(self.rng, 5)
        self.lane.hand_over(NEVER)
        await _turns(self.rng, 5)
        while not self.harness.settlement.is_empty:
            self.harness.settlement.take()
            await asyncio.sleep(0)
        self.lane.end()
        self.harness.in_flight.close()
        for _ in range(60):
            await asyncio.sleep(0)
        assert self.harness.memory.used == 0


async def _walk(seed: int) -> None:
    walk = _Walk(seed)
    for _ in range(walk.rng.randrange(5, 60)):
        await walk.act()
    if walk.rng.random() < 0.3:
        await walk.hand_over()
    elif await walk.until_calm():
        walk.check()
    await walk.harness.slots.close()


@pytest.mark.parametrize("first", range(0, 4 * _WALKS, _WALKS))
def test_lane_settles_each_message_once_whatever_happens(first: int) -> None:
    for seed in range(first, first + _WALKS):
        try:
            asyncio.run(_walk(seed))
        except BaseException as error:
            error.add_note(f"walk {seed}")
            raise
