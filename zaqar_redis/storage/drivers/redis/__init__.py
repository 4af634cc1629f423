# SPDX-License-Identifier: Apache-2.0
"""Queues in Redis: a driver made of one Lua script per verb."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zaqar_redis import clock
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.storage.driver import Bury
from zaqar_redis.storage.drivers.redis.checker import Checker
from zaqar_redis.storage.drivers.redis.claims import Claims
from zaqar_redis.storage.drivers.redis.feed import Feed
from zaqar_redis.storage.drivers.redis.live import Live
from zaqar_redis.storage.drivers.redis.messages import Messages
from zaqar_redis.storage.drivers.redis.ownership import RedisOwnership
from zaqar_redis.storage.drivers.redis.queues import Queues
from zaqar_redis.storage.drivers.redis.subscriptions import Subscriptions
from zaqar_redis.storage.drivers.redis.sweeper import Sweeper
from zaqar_redis.storage.drivers.redis.topics import Topics
from zaqar_redis.storage.drivers.redis.transfer import Transfer


class RedisDriver:
    """The store of one Redis, for a running event loop."""

    def __init__(self, client: keyspace.AsyncClient, now: clock.Clock = clock.store) -> None:
        self._client = client
        self.queues = Queues(client, now)
        self.messages = Messages(client, now)
        self.claims = Claims(client, now, self.messages.bury)
        self.subscriptions = Subscriptions(client, now)
        self.topics = Topics(client)
        self.feed = Feed(client)
        self.live = Live(client, now)
        self.sweeper = Sweeper(client, self.queues, now)
        self.transfer = Transfer(client)
        self.ownership = RedisOwnership(client, self.queues)
        self.checker = Checker(client, self.queues, now)

    def route_letters(self, bury: Bury) -> None:
        self.messages.letters = self.claims.letters = bury

    async def start(self) -> None:
        await self._client.start()

    async def close(self) -> None:
        await self.feed.close()
        await self.live.close()
        await self._client.close()

    async def ping(self) -> None:
        await self._client.command("PING")

    async def identity(self) -> str:
        return await self._client.identity()


def create(uri: str, options: Mapping[str, Any]) -> RedisDriver:
    """The entry point of ``redis://``, ``rediss://``, ``unix://`` and ``memory://``."""
    client = keyspace.client(uri, keyspace.settings(options), options.get("name", ""))
    return RedisDriver(client)
