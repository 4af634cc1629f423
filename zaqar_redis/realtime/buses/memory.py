# SPDX-License-Identifier: Apache-2.0
"""A bus within one process: also the shortest reference of what a bus does.

A message is delivered before `publish` returns, to each node that shares the bus.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from zaqar_redis.realtime.bus import Bus, BusSettings, Deliver, OnDropped, ignore_dropped

LOG = logging.getLogger(__name__)


class MemoryHub:
    """What several nodes of a process share."""

    def __init__(self) -> None:
        self.buses: list[MemoryBus] = []


#: By the names in URIs.
_HUBS: weakref.WeakValueDictionary[str, MemoryHub] = weakref.WeakValueDictionary()


class MemoryBus:
    def __init__(self, hub: MemoryHub | None = None, name: str = "memory://") -> None:
        self.name = name
        self._hub = hub or MemoryHub()
        self._deliver: Deliver
        self._subscribed: set[bytes] = set()

    @property
    def live(self) -> bool:
        return self in self._hub.buses

    async def start(
        self,
        deliver: Deliver,
        on_gap: Callable[[], None],
        channels: Sequence[bytes],
        on_dropped: OnDropped = ignore_dropped,
    ) -> None:
        if not self.live:
            self._deliver = deliver
            self._subscribed.update(channels)
            self._hub.buses.append(self)

    async def stop(self) -> None:
        if self.live:
            self._hub.buses.remove(self)

    async def subscribe(self, channel: bytes) -> None:
        self._subscribed.add(channel)

    async def unsubscribe(self, channel: bytes) -> None:
        self._subscribed.discard(channel)

    def publish(self, channel: bytes, payload: bytes) -> int:
        return sum(bus.receive(channel, payload) for bus in self._receivers(channel))

    async def send(self, channel: bytes, payload: bytes) -> int:
        receivers = self._receivers(channel)
        for bus in receivers:
            bus.receive(channel, payload)
        return len(receivers)

    def _receivers(self, channel: bytes) -> list[MemoryBus]:
        return [bus for bus in self._hub.buses if channel in bus._subscribed]

    def receive(self, channel: bytes, payload: bytes) -> int:
        try:
            return self._deliver(channel, payload)
        except Exception:
            LOG.exception(
                "a message could not be delivered, on %.300r of bus %s",
                channel,
                self.name,
                extra={"action": "bus_message"},
            )
            return 0


def create(uri: str, settings: BusSettings) -> Bus:
    """Returns a bus; those with the same name, ``memory://NAME``, share their messages."""
    name = urlsplit(uri).netloc
    hub = _HUBS.get(name) if name else None
    if hub is None:
        hub = MemoryHub()
        if name:
            _HUBS[name] = hub
    return MemoryBus(hub, uri)
