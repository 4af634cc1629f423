# SPDX-License-Identifier: Apache-2.0
"""arq, whose results nobody wants."""

from __future__ import annotations

from typing import Any

from arq import ArqRedis, create_pool
from arq.connections import RedisSettings

from benchmarks.clients import jobs


async def job(_: dict[str, Any], order: int, text: str) -> None:
    jobs.do(order, text)


class WorkerSettings:
    functions = [job]
    queue_name = jobs.QUEUE
    redis_settings = RedisSettings.from_dsn(jobs.ADDRESS)
    keep_result = 0


_pool: list[ArqRedis] = []


async def post(order: int, text: str) -> None:
    if not _pool:
        _pool.append(await create_pool(WorkerSettings.redis_settings))
    await _pool[0].enqueue_job("job", order, text, _queue_name=jobs.QUEUE)
