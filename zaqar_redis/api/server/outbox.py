# SPDX-License-Identifier: Apache-2.0
"""Replies of sessions on their way to clients, over any transport."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from zaqar_redis.realtime.protocol import codes
from zaqar_redis.realtime.protocol.codes import DisconnectCode

LOG = logging.getLogger(__name__)

#: Bytes that may wait for a client: some seconds of a busy channel, and 10 GB for ten
#: thousand clients that all stop reading.
_OUT_MAX = 1024 * 1024

#: Encodes replies as one frame of the transport.
FrameEncoder = Callable[[Sequence[bytes]], bytes]


class FrameWriter(Protocol):
    """A socket or a stream of our server."""

    def write(self, frames: bytes) -> None: ...

    def end(self, code: int, reason: str) -> None:
        """Closes it after everything that was written."""

    def drop(self) -> None:
        """Closes it without code and reason: to the client the connection is lost."""

    def buffered(self) -> int:
        """Returns the bytes that were written and are not sent yet."""


class FlushScheduler:
    """The outboxes of a process that write at the end of one iteration of the event loop.

    Replies that many connections get, such as publications, are encoded once.
    """

    def __init__(self) -> None:
        self._outs: list[Outbox] = []

    def schedule(self, out: Outbox) -> None:
        """Flushes *out* at the end of this iteration."""
        if not self._outs:
            asyncio.get_running_loop().call_soon(self._end)
        self._outs.append(out)

    def _end(self) -> None:
        outs, self._outs = self._outs, []
        known: dict[tuple[Any, ...], bytes] = {}
        for out in outs:
            try:
                out.flush(known)
            except Exception:  # of this connection; the others go on
                LOG.exception("a connection failed", extra={"action": "connection_failed"})


class Outbox:
    """The replies of one connection, joined to one frame in each iteration of the loop."""

    def __init__(
        self,
        frames: FrameWriter,
        frame: FrameEncoder,
        scheduler: FlushScheduler,
        disconnect_push: Callable[[DisconnectCode], bytes] | None = None,
    ) -> None:
        """*disconnect_push* encodes the last push, where the end of *frames* has no reason."""
        self._frames = frames
        self._frame = frame
        self._scheduler = scheduler
        self._disconnect_push = disconnect_push
        self._replies: list[bytes] = []
        self._size = 0
        #: how the service has ended the connection; None: it has not
        self.ended: DisconnectCode | None = None

    def send(self, reply: bytes) -> None:
        if not self._replies:
            self._scheduler.schedule(self)
        self._replies.append(reply)
        self._size += len(reply)
        if self._size > _OUT_MAX:
            self.flush({})

    def close(self, close: DisconnectCode) -> None:
        self.flush({})
        self._end(close)

    def flush(self, known: dict[tuple[Any, ...], bytes]) -> None:
        """Writes the replies.  *known*: frames of this iteration, by encoder and replies."""
        if not self._replies:
            return
        replies = tuple(self._replies)
        self._replies.clear()
        self._size = 0
        key = (self._frame, replies)
        frame = known.get(key)
        if frame is None:
            frame = known[key] = self._frame(replies)
        # An answer of any length, as of a recovery, is sent to a client that read all before.
        buffered = self._frames.buffered()
        if buffered and buffered + len(frame) > _OUT_MAX:
            self._end(codes.SLOW)
        else:
            self._frames.write(frame)

    def _end(self, close: DisconnectCode) -> None:
        if self.ended is None:
            self.ended = close
        if close.code == codes.CONNECTION_CLOSED.code:
            self._frames.drop()  # as Centrifugo: neither a push nor a close frame
            return
        if self._disconnect_push is not None:
            self._frames.write(self._frame([self._disconnect_push(close)]))
        self._frames.end(close.code, close.reason)
