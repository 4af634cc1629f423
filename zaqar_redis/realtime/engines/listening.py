# SPDX-License-Identifier: Apache-2.0
"""What a node hears from one Redis, over a PUB/SUB connection that renews itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import Any

from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.realtime.engine import Heard, Position

LOG = logging.getLogger(__name__)

#: Seconds to wait for Redis to confirm a subscription.
_CONFIRM = 4.0
#: Seconds without a word after which the connection is asked whether it lives, and
#: seconds for its answer.
_QUIET, _ANSWER = 20.0, 5.0
#: Seconds between attempts to come back.
_AGAIN = (0.1, 0.4)


class Listener:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._heard: Heard
        #: PUB/SUB name -> channel, and the confirmation that is waited for
        self._channels: dict[bytes, str] = {}
        self._confirmed: dict[bytes, asyncio.Event] = {}
        self._connection: PubSub | None = None
        self._reader: asyncio.Task[None] | None = None
        self._own: tuple[bytes, ...] = ()

    async def start(self, node: str, heard: Heard) -> None:
        self._heard = heard
        self._own = (keys.NODES, keys.NODES + b":" + node.encode())
        self._connection = self._client.listener()
        for name in self._own:
            self._confirmed[name] = asyncio.Event()
        self._reader = asyncio.create_task(self._read(self._connection), name="channels")
        with contextlib.suppress(errors.StoreUnavailable):
            await self._wait(self._own[0])

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        if self._connection is not None:
            await self._connection.aclose()

    async def subscribe(self, channel: str) -> None:
        """Raises StoreUnavailable when Redis does not confirm it."""
        name = keys.of_channel(channel).news
        self._channels[name] = channel
        event = self._confirmed.setdefault(name, asyncio.Event())
        if not event.is_set():
            await self._say("subscribe", name)
            await self._wait(name)

    async def unsubscribe(self, channel: str) -> None:
        name = keys.of_channel(channel).news
        self._channels.pop(name, None)
        self._confirmed.pop(name, None)
        await self._say("unsubscribe", name)

    async def _say(self, what: str, name: bytes) -> None:
        with contextlib.suppress(RedisError, OSError):  # the reader comes back and says all
            await getattr(self._connection, what)(name)

    async def _wait(self, name: bytes) -> None:
        try:
            async with asyncio.timeout(_CONFIRM):
                await self._confirmed[name].wait()
        except (TimeoutError, KeyError):
            raise errors.StoreUnavailable from None

    async def _read(self, connection: PubSub) -> None:
        lost, before = True, False
        while True:
            try:
                if lost:
                    await connection.subscribe(*self._own, *self._channels)
                    if before:
                        self._heard.on_gap()
                    lost, before = False, True
                message = await connection.get_message(timeout=_QUIET)
                if message is None:
                    message = await self._probed(connection)
                self._hear(message)
            except Exception as error:  # whatever it was: without a reader nobody hears anything
                LOG.warning("channels interrupted: %s", error, extra={"action": "bus_lost"})
                lost = True
                for event in self._confirmed.values():
                    event.clear()
                with contextlib.suppress(RedisError, OSError):
                    await connection.reset()
                await asyncio.sleep(random.uniform(*_AGAIN))

    async def _probed(self, connection: PubSub) -> dict[str, Any]:
        """The next message, if need be that the connection lives.  Raises TimeoutError."""
        await connection.ping()
        message: dict[str, Any] | None = await connection.get_message(timeout=_ANSWER)
        if message is None:
            raise TimeoutError("Redis does not answer")
        return message

    def _hear(self, message: dict[str, Any]) -> None:
        name, kind = message["channel"], message["type"]
        if kind == "subscribe":
            event = self._confirmed.get(name)
            if event is not None:
                event.set()
        elif kind == "message":
            if name in self._own:
                self._heard.on_control(message["data"])
            elif (channel := self._channels.get(name)) is not None:
                self._tell(channel, message["data"])

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
