# SPDX-License-Identifier: Apache-2.0
"""How fast a pool is emptied into another, beside posting the same messages anew."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import time
from collections.abc import Awaitable, Callable

from tests.benchmarks import house
from tests.benchmarks.rounds import RATE, Contender, Measured, Target, sample, take_turns, tell
from zaqar_redis.bench.load import Sample
from zaqar_redis.bench.service import Failed, message
from zaqar_redis.records import Draft
from zaqar_redis.storage.driver import Driver
from zaqar_redis.storage.pooled import PooledDriver

#: Queues that hold many messages; queues that hold few, and how many those are.
_LARGE, _SMALL, _FEW = 20, 1000, 10
#: Messages in a post; the mover takes as many at a time.
_POST = 1000
_PROJECT = "drained"
_CLIENT = "5f0c6f5e-9a0b-4c0e-8a55-0d5d3c1f7a10"
_TTL = 43_200
#: Nanoseconds for each queue, and how many failed.
Work = Callable[[], Awaitable[tuple[list[int], int]]]
_DRAFT = Draft(body=json.dumps(message()["body"], separators=(",", ":")).encode(), ttl=_TTL)


class Drained:
    """Two pools, and queues that go from one to the other and back."""

    def __init__(
        self, stack: contextlib.ExitStack, runner: asyncio.Runner, queues: int, messages: int
    ) -> None:
        self._queues, self._messages = queues, messages
        self._house = house.House(stack, runner, 2)
        self._source, self._target = self._house.pools
        self._turn()
        tell(f"posting {queues} times {messages} messages")
        self._house.make(functools.partial(self._fill, self._house.driver), queues)
        self._turn()

    def contenders(self, by_queue: bool) -> tuple[Contender, Contender]:
        """Count queues, or messages."""
        work = self._queues * (1 if by_queue else self._messages)

        def contender(label: str, do: Work, afterwards: Callable[[], None]) -> Contender:
            def measure(seconds: int) -> Sample:
                start = time.monotonic()
                delays, failed = self._house.run(do())
                passed = time.monotonic() - start
                afterwards()
                return sample(delays, failed, passed, work=work)

            return Contender(label, measure, os.getpid())

        return (
            contender("post", self._post, self._forget),
            contender("move", self._move, self._turn),
        )

    async def _move(self) -> tuple[list[int], int]:
        delays, moved, stayed = [], 0, 0
        before = time.monotonic_ns()
        async for _, outcome in self._house.driver.jobs.drain(self._source):
            now = time.monotonic_ns()
            delays.append(now - before)
            before = now
            if isinstance(outcome, int):
                moved += outcome
            else:
                stayed += 1
        if not stayed and moved != self._queues * self._messages:
            raise Failed(f"{moved} of {self._queues * self._messages} messages were moved")
        return delays, stayed

    def _turn(self) -> None:
        """What was the target is drained next."""
        self._house.put(self._source, takes=True)
        self._house.put(self._target, takes=False)
        self._source, self._target = self._target, self._source

    async def _post(self) -> tuple[list[int], int]:
        """Straight to a store, one queue after the other, as they are moved."""
        delays = []
        for number in range(self._queues):
            before = time.monotonic_ns()
            await self._fill(self._home, number)
            delays.append(time.monotonic_ns() - before)
        return delays, 0

    def _forget(self) -> None:
        self._house.make(
            lambda number: self._home.queues.delete(_PROJECT, _name(number)), self._queues
        )

    @property
    def _home(self) -> Driver:
        return self._house.driver.places.home.driver

    async def _fill(self, driver: Driver | PooledDriver, number: int) -> None:
        for posted in range(0, self._messages, _POST):
            drafts = [_DRAFT] * min(_POST, self._messages - posted)
            await driver.messages.post(
                _PROJECT, _name(number), drafts, client=_CLIENT, default_ttl=_TTL, size=0
            )


def _name(number: int) -> str:
    return f"queue-{number:04}"


def measure(found: list[Measured], runner: asyncio.Runner, rounds: int, messages: int) -> None:
    for name, queues, each, unit, targets in (
        ("drain-large", _LARGE, messages, "messages/s", (Target(RATE, "≥", 50_000),)),
        ("drain-small", _SMALL, min(_FEW, messages), "queues/s", ()),
    ):
        what = f"{queues} queues of {each} messages of 150 bytes, from one Redis to another"
        with contextlib.ExitStack() as stack:
            drained = Drained(stack, runner, queues, each)
            contenders = drained.contenders(by_queue=unit == "queues/s")
            take_turns(found, name, what, unit, targets, contenders, rounds=rounds, seconds=0)
