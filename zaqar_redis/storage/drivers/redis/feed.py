# SPDX-License-Identifier: Apache-2.0
"""News from Redis over one PUB/SUB connection: of queues, and of the control store."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.storage.driver import Hint

LOG = logging.getLogger(__name__)

#: Channels kept though nobody watches: the next long poll finds them subscribed.
_IDLE_CHANNELS = 256
#: Seconds to wait for Redis to confirm; without it hints are just later.
_CONFIRM = 1.0
#: Seconds without a word after which the connection is asked whether it lives, and seconds
#: for its answer.
_QUIET, _ANSWER = 20.0, 5.0
#: Keeps the connection subscribed to something, as redis-py wants it.
_ALWAYS = b"zr:feed"


T = TypeVar("T")


class _Channel(Generic[T]):
    __slots__ = ("asked", "confirmed", "listeners")

    def __init__(self) -> None:
        self.listeners: set[Callable[[T], None]] = set()
        #: redis-py knows of it, and subscribes again after a lost connection
        self.asked = False
        self.confirmed = asyncio.Event()


class Channels(Generic[T]):
    """Calls listeners with what *read* makes of messages, or *unknown* after a gap."""

    def __init__(self, client: AsyncClient, read: Callable[[bytes], T], unknown: T) -> None:
        self._client = client
        self._read_message = read
        self._unknown = unknown
        self._channels: dict[bytes, _Channel[T]] = {}
        self._idle: OrderedDict[bytes, None] = OrderedDict()
        self._listener: PubSub | None = None
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def watch(self, name: bytes, listener: Callable[[T], None]) -> bool:
        """Whether nothing from now on is missed; False: Redis does not confirm that."""
        self._idle.pop(name, None)
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = _Channel()
        channel.listeners.add(listener)
        # Not wait_for: in Python 3.11 it can swallow that the task was cancelled.
        with contextlib.suppress(TimeoutError, RedisError, OSError):
            async with asyncio.timeout(_CONFIRM):
                if not channel.asked:
                    connection = await self._started()
                    await connection.subscribe(name)
                    channel.asked = True
                await channel.confirmed.wait()
        return channel.confirmed.is_set()

    def unwatch(self, name: bytes, listener: Callable[[T], None]) -> None:
        channel = self._channels.get(name)
        if channel is None:
            return
        channel.listeners.discard(listener)
        if not channel.listeners:
            self._idle[name] = None

    def is_watched(self, name: bytes) -> bool:
        channel = self._channels.get(name)
        return channel is not None and bool(channel.listeners)

    async def close(self) -> None:
        if self._reader:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        if self._listener:
            await self._listener.aclose()

    async def _started(self) -> PubSub:
        async with self._starting:
            if self._listener is None:
                listener = self._client.listener()
                await listener.subscribe(_ALWAYS)
                self._listener = listener
                self._reader = asyncio.create_task(self._read(listener), name="feed")
            return self._listener

    async def _read(self, listener: PubSub) -> None:
        while True:
            try:
                message = await listener.get_message(timeout=_QUIET)
                if message is None:
                    message = await _probed(listener)
                self._hear(message)
                if len(self._idle) > _IDLE_CHANNELS:
                    name, _ = self._idle.popitem(last=False)
                    del self._channels[name]
                    await listener.unsubscribe(name)
            except Exception as error:  # whatever it was: without a reader nobody hears anything
                LOG.info("feed interrupted: %s", error, extra={"action": "feed_lost"})
                for channel in self._channels.values():
                    channel.confirmed.clear()
                    _tell(channel, self._unknown)
                await asyncio.sleep(random.uniform(0.1, 0.5))
                if listener.connection is not None:
                    # The next read connects, and subscribes to all there is, anew.
                    with contextlib.suppress(RedisError, OSError):
                        await listener.connection.disconnect()

    def _hear(self, message: dict[str, Any]) -> None:
        channel = self._channels.get(message["channel"])
        if channel is None:
            return
        if message["type"] == "subscribe":
            channel.confirmed.set()
            _tell(channel, self._unknown)  # after a reconnection: something may have been missed
        elif message["type"] == "message":
            _tell(channel, self._read_message(message["data"]))


async def _probed(listener: PubSub) -> dict[str, Any]:
    """The next message, if need be that the connection lives.  Raises TimeoutError."""
    await listener.ping()
    message: dict[str, Any] | None = await listener.get_message(timeout=_ANSWER)
    if message is None:
        raise TimeoutError("Redis does not answer")
    return message


def _tell(channel: _Channel[T], news: T) -> None:
    for listener in tuple(channel.listeners):
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
