# SPDX-License-Identifier: Apache-2.0
"""``/connection/websocket``: frames of a socket, for a session and from it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import Any, Protocol
from urllib.parse import parse_qs

from zaqar_redis.api.sockets import FRAMES, framed
from zaqar_redis.realtime import codes
from zaqar_redis.realtime.codec import JSON, Codec
from zaqar_redis.realtime.codes import Close
from zaqar_redis.realtime.node import Node
from zaqar_redis.realtime.protobuf import PROTOBUF
from zaqar_redis.realtime.scope import Scope
from zaqar_redis.realtime.session import Session

LOG = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

PATH = "/connection/websocket"
#: Bytes that may wait for a client: some seconds of a busy channel, and 10 GB for ten
#: thousand clients that all stand still.
_OUT_MAX = 1024 * 1024
#: Subprotocol of clients that want Protobuf.
_PROTOBUF = "centrifuge-protobuf"
_JSON = "centrifuge-json"


class Frames(Protocol):
    """A socket, as our server gives it."""

    def write(self, frames: bytes) -> None: ...

    def end(self, code: int, reason: str) -> None:
        """Close it, behind everything that was written."""

    def waiting(self) -> int:
        """Bytes that were written and did not leave yet."""


class Turn:
    """What the sockets of a process write at the end of one turn of the loop.

    Replies that many have in common, as publications are, become a frame once.
    """

    def __init__(self) -> None:
        self._outs: list[SocketOut] = []

    def ends(self, out: SocketOut) -> None:
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
                LOG.exception("a socket failed", extra={"action": "socket_failed"})


class SocketOut:
    """Puts what one turn of the loop says into one frame."""

    def __init__(self, frames: Frames, codec: Codec, turn: Turn) -> None:
        self._frames = frames
        self._codec = codec
        self._turn = turn
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
        self._frames.end(close.code, close.reason)

    def flush(self, known: dict[tuple[Any, ...], bytes]) -> None:
        """*known*: frames of this turn, by codec and replies."""
        if not self._replies:
            return
        replies, self._replies = self._replies, []
        self._size = 0
        key = (self._codec, *replies)
        frame = known.get(key)
        if frame is None:
            frame = known[key] = framed(self._codec.frame(replies), self._codec.binary)
        if self._frames.waiting() + len(frame) > _OUT_MAX:
            self._frames.end(codes.SLOW.code, codes.SLOW.reason)
        else:
            self._frames.write(frame)


class WebSocket:
    def __init__(self, node: Node, allowed_origins: tuple[str, ...], project: str) -> None:
        self._node = node
        self._allowed = allowed_origins
        self._scope = Scope(node, project)
        self._turn = Turn()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        await receive()
        if not self._is_allowed(dict(scope["headers"]).get(b"origin", b"").decode("latin-1")):
            await send({"type": "websocket.close"})  # before it was accepted: 403
            return
        codec, subprotocol = _chosen(scope)
        await send({"type": "websocket.accept", "subprotocol": subprotocol})
        out = SocketOut(scope["extensions"][FRAMES], codec, self._turn)
        session = Session(self._scope, codec, out)
        self._node.sessions.add(session)
        try:
            while not session.closed:
                event = await receive()
                if event["type"] != "websocket.receive":
                    break
                frame = event.get("bytes")
                await session.receive(event["text"].encode() if frame is None else frame)
        finally:
            self._node.sessions.remove(session)
            await session.end()

    def _is_allowed(self, origin: str) -> bool:
        """One without an origin is no browser."""
        return not origin or any(fnmatchcase(origin, glob) for glob in self._allowed)


def _chosen(scope: dict[str, Any]) -> tuple[Codec, str | None]:
    """The format that the client wants, and the subprotocol to say so."""
    offered = scope["subprotocols"]
    query = parse_qs(scope["query_string"].decode("latin-1"))
    asked = query.get("format", []) + query.get("cf_protocol", [])
    if _PROTOBUF in offered:
        return PROTOBUF, _PROTOBUF
    if "protobuf" in asked:
        return PROTOBUF, None
    return JSON, _JSON if _JSON in offered else None
