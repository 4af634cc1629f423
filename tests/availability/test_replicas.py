# SPDX-License-Identifier: Apache-2.0
"""Listings that replicas answer, and what they leave to the primary."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, NamedTuple

import msgspec
import pytest
import redis

from tests.availability.queues import POST, PROJECT, NumberedQueue, message, numbered_queue
from tests.realtime.crowd import until
from tests.support import servers
from tests.support.redis_cluster import redis_cluster
from tests.support.redis_sentinel import redis_sentinel
from tests.support.stores import PATIENT, TTL
from tests.support.tiers import in_gate
from zaqar_redis import clock, errors
from zaqar_redis.keyspace import blocking
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.replicas import expect_replica
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.records import IdempotencyKey
from zaqar_redis.storage.redis import RedisDriver


class _Copied(NamedTuple):
    """A store with replicas."""

    uri: str
    #: ports of the replicas
    replicas: Sequence[int]

    def scripts(self) -> int:
        """Returns how many scripts the replicas have run, or refused."""
        return sum(map(_scripts, self.replicas))


def _scripts(port: int) -> int:
    with redis.Redis(port=port) as client:
        stats = client.info("commandstats")
    assert isinstance(stats, dict)
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))


@contextmanager
def _sentinel() -> Iterator[_Copied]:
    with redis_sentinel(replicas=1, sentinels=1) as found:
        yield _Copied(found.uri, [each.port for each in found.servers[1:]])


@contextmanager
def _cluster() -> Iterator[_Copied]:
    with redis_cluster(replicas=3) as found:
        yield _Copied(found.uri, [each.port for each in found.replicas])


@pytest.fixture(scope="module", params=[_sentinel, _cluster])
def copied(request: pytest.FixtureRequest) -> Iterator[_Copied]:
    start: Callable[[], AbstractContextManager[_Copied]] = request.param
    with start() as found:
        yield found


async def test_replica_answers_a_listing_that_may_be_stale(copied: _Copied) -> None:
    async with numbered_queue(copied.uri, "read", read_replicas=True) as queue:
        assert await queue.post()

        async def is_read_from_a_replica() -> bool:
            before = copied.scripts()
            return await queue.page(stale=True) == [0] and copied.scripts() > before

        await until(is_read_from_a_replica, "a replica to have the message, and to answer")
        before = copied.scripts()
        assert await queue.page(stale=False) == [0]
        assert copied.scripts() == before


async def test_store_is_up_while_the_replica_that_is_read_is_away() -> None:
    with redis_sentinel(replicas=1, sentinels=1) as sentinel:
        store, replica = (sentinel.uri,), (f"{sentinel.uri} (replica)",)
        async with numbered_queue(sentinel.uri, read_replicas=True) as queue:

            async def are_connected(*expected: bool) -> bool:
                gauges = (metrics.STORE_UP, store), (metrics.REPLICA_UP, replica)
                return all(
                    dict(gauge.rows())[labels] == [up]
                    for (gauge, labels), up in zip(gauges, expected, strict=True)
                )

            await until(partial(are_connected, True, True), "both to be connected")
            sentinel.servers[1].kill()
            await until(partial(are_connected, True, False), "the replica to be lost")
            assert await queue.post()
            assert await queue.page(stale=True) == [0]
            assert replica not in dict(metrics.STORE_UP.rows())


async def test_replicas_are_not_asked_by_default(copied: _Copied) -> None:
    async with numbered_queue(copied.uri, "unread") as queue:
        before = copied.scripts()
        assert await queue.post()
        assert await queue.page(stale=True) == [0]
        assert copied.scripts() == before


async def test_primary_answers_when_a_queue_has_something_to_settle(copied: _Copied) -> None:
    offset = 0

    def now() -> int:
        return clock.process() + offset

    async with numbered_queue(copied.uri, "due", now, read_replicas=True) as queue:
        assert await queue.post()
        await until(partial(_is_there, queue), "the replica to have it")
        offset = TTL * 1000 + 1
        assert await queue.page(stale=True) == []


_CONFIRMED = msgspec.structs.replace(PATIENT, ack_replicas=1, ack_timeout=0.2)
_KEY = b"{key}"


async def _post(uri: str) -> bool:
    """Posts with a key of idempotency, over a connection of its own; returns whether it was done
    before."""
    key = IdempotencyKey(key="k", fingerprint=bytes(16), window=60_000)
    async with keyspace.connected(uri, _CONFIRMED) as client:
        messages = RedisDriver(client, clock.store).messages
        done = await messages.post(PROJECT, "q", message(0), idempotency_key=key, **POST)
    return done.replayed


async def _delete(uri: str) -> bool:
    async with keyspace.connected(uri, _CONFIRMED) as client:
        return not await client.command("DEL", _KEY)


async def _delete_blocking(uri: str) -> bool:
    with contextlib.closing(blocking.client(uri, _CONFIRMED)) as client:
        return not client.command("DEL", _KEY)


@pytest.fixture(scope="module", params=in_gate([servers.REDIS, servers.VALKEY]))
def followed(request: pytest.FixtureRequest) -> Iterator[tuple[str, servers.RedisServer]]:
    """The URI of a primary, and its replica."""
    with (
        servers.redis_server(request.param) as primary,
        servers.redis_server(request.param) as copy,
    ):
        with primary.client() as admin:
            admin.config_set("repl-diskless-sync-delay", 0)
        with copy.client() as admin:
            admin.replicaof("127.0.0.1", primary.open_port())
            servers.wait_for(partial(_follows, admin), "the replica to have a copy")
        yield primary.uri, copy


@pytest.mark.parametrize("act", [_post, _delete, _delete_blocking])
def test_repeated_change_over_another_connection_waits_for_replicas_too(
    followed: tuple[str, servers.RedisServer], act: Callable[[str], Coroutine[Any, Any, bool]]
) -> None:
    uri, replica = followed
    patient = BatchSettings(ack_replicas=1, ack_timeout=60, timeout=120)
    with contextlib.closing(blocking.client(uri, patient)) as client:
        client.command("SET", _KEY, "")
    replica.pause()
    try:
        for _ in range(2):
            with pytest.raises(errors.NotReplicated):
                asyncio.run(act(uri))
    finally:
        replica.resume()
    servers.wait_for(lambda: asyncio.run(_succeeds(act(uri))), "it to be confirmed")


@pytest.mark.parametrize("act", [_delete, _delete_blocking])
def test_repeated_change_of_a_full_store_waits_for_replicas_too(
    followed: tuple[str, servers.RedisServer], act: Callable[[str], Coroutine[Any, Any, bool]]
) -> None:
    uri, replica = followed
    with contextlib.closing(blocking.client(uri, PATIENT)) as client:
        client.command("CONFIG", "SET", "maxmemory", 1)
        replica.pause()
        try:
            with pytest.raises(errors.NotReplicated):
                asyncio.run(act(uri))
        finally:
            replica.resume()
            client.command("CONFIG", "SET", "maxmemory", 0)


def test_server_that_hears_no_primary_is_not_read(
    followed: tuple[str, servers.RedisServer],
) -> None:
    uri, replica = followed
    with (
        replica.client() as admin,
        contextlib.closing(blocking.client(replica.uri, PATIENT)) as copy,
        contextlib.closing(blocking.client(uri, PATIENT)) as primary,
    ):
        expect_replica(copy.command("ROLE"))
        with pytest.raises(redis.ConnectionError, match="hears its primary"):
            expect_replica(primary.command("ROLE"))
        found = admin.info("replication")
        assert isinstance(found, dict)
        admin.replicaof("127.0.0.1", 1)
        try:
            with pytest.raises(redis.ConnectionError, match="hears its primary"):
                expect_replica(copy.command("ROLE"))
        finally:
            admin.replicaof("127.0.0.1", found["master_port"])
            servers.wait_for(partial(_follows, admin), "the replica to have a copy")


async def test_reads_are_answered_between_changes_that_no_replica_confirms(
    followed: tuple[str, servers.RedisServer],
) -> None:
    uri, replica = followed
    # Reads that waited for all changes before them would take minutes.
    settings = BatchSettings(ack_replicas=1, ack_timeout=0.5, timeout=10)

    replica.pause()
    try:
        async with keyspace.connected(uri, settings) as client, asyncio.TaskGroup() as tasks:
            for number in range(400):
                tasks.create_task(_expect_unconfirmed(client.command("SET", _KEY, number)))
                if number % 20 == 0:
                    tasks.create_task(_answered(client.command("GET", _KEY)))
                await asyncio.sleep(0.01)
    finally:
        replica.resume()


async def _answered(read: Awaitable[Any]) -> None:
    await read


async def _expect_unconfirmed(change: Awaitable[Any]) -> None:
    with pytest.raises(errors.NotReplicated):
        await change


def _follows(replica: redis.Redis) -> bool:
    found = replica.info("replication")
    assert isinstance(found, dict)
    return bool(found["master_link_status"] == "up")


async def _succeeds(replayed: Awaitable[bool]) -> bool:
    try:
        return await replayed
    except errors.NotReplicated:
        return False


async def _is_there(queue: NumberedQueue) -> bool:
    return await queue.page(stale=True) == [0]
