# SPDX-License-Identifier: Apache-2.0
"""The server's side of a WebSocket: uvicorn's, and a way to write frames at once.

ASGI takes a coroutine, an event and a check of everything to send one message; a channel
with a thousand subscribers sends a thousand for each publication.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

#: Name of the extension of ASGI under which an application finds the socket.
FRAMES = "zaqar_redis.frames"
#: Without a line for each connection, and its address: there may be a token in it.
_LOG = logging.getLogger("uvicorn.error.sockets")
_LOG.setLevel(logging.WARNING)
#: Seconds for a client to take what was written before its socket is closed.
_LEAVE = 5.0


class Events:
    """What a socket's application has to hear: asyncio's queue, as far as uvicorn needs it.

    For one reader.  That queue has four others in it, a seventh of what an idle socket takes.
    """

    __slots__ = ("_events", "_reader")

    def __init__(self) -> None:
        # Hardly ever more than one: the socket is not read until an event is taken.
        self._events: list[Any] = []
        self._reader: asyncio.Future[None] | None = None

    def put_nowait(self, event: Any) -> None:
        self._events.append(event)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def get(self) -> Any:
        while not self._events:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self._events.pop(0)

    def empty(self) -> bool:
        return not self._events


class SocketProtocol(WebSocketsSansIOProtocol):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.queue = Events()  # type: ignore[assignment]  # what uvicorn uses of one

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        del self.request  # nobody looks at it again, and it stays as long as the socket
        if self.handshake_initiated and not self.handshake_complete:
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[FRAMES] = self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # What is written here was put together before.
        super().connection_made(getattr(transport, "whole", transport))
        self.logger = self.conn.logger = _LOG

    def write(self, frames: bytes) -> None:
        if not self.close_sent and not self.disconnected:
            self.transport.write(frames)

    def waiting(self) -> int:
        return self.transport.get_write_buffer_size()

    def end(self, code: int, reason: str) -> None:
        if self.close_sent or self.disconnected or self.transport.is_closing():
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(_LEAVE, self.transport.abort)

    def drop(self) -> None:
        self.transport.close()
        self.loop.call_later(_LEAVE, self.transport.abort)

    def shutdown(self) -> None:
        super().shutdown()
        # Who does not read must not keep the service from stopping.
        self.loop.call_later(_LEAVE, self.transport.abort)

    def give_up(self, before: float) -> None:
        """A socket has no requests that could take too long."""


def framed(payload: bytes, binary: bool) -> bytes:
    """One message in one frame (RFC 6455, 5.2), unmasked, as servers send it."""
    head = 0x82 if binary else 0x81
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", head, size) + payload
    if size < 65536:
        return struct.pack("!BBH", head, 126, size) + payload
    return struct.pack("!BBQ", head, 127, size) + payload
