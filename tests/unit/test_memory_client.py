# SPDX-License-Identifier: Apache-2.0
"""The client of ``memory://``."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.settings import BatchSettings


@pytest.mark.parametrize("steps", range(8))
async def test_cancelled_task_ends_wherever_its_command_is(steps: int) -> None:
    client = keyspace.client(f"memory://{uuid.uuid4()}", BatchSettings())
    await client.start()

    async def repeat() -> None:
        while True:
            await client.command("INCR", "counter")

    task = asyncio.create_task(repeat())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=60)
    assert task.cancelled()
    counted = int(await client.command("GET", "counter") or 0)
    assert counted <= steps
    assert await client.command("INCR", "counter") == counted + 1
    await client.close()
