# SPDX-License-Identifier: Apache-2.0
"""What posts to another queue wait while a topic fans out to many queues of the same store.

Posts come at a fixed rate, each at its time, whether those before it were answered or not; so a
delay is also that of the posts behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
from argparse import Namespace
from collections.abc import Mapping

from benchmarks.notifications.pairs import PairedFigures
from benchmarks.notifications.store import BODY, PROJECT, NotifiedStore
from benchmarks.support import deployment
from benchmarks.support.rounds import in_turns, print_progress
from tests.support import notifiers, servers
from zaqar_redis import rules
from zaqar_redis.benchmarks.client import HttpConnection
from zaqar_redis.benchmarks.service import BenchmarkFailed

#: Posts a second: few, so that none waits for the one before it.
_RATE = 200
_CONNECTIONS = 16
_TARGET = ("≤", 2.0)
_HEADERS = {"Client-ID": "5f0c6f5e-9a0b-4c0e-8a55-0d5d3c1f7a10", "X-Project-ID": PROJECT}
_POST = b'{"messages": [{"ttl": 3600, "body": %b}]}' % BODY
_SERVICE: Mapping[str, Mapping[str, object]] = {"notification": {"in_service": False}}


class PostsElsewhere:
    def __init__(self, given: Namespace, found: PairedFigures) -> None:
        self._given = given
        self._found = found

    def measure(self) -> None:
        with contextlib.ExitStack() as stack:
            redis = deployment.redis_server(stack)
            running = stack.enter_context(servers.service(redis.uri, options=_SERVICE))
            stack.enter_context(notifiers.notifier(redis.uri))
            store = NotifiedStore(stack, redis)
            topic = rules.TOPIC_PREFIX + "news"
            targets = [f"target-{number}" for number in range(self._given.subscriptions)]
            store.run(store.subscribe(topic, [f"queue:{target}" for target in targets]))
            store.run(store.each([store.create(target) for target in [*targets, "elsewhere"]]))
            connections = [
                HttpConnection("127.0.0.1", running.port, _HEADERS) for _ in range(_CONNECTIONS)
            ]
            delays: list[list[list[float]]] = [[], []]
            for number, order in in_turns([0, 1], self._given.rounds, first=0):
                for place in order:
                    found = store.run(self._round(store, connections, topic if place else ""))
                    if number:
                        delays[place].append(found)
                        print_progress(f"elsewhere, {place}: p99 {_at(found, 99):.1f} ms")
            for connection in connections:
                connection.close()
        for percent, target in ((50, None), (99, _TARGET)):
            values = [[_at(each, percent) for each in side] for side in delays]
            self._found.add("elsewhere", f"p{percent}, ms", values, target=target)

    async def _round(
        self, store: NotifiedStore, connections: list[HttpConnection], topic: str
    ) -> list[float]:
        """Returns the milliseconds of each post.  *topic* fans out meanwhile; empty: none does."""
        fanning = asyncio.create_task(_fan_out(store, topic)) if topic else None
        try:
            return await _post(connections, round(_RATE * self._given.seconds))
        finally:
            if fanning is not None:
                fanning.cancel()
                await asyncio.gather(fanning, return_exceptions=True)
                await store.delivered(topic)


async def _fan_out(store: NotifiedStore, topic: str) -> None:
    while True:
        await store.post(topic)
        await store.delivered(topic)


async def _post(connections: list[HttpConnection], number: int) -> list[float]:
    loop = asyncio.get_running_loop()
    free: asyncio.Queue[HttpConnection] = asyncio.Queue()
    for connection in connections:
        free.put_nowait(connection)
    begun = loop.time()

    async def post(due: float) -> float:
        connection = await free.get()
        status, answer = await connection.request("POST", "/v2/queues/elsewhere/messages", _POST)
        free.put_nowait(connection)
        if status != 201:
            raise BenchmarkFailed(f"a post was answered {status}: {answer!r}")
        return (loop.time() - due) * 1000

    posts = []
    for place in range(number):
        due = begun + place / _RATE
        await asyncio.sleep(due - loop.time())
        posts.append(asyncio.create_task(post(due)))
    return sorted(await asyncio.gather(*posts))


def _at(delays: list[float], percent: int) -> float:
    return delays[len(delays) * percent // 100]
