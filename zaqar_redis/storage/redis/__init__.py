# SPDX-License-Identifier: Apache-2.0
"""The driver of queues in Redis, with one Lua script per verb."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from zaqar_redis import clock, errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import settings
from zaqar_redis.keyspace.ping import ping
from zaqar_redis.storage.contract import PostDeadLetter
from zaqar_redis.storage.redis.administration import RedisAdministration
from zaqar_redis.storage.redis.checker import RedisChecker
from zaqar_redis.storage.redis.claims import RedisClaims
from zaqar_redis.storage.redis.deliveries import RedisDeliveries
from zaqar_redis.storage.redis.feed import RedisFeed
from zaqar_redis.storage.redis.figures import RedisFigures
from zaqar_redis.storage.redis.live import RedisLive
from zaqar_redis.storage.redis.messages import RedisMessages
from zaqar_redis.storage.redis.ownership import RedisOwnership
from zaqar_redis.storage.redis.queues import RedisQueues
from zaqar_redis.storage.redis.subscription_deliveries import RedisSubscriptionDeliveries
from zaqar_redis.storage.redis.subscriptions import RedisSubscriptions
from zaqar_redis.storage.redis.sweeper import RedisSweeper
from zaqar_redis.storage.redis.transfer import RedisTransfer


class RedisDriver:
    """The store of one Redis, for a running event loop."""

    def __init__(self, client: keyspace.AsyncClient, now: clock.Clock = clock.store) -> None:
        self._client = client
        self._reading: asyncio.Task[None] | None = None
        self.queues = RedisQueues(client, now)
        self.messages = RedisMessages(client, now)
        self.administration = RedisAdministration(client, now, self.messages.dead_letter)
        self.subscriptions = RedisSubscriptions(client, now)
        self.deliveries = RedisDeliveries(client, now)
        self.subscription_deliveries = RedisSubscriptionDeliveries(client, now)
        self.feed = RedisFeed(client)
        self.live = RedisLive(client, now)
        self.sweeper = RedisSweeper(client, self.queues, self.messages, now)
        self.transfer = RedisTransfer(client)
        self.figures = RedisFigures(client, now)
        self.ownership = RedisOwnership(client, self.figures)
        self.claims = RedisClaims(client, now, self.messages.dead_letter, self.ownership.format)
        self.checker = RedisChecker(client, self.figures, now)

    def route_dead_letters(self, dead_letter: PostDeadLetter) -> None:
        for sender in (self.messages, self.claims, self.administration):
            sender.dead_letter_route = dead_letter

    async def start(self) -> None:
        await self._client.start()
        # In the background: the store may be away.
        self._reading = asyncio.create_task(self._read_format())

    async def _read_format(self) -> None:
        with contextlib.suppress(errors.Problem):
            await self.ownership.format.get()

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        await self.feed.close()
        await self.live.close()
        await self.deliveries.close()
        await self._client.close()

    async def ping(self) -> None:
        await ping(self._client)

    async def identity(self) -> str:
        return await self._client.identity()


def create(uri: str, options: Mapping[str, Any]) -> RedisDriver:
    """The entry point of ``redis://``, ``rediss://``, ``unix://`` and ``memory://``."""
    client = keyspace.client(uri, settings.from_options(options), options.get("name", ""))
    return RedisDriver(client)
