# SPDX-License-Identifier: Apache-2.0
"""Clients of channels over WebSockets: a publisher and two subscribers with recovery for each.

The protocol is Centrifugo's, in JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, WebSocketException
from websockets.typing import Subprotocol

from benchmarks.chaos.client_process import ClientContext
from benchmarks.chaos.history import ActOutcome

SUBSCRIBERS = 2
#: Seconds for a connection, and for a reply.
_REPLY_SECONDS = 10.0
_RECONNECT_SECONDS = 0.2
#: Seconds that subscribers go on after publishers have ended.
_CATCH_UP_SECONDS = 3.0


def clients(context: ClientContext) -> Sequence[Awaitable[None]]:
    found: list[Awaitable[None]] = []
    for channel in context.spec.places:
        found.append(Publisher(context, channel).run())
        found += [
            ChannelSubscriber(context, channel, number).run() for number in range(SUBSCRIBERS)
        ]
    return found


class ChannelConnection:
    """A connection that answers pings."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)

    async def send(self, **command: Any) -> int:
        number = next(self._ids)
        await self._socket.send(msgspec.json.encode({"id": number, **command}).decode())
        return number

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """Yields replies and pushes, as long as the connection lives."""
        async for frame in self._socket:
            for line in str(frame).splitlines():
                if message := msgspec.json.decode(line):
                    yield message
                else:
                    await self._socket.send("{}")

    async def request(self, **command: Any) -> dict[str, Any]:
        """Returns the reply; a connection that only asks gets no pushes."""
        number = await self.send(**command)
        async with asyncio.timeout(_REPLY_SECONDS):
            async for message in self.messages():
                if message.get("id") == number:
                    return message
        raise ConnectionResetError


@contextlib.asynccontextmanager
async def _connected(port: int) -> AsyncIterator[ChannelConnection]:
    """Raises OSError, TimeoutError and WebSocketException."""
    async with connect(
        f"ws://127.0.0.1:{port}/connection/websocket",
        subprotocols=[Subprotocol("centrifuge-json")],
        open_timeout=_REPLY_SECONDS,
        close_timeout=1,
        ping_interval=None,
    ) as socket:
        connection = ChannelConnection(socket)
        await connection.request(connect={})
        yield connection


#: By the code of the error; 0: none.  100: it was made once or not at all.
_OUTCOMES = {0: ActOutcome.OK, 100: ActOutcome.UNKNOWN}
_LOST = (OSError, TimeoutError, WebSocketException, InvalidHandshake)


class Publisher:
    """Publishes numbers, each once: what is not answered may have been published."""

    def __init__(self, context: ClientContext, channel: str) -> None:
        self._context = context
        self._channel = channel
        self._record = context.recorder(f"{channel}-publisher")
        self._next = 0

    async def run(self) -> None:
        while not self._context.is_over:
            with contextlib.suppress(*_LOST):
                async with _connected(self._context.spec.port) as connection:
                    while not self._context.is_over:
                        await self._publish(connection)
                        await self._context.rest(1 / self._context.spec.rate)
            await self._context.rest(_RECONNECT_SECONDS)
        self._record.close()

    async def _publish(self, connection: ChannelConnection) -> None:
        body = f"{self._context.spec.name} {self._next}"
        self._next += 1
        act = self._record.begin("publish", self._channel, [body])
        outcome, code = ActOutcome.UNKNOWN, 0
        try:
            reply = await connection.request(publish={"channel": self._channel, "data": body})
            code = reply.get("error", {}).get("code", 0)
            outcome = _OUTCOMES.get(code, ActOutcome.REFUSED)
        finally:
            self._record.end(act, outcome, code)


class ChannelSubscriber:
    """Receives publications, and recovers what it missed."""

    def __init__(self, context: ClientContext, channel: str, number: int) -> None:
        self._context = context
        self._channel = channel
        self._record = context.recorder(f"{channel}-subscriber-{number}")
        self._epoch = ""
        self._offset = 0

    async def run(self) -> None:
        listening = asyncio.ensure_future(self._listen())
        while not self._context.is_over and not listening.done():
            await asyncio.wait([listening], timeout=0.2)
        if not listening.done():
            await asyncio.sleep(_CATCH_UP_SECONDS)
            self._record.note("leave", self._channel)
            listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
        self._record.close()

    async def _listen(self) -> None:
        while True:
            with contextlib.suppress(*_LOST):
                async with _connected(self._context.spec.port) as connection:
                    await self._subscribe(connection)
                    async for message in connection.messages():
                        await self._take(connection, message)
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _subscribe(self, connection: ChannelConnection) -> None:
        position = {"recover": True, "epoch": self._epoch, "offset": self._offset}
        await connection.send(
            subscribe={"channel": self._channel, **(position if self._epoch else {})}
        )

    async def _take(self, connection: ChannelConnection, message: dict[str, Any]) -> None:
        if result := message.get("subscribe"):
            self._subscribed(result)
        elif "error" in message:
            await asyncio.sleep(_RECONNECT_SECONDS)
            await self._subscribe(connection)
        push = message.get("push", {})
        if "pub" in push:
            self._received(push["pub"])
        if "unsubscribe" in push:  # a gap: recover
            await self._subscribe(connection)

    def _subscribed(self, result: dict[str, Any]) -> None:
        recovered = bool(result.get("recovered"))
        if not recovered:
            self._epoch, self._offset = str(result.get("epoch", "")), int(result.get("offset", 0))
        self._record.note(
            "subscribe",
            self._channel,
            epoch=str(result.get("epoch", "")),
            offset=self._offset,
            recovered=recovered,
        )
        for publication in result.get("publications", []):
            self._received(publication)

    def _received(self, publication: dict[str, Any]) -> None:
        self._offset = int(publication.get("offset", 0))
        self._record.note(
            "receive",
            self._channel,
            [str(publication["data"])],
            epoch=self._epoch,
            offset=self._offset,
        )
