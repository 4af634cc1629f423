# SPDX-License-Identifier: Apache-2.0
"""A response that goes on, and a way to write parts of it at once.

ASGI takes a coroutine and an event to send each part; a channel with a thousand subscribers
sends a thousand for each publication.  As with sockets, see `zaqar_redis.api.sockets`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: Name of the extension of ASGI under which an application finds what its response is
#: written to.
TRANSPORT = "zaqar_redis.transport"


class Stream:
    """Parts of a response, behind a head that was sent."""

    def __init__(self, transport: asyncio.Transport, over: Callable[[], None]) -> None:
        """*over* is called when nothing more comes: the end is to be sent."""
        self._transport = transport
        self._over = over
        self._ended = False

    def write(self, frames: bytes) -> None:
        """Parts that are `chunked`."""
        if not self._ended and not self._transport.is_closing():
            self._transport.write(frames)

    def waiting(self) -> int:
        return self._transport.get_write_buffer_size()

    def end(self, code: int, reason: str) -> None:
        if not self._ended:
            self._ended = True
            self._over()

    def drop(self) -> None:
        self.end(0, "")

    def abort(self) -> None:
        """Close the connection without what is not yet sent."""
        self._transport.abort()

    def abort_if_closing(self) -> None:
        """The same, if the connection only waits until the rest is sent."""
        if self._transport.is_closing():
            self._transport.abort()


def chunked(part: bytes) -> bytes:
    """One chunk of a response whose length nobody knows (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(part), part)
