# SPDX-License-Identifier: Apache-2.0
"""PUB/SUB messages of one Redis, dispatched as events to a node."""

from __future__ import annotations

import contextlib

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.pubsub import PubSubListener
from zaqar_redis.realtime.engine import EventHandler, Position


class PubSubReceiver:
    def __init__(self, client: AsyncClient) -> None:
        self._listener = PubSubListener(client, self._on_message, self._on_gap)
        self._handler: EventHandler
        #: PUB/SUB name -> channel
        self._channels: dict[bytes, str] = {}

    async def start(self, node: str, handler: EventHandler) -> None:
        """Returns soon, also when Redis is unavailable."""
        self._handler = handler
        own = keys.NODES + b":" + node.encode()
        self._listener.start(keys.NODES, own)
        with contextlib.suppress(errors.StoreUnavailable):
            await self._listener.confirmed(own)

    async def close(self) -> None:
        await self._listener.close()

    async def subscribe(self, channel: str) -> None:
        """Raises StoreUnavailable when Redis does not confirm it."""
        name = keys.of_channel(channel).news
        self._channels[name] = channel
        await self._listener.subscribe(name)

    async def unsubscribe(self, channel: str) -> None:
        name = keys.of_channel(channel).news
        self._channels.pop(name, None)
        await self._listener.unsubscribe(name)

    def _on_gap(self) -> None:
        self._handler.on_gap()

    def _on_message(self, name: bytes, data: bytes) -> None:
        channel = self._channels.get(name)
        if channel is not None:
            self._dispatch(channel, data)
        elif name.startswith(keys.NODES):
            self._handler.on_control(data)

    def _dispatch(self, channel: str, data: bytes) -> None:
        match data[:1]:
            case b"p":
                offset, epoch, payload = data[1:].split(b":", 2)
                position = Position(int(offset), epoch.decode())
                self._handler.on_publication(channel, payload, position)
            case b"j":
                self._handler.on_join(channel, data[1:])
            case b"l":
                self._handler.on_leave(channel, data[1:])
