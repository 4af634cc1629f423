# SPDX-License-Identifier: Apache-2.0
"""What the sweeper costs per minute when nothing has expired, and how long it takes when all has.

    python -m benchmarks.sweeping --queues 100000

starts a Redis of its own and stops it. CPU time is that of Redis and of this process, which
runs the sweeper as a service does, but with a clock of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable

from benchmarks.support.processes import cpu_seconds
from benchmarks.support.rounds import print_progress
from tests.support import servers
from zaqar_redis.benchmarks import report
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.records import NewMessage
from zaqar_redis.storage.redis import RedisDriver

#: Seconds between two rounds of the sweeper.
_SWEEP_INTERVAL_SECONDS = 60
#: Queues created at a time.
_TOGETHER = 200
_PROJECT = "swept"
_CLIENT = "5f0c6f5e-9a0b-4c0e-8a55-0d5d3c1f7a10"
_TTL = 14 * 24 * 3600
_NEW_MESSAGE = NewMessage(body=b'"x"', ttl=_TTL)


class SweptStore:
    def __init__(self, server: servers.RedisServer) -> None:
        self._redis = server.pid
        self._client = keyspace.client(server.uri, BatchSettings(timeout=60))
        self._now = round(time.time() * 1000)
        self._driver = RedisDriver(self._client, lambda: self._now)

    async def start(self) -> None:
        await self._driver.start()

    async def close(self) -> None:
        await self._driver.close()

    async def create_queues(self, numbers: Iterable[int]) -> None:
        await _each(lambda name: self._driver.queues.create(_PROJECT, name, {}), numbers)

    async def post(self, numbers: Iterable[int]) -> None:
        """Posts one message to each, with the default maximum TTL."""
        await _each(
            lambda name: self._driver.messages.post(
                _PROJECT, name, [_NEW_MESSAGE], client=_CLIENT, default_ttl=_TTL, size=0
            ),
            numbers,
        )

    def expire(self) -> None:
        self._now += (_TTL + 1) * 1000

    async def measure_sweep(self, what: str) -> list[str]:
        """Runs a round of the sweeper; returns a row of the table."""
        await self._client.command("DEL", keys.SWEEPER)
        processes = (self._redis, os.getpid())
        before = [cpu_seconds(process) for process in processes]
        start = time.monotonic()
        settled = await self._driver.sweeper.sweep(_SWEEP_INTERVAL_SECONDS)
        passed = time.monotonic() - start
        pairs = zip(processes, before, strict=True)
        used = [cpu_seconds(process) - earlier for process, earlier in pairs]
        figures = [f"{seconds:.2f}" for seconds in (*used, passed)]
        return [what, *figures, f"{sum(used) / _SWEEP_INTERVAL_SECONDS:.2%}", str(settled)]


async def _each(do: Callable[[str], Awaitable[object]], numbers: Iterable[int]) -> None:
    names = [f"queue-{number}" for number in numbers]
    for at in range(0, len(names), _TOGETHER):
        await asyncio.gather(*[_await(do(name)) for name in names[at : at + _TOGETHER]])


async def _await(done: Awaitable[object]) -> None:
    await done


async def run(queues: int, idle: bool) -> str:
    rows = []
    with servers.redis_server() as server:
        swept = SweptStore(server)
        await swept.start()
        try:
            rows.append(await swept.measure_sweep("no queues"))
            print_progress(f"creating {queues} queues")
            await swept.create_queues(range(queues))
            rows.append(await swept.measure_sweep(f"{queues} empty queues"))
            print_progress("posting to each")
            await swept.post(range(queues))
            rows.append(await swept.measure_sweep(f"{queues} queues, a message each"))
            if not idle:
                swept.expire()
                rows.append(await swept.measure_sweep(f"{queues} queues, their messages expired"))
                rows.append(await swept.measure_sweep(f"{queues} queues, a minute later"))
        finally:
            await swept.close()
    head = [
        "a round of the sweeper",
        "CPU s of Redis",
        "of Python",
        "seconds",
        "of a core",
        "swept",
    ]
    return report.table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=100_000)
    parser.add_argument("--idle", action="store_true", help="leave out expired messages")
    args = parser.parse_args()
    print(asyncio.run(run(args.queues, args.idle)))


if __name__ == "__main__":
    main()
