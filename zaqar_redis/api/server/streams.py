# SPDX-License-Identifier: Apache-2.0
"""A streaming response, whose parts are written straight to the transport.

ASGI takes a coroutine and an event to send each part; a channel with a thousand subscribers
sends a thousand for each publication.  As with sockets, see `zaqar_redis.api.server.sockets`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: Name of the ASGI extension under which an application finds its response's transport.
TRANSPORT = "zaqar_redis.transport"


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
            self._on_end()

    def drop(self) -> None:
        self.end(0, "")

    def abort(self) -> None:
        """Closes the connection without what is not yet sent."""
        self._transport.abort()

    def abort_if_closing(self) -> None:
        """Does the same, if the connection is only waiting until the rest is sent."""
        if self._transport.is_closing():
            self._transport.abort()


def encode_chunk(part: bytes) -> bytes:
    """Returns one chunk of a response of unknown length (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(part), part)
