# SPDX-License-Identifier: Apache-2.0
"""The installation that a store belongs to, recorded in the store itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.storage.redis.format import RedisFormatMark
from zaqar_redis.storage.redis.queues import RedisQueues
from zaqar_redis.storage.redis.scanning import scan

#: Keys that Redis reads in one SCAN, and names read at once: a millisecond or so.
_SCAN, _PAGE = 1000, 500


class RedisOwnership:
    def __init__(self, client: AsyncClient, queues: RedisQueues) -> None:
        self._client = client
        self._queues = queues
        self.format = RedisFormatMark(client)

    async def get(self) -> str | None:
        owner = await self._client.command("GET", keys.OWNER)
        return owner.decode() if owner is not None else None

    async def put(self, installation: str) -> None:
        await self._client.command("SET", keys.OWNER, installation)

    async def drop(self) -> None:
        await self._client.command("DEL", keys.OWNER)

    async def content(self) -> AsyncIterator[tuple[str, Sequence[str]]]:
        async for found in scan(self._client, keys.LISTS, _SCAN):
            for listing in found:
                async for page in self._names(listing):
                    yield page

    async def _names(self, listing: bytes) -> AsyncIterator[tuple[str, Sequence[str]]]:
        project, topics, after = keys.project_of(listing), keys.lists_topics(listing), ""
        while names := await self._queues.names(project, after, _PAGE, topics=topics):
            yield project, names
            after = names[-1]
