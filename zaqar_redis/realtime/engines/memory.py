# SPDX-License-Identifier: Apache-2.0
"""An engine within one process: also the shortest reference of what an engine does."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import islice

from zaqar_redis.clock import Clock
from zaqar_redis.realtime.bus import Bus
from zaqar_redis.realtime.buses.memory import MemoryBus
from zaqar_redis.realtime.engine import (
    DEDUP_WINDOW_MS,
    NO_POSITION,
    Dedup,
    EventHandler,
    HistoryEntry,
    HistoryFilter,
    HistoryOptions,
    Position,
    PresenceStats,
    Published,
    new_epoch,
)
from zaqar_redis.realtime.engines.events import BusEvents
from zaqar_redis.realtime.engines.sent import SentHistory
from zaqar_redis.realtime.engines.topics import MemoryTopics

#: Stored idempotency keys of all channels at most: a few minutes of busy publishers.
_DEDUP_KEYS_MAX = 100_000
#: Channels that are checked for expiry with each use of a channel's history.
_EXPIRY_SCAN = 2


class _Stream:
    def __init__(self) -> None:
        self.epoch = new_epoch()
        self.offset = 0
        self.version = (0, "")
        self.entries: deque[HistoryEntry] = deque()
        #: when the entries expire, and when offset and epoch do; ms
        self.expires_at = self.meta_expires_at = 0

    def append(self, payload: bytes, history_options: HistoryOptions, now: int) -> None:
        self.offset += 1
        self.entries.append(HistoryEntry(self.offset, payload))
        self.expires_at = now + history_options.ttl * 1000
        while len(self.entries) > history_options.size:
            self.entries.popleft()

    def expire(self, now: int) -> None:
        if self.expires_at <= now:
            self.entries.clear()


class MemoryHistory:
    """A history in this process, which sends nothing."""

    def __init__(self, now: Clock) -> None:
        self._now = now
        self._channels: OrderedDict[str, _Stream] = OrderedDict()
        self._dedup: OrderedDict[tuple[str, str], tuple[Position, int]] = OrderedDict()

    async def publish(
        self,
        channel: str,
        payload: bytes,
        history_options: HistoryOptions | None,
        dedup: Dedup | None = None,
    ) -> Published:
        now = self._now()
        if dedup is not None and dedup.key:
            earlier = self._dedup.get((channel, dedup.key))
            if earlier is not None and earlier[1] > now:
                return Published(earlier[0], new=False)
        position = NO_POSITION
        if history_options is not None:
            found = self._channel(channel, history_options, now)
            if dedup is not None and dedup.version:
                version, version_epoch = found.version
                if version_epoch == dedup.version_epoch and dedup.version <= version:
                    return Published(Position(found.offset, found.epoch), new=False)
                found.version = (dedup.version, dedup.version_epoch)
            found.append(payload, history_options, now)
            position = Position(found.offset, found.epoch)
        if dedup is not None and dedup.key:
            self._record_key((channel, dedup.key), position, now)
        return Published(position, new=True)

    async def history(
        self, channel: str, since: HistoryFilter, history_options: HistoryOptions
    ) -> tuple[Sequence[HistoryEntry], Position]:
        now = self._now()
        found = self._channel(channel, history_options, now)
        entries = list(found.entries)
        if since.reverse:
            entries.reverse()
        if since.position is not None:
            at = since.position.offset
            entries = [
                each
                for each in entries
                if (each.offset < at if since.reverse else each.offset > at)
            ]
        return list(islice(entries, since.limit)), Position(found.offset, found.epoch)

    async def forget_key(self, channel: str, key: str) -> None:
        self._dedup.pop((channel, key), None)

    async def rotate_epoch(self, channel: str, epoch: str) -> None:
        found = self._channels.get(channel)
        if found is not None and found.epoch == epoch:
            found.epoch = new_epoch()

    async def remove_history(self, channel: str) -> None:
        found = self._channels.get(channel)
        if found is not None:
            found.entries.clear()

    def _channel(self, name: str, history_options: HistoryOptions, now: int) -> _Stream:
        """Returns the stream of a channel; creates it when it does not exist or has expired."""
        for other in list(islice(self._channels, _EXPIRY_SCAN)):
            if self._channels[other].meta_expires_at <= now:
                del self._channels[other]
        found = self._channels.get(name)
        if found is None or found.meta_expires_at <= now:
            found = self._channels[name] = _Stream()
        found.expire(now)
        found.meta_expires_at = now + history_options.meta_ttl * 1000
        self._channels.move_to_end(name)
        return found

    def _record_key(self, key: tuple[str, str], position: Position, now: int) -> None:
        self._dedup[key] = (position, now + DEDUP_WINDOW_MS)
        self._dedup.move_to_end(key)
        while self._dedup and (
            len(self._dedup) > _DEDUP_KEYS_MAX or next(iter(self._dedup.values()))[1] <= now
        ):
            self._dedup.popitem(last=False)


class MemoryPresence:
    def __init__(self, now: Clock) -> None:
        self._now = now
        #: channel -> client -> user, info, when it expires (ms)
        self._channels: dict[str, dict[str, tuple[str, bytes, int]]] = {}

    async def add(self, channel: str, client: str, user: str, info: bytes, ttl: int) -> None:
        entries = self._channels.setdefault(channel, {})
        entries[client] = (user, info, self._now() + ttl * 1000)

    async def remove(self, channel: str, client: str, user: str) -> None:
        entries = self._channels.get(channel, {})
        entries.pop(client, None)
        if not entries:
            self._channels.pop(channel, None)

    async def clients(self, channel: str) -> dict[str, bytes]:
        return {client: info for client, (_, info, _) in self._alive(channel).items()}

    async def stats(self, channel: str) -> PresenceStats:
        alive = self._alive(channel)
        return PresenceStats(len(alive), len({user for user, _, _ in alive.values()}))

    def _alive(self, channel: str) -> dict[str, tuple[str, bytes, int]]:
        entries, now = self._channels.get(channel, {}), self._now()
        for client in [client for client, (_, _, end) in entries.items() if end <= now]:
            del entries[client]
        if not entries:
            self._channels.pop(channel, None)
        return entries


class MemoryEngine:
    def __init__(self, now: Clock, bus: Bus | None = None) -> None:
        """*bus*: None: one within this engine."""
        self.events = BusEvents(bus or MemoryBus(), reorders=bus is not None)
        self.history = SentHistory(MemoryHistory(now), self.events)
        self.presence = MemoryPresence(now)
        self.topics = MemoryTopics()

    async def start(self, node: str, handler: EventHandler) -> None:
        await self.events.start(node, handler)

    async def ping(self) -> None:
        pass

    async def close(self) -> None:
        await self.events.close()
