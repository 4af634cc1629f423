# SPDX-License-Identifier: Apache-2.0
"""How long posts take while the sweeper removes messages that have expired all at once.

    python -m benchmarks.expiring --messages 1000000 --queues 10000

starts a Redis and a service with one worker, which also sweeps, and stops them.  Posts are made at
a steady rate, whether the ones before are answered or not; the time of each counts from when it was
due, so a pause shows in all that came in it.  *before*: the messages are there, and nobody sweeps.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

import msgspec

from benchmarks.support.rounds import print_progress
from tests.support import servers
from zaqar_redis.benchmarks import report
from zaqar_redis.benchmarks.client import HttpConnection
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.records import NewMessage
from zaqar_redis.storage.redis import RedisDriver

_PROJECT, _CLIENT = "expiring", "5f0c6f5e-9a0b-4c0e-8a55-0d5d3c1f7a10"
_TTL = 60
#: Posts that fill the store at a time.
_TOGETHER = 20
#: Connections that post: more than answers are late at a time.
_CONNECTIONS = 32
#: Queues that take the posts while others are swept.
_LIVE_QUEUES = 8
_BODY = msgspec.json.encode({"messages": [{"body": "x" * 100, "ttl": 3600}]})
_SERVICE: dict[str, dict[str, object]] = {"storage": {"sweep_interval": 1}}
#: Seconds between looks whether all is swept.
_LOOK_SECONDS = 0.1


class ExpiredStore:
    """A store with messages that have all expired, which nobody sweeps yet."""

    def __init__(self, uri: str) -> None:
        self._client = keyspace.client(uri, BatchSettings(timeout=60))
        expired_at = round(time.time() * 1000) - 2 * _TTL * 1000
        self._driver = RedisDriver(self._client, lambda: expired_at)

    async def fill(self, messages: int, queues: int) -> None:
        await self._driver.start()
        # The turn is taken for longer than it takes to fill the store and to measure before.
        await self._client.command("SET", keys.SWEEPER, "benchmark", "EX", 3600)
        posted = [NewMessage(body=b'"x"', ttl=_TTL)] * (messages // queues)
        numbers = iter(range(queues))

        async def post_next() -> None:
            for number in numbers:
                await self._driver.messages.post(
                    _PROJECT, f"q{number}", posted, client=_CLIENT, default_ttl=_TTL, size=0
                )

        await asyncio.gather(*(post_next() for _ in range(_TOGETHER)))

    async def begin_sweeping(self) -> None:
        await self._client.command("DEL", keys.SWEEPER)

    async def wait_until_swept(self, queues: int) -> None:
        for number in range(queues):
            messages = keys.of_queue(_PROJECT, f"q{number}").messages
            while await self._client.command("EXISTS", messages):  # noqa: ASYNC110  # in Redis
                await asyncio.sleep(_LOOK_SECONDS)

    async def close(self) -> None:
        await self._driver.close()


class SteadyPosts:
    """Posts at a rate that does not depend on the answers."""

    def __init__(self, port: int, rate: int) -> None:
        self._rate = rate
        self._free: asyncio.Queue[HttpConnection] = asyncio.Queue()
        for _ in range(_CONNECTIONS):
            headers = {"Client-ID": _CLIENT, "X-Project-ID": _PROJECT}
            self._free.put_nowait(HttpConnection("127.0.0.1", port, headers))

    async def until(self, is_over: Callable[[], bool]) -> list[float]:
        """Returns the milliseconds of each post."""
        delays: list[float] = []
        begun = time.monotonic()
        async with asyncio.TaskGroup() as posts:
            number = 0
            while not is_over():
                due = begun + number / self._rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                posts.create_task(self._post(number, due, delays))
                number += 1
        return delays

    async def _post(self, number: int, due: float, delays: list[float]) -> None:
        connection = await self._free.get()
        path = f"/v2/queues/live-{number % _LIVE_QUEUES}/messages"
        status, body = await connection.request("POST", path, _BODY)
        if status != 201:
            raise RuntimeError(f"a post was answered with {status}: {body[:200]!r}")
        delays.append(1000 * (time.monotonic() - due))
        self._free.put_nowait(connection)

    def close(self) -> None:
        while not self._free.empty():
            self._free.get_nowait().close()


def percentile(delays: list[float], share: float) -> float:
    return sorted(delays)[min(len(delays) - 1, int(share * len(delays)))]


@contextlib.asynccontextmanager
async def _filled(uri: str, messages: int, queues: int) -> AsyncIterator[ExpiredStore]:
    store = ExpiredStore(uri)
    try:
        await store.fill(messages, queues)
        yield store
    finally:
        await store.close()


async def run(messages: int, queues: int, rate: int, seconds: float) -> str:
    with servers.redis_server() as redis:
        async with _filled(redis.uri, messages, queues) as store:
            with (
                servers.service(redis.uri, options=_SERVICE) as service,
                contextlib.closing(SteadyPosts(service.port, rate)) as posts,
            ):
                print_progress(f"{messages} messages in {queues} queues have expired")
                for _ in range(2):  # the first is the warm-up
                    end = time.monotonic() + seconds
                    before = await posts.until(lambda: time.monotonic() > end)  # noqa: B023  # awaited in the round
                await store.begin_sweeping()
                begun = time.monotonic()
                swept = asyncio.create_task(store.wait_until_swept(queues))
                during = await posts.until(swept.done)
                await swept
                took = time.monotonic() - begun
    rows = []
    for what, delays in (("before", before), ("during the sweep", during)):
        figures = [f"{percentile(delays, share):.2f}" for share in (0.5, 0.99)]
        rows.append([what, str(len(delays)), *figures])
    ratios = [percentile(during, share) / percentile(before, share) for share in (0.5, 0.99)]
    rows.append(["ratio", "", *(f"{ratio:.2f}" for ratio in ratios)])
    table = report.table([f"{rate} posts a second", "posts", "p50 ms", "p99 ms"], rows)
    return f"{table}\n{messages} messages were swept in {took:.1f} s."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=500, help="posts a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of posts before the sweep")
    args = parser.parse_args()
    print(asyncio.run(run(args.messages, args.queues, args.rate, args.seconds)))


if __name__ == "__main__":
    main()
