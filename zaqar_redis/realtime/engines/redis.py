# SPDX-License-Identifier: Apache-2.0
"""An engine on Redis: one script per verb, one PUB/SUB connection per node.

Of several Redis (shards) each channel is in one, by its name, as on a `buses.sharded.ShardedBus`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.listeners import commands_of_scripts
from zaqar_redis.keyspace.ping import ping
from zaqar_redis.keyspace.script import Script
from zaqar_redis.realtime.bus import Bus, BusSettings
from zaqar_redis.realtime.buses.redis import RedisBus
from zaqar_redis.realtime.buses.sharded import ShardedBus, shard
from zaqar_redis.realtime.engine import (
    DEDUP_WINDOW_MS,
    Dedup,
    EventHandler,
    History,
    HistoryEntry,
    HistoryFilter,
    HistoryOptions,
    Position,
    PresenceStats,
    Published,
    new_epoch,
)
from zaqar_redis.realtime.engines.events import BusEvents, packs
from zaqar_redis.realtime.engines.sent import SentHistory
from zaqar_redis.realtime.engines.topics import RedisTopics

_PUBLISH = Script("channel_publish")
_HISTORY = Script("channel_history")
_RENEW = Script("channel_renew")
_ADD = Script("presence_add")
_REMOVE = Script("presence_remove")
_LIST = Script("presence_list")
_STATS = Script("presence_stats")

#: An offset after all others; up to here Lua's numbers are exact.
_LAST = 2**53
_NO_HISTORY = HistoryOptions(size=0, ttl=0, meta_ttl=0)
_NO_DEDUP = Dedup()

#: Returns the Redis that a channel is in.
ClientOf = Callable[[str], AsyncClient]


class RedisHistory:
    def __init__(self, client_of: ClientOf, *, sends: bool) -> None:
        """*sends*: publications go out by PUB/SUB in the same step."""
        self._client_of = client_of
        self._sends = int(sends)

    async def publish(
        self,
        channel: str,
        payload: bytes,
        history_options: HistoryOptions | None,
        dedup: Dedup | None = None,
    ) -> Published:
        history_options, dedup = history_options or _NO_HISTORY, dedup or _NO_DEDUP
        channel_keys = keys.of_channel(channel)
        offset, epoch, new = await self._client_of(channel).call(
            _PUBLISH(
                keys.DedupKeys(channel_keys, dedup.key) if dedup.key else channel_keys,
                payload=payload,
                size=history_options.size,
                ttl=history_options.ttl,
                meta_ttl=history_options.meta_ttl,
                epoch=new_epoch(),
                remember=DEDUP_WINDOW_MS if dedup.key else 0,
                version=dedup.version,
                version_epoch=dedup.version_epoch,
                send=self._sends,
            )
        )
        return Published(Position(offset, epoch.decode()), new=bool(new))

    async def history(
        self, channel: str, since: HistoryFilter, history_options: HistoryOptions
    ) -> tuple[Sequence[HistoryEntry], Position]:
        first, last = "-", "+"
        if since.position is not None:
            at = min(since.position.offset, _LAST)
            first, last = (first, str(at - 1)) if since.reverse else (str(at + 1), last)
        empty = since.reverse and since.position is not None and since.position.offset <= 1
        limit = -1 if since.limit is None else since.limit
        offset, epoch, entries = await self._client_of(channel).call(
            _HISTORY(
                keys.of_channel(channel),
                epoch=new_epoch(),
                meta_ttl=history_options.meta_ttl,
                first=first,
                last=last,
                limit=0 if empty else limit,
                reverse=int(since.reverse),
            )
        )
        found = [HistoryEntry(int(id.partition(b"-")[0]), fields[1]) for id, fields in entries]
        return found, Position(offset, epoch.decode())

    async def forget_key(self, channel: str, key: str) -> None:
        once = keys.DedupKeys(keys.of_channel(channel), key).once
        await self._client_of(channel).command("DEL", once)

    async def rotate_epoch(self, channel: str, epoch: str) -> None:
        renew = _RENEW(keys.of_channel(channel), old=epoch, new=new_epoch())
        await self._client_of(channel).call(renew)

    async def remove_history(self, channel: str) -> None:
        await self._client_of(channel).command("DEL", keys.of_channel(channel).history)


class RedisPresence:
    def __init__(self, client_of: ClientOf, now: Clock) -> None:
        self._client_of = client_of
        self._now = now

    async def add(self, channel: str, client: str, user: str, info: bytes, ttl: int) -> None:
        await self._client_of(channel).call(
            _ADD(
                keys.of_channel(channel),
                now=self._now(),
                client=client,
                user=user,
                info=info,
                ttl=ttl * 1000,
            )
        )

    async def remove(self, channel: str, client: str, user: str) -> None:
        remove = _REMOVE(keys.of_channel(channel), client=client, user=user)
        await self._client_of(channel).call(remove)

    async def clients(self, channel: str) -> dict[str, bytes]:
        entries = _LIST(keys.of_channel(channel), now=self._now())
        answer = await self._client_of(channel).call(entries)
        pairs = zip(answer[::2], answer[1::2], strict=True)
        return {client.decode(): _info(entry) for client, entry in pairs}

    async def stats(self, channel: str) -> PresenceStats:
        stats = _STATS(keys.of_channel(channel), now=self._now())
        return PresenceStats(*await self._client_of(channel).call(stats))


def _info(entry: bytes) -> bytes:
    """Returns the info in an entry that presence_add.lua wrote."""
    size, _, rest = entry.partition(b":")
    return rest[int(size) :]


def _pubsub_bus(client: AsyncClient) -> RedisBus:
    """Returns a bus over PUB/SUB of the engine's Redis, where scripts send publications."""
    commands = commands_of_scripts(client)
    return RedisBus(client, BusSettings(), keys.pubsub_of, commands=commands, packs=packs)


def _by_name(clients: Sequence[AsyncClient]) -> ClientOf:
    if len(clients) == 1:
        return lambda channel: clients[0]
    return lambda channel: clients[shard(channel.encode(), len(clients))]


class RedisEngine:
    """An engine over *clients*: of the same Redis, in the same order, on every node."""

    def __init__(self, clients: Sequence[AsyncClient], now: Clock, bus: Bus | None = None) -> None:
        """*bus*: None: PUB/SUB of the same Redis."""
        self._clients = clients
        client_of = _by_name(clients)
        history = RedisHistory(client_of, sends=bus is None)
        if bus is None:
            buses = [_pubsub_bus(each) for each in clients]
            self.events = BusEvents(ShardedBus(buses) if len(buses) > 1 else buses[0])
            self.history: History = history
        else:
            self.events = BusEvents(bus, reorders=True)
            self.history = SentHistory(history, self.events)
        self.presence = RedisPresence(client_of, now)
        self.topics = RedisTopics(clients[0], now)

    async def start(self, node: str, handler: EventHandler) -> None:
        await asyncio.gather(*(each.start() for each in self._clients))
        await self.events.start(node, handler)

    async def ping(self) -> None:
        await asyncio.gather(*(ping(each) for each in self._clients))

    async def close(self) -> None:
        await self.events.close()
        await asyncio.gather(*(each.close() for each in self._clients))
