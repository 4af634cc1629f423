# SPDX-License-Identifier: Apache-2.0
"""How long a queue is away when its primary fails, and what is lost then.

    python -m benchmarks.failover
    python -m benchmarks.failover --part kill --rounds 1 --rate 500

starts a primary, two replicas and three sentinels of its own for each round, and stops them. It
posts at a steady rate with `ack_replicas = 1`, as a worker does, kills or stops the primary, and
posts on until posts have been acknowledged for a while. *Away* is the longest time without an
acknowledgement; *lost* are numbers that were acknowledged and are not in the queue then, *twice*
those that are there more than once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping

import uvloop

from benchmarks.support.figures import Figures
from benchmarks.support.program import MeasurePart, PartsProgram
from benchmarks.support.rounds import print_progress
from tests.availability.queues import NumberedQueue, numbered_queue
from zaqar_redis.benchmarks.redis_node import RedisNode
from zaqar_redis.benchmarks.redis_sentinel import RedisSentinel, redis_sentinel

_STRIKES: Mapping[str, Callable[[RedisNode], None]] = {
    "kill": RedisNode.kill,
    "pause": RedisNode.pause,
}
_FIGURES = ("away, s", "acknowledged", "lost", "twice")
#: Seconds of posts before the primary fails, and after they are acknowledged again.
_BEFORE, _AFTER = 2.0, 3.0
#: Seconds after which a store that is still away ends the benchmark.
_PATIENCE = 90.0
#: Seconds between posts that leave together.
_TICK = 0.005


class _SteadyPosts:
    """Posts to a queue at a rate, whether posts are acknowledged or not."""

    def __init__(self, queue: NumberedQueue, rate: int) -> None:
        self._queue = queue
        self._rate = rate
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        #: the longest time without an acknowledgement, in seconds
        self.away = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    async def run_for(self, seconds: float) -> None:
        begin, sent = self._loop.time(), 0
        while (passed := self._loop.time() - begin) < seconds:
            while sent < passed * self._rate:
                task = asyncio.create_task(self._post())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                sent += 1
            await asyncio.sleep(_TICK)

    async def run_until_acknowledged(self) -> None:
        """Raises TimeoutError."""
        struck_at = self._loop.time()
        async with asyncio.timeout(_PATIENCE):
            # Replies to what was sent before may still arrive.
            while self._loop.time() - struck_at < 1 or self._loop.time() - self._last > 0.2:
                await self.run_for(0.1)

    async def finish(self) -> None:
        await asyncio.gather(*self._tasks)

    async def _post(self) -> None:
        if await self._queue.post():
            now = self._loop.time()
            self.away, self._last = max(self.away, now - self._last), now


async def _fail_over(
    sentinel: RedisSentinel, strike: Callable[[RedisNode], None], rate: int
) -> tuple[float, ...]:
    """Returns `_FIGURES`."""
    async with numbered_queue(sentinel.uri, ack_replicas=1) as queue:
        primary = sentinel.primary()
        posts = _SteadyPosts(queue, rate)
        await posts.run_for(_BEFORE)
        strike(primary)
        await posts.run_until_acknowledged()
        await posts.run_for(_AFTER)
        await posts.finish()
        found = Counter(await queue.found())
        lost = set(queue.acknowledged) - found.keys()
        twice = sum(count > 1 for count in found.values())
        return posts.away, len(queue.acknowledged), len(lost), twice


def main() -> int:
    program = PartsProgram("failover", __doc__, tuple(_STRIKES))
    program.add_number("--rate", 10, 5000, 2000, "posts a second")
    program.add_number("--down-after", 500, 30_000, 1000, "milliseconds, of the sentinels")
    figures = Figures()

    def measure(part: str, given: argparse.Namespace) -> None:
        kept = [figures.figure(f"primary, {part}", what, "") for what in _FIGURES]
        for number in range(1, given.rounds + 1):
            with redis_sentinel(replicas=2, down_after_ms=given.down_after) as sentinel:
                found = uvloop.run(_fail_over(sentinel, _STRIKES[part], given.rate))
            for values, value in zip(kept, found, strict=True):
                values.append(value)
            print_progress(f"{part}: round {number} of {given.rounds}, away {found[0]:.2f} s")

    def prepare(
        given: argparse.Namespace, stack: contextlib.ExitStack
    ) -> Mapping[str, MeasurePart]:
        def measured(part: str) -> MeasurePart:
            return lambda: measure(part, given)

        return {part: measured(part) for part in _STRIKES}

    return program.run(prepare, figures)


if __name__ == "__main__":
    raise SystemExit(main())
