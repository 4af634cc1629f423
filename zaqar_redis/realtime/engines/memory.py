# SPDX-License-Identifier: Apache-2.0
"""Channels within one process: also the shortest statement of what an engine does."""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import islice

from zaqar_redis.clock import Clock
from zaqar_redis.realtime.engine import (
    NOWHERE,
    Heard,
    Keep,
    Kept,
    Once,
    Position,
    PresenceStats,
    Published,
    Since,
)

#: Milliseconds for which a key of a publication is known.
REMEMBERED = 300_000
#: Keys of all channels that are known at most: a few minutes of busy publishers.
_KEYS = 100_000
#: Entries that are looked at for being over, each time something is added.
_TIDY = 2


class _Channel:
    def __init__(self) -> None:
        self.epoch = new_epoch()
        self.offset = 0
        self.version = (0, "")
        self.kept: deque[Kept] = deque()
        #: when what is kept is over, and when all is forgotten; ms
        self.lapses_at = self.forget_at = 0

    def append(self, payload: bytes, keep: Keep, now: int) -> None:
        self.offset += 1
        self.kept.append(Kept(self.offset, payload))
        self.lapses_at = now + keep.ttl * 1000
        while len(self.kept) > keep.size:
            self.kept.popleft()

    def lapse(self, now: int) -> None:
        if self.lapses_at <= now:
            self.kept.clear()


def new_epoch() -> str:
    # No secret, and of each publication: the system's randomness would be a call to it.
    return f"{random.getrandbits(32):08x}"


class MemoryHistory:
    def __init__(self, now: Clock, bus: MemoryBus) -> None:
        self._now = now
        self._bus = bus
        self._channels: OrderedDict[str, _Channel] = OrderedDict()
        self._once: OrderedDict[tuple[str, str], tuple[Position, int]] = OrderedDict()

    async def publish(
        self, channel: str, payload: bytes, keep: Keep | None, once: Once | None = None
    ) -> Published:
        now = self._now()
        if once is not None and once.key:
            known = self._once.get((channel, once.key))
            if known is not None and known[1] > now:
                return Published(known[0], new=False)
        position = NOWHERE
        if keep is not None:
            found = self._channel(channel, keep, now)
            if once is not None and once.version:
                version, of = found.version
                if of == once.version_epoch and once.version <= version:
                    return Published(Position(found.offset, found.epoch), new=False)
                found.version = (once.version, once.version_epoch)
            found.append(payload, keep, now)
            position = Position(found.offset, found.epoch)
        if once is not None and once.key:
            self._remember((channel, once.key), position, now)
        self._bus.publication(channel, payload, position)
        return Published(position, new=True)

    async def history(
        self, channel: str, since: Since, keep: Keep
    ) -> tuple[Sequence[Kept], Position]:
        now = self._now()
        found = self._channel(channel, keep, now)
        kept = list(found.kept)
        if since.reverse:
            kept.reverse()
        if since.position is not None:
            at = since.position.offset
            kept = [
                each for each in kept if (each.offset < at if since.reverse else each.offset > at)
            ]
        return list(islice(kept, since.limit)), Position(found.offset, found.epoch)

    async def renew(self, channel: str, epoch: str) -> None:
        found = self._channels.get(channel)
        if found is not None and found.epoch == epoch:
            found.epoch = new_epoch()

    async def remove_history(self, channel: str) -> None:
        found = self._channels.get(channel)
        if found is not None:
            found.kept.clear()

    def _channel(self, name: str, keep: Keep, now: int) -> _Channel:
        """Raises nothing: one that is not there, or was forgotten, begins anew."""
        for other in list(islice(self._channels, _TIDY)):
            if self._channels[other].forget_at <= now:
                del self._channels[other]
        found = self._channels.get(name)
        if found is None or found.forget_at <= now:
            found = self._channels[name] = _Channel()
        found.lapse(now)
        found.forget_at = now + keep.meta_ttl * 1000
        self._channels.move_to_end(name)
        return found

    def _remember(self, key: tuple[str, str], position: Position, now: int) -> None:
        self._once[key] = (position, now + REMEMBERED)
        self._once.move_to_end(key)
        while self._once and (len(self._once) > _KEYS or next(iter(self._once.values()))[1] <= now):
            self._once.popitem(last=False)


class MemoryPresence:
    def __init__(self, now: Clock) -> None:
        self._now = now
        #: channel -> client -> user, info, when it lapses
        self._channels: dict[str, dict[str, tuple[str, bytes, int]]] = {}

    async def add(self, channel: str, client: str, user: str, info: bytes, ttl: int) -> None:
        known = self._channels.setdefault(channel, {})
        known[client] = (user, info, self._now() + ttl * 1000)

    async def remove(self, channel: str, client: str, user: str) -> None:
        known = self._channels.get(channel, {})
        known.pop(client, None)
        if not known:
            self._channels.pop(channel, None)

    async def present(self, channel: str) -> dict[str, bytes]:
        return {client: info for client, (_, info, _) in self._alive(channel).items()}

    async def stats(self, channel: str) -> PresenceStats:
        alive = self._alive(channel)
        return PresenceStats(len(alive), len({user for user, _, _ in alive.values()}))

    def _alive(self, channel: str) -> dict[str, tuple[str, bytes, int]]:
        known, now = self._channels.get(channel, {}), self._now()
        for client in [client for client, (_, _, end) in known.items() if end <= now]:
            del known[client]
        if not known:
            self._channels.pop(channel, None)
        return known


class MemoryBus:
    def __init__(self) -> None:
        self.heard: Heard | None = None
        self.node = ""
        self._subscribed: set[str] = set()

    async def subscribe(self, channel: str) -> None:
        self._subscribed.add(channel)

    async def unsubscribe(self, channel: str) -> None:
        self._subscribed.discard(channel)

    def publication(self, channel: str, payload: bytes, position: Position) -> None:
        if self.heard is not None and channel in self._subscribed:
            self.heard.on_publication(channel, payload, position)

    async def publish_join(self, channel: str, info: bytes) -> None:
        if self.heard is not None and channel in self._subscribed:
            self.heard.on_join(channel, info)

    async def publish_leave(self, channel: str, info: bytes) -> None:
        if self.heard is not None and channel in self._subscribed:
            self.heard.on_leave(channel, info)

    async def publish_control(self, payload: bytes, node: str = "") -> int:
        if self.heard is None or node not in ("", self.node):
            return 0
        self.heard.on_control(payload)
        return 1


class MemoryEngine:
    def __init__(self, now: Clock) -> None:
        self.bus = MemoryBus()
        self.history = MemoryHistory(now, self.bus)
        self.presence = MemoryPresence(now)

    async def start(self, node: str, heard: Heard) -> None:
        self.bus.heard, self.bus.node = heard, node

    async def ping(self) -> None:
        pass

    async def close(self) -> None:
        self.bus.heard = None
