# SPDX-License-Identifier: Apache-2.0
"""What sessions say, on its way to clients, over whatever carries it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from zaqar_redis.realtime import codes
from zaqar_redis.realtime.codes import Close

LOG = logging.getLogger(__name__)

#: Bytes that may wait for a client: some seconds of a busy channel, and 10 GB for ten
#: thousand clients that all stand still.
_OUT_MAX = 1024 * 1024

#: Writes replies down as they are on the wire.
Frame = Callable[[Sequence[bytes]], bytes]


class Frames(Protocol):
    """A socket or a stream, as our server gives it."""

    def write(self, frames: bytes) -> None: ...

    def end(self, code: int, reason: str) -> None:
        """Close it, behind everything that was written."""

    def drop(self) -> None:
        """Close it without a word: the client takes it for a lost connection."""

    def waiting(self) -> int:
        """Bytes that were written and did not leave yet."""


class Turn:
    """What the connections of a process write at the end of one turn of the loop.

    Replies that many have in common, as publications are, become a frame once.
    """

    def __init__(self) -> None:
        self._outs: list[Outbox] = []

    def ends(self, out: Outbox) -> None:
        """It has something to write then."""
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
    """Puts what one turn of the loop says into one frame."""

    def __init__(
        self,
        frames: Frames,
        frame: Frame,
        turn: Turn,
        farewell: Callable[[Close], bytes] | None = None,
    ) -> None:
        """*farewell*: makes the last reply, where the end of *frames* does not say why."""
        self._frames = frames
        self._frame = frame
        self._turn = turn
        self._farewell = farewell
        self._replies: list[bytes] = []
        self._size = 0

    def send(self, reply: bytes) -> None:
        if not self._replies:
            self._turn.ends(self)
        self._replies.append(reply)
        self._size += len(reply)
        if self._size > _OUT_MAX:
            self.flush({})

    def close(self, close: Close) -> None:
        self.flush({})
        self._end(close)

    def flush(self, known: dict[tuple[Any, ...], bytes]) -> None:
        """*known*: frames of this turn, by how they are made and of what."""
        if not self._replies:
            return
        replies = tuple(self._replies)
        self._replies.clear()
        self._size = 0
        key = (self._frame, replies)
        frame = known.get(key)
        if frame is None:
            frame = known[key] = self._frame(replies)
        # A long answer, as of a recovery, goes out to whoever has taken all before.
        waiting = self._frames.waiting()
        if waiting and waiting + len(frame) > _OUT_MAX:
            self._end(codes.SLOW)
        else:
            self._frames.write(frame)

    def _end(self, close: Close) -> None:
        if close.code == codes.NORMAL.code:  # as Centrifugo: neither a push nor a close frame
            self._frames.drop()
            return
        if self._farewell is not None:
            self._frames.write(self._frame([self._farewell(close)]))
        self._frames.end(close.code, close.reason)
