# SPDX-License-Identifier: Apache-2.0
"""Tasks for the command `taskiq`; what they have done is in the queue `done`."""

from __future__ import annotations

import asyncio
import os

from zaqar_redis_client import AsyncClient
from zaqar_redis_client.taskiq import ZaqarAsyncBroker

SERVICE, PROJECT = os.environ.get("SERVICE", ""), os.environ.get("PROJECT", "")

broker = ZaqarAsyncBroker(SERVICE, PROJECT, claim_ttl=3, prefetch=4)


@broker.task(task_name="work")
async def work(number: int, seconds: float = 0) -> None:
    async with AsyncClient(SERVICE, PROJECT) as client:
        await client.queue("begun").post(number)
        await asyncio.sleep(seconds)
        await client.queue("done").post(number)
