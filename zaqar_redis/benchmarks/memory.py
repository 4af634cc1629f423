# SPDX-License-Identifier: Apache-2.0
"""Measurement of the memory that a message takes in Redis."""

from __future__ import annotations

import re
import time

from zaqar_redis.benchmarks.service import BenchmarkFailed, MeasuredService
from zaqar_redis.keyspace import blocking
from zaqar_redis.keyspace.blocking import BlockingClient
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.keyspace.uris import redact_password

#: Timeout for Redis to free the memory of deleted keys.
_SETTLE = 60.0


def bytes_per_message(service: MeasuredService, store: str, count: int) -> float:
    """Posts *count* messages; returns the growth of ``used_memory`` of *store* per message.

    Raises BenchmarkFailed when it does not grow.
    """
    client = blocking.client(store, BatchSettings())
    try:
        queue = service.queue()
        service.fill(queue, 1)  # scripts and buffers are allocated before the first reading
        before = _used(client)
        service.fill(queue, count)
        after = _used(client)
        service.delete_queue(queue)
    finally:
        client.close()
    if after <= before:
        raise BenchmarkFailed(
            f"{service.url} does not store its messages in {redact_password(store)}"
        )
    return (after - before) / count


def _used(client: BlockingClient) -> int:
    end = time.monotonic() + _SETTLE
    while _info(client)[b"lazyfree_pending_objects"] and time.monotonic() < end:
        time.sleep(0.1)
    return _info(client)[b"used_memory"]


def _info(client: BlockingClient) -> dict[bytes, int]:
    """Returns the numeric fields of INFO memory."""
    info: bytes = client.command("INFO", "memory")
    return {
        name: int(value) for name, value in re.findall(rb"^(\w+):(\d+)\r?$", info, re.MULTILINE)
    }
