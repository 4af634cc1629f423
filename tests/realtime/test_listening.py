# SPDX-License-Identifier: Apache-2.0
"""The PUB/SUB connection of a node: it comes back by itself, with all that was wanted."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator

import pytest

from tests import servers
from tests.realtime.conftest import Backend, started
from tests.realtime.crowd import until
from zaqar_redis import errors
from zaqar_redis.keyspace import listening

#: More than fit into one command.
NAMES = [f"p/{number}" for number in range(600)]


@pytest.fixture
def redis() -> Iterator[servers.RedisServer]:
    with servers.redis_server() as server:
        yield server


@pytest.fixture
def backend(redis: servers.RedisServer) -> Iterator[Backend]:
    with started(redis.uri) as backend:
        yield backend


def _gaps(backend: Backend) -> int:
    return backend.heard.news.count(("gap",))


async def _all_are_heard(backend: Backend) -> None:
    backend.heard.news.clear()
    for name in NAMES:
        await backend.engine.history.publish(name, b"x", None)
    await until(lambda: len(backend.heard.news) >= len(NAMES), "all to be heard")
    assert sorted(each[1] for each in backend.heard.news) == sorted(NAMES)


def _listeners(redis: servers.RedisServer) -> int:
    with redis.client() as client:
        return len(client.client_list(_type="pubsub"))


def test_all_channels_are_there_again(redis: servers.RedisServer, backend: Backend) -> None:
    async def story() -> None:
        bus = backend.engine.bus
        await asyncio.gather(*(bus.subscribe(name) for name in NAMES))
        with redis.client() as client:
            client.client_kill_filter(_type="pubsub")
        await until(lambda: _gaps(backend) == 1, "the connection to come back")
        await _all_are_heard(backend)
        assert _listeners(redis) == 1

    backend.run(story())


def test_who_comes_while_it_is_away_is_heard(redis: servers.RedisServer, backend: Backend) -> None:
    async def story() -> None:
        bus = backend.engine.bus
        with redis.client() as client:
            await bus.subscribe(NAMES[0])
            client.client_kill_filter(_type="pubsub")
        coming = [asyncio.create_task(bus.subscribe(name)) for name in NAMES[1:]]
        await bus.subscribe("p/left")
        await bus.unsubscribe("p/left")
        await asyncio.gather(*coming)
        await backend.engine.history.publish("p/left", b"x", None)
        await _all_are_heard(backend)
        assert _listeners(redis) == 1

    backend.run(story())


def _pings(redis: servers.RedisServer) -> int:
    with redis.client() as client:
        return int(client.info("commandstats").get("cmdstat_ping", {"calls": 0})["calls"])


def test_a_connection_that_is_dead_is_found(
    redis: servers.RedisServer,
    backend: Backend,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, seconds in (("_QUIET", 0.3), ("_ANSWER", 2.0), ("_CONFIRM", 2.0)):
        monkeypatch.setattr(listening, name, seconds)
    caplog.set_level(logging.WARNING, "zaqar_redis.keyspace.listening")  # commands ask for less

    async def story() -> None:
        bus = backend.engine.bus
        await bus.subscribe(NAMES[0])
        with redis.client() as client:  # the next connection has these times
            client.client_kill_filter(_type="pubsub")
        await until(lambda: _gaps(backend) == 1, "the connection to come back")
        await asyncio.gather(*(bus.subscribe(name) for name in NAMES))
        before = _gaps(backend)
        asked = _pings(redis)
        await until(lambda: _pings(redis) >= asked + 2, "it to be asked twice")
        assert _gaps(backend) == before  # it answered, and lives
        redis.signal(signal.SIGSTOP)
        with pytest.raises(errors.StoreUnavailable):
            await bus.subscribe("p/late")
        await bus.unsubscribe("p/late")
        await until(lambda: "does not answer" in caplog.text, "it to be found")
        redis.signal(signal.SIGCONT)
        await until(lambda: _gaps(backend) > before, "the connection to come back")
        await until(lambda: _listeners(redis) == 1, "the others to be closed")
        await _all_are_heard(backend)

    backend.run(story())
