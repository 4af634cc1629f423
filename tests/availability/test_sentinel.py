# SPDX-License-Identifier: Apache-2.0
"""A store that Redis Sentinel watches, while its primary fails or is replaced."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.availability.queues import PROJECT, QUEUE, numbered_queue
from tests.support.redis_node import RedisNode
from tests.support.redis_sentinel import RedisSentinel, redis_sentinel
from tests.support.servers import wait_for
from tests.support.stores import PATIENT
from tests.support.tiers import in_gate
from zaqar_redis import errors
from zaqar_redis.keyspace import blocking
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.script import RedisCommand
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.storage import pools


@pytest.fixture
def sentinel() -> Iterator[RedisSentinel]:
    with redis_sentinel(replicas=2) as found:
        yield found


@pytest.mark.timeout(400)
@pytest.mark.parametrize("strike", in_gate([RedisNode.kill, RedisNode.pause]))
def test_what_a_replica_has_confirmed_survives_the_loss_of_the_primary(
    sentinel: RedisSentinel, strike: Callable[[RedisNode], None]
) -> None:
    async def scenario() -> None:
        async with numbered_queue(sentinel.uri, ack_replicas=1) as queue:
            lost = sentinel.primary()
            async with asyncio.timeout(300):
                while len(queue.acknowledged) < 300:
                    await asyncio.gather(*(queue.post() for _ in range(10)))
                strike(lost)
                before = len(queue.acknowledged)
                while len(queue.acknowledged) < before + 100:
                    await asyncio.gather(*(queue.post() for _ in range(10)))
                    await asyncio.sleep(0.01)
            assert sentinel.primary() is not lost
            found = await queue.found()
            assert set(queue.acknowledged) <= set(found)
            assert len(found) == len(set(found))

    asyncio.run(scenario())


@pytest.fixture
def waiting() -> Iterator[RedisSentinel]:
    """A primary whose only replica confirms nothing."""
    with redis_sentinel(replicas=1, sentinels=1, down_after_ms=60_000) as found:
        found.servers[1].pause()
        yield found


#: A change waits for its confirmation longer than a busy machine takes to notice that it does.
_LONG: dict[str, Any] = {"ack_replicas": 1, "ack_timeout": 60.0, "timeout": 120.0}


def _demote(primary: RedisNode) -> None:
    """Makes it a replica as soon as a client waits for a confirmation."""

    def has_waiting() -> bool:
        with primary.client() as client:
            clients: Any = client.info("clients")
        return bool(clients["blocked_clients"])

    wait_for(has_waiting, "a client to wait for the replica")
    primary.command("REPLICAOF", "127.0.0.1", primary.port + 1)


async def test_primary_that_is_replaced_while_a_change_waits_for_replicas_is_unavailable(
    waiting: RedisSentinel,
) -> None:
    async with numbered_queue(waiting.uri, **_LONG) as queue:
        post = asyncio.create_task(queue.post())
        await asyncio.to_thread(_demote, waiting.servers[0])
        assert not await post


def test_threads_that_wait_for_replicas_of_a_primary_that_is_replaced_get_unavailable(
    waiting: RedisSentinel,
) -> None:
    settings = BatchSettings(**_LONG)
    with (
        contextlib.closing(blocking.client(waiting.uri, settings)) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        change = pool.submit(client.calls, [RedisCommand("SET", b"a", 1)])
        _demote(waiting.servers[0])
        with pytest.raises(errors.Unavailable):
            change.result()


@pytest.mark.timeout(400)
def test_threads_find_the_new_primary(sentinel: RedisSentinel) -> None:
    with contextlib.closing(blocking.client(sentinel.uri, PATIENT)) as client:
        client.command("SET", "a", 1)
        sentinel.fail_over()
        assert client.command("SET", "a", 2) == b"OK"


async def test_no_sentinel_is_forgotten_when_connections_ask_at_the_same_time() -> None:
    with redis_sentinel(replicas=0) as sentinel:
        first, second, last = sentinel.sentinels
        first.kill()
        second.kill()
        client = keyspace.client(sentinel.uri, PATIENT)
        connections = [client.connection() for _ in range(3)]
        await asyncio.gather(*(each.connect() for each in connections))
        await asyncio.to_thread(first.start)
        last.kill()
        connections.append(client.connection())
        await connections[-1].connect()
        for each in connections:
            await each.disconnect()
        await client.close()


async def test_driver_without_the_password_of_the_sentinels_says_so_and_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with redis_sentinel(replicas=0) as sentinel:
        for each in sentinel.sentinels:
            each.command("ACL", "SETUSER", "default", ">password")
        driver = pools.create(sentinel.uri, sentinel.uri, {})
        async with asyncio.timeout(60):
            await driver.start()
            with pytest.raises(errors.StoreUnavailable):
                await driver.control.catalogue.locate(PROJECT, QUEUE)
            await driver.close()
    assert "(sentinel_password in the URI)" in caplog.text
    assert "<redis" not in caplog.text
