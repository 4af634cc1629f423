# SPDX-License-Identifier: Apache-2.0
"""Writing to a connection, joined, and reading from it, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl

#: Seconds for a client to read the last answer, and close: what it has sent meanwhile would
#: reset the connection, and the answer with it (RFC 9112, 9.6).
_LINGER = 2.0


#: Seconds for a client to take more of what was written before the end of its connection, and the
#: bytes that are enough for as much time again: one that reads slowly learns why it was ended.
_CLOSE_TIMEOUT, _CLOSE_PROGRESS = 5.0, 64 * 1024


class CloseTimer:
    """Cuts a connection off whose client takes too little of what was written before its end.

    It must not keep the service from stopping, nor the rest in memory.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._wait()

    def _wait(self) -> None:
        self._unsent = self._transport.get_write_buffer_size()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_CLOSE_TIMEOUT, self._look)

    def _look(self) -> None:
        if self._transport.get_write_buffer_size() > self._unsent - _CLOSE_PROGRESS:
            self._transport.abort()
        else:
            self._wait()

    def cancel(self) -> None:
        self._timer.cancel()


class CoalescingTransport:
    """A transport that joins the writes of one iteration of the event loop.

    uvicorn writes the head and the body of a response apart, and uvloop makes a
    system call for each, which for a small answer is a tenth of the whole request.
    """

    #: `close` leaves it to the client to close first
    is_lingering = False

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        #: the transport below, for writers that join by themselves
        self.unbuffered = transport
        self.is_closing = transport.is_closing  # asked for each request
        self._pieces: list[bytes] = []
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self.flush)
        self._pieces.append(data)

    def write_now(self, data: bytes) -> None:
        """Writes what waits and *data*, when nothing more is expected in this iteration."""
        if self._pieces:
            self._pieces.append(data)
            self.flush()
        else:
            self._transport.write(data)

    def close(self) -> None:
        self.flush()
        if not self.is_lingering:
            self._end()
        elif not self.is_closing():
            if self._transport.can_write_eof():
                self._transport.write_eof()
            self._loop.call_later(_LINGER, self._end)
            self.is_closing = lambda: True

    def _end(self) -> None:
        self._transport.close()
        if self._transport.get_extra_info("ssl_object") is not None:
            self._loop.call_later(_LINGER, self._abort_sent)

    def _abort_sent(self) -> None:
        """TLS waits for its client's farewell, for half a minute: few clients send one."""
        if self._transport.get_write_buffer_size():
            self._loop.call_later(_LINGER, self._abort_sent)
        else:
            self._transport.abort()

    def flush(self) -> None:
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces.clear()
            if not self.is_closing():  # uvloop raises if it was aborted
                self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class PipelineFlow(FlowControl):
    """Reads nothing while requests wait for their turn: a client may send without end."""

    def __init__(self, transport: asyncio.Transport, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        if not self._pipeline:
            super().resume_reading()
