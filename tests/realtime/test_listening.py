# SPDX-License-Identifier: Apache-2.0
"""The PUB/SUB connection of a node reconnects by itself and restores all subscriptions."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator

import pytest

from tests.realtime.conftest import EngineHarness, started
from tests.realtime.crowd import until
from tests.support import servers
from tests.support.backends import BACKENDS
from tests.support.stores import PATIENT
from zaqar_redis import errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import listeners, pubsub
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.metrics import definitions as metrics

#: More channels than fit into one command.
NAMES = [f"p/{number}" for number in range(600)]


@pytest.fixture
def backend(runner: asyncio.Runner, server: servers.RedisServer) -> Iterator[EngineHarness]:
    with started(runner, server.uri) as backend:
        yield backend


def _gaps(backend: EngineHarness) -> int:
    return backend.handler.events.count(("gap",))


async def _expect_all_channels(backend: EngineHarness) -> None:
    backend.handler.events.clear()
    for name in NAMES:
        await backend.engine.history.publish(name, b"x", None)
    await until(lambda: len(backend.handler.events) >= len(NAMES), "publications of all channels")
    assert sorted(each[1] for each in backend.handler.events) == sorted(NAMES)


def _listeners(server: servers.RedisServer) -> int:
    with server.client() as client:
        return len(client.client_list(_type="pubsub"))


async def test_all_channels_are_resubscribed_after_lost_connection(
    server: servers.RedisServer, backend: EngineHarness
) -> None:
    bus = backend.engine.events
    await asyncio.gather(*(bus.subscribe(name) for name in NAMES))
    with server.client() as client:
        client.client_kill_filter(_type="pubsub")
    await until(lambda: _gaps(backend) == 1, "the connection to come back")
    await _expect_all_channels(backend)
    assert _listeners(server) == 1


async def test_lost_connection_of_a_node_without_channels_is_a_gap_and_counted(
    server: servers.RedisServer, backend: EngineHarness
) -> None:
    assert _gaps(backend) == 0
    with server.client() as client:
        client.client_kill_filter(_type="pubsub")
    await until(lambda: _gaps(backend) == 1, "the connection to come back")
    assert dict(metrics.BUS_LOST.rows())[server.uri,] == [1]


async def test_channels_subscribed_during_outage_are_received_after_it(
    server: servers.RedisServer, backend: EngineHarness
) -> None:
    bus = backend.engine.events
    with server.client() as client:
        await bus.subscribe(NAMES[0])
        client.client_kill_filter(_type="pubsub")
    coming = [asyncio.create_task(bus.subscribe(name)) for name in NAMES[1:]]
    await bus.subscribe("p/left")
    await bus.unsubscribe("p/left")
    await asyncio.gather(*coming)
    await backend.engine.history.publish("p/left", b"x", None)
    await _expect_all_channels(backend)
    assert _listeners(server) == 1


@pytest.mark.parametrize("kind", ["redis", "cluster"])
async def test_subscriptions_before_the_first_connection_are_no_gap(kind: str) -> None:
    gaps = asyncio.Event()
    with BACKENDS[kind]() as store:
        async with keyspace.connected(store.uri, PATIENT) as client:
            commands = listeners.commands_of_scripts(client)
            listener = listeners.listen(client, lambda *_: None, gaps.set, commands)
            listener.start(b"permanent")
            await asyncio.gather(*(listener.subscribe(b"p/%d" % number) for number in range(50)))
            await listener.confirmed(b"permanent")
            assert not gaps.is_set()
            await listener.close()


@pytest.mark.parametrize("patience", [0.05, 60])
async def test_subscription_that_is_confirmed_late_is_a_gap(
    server: servers.RedisServer, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    monkeypatch.setattr(pubsub, "CONFIRM_TIMEOUT_SECONDS", 0.2)
    server.stop()
    gaps = asyncio.Event()
    client = keyspace.client(server.uri, BatchSettings(connect_timeout=0.1))
    await client.start()
    listener = listeners.listen(client, lambda *_: None, gaps.set)
    listener.start(b"permanent")
    with pytest.raises((errors.StoreUnavailable, TimeoutError)):
        async with asyncio.timeout(patience):
            await listener.subscribe(b"p/late")
    server.start()
    await until(gaps.is_set, "the gap to be told")
    await listener.close()
    await client.close()


def _pings(server: servers.RedisServer) -> int:
    with server.client() as client:
        return int(client.info("commandstats").get("cmdstat_ping", {"calls": 0})["calls"])


@pytest.mark.nightly
async def test_unresponsive_pubsub_connection_is_replaced(
    server: servers.RedisServer,
    backend: EngineHarness,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, seconds in (
        ("_PING_INTERVAL_SECONDS", 0.3),
        ("_PONG_TIMEOUT_SECONDS", 2.0),
        ("CONFIRM_TIMEOUT_SECONDS", 2.0),
    ):
        monkeypatch.setattr(pubsub, name, seconds)
    caplog.set_level(logging.WARNING, "zaqar_redis.keyspace.pubsub")  # commands set a lower level
    bus = backend.engine.events
    await bus.subscribe(NAMES[0])
    with server.client() as client:  # the next connection uses these timeouts
        client.client_kill_filter(_type="pubsub")
    await until(lambda: _gaps(backend) == 1, "the connection to come back")
    await asyncio.gather(*(bus.subscribe(name) for name in NAMES))
    before = _gaps(backend)
    pings = _pings(server)
    await until(lambda: _pings(server) >= pings + 2, "two pings")
    assert _gaps(backend) == before  # it answered: the connection is kept
    server.signal(signal.SIGSTOP)
    with pytest.raises(errors.StoreUnavailable):
        await bus.subscribe("p/late")
    await bus.unsubscribe("p/late")
    await until(lambda: "no answer within" in caplog.text, "it to be found")
    server.signal(signal.SIGCONT)
    await until(lambda: _gaps(backend) > before, "the connection to come back")
    await until(lambda: _listeners(server) == 1, "the others to be closed")
    await _expect_all_channels(backend)
