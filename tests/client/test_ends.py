# SPDX-License-Identifier: Apache-2.0
"""Clients, iterations and processes that end without a word: who has the messages then."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading

import pytest
from zaqar_redis_client import AsyncClient, Client, Worker
from zaqar_redis_client.blocking import _Loop

from tests.client.worker_process import PYTHON_PATH
from tests.client.working import stats, until_stats
from tests.support import servers
from tests.support.tcp_proxy import tcp_proxy

_LEAVES = """
import sys
from zaqar_redis_client import Client
leases = Client(*sys.argv[1:]).queue("q").consume()
next(leases).ack()
"""


_WAITS = """
import sys, threading
from zaqar_redis_client import Client
client = Client(*sys.argv[1:])
for _ in range(3):
    threading.Thread(target=list, args=[client.queue("empty").consume()], daemon=True).start()
client.queue("q").post(1)
"""


def _ended(code: str, *words: str) -> tuple[int, bytes]:
    """Returns the exit code, and what was printed."""
    ended = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, env=PYTHON_PATH, timeout=120
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_process_that_ends_in_an_iteration_gives_back_and_says_nothing(
    running: servers.RunningService, project: str
) -> None:
    with Client(running.url, project) as client:
        client.queue("q").post_many([1, 2, 3])
    assert _ended(_LEAVES, running.url, project) == (0, b"")
    with Client(running.url, project) as client:
        found = client.queue("q").stats()["messages"]
    assert (found["free"], found["claimed"]) == (2, 0)


def test_process_that_ends_while_threads_wait_says_nothing(
    running: servers.RunningService, project: str
) -> None:
    assert _ended(_WAITS, running.url, project) == (0, b"")


def test_iteration_that_is_collected_in_the_thread_of_requests_blocks_none(
    running: servers.RunningService, project: str
) -> None:
    with Client(running.url, project) as client:
        queue = client.queue("q")
        queue.post_many([1, 2])

        def leave() -> None:
            kept: list[object] = []
            leases = queue.consume()
            next(leases).ack()
            kept.extend([kept, leases])

        collected = threading.Event()

        def collect() -> None:
            gc.collect()
            collected.set()

        gc.disable()  # else it may be collected in this thread
        try:
            leave()
            _Loop._loop().call_soon_threadsafe(collect)
            assert collected.wait(60)
        finally:
            gc.enable()
        servers.wait_for(lambda: queue.stats()["messages"]["free"] == 1, "it to go back")


async def test_iteration_that_is_cancelled_gives_back_what_its_claim_brings(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    await client.queue("q").post_many([1, 2, 3])
    async with (
        tcp_proxy(running.port) as (proxy, port),
        AsyncClient(f"http://127.0.0.1:{port}", project) as other,
    ):
        coming = asyncio.create_task(anext(other.queue("q").consume(prefetch=2)))
        proxy.hold_answers()
        await until_stats(client, claimed=2)
        coming.cancel()
        proxy.mend()
        await asyncio.wait([coming])
        assert coming.cancelled()
        assert (await stats(client))["claimed"] == 0


async def test_worker_that_is_stopped_twice_gives_back_what_its_claim_brings(
    running: servers.RunningService,
    project: str,
    client: AsyncClient,
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun: list[int] = []
    await client.queue("q").post_many([1, 2, 3])
    async with tcp_proxy(running.port) as (proxy, port):

        class Holding(logging.Filter):
            def filter(self, record: logging.LogRecord) -> bool:
                if "without _max_claim_count" in record.message:  # the claim is next
                    proxy.hold_answers()
                return True

        worker = Worker(f"http://127.0.0.1:{port}", project, concurrency=1, prefetch=1)
        worker.task("q")(begun.append)
        consumer = worker.consumer()
        with caplog.filtering(Holding()):
            working = asyncio.create_task(consumer.run())
            await until_stats(client, claimed=2)
        consumer.stop()
        await asyncio.sleep(0)
        consumer.stop()
        proxy.mend()
        await working
        await worker.close()
    assert not begun
    assert (await stats(client))["claimed"] == 0


async def test_message_of_a_client_that_was_closed_comes_back(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    queue = client.queue("q")
    await queue.create(_min_claim_ttl=1)
    await queue.post("important")

    async def fail() -> None:
        async with AsyncClient(running.url, project) as other:
            async for lease in other.queue("q").consume(ttl=1):
                raise ValueError(lease.body)

    with pytest.raises(ValueError, match="important"):
        await fail()
    claim = await queue.claim(wait=20)
    assert claim
    assert claim.messages[0].body == "important"
