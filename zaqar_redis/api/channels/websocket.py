# SPDX-License-Identifier: Apache-2.0
"""The WebSocket endpoints: frames of commands for a session, and of its replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from zaqar_redis.api.channels.streams import connect_query, disconnect_push
from zaqar_redis.api.exchange import Receive, Send
from zaqar_redis.api.origins import AllowedOrigins
from zaqar_redis.api.server.outbox import FlushScheduler, Outbox
from zaqar_redis.api.server.sockets import FRAMES, encode_frame
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.project_context import ProjectContext
from zaqar_redis.realtime.protocol.codec import JSON, UNI_JSON, Codec
from zaqar_redis.realtime.protocol.codes import DisconnectCode
from zaqar_redis.realtime.protocol.protobuf import PROTOBUF
from zaqar_redis.realtime.session import disconnects
from zaqar_redis.realtime.session.context import ConnectionOrigin, TransportMode
from zaqar_redis.realtime.session.session import Session

#: Subprotocol of clients that want Protobuf.
_PROTOBUF = "centrifuge-protobuf"
_JSON = "centrifuge-json"


def json_frame(replies: Sequence[bytes]) -> bytes:
    return encode_frame(JSON.frame(replies), binary=False)


def protobuf_frame(replies: Sequence[bytes]) -> bytes:
    return encode_frame(PROTOBUF.frame(replies), binary=True)


class WebSocket:
    """The bidirectional endpoint: commands in, replies and pushes out."""

    transport = "websocket"
    mode = TransportMode()
    #: encodes the last push; None: the code and reason of the close frame are enough
    disconnect_push: Callable[[DisconnectCode], bytes] | None = None

    def __init__(
        self, node: Node, origins: AllowedOrigins, project: str, scheduler: FlushScheduler
    ) -> None:
        self._node = node
        self._scheduler = scheduler
        self._origins = origins
        self._context = ProjectContext(node, project)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        await receive()
        if not await self._origins.admits(scope, send):
            return
        codec, subprotocol = self._negotiate(scope)
        await send({"type": "websocket.accept", "subprotocol": subprotocol})
        frame = protobuf_frame if codec.binary else json_frame
        out = Outbox(scope["extensions"][FRAMES], frame, self._scheduler, self.disconnect_push)
        address = (scope.get("client") or ("",))[0]
        origin = ConnectionOrigin(self.transport, address)
        session = Session(self._context, codec, out, self.mode, origin)
        self._node.sessions.add(session)
        try:
            await self._connect_from_query(session, scope)
            while not session.closed:
                event = await receive()
                if event["type"] != "websocket.receive":
                    break
                frame = event.get("bytes")
                await self._receive(session, event["text"].encode() if frame is None else frame)
        finally:
            self._node.remove(session)
            disconnects.log(out.ended, origin.address, origin.transport, session.user)
            await session.end()

    async def _connect_from_query(self, session: Session, scope: dict[str, Any]) -> None:
        """Handles a connect request in the URL, where there may be one."""

    async def _receive(self, session: Session, frame: bytes) -> None:
        await session.receive(frame)

    def _negotiate(self, scope: dict[str, Any]) -> tuple[Codec, str | None]:
        """Returns the codec that the client wants, and the subprotocol to answer with."""
        offered = scope["subprotocols"]
        parameters = parse_qs(scope["query_string"].decode("latin-1"))
        if _PROTOBUF in offered:
            return PROTOBUF, _PROTOBUF
        if "protobuf" in parameters.get("format", []) + parameters.get("cf_protocol", []):
            return PROTOBUF, None
        return JSON, _JSON if _JSON in offered else None


class UniWebSocket(WebSocket):
    """The unidirectional endpoint: pushes out; in only a connect request, in the URL or a frame."""

    transport = "uni_websocket"
    mode = TransportMode(unidirectional=True)
    # Clients that only read pushes do not look at the close frame.
    disconnect_push = staticmethod(partial(disconnect_push, UNI_JSON))

    async def _connect_from_query(self, session: Session, scope: dict[str, Any]) -> None:
        command = connect_query(scope["query_string"].decode("latin-1")).cf_connect
        if command:
            await session.receive(command.encode())

    async def _receive(self, session: Session, frame: bytes) -> None:
        if not session.connected:
            await session.receive(frame)

    def _negotiate(self, scope: dict[str, Any]) -> tuple[Codec, str | None]:
        return UNI_JSON, None
