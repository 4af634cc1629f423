# SPDX-License-Identifier: Apache-2.0
"""Frames of a WebSocket, for a session and from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from zaqar_redis.api.channels.exchange import Receive, Send, header, query
from zaqar_redis.api.channels.origins import Origins
from zaqar_redis.api.channels.outbox import Outbox, Turn
from zaqar_redis.api.channels.streams import CONNECT, farewell
from zaqar_redis.api.sockets import FRAMES, framed
from zaqar_redis.realtime.codec import JSON, PUSHES, Codec
from zaqar_redis.realtime.codes import Close
from zaqar_redis.realtime.node import Node
from zaqar_redis.realtime.protobuf import PROTOBUF
from zaqar_redis.realtime.scope import Scope
from zaqar_redis.realtime.session import Session
from zaqar_redis.realtime.world import Ways

#: Subprotocol of clients that want Protobuf.
_PROTOBUF = "centrifuge-protobuf"
_JSON = "centrifuge-json"


def text(replies: Sequence[bytes]) -> bytes:
    """A frame of JSON."""
    return framed(JSON.frame(replies), binary=False)


def binary(replies: Sequence[bytes]) -> bytes:
    """A frame of Protobuf."""
    return framed(PROTOBUF.frame(replies), binary=True)


class WebSocket:
    """Commands in, replies and pushes out."""

    ways = Ways()
    #: makes the last push; None: how the socket is closed says it all
    farewell: Callable[[Close], bytes] | None = None

    def __init__(self, node: Node, origins: Origins, project: str, turn: Turn) -> None:
        self._node = node
        self._turn = turn
        self._origins = origins
        self._scope = Scope(node, project)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        await receive()
        if not self._origins.allow(header(scope, b"origin"), header(scope, b"host")):
            await send({"type": "websocket.close"})  # before it was accepted: 403
            return
        codec, subprotocol = self._chosen(scope)
        await send({"type": "websocket.accept", "subprotocol": subprotocol})
        frame = binary if codec.binary else text
        out = Outbox(scope["extensions"][FRAMES], frame, self._turn, self.farewell)
        session = Session(self._scope, codec, out, self.ways)
        self._node.sessions.add(session)
        try:
            await self._first(session, scope)
            while not session.closed:
                event = await receive()
                if event["type"] != "websocket.receive":
                    break
                frame = event.get("bytes")
                await self._received(session, event["text"].encode() if frame is None else frame)
        finally:
            self._node.sessions.remove(session)
            await session.end()

    async def _first(self, session: Session, scope: dict[str, Any]) -> None:
        """What the client said by the address."""

    async def _received(self, session: Session, frame: bytes) -> None:
        await session.receive(frame)

    def _chosen(self, scope: dict[str, Any]) -> tuple[Codec, str | None]:
        """The format that the client wants, and the subprotocol to say so."""
        offered = scope["subprotocols"]
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        if _PROTOBUF in offered:
            return PROTOBUF, _PROTOBUF
        if "protobuf" in asked.get("format", []) + asked.get("cf_protocol", []):
            return PROTOBUF, None
        return JSON, _JSON if _JSON in offered else None


class UniWebSocket(WebSocket):
    """Pushes out; a request to connect is all that comes in, by the address or a frame."""

    ways = Ways(unidirectional=True)
    # Who reads pushes, and nothing else, does not look at how a socket is closed.
    farewell = staticmethod(partial(farewell, PUSHES))

    async def _first(self, session: Session, scope: dict[str, Any]) -> None:
        asked = query(scope, CONNECT)
        if asked:
            await session.receive(asked.encode())

    async def _received(self, session: Session, frame: bytes) -> None:
        if not session.connected:
            await session.receive(frame)

    def _chosen(self, scope: dict[str, Any]) -> tuple[Codec, str | None]:
        return PUSHES, None
