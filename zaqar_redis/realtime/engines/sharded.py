# SPDX-License-Identifier: Apache-2.0
"""Channels spread over several engines: each channel lives in one, by its name.

Which one is said by jump consistent hash (Lamping, Veach: A Fast, Minimal Memory,
Consistent Hash Algorithm, 2014) of the first 64 bits of the name's BLAKE2b.  An engine that
is added at the end of the list takes its share of the channels, and no others move.

A control message goes out on every engine, and the first copy that arrives counts: so it
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
    Engine,
    Heard,
    Keep,
    Kept,
    Once,
    Position,
    PresenceStats,
    Published,
    Since,
)

#: Who sent a control message, and its number among those of the sender.
_HEADER = struct.Struct(">8sQ")
#: Messages of a sender whose copies may still come out of order: what it says while one of
#: the engines is slow; copies of those before are dropped.
_WINDOW = 1024
#: Seconds by which an engine may be slower than the first and is waited for.
_SLOWER = 0.25
#: Senders that are known at most: nodes and commands of some hours.
_SENDERS = 4096


def shard(channel: str, count: int) -> int:
    """Which of *count* engines a channel is in."""
    key = int.from_bytes(blake2b(channel.encode(), digest_size=8).digest())
    return jump.hash(key, count)


class _Shards:
    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines

    def _of(self, channel: str) -> Engine:
        return self._engines[shard(channel, len(self._engines))]


class ShardedHistory(_Shards):
    async def publish(
        self, channel: str, payload: bytes, keep: Keep | None, once: Once | None = None
    ) -> Published:
        return await self._of(channel).history.publish(channel, payload, keep, once)

    async def history(
        self, channel: str, since: Since, keep: Keep
    ) -> tuple[Sequence[Kept], Position]:
        return await self._of(channel).history.history(channel, since, keep)

    async def renew(self, channel: str, epoch: str) -> None:
        await self._of(channel).history.renew(channel, epoch)

    async def remove_history(self, channel: str) -> None:
        await self._of(channel).history.remove_history(channel)


class ShardedPresence(_Shards):
    async def add(self, channel: str, client: str, user: str, info: bytes, ttl: int) -> None:
        await self._of(channel).presence.add(channel, client, user, info, ttl)

    async def remove(self, channel: str, client: str, user: str) -> None:
        await self._of(channel).presence.remove(channel, client, user)

    async def present(self, channel: str) -> dict[str, bytes]:
        return await self._of(channel).presence.present(channel)

    async def stats(self, channel: str) -> PresenceStats:
        return await self._of(channel).presence.stats(channel)


class ShardedBus(_Shards):
    def __init__(self, engines: Sequence[Engine]) -> None:
        super().__init__(engines)
        self._sender = secrets.token_bytes(8)
        self._number = 0
        self._saying: set[asyncio.Task[int]] = set()

    async def close(self) -> None:
        for task in tuple(self._saying):
            task.cancel()
        await asyncio.gather(*self._saying, return_exceptions=True)

    async def subscribe(self, channel: str) -> None:
        await self._of(channel).bus.subscribe(channel)

    async def unsubscribe(self, channel: str) -> None:
        await self._of(channel).bus.unsubscribe(channel)

    async def publish_join(self, channel: str, info: bytes) -> None:
        await self._of(channel).bus.publish_join(channel, info)

    async def publish_leave(self, channel: str, info: bytes) -> None:
        await self._of(channel).bus.publish_leave(channel, info)

    async def publish_control(self, payload: bytes, node: str = "") -> int:
        self._number += 1
        message = _HEADER.pack(self._sender, self._number) + payload
        saying = {
            asyncio.create_task(engine.bus.publish_control(message, node))
            for engine in self._engines
        }
        self._saying |= saying
        for each in saying:
            each.add_done_callback(self._said)
        heard: list[int] = []
        while saying and not heard:
            done, saying = await asyncio.wait(saying, return_when=asyncio.FIRST_COMPLETED)
            heard = [each.result() for each in done if each.exception() is None]
        if not heard:
            raise errors.StoreUnavailable("of channels")
        if saying:  # one that is away is not waited for
            done, _ = await asyncio.wait(saying, timeout=_SLOWER)
            heard += [each.result() for each in done if each.exception() is None]
        return max(heard)

    def _said(self, task: asyncio.Task[int]) -> None:
        self._saying.discard(task)
        if not task.cancelled():
            task.exception()  # the others may have said it


class _Copies:
    """Tells the first copy of a message from the others, however late they come."""

    def __init__(self) -> None:
        #: sender -> numbers of the latest messages, in the order in which they came
        self._known: OrderedDict[bytes, dict[int, None]] = OrderedDict()
        #: sender -> the highest number that is no longer among them
        self._past: dict[bytes, int] = {}

    def is_first(self, sender: bytes, number: int) -> bool:
        known = self._known.setdefault(sender, {})
        self._known.move_to_end(sender)
        past = self._past.get(sender, 0)
        if number in known or number <= past:
            return False
        known[number] = None
        if len(known) > _WINDOW:
            oldest = next(iter(known))
            del known[oldest]
            self._past[sender] = max(past, oldest)
        if len(self._known) > _SENDERS:
            gone, _ = self._known.popitem(last=False)
            self._past.pop(gone, None)
        return True


class _OnceHeard:
    """Hands on what is heard, and each control message once."""

    def __init__(self, heard: Heard) -> None:
        self._copies = _Copies()
        self._heard = heard
        self.on_publication = heard.on_publication
        self.on_join = heard.on_join
        self.on_leave = heard.on_leave
        self.on_gap = heard.on_gap

    def on_control(self, payload: bytes) -> None:
        sender, number = _HEADER.unpack_from(payload)
        if self._copies.is_first(sender, number):
            self._heard.on_control(payload[_HEADER.size :])


class ShardedEngine:
    """*engines* are the same, in the same order, on every node."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines
        self.history = ShardedHistory(engines)
        self.presence = ShardedPresence(engines)
        self.bus = ShardedBus(engines)

    async def start(self, node: str, heard: Heard) -> None:
        once = _OnceHeard(heard)
        await asyncio.gather(*(engine.start(node, once) for engine in self._engines))

    async def ping(self) -> None:
        await asyncio.gather(*(engine.ping() for engine in self._engines))

    async def close(self) -> None:
        await self.bus.close()
        await asyncio.gather(*(engine.close() for engine in self._engines))
