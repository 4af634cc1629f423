# SPDX-License-Identifier: Apache-2.0
"""An engine made of several engines (shards): each channel is in one, by its name.

Jump consistent hash chooses it (Lamping, Veach: A Fast, Minimal Memory,
Consistent Hash Algorithm, 2014), from the first 64 bits of the name's BLAKE2b.  An
engine that is added at the end of the list takes its share of the channels, and no others
move.

A control message is sent on every engine, and the first copy that arrives counts: so it
arrives at once while any of them works, and no node has to find out which does.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

import jump

from zaqar_redis import errors
from zaqar_redis.realtime.engine import (
    Dedup,
    Engine,
    EventHandler,
    HistoryEntry,
    HistoryFilter,
    HistoryOptions,
    Position,
    PresenceStats,
    Published,
)

#: The sender of a control message, and the message's number among those of the sender.
_HEADER = struct.Struct(">8sQ")
#: Messages of a sender whose copies may arrive out of order: those it sends while one of the
#: engines is slow; copies of earlier ones are dropped.
_WINDOW = 1024
#: Seconds to wait for the other engines after the first one has answered.
_STRAGGLER_TIMEOUT = 0.25
#: Senders that are remembered at most: nodes and commands of some hours.
_SENDERS_MAX = 4096


def shard(channel: str, count: int) -> int:
    """Returns the index of the engine, of *count*, that a channel is in."""
    key = int.from_bytes(blake2b(channel.encode(), digest_size=8).digest())
    return jump.hash(key, count)


class _Sharded:
    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines

    def _engine_for(self, channel: str) -> Engine:
        return self._engines[shard(channel, len(self._engines))]


class ShardedHistory(_Sharded):
    async def publish(
        self,
        channel: str,
        payload: bytes,
        history_options: HistoryOptions | None,
        dedup: Dedup | None = None,
    ) -> Published:
        return await self._engine_for(channel).history.publish(
            channel, payload, history_options, dedup
        )

    async def history(
        self, channel: str, since: HistoryFilter, history_options: HistoryOptions
    ) -> tuple[Sequence[HistoryEntry], Position]:
        return await self._engine_for(channel).history.history(channel, since, history_options)

    async def rotate_epoch(self, channel: str, epoch: str) -> None:
        await self._engine_for(channel).history.rotate_epoch(channel, epoch)

    async def remove_history(self, channel: str) -> None:
        await self._engine_for(channel).history.remove_history(channel)


class ShardedPresence(_Sharded):
    async def add(self, channel: str, client: str, user: str, info: bytes, ttl: int) -> None:
        await self._engine_for(channel).presence.add(channel, client, user, info, ttl)

    async def remove(self, channel: str, client: str, user: str) -> None:
        await self._engine_for(channel).presence.remove(channel, client, user)

    async def clients(self, channel: str) -> dict[str, bytes]:
        return await self._engine_for(channel).presence.clients(channel)

    async def stats(self, channel: str) -> PresenceStats:
        return await self._engine_for(channel).presence.stats(channel)


class ShardedBus(_Sharded):
    def __init__(self, engines: Sequence[Engine]) -> None:
        super().__init__(engines)
        self._sender = secrets.token_bytes(8)
        self._number = 0
        self._sending: set[asyncio.Task[int]] = set()

    async def close(self) -> None:
        for task in tuple(self._sending):
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def subscribe(self, channel: str) -> None:
        await self._engine_for(channel).bus.subscribe(channel)

    async def unsubscribe(self, channel: str) -> None:
        await self._engine_for(channel).bus.unsubscribe(channel)

    async def publish_join(self, channel: str, info: bytes) -> None:
        await self._engine_for(channel).bus.publish_join(channel, info)

    async def publish_leave(self, channel: str, info: bytes) -> None:
        await self._engine_for(channel).bus.publish_leave(channel, info)

    async def publish_control(self, payload: bytes, node: str = "") -> int:
        self._number += 1
        message = _HEADER.pack(self._sender, self._number) + payload
        sending = {
            asyncio.create_task(engine.bus.publish_control(message, node))
            for engine in self._engines
        }
        self._sending |= sending
        for each in sending:
            each.add_done_callback(self._on_sent)
        receivers: list[int] = []
        while sending and not receivers:
            done, sending = await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
            receivers = [each.result() for each in done if each.exception() is None]
        if not receivers:
            raise errors.StoreUnavailable("of channels")
        if sending:  # an unavailable engine must not hold up the call
            done, _ = await asyncio.wait(sending, timeout=_STRAGGLER_TIMEOUT)
            receivers += [each.result() for each in done if each.exception() is None]
        return max(receivers)

    def _on_sent(self, task: asyncio.Task[int]) -> None:
        self._sending.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved: another engine may have sent the message


class _Deduplicator:
    """Recognition of the first copy of a message, however late the others arrive."""

    def __init__(self) -> None:
        #: sender -> numbers of the latest messages, in order of arrival
        self._recent: OrderedDict[bytes, dict[int, None]] = OrderedDict()
        #: sender -> the highest number that is no longer among them
        self._forgotten: dict[bytes, int] = {}

    def is_first(self, sender: bytes, number: int) -> bool:
        recent = self._recent.setdefault(sender, {})
        self._recent.move_to_end(sender)
        forgotten = self._forgotten.get(sender, 0)
        if number in recent or number <= forgotten:
            return False
        recent[number] = None
        if len(recent) > _WINDOW:
            oldest = next(iter(recent))
            del recent[oldest]
            self._forgotten[sender] = max(forgotten, oldest)
        if len(self._recent) > _SENDERS_MAX:
            idle, _ = self._recent.popitem(last=False)
            self._forgotten.pop(idle, None)
        return True


class _DedupHandler:
    """An event handler that passes on every event, but each control message only once."""

    def __init__(self, handler: EventHandler) -> None:
        self._deduplicator = _Deduplicator()
        self._handler = handler
        self.on_publication = handler.on_publication
        self.on_join = handler.on_join
        self.on_leave = handler.on_leave
        self.on_gap = handler.on_gap

    def on_control(self, payload: bytes) -> None:
        sender, number = _HEADER.unpack_from(payload)
        if self._deduplicator.is_first(sender, number):
            self._handler.on_control(payload[_HEADER.size :])


class ShardedEngine:
    """An engine of *engines*: the same ones, in the same order, on every node."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines
        self.history = ShardedHistory(engines)
        self.presence = ShardedPresence(engines)
        self.bus = ShardedBus(engines)

    async def start(self, node: str, handler: EventHandler) -> None:
        dedup = _DedupHandler(handler)
        await asyncio.gather(*(engine.start(node, dedup) for engine in self._engines))

    async def ping(self) -> None:
        await asyncio.gather(*(engine.ping() for engine in self._engines))

    async def close(self) -> None:
        await self.bus.close()
        await asyncio.gather(*(engine.close() for engine in self._engines))
