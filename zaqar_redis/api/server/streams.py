# SPDX-License-Identifier: Apache-2.0
"""A streaming response, whose parts are written straight to the transport.

ASGI takes a coroutine and an event to send each part; a channel with a thousand subscribers
sends a thousand for each publication.  As with sockets, see `zaqar_redis.api.server.sockets`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from zaqar_redis.api.server.transport import CloseTimer
from zaqar_redis.realtime.protocol import codes
from zaqar_redis.realtime.session import disconnects

#: Name of the ASGI extension under which an application finds its response's transport.
TRANSPORT = "zaqar_redis.transport"
#: Seconds for a client to take what was written before its connection is cut.
_CLOSE_TIMEOUT = 5.0


class ResponseStream:
    """The body of a response whose head was sent."""

    def __init__(self, transport: asyncio.Transport, on_end: Callable[[], None]) -> None:
        """*on_end* is called when nothing more comes: the end is to be sent."""
        self._transport = transport
        self._on_end = on_end
        self._ended = False

    def write(self, frames: bytes) -> None:
        """Writes parts that `encode_chunk` has encoded."""
        if not self._ended and not self._transport.is_closing():
            self._transport.write(frames)

    def buffered(self) -> int:
        return self._transport.get_write_buffer_size()

    def end(self, code: int, reason: str) -> None:
        if not self._ended:
            self._ended = True
            disconnects.count(code)
            self._on_end()

    def drop(self) -> None:
        self.end(*codes.CONNECTION_CLOSED)

    def limit_close(self) -> CloseTimer:
        """Cuts off a client that does not read.

        Returns the limit of the time until most of the rest is sent; cancel it then.  The little
        that the transport still has when it is closed has a time of its own.
        """
        asyncio.get_running_loop().call_later(_CLOSE_TIMEOUT, self._abort_if_closing)
        return CloseTimer(self._transport)

    def _abort_if_closing(self) -> None:
        if self._transport.is_closing():
            self._transport.abort()


def encode_chunk(part: bytes) -> bytes:
    """Returns one chunk of a response of unknown length (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(part), part)
