# SPDX-License-Identifier: Apache-2.0
"""Engines of channels, each started with somebody who writes down what is heard."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests import servers
from zaqar_redis import clock
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.realtime.engine import Engine, Position
from zaqar_redis.realtime.engines.memory import MemoryEngine
from zaqar_redis.realtime.engines.redis import RedisEngine
from zaqar_redis.realtime.engines.sharded import ShardedEngine

T = TypeVar("T")


class Heard:
    """What a node heard, in order."""

    def __init__(self) -> None:
        self.news: list[tuple[Any, ...]] = []

    def on_publication(self, channel: str, payload: bytes, position: Position) -> None:
        self.news.append(("publication", channel, payload, position))

    def on_join(self, channel: str, info: bytes) -> None:
        self.news.append(("join", channel, info))

    def on_leave(self, channel: str, info: bytes) -> None:
        self.news.append(("leave", channel, info))

    def on_control(self, payload: bytes) -> None:
        self.news.append(("control", payload))

    def on_gap(self) -> None:
        self.news.append(("gap",))


class OwnedClock:
    """Milliseconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


class Backend:
    """An engine that is started, and the loop it runs in."""

    def __init__(self, engine: Engine, clock: OwnedClock, runner: asyncio.Runner) -> None:
        self.engine = engine
        self.clock = clock
        self.heard = Heard()
        self._runner = runner

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def hears(self, *expected: tuple[Any, ...]) -> None:
        """Just this, soon."""

        async def soon() -> None:
            for _ in range(500):
                if len(self.heard.news) >= len(expected):
                    return
                await asyncio.sleep(0.01)

        self.run(soon())
        assert self.heard.news == list(expected)
        self.heard.news.clear()


def engine(uris: Sequence[str], now: clock.Clock) -> Engine:
    """In the process when there is no URI, and sharded when there are several."""
    engines = [RedisEngine(keyspace.client(uri, BatchSettings()), now) for uri in uris]
    if not engines:
        return MemoryEngine(now)
    return ShardedEngine(engines) if len(engines) > 1 else engines[0]


@contextlib.contextmanager
def started(*uris: str) -> Iterator[Backend]:
    with asyncio.Runner() as runner:
        time = OwnedClock()
        backend = Backend(engine(uris, time), time, runner)
        backend.run(backend.engine.start("node", backend.heard))
        try:
            yield backend
        finally:
            backend.run(backend.engine.close())


#: Servers of a backend.
_SERVERS = {
    "memory": (),
    "redis": (servers.REDIS,),
    "valkey": (servers.VALKEY,),
    "sharded": (servers.REDIS, servers.VALKEY),
}


@pytest.fixture(params=_SERVERS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with contextlib.ExitStack() as stack:
        kinds = _SERVERS[request.param]
        uris = [stack.enter_context(servers.redis_server(kind)).uri for kind in kinds]
        yield stack.enter_context(started(*uris))


@pytest.fixture(scope="module")
def service(request: pytest.FixtureRequest) -> Iterator[servers.Service]:
    """Of two workers, with the OPTIONS of the module, and a Redis that has no other nodes."""
    with (
        servers.redis_server() as redis,
        servers.service(redis.uri, workers=2, options=request.module.OPTIONS) as running,
    ):
        yield running


@pytest.fixture(scope="module")  # its loop would be in the way of tests with one of their own
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Without its sandbox, which needs what containers do not give.
        browser = playwright.chromium.launch(
            executable_path=servers.program("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()
