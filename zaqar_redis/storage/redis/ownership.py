# SPDX-License-Identifier: Apache-2.0
"""What a store says of itself: the installation that it belongs to, and its format."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from zaqar_redis.formats import UNMARKED, StoreFormat
from zaqar_redis.keyspace import control_keys, keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.script import Script
from zaqar_redis.storage.redis.figures import RedisFigures

_RAISE = Script("format_raise")


class RedisFormatMark:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        #: what releases are known to know; it is never lowered
        self.needs = UNMARKED.needs

    async def get(self) -> StoreFormat:
        key = control_keys.CONTROL.format
        version, needs = await self._client.command("HMGET", key, "version", "needs")
        found = UNMARKED if version is None else StoreFormat(int(version), int(needs))
        self.needs = found.needs
        return found

    async def raise_to(self, version: int, needs: int) -> None:
        await self._client.call(_RAISE(control_keys.CONTROL, version=version, needs=needs))
        self.needs = max(self.needs, needs)


class RedisOwnership:
    def __init__(self, client: AsyncClient, figures: RedisFigures) -> None:
        self._client = client
        self._figures = figures
        self.format = RedisFormatMark(client)

    async def get(self) -> str | None:
        owner = await self._client.command("GET", keys.OWNER)
        return owner.decode() if owner is not None else None

    async def put(self, installation: str) -> None:
        await self._client.command("SET", keys.OWNER, installation)

    async def drop(self) -> None:
        await self._client.command("DEL", keys.OWNER)

    def content(self) -> AsyncIterator[tuple[str, Sequence[str]]]:
        return self._figures.content()
