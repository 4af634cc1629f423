# SPDX-License-Identifier: Apache-2.0
"""Workers, and what becomes of the jobs that are posted for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from zaqar_redis_client import AsyncClient, Retry, Worker

from tests.client import jobs
from tests.support import servers
from tests.support.tcp_proxy import tcp_proxy


@contextlib.asynccontextmanager
async def _working(worker: Worker) -> AsyncIterator[None]:
    consumer = worker.consumer()
    task = asyncio.create_task(consumer.run())
    try:
        yield
    finally:
        consumer.stop()
        await task
        await worker.close()


async def _until(condition: Callable[[], bool], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def _until_empty(client: AsyncClient, name: str) -> None:
    async with asyncio.timeout(60):
        while (await client.queue(name).stats())["messages"]["total"]:
            await asyncio.sleep(0.02)


async def _dead_letters(client: AsyncClient, count: int) -> dict[str, str]:
    """Waits for dead letters; returns their reasons by the name of their tasks."""
    async with asyncio.timeout(60):
        while True:
            found = [each async for each in client.queue("failed").messages()]
            if len(found) == count:
                return {each.body["task"]: each.reason for each in found}
            await asyncio.sleep(0.05)


def _worker(running: servers.RunningService, project: str, **options: float) -> Worker:
    worker = Worker(running.url, project, **options)
    worker.queue("q", _max_claim_count=2, _dead_letter_queue="failed", _min_claim_ttl=1)
    return worker


async def test_jobs_are_done_in_the_loop_in_threads_and_in_processes(
    running: servers.RunningService, project: str, client: AsyncClient
) -> None:
    worker, done = _worker(running, project), []

    @worker.task("q")
    async def in_loop(value: int, *, more: int = 0) -> None:
        done.append(value + more)

    @worker.task("q")
    def in_thread(value: int) -> None:
        done.append(value)
        in_loop.post_blocking(value, more=1)

    in_process = worker.task("q", processes=True)(jobs.append)
    async with _working(worker):
        await asyncio.gather(*(in_loop.post(number) for number in range(100)))
        await in_thread.options(priority=3).post(1000)
        await _until(lambda: len(done) == 102)
        assert sorted(done) == [*range(100), 1000, 1001]
        assert in_process is not None
        await _until_empty(client, "q")
