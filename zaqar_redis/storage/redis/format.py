# SPDX-License-Identifier: Apache-2.0
"""The mark of a store's format, in Redis."""

from __future__ import annotations

from zaqar_redis.formats import UNMARKED, StoreFormat
from zaqar_redis.keyspace import control_keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.script import Script

_RAISE = Script("format_raise")


class RedisFormatMark:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def get(self) -> StoreFormat:
        key = control_keys.CONTROL.format
        version, needs = await self._client.command("HMGET", key, "version", "needs")
        return UNMARKED if version is None else StoreFormat(int(version), int(needs))

    async def raise_to(self, version: int, needs: int) -> None:
        await self._client.call(_RAISE(control_keys.CONTROL, version=version, needs=needs))
