# SPDX-License-Identifier: Apache-2.0
"""Notifications over one PUB/SUB connection: of queues, and of the control store."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.listeners import commands_of_scripts, listen
from zaqar_redis.keyspace.pubsub import PUBSUB, PubSubCommands
from zaqar_redis.storage.watched import FeedListener

#: Unwatched channels that stay subscribed, for the next long poll.
_IDLE_CHANNELS = 256
#: Seconds to wait for Redis to confirm; without it hints only come later.
_SUBSCRIBE_TIMEOUT_SECONDS = 1.0
#: What the connection is subscribed to from its beginning.
_PERMANENT_CHANNEL = b"zr:feed"

T = TypeVar("T")


class PubSubChannels(Generic[T]):
    """Calls listeners with the messages that *read* has decoded, or *gap* after a gap."""

    def __init__(
        self,
        client: AsyncClient,
        read: Callable[[bytes], T],
        gap: T,
        commands: PubSubCommands = PUBSUB,
    ) -> None:
        self._listener = listen(client, self._on_message, self._on_gap, commands)
        self._started = False
        self._read = read
        self._gap = gap
        self._channels: dict[bytes, set[Callable[[T], None]]] = {}
        self._idle: OrderedDict[bytes, None] = OrderedDict()

    async def watch(self, name: bytes, listener: Callable[[T], None]) -> bool:
        """Returns True when nothing from now on is missed; False: Redis does not confirm it."""
        if not self._started:
            self._started = True
            self._listener.start(_PERMANENT_CHANNEL)
        self._idle.pop(name, None)
        self._channels.setdefault(name, set()).add(listener)
        try:
            async with asyncio.timeout(_SUBSCRIBE_TIMEOUT_SECONDS):
                await self._listener.subscribe(name)
        except (TimeoutError, errors.StoreUnavailable):
            return False
        await self._drop_idle()
        return True

    def unwatch(self, name: bytes, listener: Callable[[T], None]) -> None:
        listeners = self._channels.get(name)
        if listeners is None:
            return
        listeners.discard(listener)
        if not listeners:
            self._idle[name] = None

    def is_watched(self, name: bytes) -> bool:
        return bool(self._channels.get(name))

    async def close(self) -> None:
        await self._listener.close()

    async def _drop_idle(self) -> None:
        while len(self._idle) > _IDLE_CHANNELS:
            name, _ = self._idle.popitem(last=False)
            del self._channels[name]
            await self._listener.unsubscribe(name)

    def _on_message(self, name: bytes, payload: bytes) -> None:
        self._notify(name, self._read(payload))

    def _on_gap(self) -> None:
        for name in tuple(self._channels):
            self._notify(name, self._gap)

    def _notify(self, name: bytes, event: T) -> None:
        for listener in tuple(self._channels.get(name, ())):
            listener(event)


class RedisFeed:
    """Hints that queues have changed."""

    def __init__(self, client: AsyncClient) -> None:
        self._channels = PubSubChannels(client, int, 0, commands_of_scripts(client))

    async def watch(self, project: str, queue: str, hint: FeedListener) -> None:
        await self._channels.watch(keys.of_queue(project, queue).feed, hint)

    def unwatch(self, project: str, queue: str, hint: FeedListener) -> None:
        self._channels.unwatch(keys.of_queue(project, queue).feed, hint)

    async def close(self) -> None:
        await self._channels.close()
