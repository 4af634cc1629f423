# SPDX-License-Identifier: Apache-2.0
"""Channel engines, each started with a handler that records its events."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.realtime.console_pages import Request, api_of
from tests.support import buses, servers
from tests.support.backends import BACKENDS, Backend, NewStore
from tests.support.clock import ManualClock
from tests.support.stores import PATIENT
from tests.support.tiers import in_gate
from zaqar_redis import clock
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.realtime.bus import Bus
from zaqar_redis.realtime.engine import Engine, Position
from zaqar_redis.realtime.engines.memory import MemoryEngine
from zaqar_redis.realtime.engines.redis import RedisEngine

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

    def on_control(self, payload: bytes) -> int:
        self.events.append(("control", payload))
        return 0

    def on_missed(self, channel: str) -> None:
        self.events.append(("missed", channel))

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
            for _ in range(6000):
                if len(self.handler.events) >= len(expected):
                    return
                await asyncio.sleep(0.01)

        self.run(wait())
        assert self.handler.events == list(expected)
        self.handler.events.clear()


def engine(uris: Sequence[str], now: clock.Clock, bus: Bus | None = None) -> Engine:
    """Returns a memory engine without URIs, and a sharded one with several."""
    clients = [keyspace.client(uri, PATIENT) for uri in uris]
    return RedisEngine(clients, now, bus) if clients else MemoryEngine(now, bus)


@contextlib.contextmanager
def started(runner: asyncio.Runner, *uris: str, bus: Sequence[str] = ()) -> Iterator[EngineHarness]:
    """*bus*: URIs of its bus; none: that of the engine."""
    time = ManualClock()
    found = buses.open_bus(bus) if bus else None
    backend = EngineHarness(engine(uris, time, found), time, runner)
    backend.run(backend.engine.start("node", backend.handler))
    try:
        yield backend
    finally:
        backend.run(backend.engine.close())


#: Of a backend: the stores of its engine, and the kind of its bus; None: that of the engine.
_BACKENDS: dict[str, tuple[Sequence[str], str | None]] = {
    "memory": ((), None),
    "redis": (("redis",), None),
    "valkey": (("valkey",), None),
    "sentinel": (("sentinel",), None),
    "cluster": (("cluster",), None),
    "sharded": (("redis", "valkey"), None),
    "memory-over-redis": ((), "redis"),
    "redis-over-memory": (("redis",), "memory"),
    "redis-over-redis": (("redis",), "redis"),
    "sharded-over-sharded": (("redis", "valkey"), "sharded"),
    "redis-over-cluster": (("redis",), "cluster"),
    "redis-over-nats": (("redis",), "nats"),
    "redis-over-zeromq": (("redis",), "zeromq"),
}

EngineServers = tuple[list[Backend], list[str]]


@pytest.fixture(scope="module", params=in_gate(_BACKENDS, "memory", "redis"))
def engine_servers(request: pytest.FixtureRequest) -> Iterator[EngineServers]:
    """The stores of an engine, and the URIs of its bus."""
    with contextlib.ExitStack() as stack:
        kinds, bus = _BACKENDS[request.param]
        found = [stack.enter_context(BACKENDS[kind]()) for kind in kinds]
        yield found, stack.enter_context(buses.BUSES[bus]()) if bus else []


@pytest.fixture
def backend(runner: asyncio.Runner, engine_servers: EngineServers) -> Iterator[EngineHarness]:
    for server in engine_servers[0]:
        with server.client() as client:
            client.flushall()
    uris = [server.uri for server in engine_servers[0]]
    with started(runner, *uris, bus=engine_servers[1]) as harness:
        yield harness


@pytest.fixture(scope="module", params=in_gate(buses.BUSES, "memory", "redis", "zeromq", "nats"))
def uris(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Of a bus."""
    with buses.BUSES[request.param]() as found:
        yield found


@pytest.fixture
def channel() -> str:
    """A channel of the namespace "chat"."""
    return f"chat:{uuid.uuid4()}"


@pytest.fixture(scope="module")
def service(
    request: pytest.FixtureRequest, new_store: NewStore
) -> Iterator[servers.RunningService]:
    """A service of two workers, with the OPTIONS of the module and a store of its own."""
    with (
        new_store() as store,
        servers.service(store.uri, workers=2, options=request.module.OPTIONS) as running,
    ):
        yield running


#: Milliseconds; the console polls every two or three seconds, and machines are shared.
expect.set_options(timeout=30_000)


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


@pytest.fixture
def api(service: servers.RunningService, project: str) -> Iterator[Request]:
    """The service's APIs, as an operator of the console uses them."""
    with api_of(service, project) as request:
        yield request
