# SPDX-License-Identifier: Apache-2.0
"""What the sweeper costs a minute when nothing is due, and how long it takes when all is.

    python -m tests.benchmarks.sweeping --queues 100000

starts a Redis of its own and stops it. CPU time is that of Redis and of this process, which
does what the sweeper of a service does; the clock is the benchmark's own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable

from tests import servers
from tests.benchmarks.rounds import cpu_seconds, tell
from zaqar_redis.bench import report
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.records import Draft
from zaqar_redis.storage.drivers.redis import RedisDriver

#: Seconds between two rounds of the sweeper.
_TURN = 60
#: Queues that are made at a time.
_TOGETHER = 200
_PROJECT = "swept"
_CLIENT = "5f0c6f5e-9a0b-4c0e-8a55-0d5d3c1f7a10"
_TTL = 14 * 24 * 3600
_DRAFT = Draft(body=b'"x"', ttl=_TTL)


class Swept:
    def __init__(self, server: servers.RedisServer) -> None:
        self._redis = server.pid
        self._client = keyspace.client(server.uri, BatchSettings(timeout=60))
        self._now = round(time.time() * 1000)
        self._driver = RedisDriver(self._client, lambda: self._now)

    async def start(self) -> None:
        await self._driver.start()

    async def close(self) -> None:
        await self._driver.close()

    async def make(self, numbers: Iterable[int]) -> None:
        await _each(lambda name: self._driver.queues.create(_PROJECT, name, {}), numbers)

    async def post(self, numbers: Iterable[int]) -> None:
        """One message each, with the longest TTL there is."""
        await _each(
            lambda name: self._driver.messages.post(
                _PROJECT, name, [_DRAFT], client=_CLIENT, default_ttl=_TTL, size=0
            ),
            numbers,
        )

    def expire(self) -> None:
        self._now += (_TTL + 1) * 1000

    async def turn(self, what: str) -> list[str]:
        """A row of the table."""
        await self._client.command("DEL", keys.SWEEPER)
        processes = (self._redis, os.getpid())
        before = [cpu_seconds(process) for process in processes]
        start = time.monotonic()
        settled = await self._driver.sweeper.sweep(_TURN)
        passed = time.monotonic() - start
        pairs = zip(processes, before, strict=True)
        used = [cpu_seconds(process) - earlier for process, earlier in pairs]
        figures = [f"{seconds:.2f}" for seconds in (*used, passed)]
        return [what, *figures, f"{sum(used) / _TURN:.2%}", str(settled)]


async def _each(do: Callable[[str], Awaitable[object]], numbers: Iterable[int]) -> None:
    names = [f"queue-{number}" for number in numbers]
    for at in range(0, len(names), _TOGETHER):
        await asyncio.gather(*[_await(do(name)) for name in names[at : at + _TOGETHER]])


async def _await(done: Awaitable[object]) -> None:
    await done


async def run(queues: int, idle: bool) -> str:
    rows = []
    with servers.redis_server() as server:
        swept = Swept(server)
        await swept.start()
        try:
            rows.append(await swept.turn("no queues"))
            tell(f"making {queues} queues")
            await swept.make(range(queues))
            rows.append(await swept.turn(f"{queues} empty queues"))
            tell("posting to each")
            await swept.post(range(queues))
            rows.append(await swept.turn(f"{queues} queues, a message each"))
            if not idle:
                swept.expire()
                rows.append(await swept.turn(f"{queues} queues, their messages expired"))
                rows.append(await swept.turn(f"{queues} queues, a minute later"))
        finally:
            await swept.close()
    head = [
        "a turn of the sweeper",
        "CPU s of Redis",
        "of Python",
        "seconds",
        "of a core",
        "tidied",
    ]
    return report.table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=100_000)
    parser.add_argument("--idle", action="store_true", help="leave out what is due")
    asked = parser.parse_args()
    print(asyncio.run(run(asked.queues, asked.idle)))


if __name__ == "__main__":
    main()
