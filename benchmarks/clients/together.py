# SPDX-License-Identifier: Apache-2.0
"""How many messages one process of the Python client posts, receives and acknowledges a second.

    python -m benchmarks.clients.together --rounds 6

A service with one worker and its defaults, over a Redis without an append-only file.  Messages a
second, and CPU time of the client, the worker and Redis for each message.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

from zaqar_redis_client import AsyncClient, AsyncQueue

from benchmarks.support.processes import cpu_seconds
from benchmarks.support.rounds import print_progress
from tests.support import servers
from zaqar_redis.benchmarks import report

_MESSAGES = 40_000
_BODIES: list[Any] = [{"n": number, "x": "y" * 100} for number in range(_MESSAGES)]
#: Messages of a claim: as many as a service with the defaults gives.
_CLAIM = 20
_TASKS, _ITERATORS, _CLAIMS = 256, 8, 16
#: of a message: a second, µs of client, worker and Redis
Rates = tuple[float, float, float, float]


async def _post_singly(queue: AsyncQueue) -> None:
    bodies = iter(_BODIES)  # each task takes the next one

    async def post() -> None:
        for body in bodies:
            await queue.post(body)

    await asyncio.gather(*(post() for _ in range(_TASKS)))


async def _post_many(queue: AsyncQueue) -> None:
    await queue.post_many(_BODIES)


async def _post_many_at_a_time(queue: AsyncQueue) -> None:
    await asyncio.gather(*(queue.post_many(_BODIES[first::4]) for first in range(4)))


async def _consume(queue: AsyncQueue) -> None:
    async def consume(count: int) -> None:
        acks: list[asyncio.Task[None]] = []
        async with contextlib.aclosing(queue.consume(prefetch=_CLAIM)) as leases:
            async for lease in leases:
                acks.append(asyncio.create_task(lease.ack()))
                count -= 1
                if len(acks) == _CLAIM or not count:
                    await asyncio.gather(*acks)
                    acks.clear()
                if not count:
                    return

    await asyncio.gather(*(consume(_MESSAGES // _ITERATORS) for _ in range(_ITERATORS)))


async def _claim(queue: AsyncQueue) -> None:
    async def claim() -> None:
        while claimed := await queue.claim(_CLAIM):
            await claimed.delete(*(message.id for message in claimed.messages))

    await asyncio.gather(*(claim() for _ in range(_CLAIMS)))


#: label: what is done, and whether the messages are there before
_KINDS: dict[str, tuple[Callable[[AsyncQueue], Awaitable[None]], bool]] = {
    f"post, awaited one by one by {_TASKS} tasks": (_post_singly, False),
    "post_many, one request at a time": (_post_many, False),
    "post_many, four requests at a time": (_post_many_at_a_time, False),
    f"consume and ack, {_ITERATORS} iterators, {_CLAIM} acks together": (_consume, True),
    f"claim and delete, {_CLAIM} messages each, {_CLAIMS} at a time": (_claim, True),
}


async def _measured(url: str, pids: list[int], rounds: int) -> list[list[str]]:
    found: dict[str, list[Rates]] = {label: [] for label in _KINDS}
    async with AsyncClient(url, "benchmark") as client:
        queue = client.queue("measured")
        for _ in range(rounds):
            for label, (work, of_posted) in _KINDS.items():
                if of_posted:
                    await queue.post_many(_BODIES)
                before = [time.process_time(), *(cpu_seconds(pid) for pid in pids)]
                began = time.perf_counter()
                await work(queue)
                seconds = time.perf_counter() - began
                after = [time.process_time(), *(cpu_seconds(pid) for pid in pids)]
                ours, worker, redis = (
                    (now - then) / _MESSAGES * 1e6 for then, now in zip(before, after, strict=True)
                )
                found[label].append((_MESSAGES / seconds, ours, worker, redis))
                print_progress(f"{label}: {_MESSAGES / seconds:.0f}/s")
                await queue.purge()
    return [_row(label, rates) for label, rates in found.items()]


def _row(label: str, rates: list[Rates]) -> list[str]:
    done, *costs = (report.spread(values) for values in zip(*rates, strict=True))
    every = f"{done.min:.0f}", f"{done.max:.0f}"
    return [label, f"{done.median:.0f}", *every, *(f"{each.median:.1f}" for each in costs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    args = parser.parse_args()
    with servers.redis_server() as server, servers.service(server.uri, workers=1) as running:
        pids = [*running.workers(), server.pid]
        rows = asyncio.run(_measured(running.url, pids, args.rounds))
    head = ["what", "messages/s", "least", "greatest", "client, µs", "worker, µs", "Redis, µs"]
    print(report.table(head, rows))


if __name__ == "__main__":
    main()
