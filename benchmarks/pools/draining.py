# SPDX-License-Identifier: Apache-2.0
"""How fast a pool is drained into another, compared with posting the same messages."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import time
from collections.abc import Awaitable, Callable

from benchmarks.support import deployment
from benchmarks.support.rounds import (
    RATE,
    BenchmarkTarget,
    CpuContender,
    Measurements,
    print_progress,
    sample,
)
from zaqar_redis.benchmarks.load import LoadSample
from zaqar_redis.benchmarks.service import BenchmarkFailed, message
from zaqar_redis.records import NewMessage
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.pools import PooledDriver

#: Large queues; small queues, and the number of messages in each of these.
_LARGE, _SMALL, _FEW = 20, 1000, 10
#: Messages in a post; the mover copies as many at a time.
_POST = 1000
_PROJECT = "drained"
_CLIENT = "5f0c6f5e-9a0b-4c0e-8a55-0d5d3c1f7a10"
_TTL = 43_200
#: Returns the nanoseconds for each queue, and the number of failures.
Work = Callable[[], Awaitable[tuple[list[int], int]]]
_NEW_MESSAGE = NewMessage(
    body=json.dumps(message()["body"], separators=(",", ":")).encode(), ttl=_TTL
)


class DrainBenchmark:
    """Two pools, and queues that move from one to the other and back."""

    def __init__(
        self, stack: contextlib.ExitStack, runner: asyncio.Runner, queues: int, messages: int
    ) -> None:
        self._queues, self._messages = queues, messages
        self._deployment = deployment.PooledDeployment(stack, runner, 2)
        self._source, self._target = self._deployment.pools
        self._swap_pools()
        print_progress(f"posting {queues} times {messages} messages")
        self._deployment.run_for_each(
            functools.partial(self._fill, self._deployment.driver), queues
        )
        self._swap_pools()

    def contenders(self, by_queue: bool) -> tuple[CpuContender, CpuContender]:
        """Returns two contenders, post and move; their rates count queues, or messages."""
        work = self._queues * (1 if by_queue else self._messages)

        def contender(label: str, do: Work, afterwards: Callable[[], None]) -> CpuContender:
            def measure(seconds: float) -> LoadSample:
                start = time.monotonic()
                delays, failed = self._deployment.run(do())
                passed = time.monotonic() - start
                afterwards()
                return sample(delays, failed, passed, work=work)

            return CpuContender(label, measure, os.getpid())

        return (
            contender("post", self._post, self._delete_queues),
            contender("move", self._move, self._swap_pools),
        )

    async def _move(self) -> tuple[list[int], int]:
        delays, moved, stayed = [], 0, 0
        before = time.monotonic_ns()
        async for _, outcome in self._deployment.driver.jobs.drain(self._source):
            now = time.monotonic_ns()
            delays.append(now - before)
            before = now
            if isinstance(outcome, int):
                moved += outcome
            else:
                stayed += 1
        if not stayed and moved != self._queues * self._messages:
            raise BenchmarkFailed(f"{moved} of {self._queues * self._messages} messages were moved")
        return delays, stayed

    def _swap_pools(self) -> None:
        """Makes the last target the next source."""
        self._deployment.put(self._source, accepts_queues=True)
        self._deployment.put(self._target, accepts_queues=False)
        self._source, self._target = self._target, self._source

    async def _post(self) -> tuple[list[int], int]:
        """Posts directly to a store, one queue after the other, as they are moved."""
        delays = []
        for number in range(self._queues):
            before = time.monotonic_ns()
            await self._fill(self._default_store, number)
            delays.append(time.monotonic_ns() - before)
        return delays, 0

    def _delete_queues(self) -> None:
        self._deployment.run_for_each(
            lambda number: self._default_store.queues.delete(_PROJECT, _name(number)), self._queues
        )

    @property
    def _default_store(self) -> Driver:
        return self._deployment.driver.router.stores.default.driver

    async def _fill(self, driver: Driver | PooledDriver, number: int) -> None:
        for posted in range(0, self._messages, _POST):
            messages = [_NEW_MESSAGE] * min(_POST, self._messages - posted)
            await driver.messages.post(
                _PROJECT, _name(number), messages, client=_CLIENT, default_ttl=_TTL, size=0
            )


def _name(number: int) -> str:
    return f"queue-{number:04}"


def measure(measurements: Measurements, runner: asyncio.Runner, rounds: int, messages: int) -> None:
    for name, queues, each, unit, targets in (
        ("drain-large", _LARGE, messages, "messages/s", (BenchmarkTarget(RATE, "≥", 50_000),)),
        ("drain-small", _SMALL, min(_FEW, messages), "queues/s", ()),
    ):
        what = f"{queues} queues of {each} messages of 150 bytes, from one Redis to another"
        with contextlib.ExitStack() as stack:
            drained = DrainBenchmark(stack, runner, queues, each)
            contenders = drained.contenders(by_queue=unit == "queues/s")
            measurements.take_turns(name, what, unit, targets, contenders, rounds=rounds, seconds=0)
