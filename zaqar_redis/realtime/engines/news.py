# SPDX-License-Identifier: Apache-2.0
"""From what one Redis says over PUB/SUB to what a node hears."""

from __future__ import annotations

import contextlib

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.listening import Listener
from zaqar_redis.realtime.engine import Heard, Position


class News:
    def __init__(self, client: AsyncClient) -> None:
        self._listener = Listener(client, self._hear, self._missed)
        self._heard: Heard
        #: PUB/SUB name -> channel
        self._channels: dict[bytes, str] = {}

    async def start(self, node: str, heard: Heard) -> None:
        """Returns soon, also when Redis is away."""
        self._heard = heard
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

    def _missed(self) -> None:
        self._heard.on_gap()

    def _hear(self, name: bytes, data: bytes) -> None:
        channel = self._channels.get(name)
        if channel is not None:
            self._tell(channel, data)
        elif name.startswith(keys.NODES):
            self._heard.on_control(data)

    def _tell(self, channel: str, data: bytes) -> None:
        match data[:1]:
            case b"p":
                offset, epoch, payload = data[1:].split(b":", 2)
                position = Position(int(offset), epoch.decode())
                self._heard.on_publication(channel, payload, position)
            case b"j":
                self._heard.on_join(channel, data[1:])
            case b"l":
                self._heard.on_leave(channel, data[1:])
