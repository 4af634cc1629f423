# SPDX-License-Identifier: Apache-2.0
"""SCAN, of all keys of a store: in a cluster of each primary."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from zaqar_redis.keyspace.client import AsyncClient


async def scan(client: AsyncClient, pattern: bytes, count: int) -> AsyncIterator[set[bytes]]:
    """Yields the keys that match, page by page; some may come twice.

    *count*: keys that Redis looks at for a page.  Raises StoreUnavailable.
    """
    for node in client.nodes():
        cursor: Any = b"0"
        while True:
            cursor, found = await node.command("SCAN", cursor, "MATCH", pattern, "COUNT", count)
            yield set(found)
            if cursor == b"0":
                break
