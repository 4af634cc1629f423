# SPDX-License-Identifier: Apache-2.0
"""SCAN, of all keys of a store: in a cluster of each primary.  Some may come twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient

#: Keys that Redis looks at for a page: a millisecond or so.
_COUNT = 1000


async def scan(client: AsyncClient, pattern: bytes) -> AsyncIterator[set[bytes]]:
    """Yields the keys that match, page by page.  Raises StoreUnavailable."""
    for node in client.nodes():
        cursor: Any = b"0"
        while True:
            cursor, found = await node.command("SCAN", cursor, "MATCH", pattern, "COUNT", _COUNT)
            yield set(found)
            if cursor == b"0":
                break


async def lists(client: AsyncClient) -> AsyncIterator[tuple[str, bool]]:
    """Yields the projects that have a list, and whether it is that of topics."""
    async for page in scan(client, keys.LISTS):
        for listing in page:
            yield keys.project_of(listing), keys.lists_topics(listing)
