# SPDX-License-Identifier: Apache-2.0
"""dramatiq, on Redis or on our service."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from zaqar_redis_client.dramatiq import ZaqarBroker

from benchmarks.clients import jobs

dramatiq.set_broker(
    RedisBroker(url=jobs.ADDRESS)
    if jobs.ADDRESS.startswith("redis:")
    else ZaqarBroker(jobs.ADDRESS, "benchmark")
)
job = dramatiq.actor(queue_name=jobs.QUEUE)(jobs.do)
post = job.send
