# SPDX-License-Identifier: Apache-2.0
"""The server side of a WebSocket: uvicorn's, with frames written straight to it.

ASGI takes a coroutine, an event and a check of everything to send one message; a channel
with a thousand subscribers sends a thousand for each publication.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode
from websockets.http11 import Request

from zaqar_redis.api.access_log import peer_of
from zaqar_redis.api.server.transport import CloseTimer
from zaqar_redis.realtime.protocol import codes
from zaqar_redis.realtime.protocol.codes import DisconnectCode
from zaqar_redis.realtime.session import disconnects

#: Name of the ASGI extension under which an application finds the socket.
FRAMES = "zaqar_redis.frames"
#: Logs no line for each connection with its URL: a token may be in it.
_LOG = logging.getLogger("uvicorn.error.sockets")
_LOG.setLevel(logging.WARNING)
#: Seconds for a client to take what was written before its socket is closed.
_CLOSE_TIMEOUT = 5.0
#: Seconds between two pings, and for the answer to one: proxies close what is idle for a minute.
_PING_INTERVAL, _PONG_TIMEOUT = 30.0, 30.0


class EventQueue:
    """The events for a socket's application: the part of asyncio.Queue that uvicorn needs.

    For one reader.  asyncio's own is a seventh of the memory of an idle socket.
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


class WebSocketProtocol(WebSocketsSansIOProtocol):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.queue = EventQueue()  # type: ignore[assignment]  # the methods that uvicorn uses

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        del self.request  # unused from here on, and kept as long as the socket
        if self.handshake_initiated and not self.handshake_complete:
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[FRAMES] = self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Frames are joined already: no CoalescingTransport is needed.
        super().connection_made(getattr(transport, "unbuffered", transport))
        self.logger = self.conn.logger = _LOG

    def write(self, frames: bytes) -> None:
        if not self.close_sent and not self.disconnected:
            self.transport.write(frames)

    def buffered(self) -> int:
        return self.transport.get_write_buffer_size()

    async def drain(self) -> None:
        """Waits until the client has read most of what was written, or is gone."""
        await self.writable.wait()

    def enable_pings(self) -> None:
        """Pings the client once it is accepted; one that does not answer is cut off."""
        self.ping_interval, self.ping_timeout = _PING_INTERVAL, _PONG_TIMEOUT

    def end(self, code: int, reason: str) -> None:
        if self.close_sent or self.disconnected or self.transport.is_closing():
            return
        disconnects.count(code)
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = CloseTimer(self.transport)  # type: ignore[assignment]  # it is cancelled

    def drop(self) -> None:
        disconnects.count(codes.CONNECTION_CLOSED.code)
        self.transport.close()
        self.loop.call_later(_CLOSE_TIMEOUT, self.transport.abort)

    def handle_parser_exception(self) -> None:
        self._close_noted(super().handle_parser_exception)

    def keepalive_timeout(self) -> None:
        self._close_noted(super().keepalive_timeout)

    def _close_noted(self, close: Callable[[], None]) -> None:
        """Counts and logs that the library closes the socket by itself."""
        was_sent = self.close_sent
        close()
        sent = self.conn.close_sent
        if self.close_sent and not was_sent and sent is not None:
            disconnects.count(sent.code)
            code = DisconnectCode(sent.code, sent.reason)
            disconnects.log(code, peer_of(self.client), "websocket")

    def shutdown(self) -> None:
        if self.handshake_complete and not self.close_sent:
            disconnects.count(CloseCode.SERVICE_RESTART)
        super().shutdown()
        # A client that does not read must not keep the service from stopping.
        self.loop.call_later(_CLOSE_TIMEOUT, self.transport.abort)

    def time_out(self, now: float) -> None:
        """Does nothing: a socket has no requests that could take too long."""


def encode_frame(payload: bytes, binary: bool) -> bytes:
    """Returns one message in one frame (RFC 6455, 5.2), unmasked, as servers send it."""
    head = 0x82 if binary else 0x81
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", head, size) + payload
    if size < 65536:
        return struct.pack("!BBH", head, 126, size) + payload
    return struct.pack("!BBQ", head, 127, size) + payload
