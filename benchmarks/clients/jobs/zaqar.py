# SPDX-License-Identifier: Apache-2.0
"""Our worker."""

from __future__ import annotations

from zaqar_redis_client import Worker

from benchmarks.clients import jobs

worker = Worker(jobs.ADDRESS, "benchmark")


@worker.task(jobs.QUEUE)
async def job(order: int, text: str) -> None:
    jobs.do(order, text)


post, close = job.post, worker.close
