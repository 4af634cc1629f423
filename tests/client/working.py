# SPDX-License-Identifier: Apache-2.0
"""Workers of tests, and what is waited for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from zaqar_redis_client import AsyncClient, Message, Worker

from tests.support import servers


@contextlib.asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[None]:
    consumer = worker.consumer()
    task = asyncio.create_task(consumer.run())
    try:
        yield
    finally:
        consumer.stop()
        try:
            await task
        finally:
            await worker.close()


async def until(condition: Callable[[], bool | Awaitable[bool]], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while True:
            holds = condition()
            if holds if isinstance(holds, bool) else await holds:
                return
            await asyncio.sleep(0.02)


async def pid_in(path: Path) -> int:
    """Waits for a process that writes its pid to a file."""
    await until(lambda: bool(_lines(path)))
    return int(_lines(path)[0])


def _lines(path: Path) -> list[str]:
    """Returns the complete ones."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


async def stats(client: AsyncClient, name: str = "q") -> dict[str, int]:
    return dict((await client.queue(name).stats())["messages"])


async def until_stats(client: AsyncClient, **wanted: int) -> None:
    async def holds() -> bool:
        found = await stats(client)
        return all(found.get(name, 0) == count for name, count in wanted.items())

    await until(holds)


async def dead_letters(client: AsyncClient, count: int) -> list[Message]:
    found: list[Message] = []

    async def are_there() -> bool:
        found[:] = [each async for each in client.queue("failed").messages()]
        return len(found) == count

    await until(are_there)
    return found


def worker_of(running: servers.RunningService, project: str, **options: Any) -> Worker:
    worker = Worker(running.url, project, **options)
    worker.queue("q", _max_claim_count=2, _dead_letter_queue="failed", _min_claim_ttl=1)
    return worker
