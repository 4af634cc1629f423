# SPDX-License-Identifier: Apache-2.0
"""What a message costs in the memory of Redis."""

from __future__ import annotations

import re
import time

from zaqar_redis.bench.service import Failed, Service
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.batch import BatchSettings

#: Seconds for Redis to finish freeing what was deleted before.
_SETTLE = 60.0


def bytes_per_message(service: Service, store: str, count: int) -> float:
    """Post *count* messages and see by how much ``used_memory`` of *store* grows."""
    client = keyspace.BlockingClient(keyspace.checked(store), BatchSettings())
    try:
        queue = service.queue()
        service.fill(queue, 1)  # scripts and buffers are made before the first look
        before = _used(client)
        service.fill(queue, count)
        after = _used(client)
        service.drop(queue)
    finally:
        client.close()
    if after <= before:
        raise Failed(f"{service.url} does not keep its messages in {keyspace.printable(store)}")
    return (after - before) / count


def _used(client: keyspace.BlockingClient) -> int:
    end = time.monotonic() + _SETTLE
    while _info(client)[b"lazyfree_pending_objects"] and time.monotonic() < end:
        time.sleep(0.1)
    return _info(client)[b"used_memory"]


def _info(client: keyspace.BlockingClient) -> dict[bytes, int]:
    """What Redis tells of its memory, as far as it is numbers."""
    told: bytes = client.command("INFO", "memory")
    return {
        name: int(value) for name, value in re.findall(rb"^(\w+):(\d+)\r?$", told, re.MULTILINE)
    }
