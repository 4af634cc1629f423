# SPDX-License-Identifier: Apache-2.0
"""News from Redis over one PUB/SUB connection: of queues, and of the control store."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.listening import Listener
from zaqar_redis.storage.driver import Hint

#: Channels kept though nobody watches: the next long poll finds them subscribed.
_IDLE_CHANNELS = 256
#: Seconds to wait for Redis to confirm; without it hints are just later.
_CONFIRM = 1.0
#: What the connection is subscribed to from its beginning.
_ALWAYS = b"zr:feed"

T = TypeVar("T")


class Channels(Generic[T]):
    """Calls listeners with what *read* makes of messages, or *unknown* after a gap."""

    def __init__(self, client: AsyncClient, read: Callable[[bytes], T], unknown: T) -> None:
        self._listener = Listener(client, self._hear, self._missed)
        self._started = False
        self._read = read
        self._unknown = unknown
        self._channels: dict[bytes, set[Callable[[T], None]]] = {}
        self._idle: OrderedDict[bytes, None] = OrderedDict()

    async def watch(self, name: bytes, listener: Callable[[T], None]) -> bool:
        """Whether nothing from now on is missed; False: Redis does not confirm that."""
        if not self._started:
            self._started = True
            self._listener.start(_ALWAYS)
        self._idle.pop(name, None)
        self._channels.setdefault(name, set()).add(listener)
        try:
            async with asyncio.timeout(_CONFIRM):
                await self._listener.subscribe(name)
        except (TimeoutError, errors.StoreUnavailable):
            return False
        await self._tidy()
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

    async def _tidy(self) -> None:
        while len(self._idle) > _IDLE_CHANNELS:
            name, _ = self._idle.popitem(last=False)
            del self._channels[name]
            await self._listener.unsubscribe(name)

    def _hear(self, name: bytes, said: bytes) -> None:
        self._tell(name, self._read(said))

    def _missed(self) -> None:
        for name in tuple(self._channels):
            self._tell(name, self._unknown)

    def _tell(self, name: bytes, news: T) -> None:
        for listener in tuple(self._channels.get(name, ())):
            listener(news)


class Feed:
    """Hints that queues have news."""

    def __init__(self, client: AsyncClient) -> None:
        self._channels = Channels(client, int, 0)

    async def watch(self, project: str, queue: str, hint: Hint) -> None:
        await self._channels.watch(keys.of_queue(project, queue).feed, hint)

    def unwatch(self, project: str, queue: str, hint: Hint) -> None:
        self._channels.unwatch(keys.of_queue(project, queue).feed, hint)

    async def close(self) -> None:
        await self._channels.close()
