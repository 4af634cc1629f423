# SPDX-License-Identifier: Apache-2.0
"""Channel engines, each started with a handler that records its events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from tests.support import servers
from tests.support.clock import ManualClock
from zaqar_redis import clock
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.realtime.engine import Engine, Position
from zaqar_redis.realtime.engines.memory import MemoryEngine
from zaqar_redis.realtime.engines.redis import RedisEngine
from zaqar_redis.realtime.engines.sharded import ShardedEngine

T = TypeVar("T")


class RecordingEventHandler:
    """Records the events that a node received, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def on_publication(self, channel: str, payload: bytes, position: Position) -> None:
        self.events.append(("publication", channel, payload, position))

    def on_join(self, channel: str, info: bytes) -> None:
        self.events.append(("join", channel, info))

    def on_leave(self, channel: str, info: bytes) -> None:
        self.events.append(("leave", channel, info))

    def on_control(self, payload: bytes) -> None:
        self.events.append(("control", payload))

    def on_gap(self) -> None:
        self.events.append(("gap",))


class EngineHarness:
    """A started engine, and the event loop it runs in."""

    def __init__(self, engine: Engine, clock: ManualClock, runner: asyncio.Runner) -> None:
        self.engine = engine
        self.clock = clock
        self.handler = RecordingEventHandler()
        self._runner = runner

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def expect_events(self, *expected: tuple[Any, ...]) -> None:
        """Waits for the expected events; fails at any other or missing one."""

        async def wait() -> None:
            for _ in range(500):
                if len(self.handler.events) >= len(expected):
                    return
                await asyncio.sleep(0.01)

        self.run(wait())
        assert self.handler.events == list(expected)
        self.handler.events.clear()


def engine(uris: Sequence[str], now: clock.Clock) -> Engine:
    """Returns a memory engine without URIs, and a sharded one with several."""
    engines = [RedisEngine(keyspace.client(uri, BatchSettings()), now) for uri in uris]
    if not engines:
        return MemoryEngine(now)
    return ShardedEngine(engines) if len(engines) > 1 else engines[0]


@contextlib.contextmanager
def started(*uris: str) -> Iterator[EngineHarness]:
    with asyncio.Runner() as runner:
        time = ManualClock()
        backend = EngineHarness(engine(uris, time), time, runner)
        backend.run(backend.engine.start("node", backend.handler))
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


@pytest.fixture(scope="module", params=_SERVERS)
def engine_servers(request: pytest.FixtureRequest) -> Iterator[list[servers.RedisServer]]:
    with contextlib.ExitStack() as stack:
        kinds = _SERVERS[request.param]
        yield [stack.enter_context(servers.redis_server(kind)) for kind in kinds]


@pytest.fixture
def backend(engine_servers: list[servers.RedisServer]) -> Iterator[EngineHarness]:
    for server in engine_servers:
        with server.client() as client:
            client.flushall()
    with started(*(server.uri for server in engine_servers)) as harness:
        yield harness


@pytest.fixture(scope="module")
def service(request: pytest.FixtureRequest) -> Iterator[servers.RunningService]:
    """A service of two workers, with the OPTIONS of the module and a Redis of its own."""
    with (
        servers.redis_server() as redis,
        servers.service(redis.uri, workers=2, options=request.module.OPTIONS) as running,
    ):
        yield running


@pytest.fixture(scope="module")  # its event loop conflicts with tests that run their own
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # The sandbox needs privileges that containers lack.
        browser = playwright.chromium.launch(
            executable_path=servers.program("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page in a fresh browser context.

    It fails the test after dialogs, and after errors in the browser's log, other than that of
    each answer that is an error.
    """
    errors: list[str] = []

    def logged(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            errors.append(message.text)

    with browser.new_context() as context:
        context.on("weberror", lambda error: errors.append(str(error.error)))
        context.on("console", logged)
        context.on("dialog", lambda dialog: errors.append(dialog.message))
        yield context.new_page()
    assert errors == []
