# SPDX-License-Identifier: Apache-2.0
"""An engine over several Redis (shards): each channel is in one, by its name, as on a
`buses.sharded.ShardedBus`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

from zaqar_redis.clock import Clock
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.realtime.bus import Bus
from zaqar_redis.realtime.buses.sharded import ShardedBus, shard
from zaqar_redis.realtime.engine import (
    Dedup,
    EventHandler,
    History,
    HistoryEntry,
    HistoryFilter,
    HistoryOptions,
    Position,
    Presence,
    PresenceStats,
    Published,
)
from zaqar_redis.realtime.engines.events import BusEvents
from zaqar_redis.realtime.engines.redis import RedisHistory, RedisPresence, pubsub_bus
from zaqar_redis.realtime.engines.sent import SentHistory
from zaqar_redis.realtime.engines.topics import RedisTopics

T = TypeVar("T")


class _Sharded(Generic[T]):
    def __init__(self, shards: Sequence[T]) -> None:
        self._shards = shards

    def _shard_of(self, channel: str) -> T:
        return self._shards[shard(channel.encode(), len(self._shards))]


class ShardedHistory(_Sharded[History]):
    async def publish(
        self,
        channel: str,
        payload: bytes,
        history_options: HistoryOptions | None,
        dedup: Dedup | None = None,
    ) -> Published:
        return await self._shard_of(channel).publish(channel, payload, history_options, dedup)

    async def history(
        self, channel: str, since: HistoryFilter, history_options: HistoryOptions
    ) -> tuple[Sequence[HistoryEntry], Position]:
        return await self._shard_of(channel).history(channel, since, history_options)

    async def forget_key(self, channel: str, key: str) -> None:
        await self._shard_of(channel).forget_key(channel, key)

    async def rotate_epoch(self, channel: str, epoch: str) -> None:
        await self._shard_of(channel).rotate_epoch(channel, epoch)

    async def remove_history(self, channel: str) -> None:
        await self._shard_of(channel).remove_history(channel)


class ShardedPresence(_Sharded[Presence]):
    async def add(self, channel: str, client: str, user: str, info: bytes, ttl: int) -> None:
        await self._shard_of(channel).add(channel, client, user, info, ttl)

    async def remove(self, channel: str, client: str, user: str) -> None:
        await self._shard_of(channel).remove(channel, client, user)

    async def clients(self, channel: str) -> dict[str, bytes]:
        return await self._shard_of(channel).clients(channel)

    async def stats(self, channel: str) -> PresenceStats:
        return await self._shard_of(channel).stats(channel)


class ShardedEngine:
    """An engine over *clients*: of the same Redis, in the same order, on every node."""

    def __init__(self, clients: Sequence[AsyncClient], now: Clock, bus: Bus | None = None) -> None:
        """*bus*: None: PUB/SUB of the same Redis."""
        self._clients = clients
        history = ShardedHistory([RedisHistory(each, sends=bus is None) for each in clients])
        if bus is None:
            self.events = BusEvents(ShardedBus([pubsub_bus(each) for each in clients]))
            self.history: History = history
        else:
            self.events = BusEvents(bus, reorders=True)
            self.history = SentHistory(history, self.events)
        self.presence = ShardedPresence([RedisPresence(each, now) for each in clients])
        self.topics = RedisTopics(clients[0], now)

    async def start(self, node: str, handler: EventHandler) -> None:
        await asyncio.gather(*(client.start() for client in self._clients))
        await self.events.start(node, handler)

    async def ping(self) -> None:
        await asyncio.gather(*(client.command("PING") for client in self._clients))

    async def close(self) -> None:
        await self.events.close()
        await asyncio.gather(*(client.close() for client in self._clients))
