# SPDX-License-Identifier: Apache-2.0
"""What messages, queues and their routes take of Redis' memory, and how fast Redis loads them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from benchmarks.support.figures import Figures
from benchmarks.support.rounds import print_progress
from tests.support import servers
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.records import Lease, NewMessage
from zaqar_redis.storage.load import load_control
from zaqar_redis.storage.redis import RedisDriver

_PROJECT = "measured"
_CLIENT = "5f0c6f5e-9a0b-4c0e-8a55-0d5d3c1f7a10"
_TTL = 14 * 24 * 3600
#: Bytes of a body.
_SIZES = (150, 1000, 10_000)
#: Messages in one post, and in one claim; queues created at a time.
_POST, _CLAIM, _TOGETHER = 100, 20, 200
_QUEUE, _FIRST, _ROUTE = "queue without messages", "queue with one message", "route of a queue"
_CLAIMED, _LOADED = "claimed message", "messages of 150 bytes"


def measure(
    figures: Figures, runner: asyncio.Runner, rounds: int, queues: int, messages: int
) -> None:
    taken = {name: figures.figure(name, "memory", "bytes") for name in (_QUEUE, _FIRST, _ROUTE)}
    for size in _SIZES:
        taken[_message(size)] = figures.figure(_message(size), "memory", "bytes")
    taken[_CLAIMED] = figures.figure(_CLAIMED, "memory more", "bytes")
    loading = figures.figure(_LOADED, "loaded at a start", "messages/s")
    for number in range(1, rounds + 1):
        with servers.redis_server(fsync="everysec") as server:
            found = runner.run(_taken(server, queues, messages))
            for name, size_in_bytes in found.items():
                taken[name].append(size_in_bytes)
        loading.append(_load_rate(runner, messages))
        print_progress(f"memory: round {number} of {rounds}: {found}")


async def _taken(server: servers.RedisServer, queues: int, messages: int) -> dict[str, float]:
    """Returns bytes of Redis' memory: of each queue, route, message and claim."""
    client = keyspace.client(server.uri, BatchSettings(timeout=60))
    driver = RedisDriver(client)
    control = load_control(server.uri, {})
    await driver.start()
    await control.start()
    names = [f"queue-{number}" for number in range(queues)]
    found = {}

    async def grown(count: int, work: Awaitable[None]) -> float:
        before = _used(server)
        await work
        return (_used(server) - before) / count

    try:
        await _fill(driver, "first", 150, _POST)  # scripts and buffers are allocated before
        found[_QUEUE] = await grown(
            queues, _each(names, lambda name: driver.queues.create(_PROJECT, name, {}))
        )
        found[_FIRST] = found[_QUEUE] + await grown(
            queues, _each(names, lambda name: _post(driver, name, 150, 1))
        )
        found[_ROUTE] = await grown(
            queues, _each(names, lambda name: control.catalogue.put(_PROJECT, name, "pool-1"))
        )
        for size in _SIZES:
            found[_message(size)] = await grown(messages, _fill(driver, f"{size}", size, messages))
        found[_CLAIMED] = await grown(messages, _claim(driver, f"{_SIZES[0]}", messages))
    finally:
        await control.close()
        await driver.close()
    return found


def _load_rate(runner: asyncio.Runner, messages: int) -> float:
    """Returns messages a second that Redis loads from its append-only file when it starts."""

    async def fill(uri: str) -> None:
        driver = RedisDriver(keyspace.client(uri, BatchSettings(timeout=60)))
        await driver.start()
        await _fill(driver, "loaded", 150, messages)
        await driver.close()

    with servers.redis_server(fsync="everysec") as server:
        before = _start_seconds(server)
        with server.client() as client:
            client.config_set("auto-aof-rewrite-percentage", 0)  # it would be in the way of ours
            runner.run(fill(server.uri))
            client.bgrewriteaof()
            servers.wait_for(
                lambda: not client.info("persistence")["aof_rewrite_in_progress"], "the rewrite"
            )
        return messages / max(_start_seconds(server) - before, 1e-3)


def _start_seconds(server: servers.RedisServer) -> float:
    server.stop()
    start = time.monotonic()
    server.start()
    return time.monotonic() - start


async def _fill(driver: RedisDriver, queue: str, size: int, messages: int) -> None:
    for at in range(0, messages, _POST):
        await _post(driver, queue, size, min(_POST, messages - at))


async def _post(driver: RedisDriver, queue: str, size: int, count: int) -> None:
    body = b'"' + b"x" * (size - 2) + b'"'
    await driver.messages.post(
        _PROJECT,
        queue,
        [NewMessage(body=body, ttl=_TTL)] * count,
        client=_CLIENT,
        default_ttl=_TTL,
        size=0,
    )


async def _claim(driver: RedisDriver, queue: str, messages: int) -> None:
    for _ in range(0, messages, _CLAIM):
        await driver.claims.create(_PROJECT, queue, Lease(43_200, 60), limit=_CLAIM)


async def _each(names: list[str], do: Callable[[str], Awaitable[object]]) -> None:
    async def awaited(name: str) -> None:
        await do(name)

    for at in range(0, len(names), _TOGETHER):
        await asyncio.gather(*map(awaited, names[at : at + _TOGETHER]))


def _used(server: servers.RedisServer) -> int:
    with server.client() as client:
        return int(client.info("memory")["used_memory"])


def _message(size: int) -> str:
    return f"message of {size} bytes"
