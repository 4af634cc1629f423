# SPDX-License-Identifier: Apache-2.0
"""Sessions over HTTP: replies and pushes are a response without an end.

Commands come with the request, and then by requests to ``/emulation``, or, from
unidirectional clients, not at all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from zaqar_redis import errors
from zaqar_redis.api.exchange import (
    DONE,
    Answer,
    Headers,
    Receive,
    Request,
    StreamAnswer,
    watch_disconnect,
)
from zaqar_redis.api.queries import QueryReader
from zaqar_redis.api.server.outbox import FlushScheduler, FrameEncoder, Outbox
from zaqar_redis.api.server.streams import ResponseStream, encode_chunk
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.project_context import ProjectContext
from zaqar_redis.realtime.protocol import codes, wire
from zaqar_redis.realtime.protocol.codec import JSON, UNI_JSON, Codec
from zaqar_redis.realtime.protocol.codes import DisconnectCode
from zaqar_redis.realtime.protocol.protobuf import PROTOBUF
from zaqar_redis.realtime.session import disconnects
from zaqar_redis.realtime.session.context import ConnectionOrigin, TransportMode
from zaqar_redis.realtime.session.session import Session

#: Frames that may wait for a command before them, and their bytes: as many requests as a
#: browser has open to all servers, and a dozen of the largest.
_INBOX_MAX = 256
_INBOX_BYTES_MAX = 1024 * 1024
#: Characters of a node's id; ours have fewer.
_NODE_MAX = 64
_HEADERS: Headers = (
    ("cache-control", "private, no-cache, no-store, must-revalidate, max-age=0"),
    ("pragma", "no-cache"),
    ("expires", "0"),
    # Otherwise nginx sends nothing until a buffer is full.
    ("x-accel-buffering", "no"),
)
_PROTOBUF = "application/octet-stream"
_EMULATED = TransportMode(emulated=True)
_UNIDIRECTIONAL = TransportMode(unidirectional=True)


def _lines(replies: Sequence[bytes]) -> bytes:
    return encode_chunk(b"".join([reply + b"\n" for reply in replies]))


def _events(replies: Sequence[bytes]) -> bytes:
    return encode_chunk(b"".join([b"data: %b\n\n" % reply for reply in replies]))


def _messages(replies: Sequence[bytes]) -> bytes:
    return encode_chunk(PROTOBUF.frame(replies))


class StreamFormat(Struct, frozen=True):
    #: Centrifugo's name for it
    name: str
    codec: Codec
    frame: FrameEncoder
    media_type: str
    mode: TransportMode
    #: opens an event stream: without it browsers wait for the first event
    preamble: bytes = b""


def disconnect_push(codec: Codec, close: DisconnectCode) -> bytes:
    """Returns the last push of a connection."""
    disconnect = wire.Disconnect(close.code, close.reason, close.reconnect)
    return codec.encode(wire.Reply(push=wire.Push(disconnect=disconnect)))


HTTP_STREAM = StreamFormat("http_stream", JSON, _lines, "application/x-ndjson", _EMULATED)
HTTP_STREAM_PROTOBUF = StreamFormat("http_stream", PROTOBUF, _messages, _PROTOBUF, _EMULATED)
SSE = StreamFormat("sse", JSON, _events, "text/event-stream; charset=utf-8", _EMULATED, b"\r\n")
UNI_HTTP_STREAM = StreamFormat(
    "uni_http_stream", UNI_JSON, _lines, "application/x-ndjson", _UNIDIRECTIONAL
)
UNI_SSE = StreamFormat(
    "uni_sse", UNI_JSON, _events, "text/event-stream; charset=utf-8", _UNIDIRECTIONAL, b"\r\n"
)


class Inbox:
    """Frames for a session, which handles one after the other."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._changed = asyncio.Event()

    def put(self, frame: bytes) -> bool:
        """Appends a frame; returns False when the inbox is full."""
        self._size += len(frame)
        if len(self._frames) >= _INBOX_MAX or self._size > _INBOX_BYTES_MAX:
            return False
        self._frames.append(frame)
        self._changed.set()
        return True

    def end(self) -> None:
        """Drops the frames that wait: the client has left."""
        self._ended = True
        self._changed.set()

    async def take(self) -> bytes | None:
        """Returns the next frame; None when the inbox has ended."""
        while not self._ended:
            if self._frames:
                frame = self._frames.popleft()
                self._size -= len(frame)
                return frame
            self._changed.clear()
            await self._changed.wait()
        return None


class ConnectQuery(Struct, frozen=True):
    #: the first command, where there is no body
    cf_connect: str = ""


class StreamHandlers:
    """The handlers of streaming answers of one format."""

    def __init__(
        self,
        node: Node,
        project: str,
        scheduler: FlushScheduler,
        kind: StreamFormat,
        binary: StreamFormat | None = None,
    ) -> None:
        """*binary*: the format for clients that speak Protobuf."""
        self._node = node
        self._scheduler = scheduler
        self._context = ProjectContext(node, project)
        self._kind = kind
        self._binary = binary

    async def post(self, request: Request[None, None]) -> Answer:
        """Opens a session with the commands in the body; its replies are the answer."""
        return self._open(request, request.data)

    async def get(self, request: Request[ConnectQuery, None]) -> Answer:
        """Opens a session with the command in the URL, for EventSource."""
        return self._open(request, request.query.cf_connect.encode())

    def _open(self, request: Request[Any, None], first: bytes) -> Answer:
        kind = self._kind
        if self._binary is not None and _is_binary(request):
            kind = self._binary
        if not first and kind.mode.unidirectional:
            first = b"{}"
        if not first:
            raise errors.BadRequest(why="There is no command to connect.")
        return StreamAnswer(partial(self._run, kind, first), kind.media_type, _HEADERS)

    async def _run(
        self, kind: StreamFormat, first: bytes, transport: asyncio.Transport, receive: Receive
    ) -> AsyncIterator[bytes]:
        inbox = Inbox()
        stream = ResponseStream(transport, inbox.end)
        if kind.preamble:
            stream.write(encode_chunk(kind.preamble))
        out = Outbox(stream, kind.frame, self._scheduler, partial(disconnect_push, kind.codec))
        peer = transport.get_extra_info("peername")
        origin = ConnectionOrigin(kind.name, peer[0] if peer else "")
        session = Session(self._context, kind.codec, out, kind.mode, origin)
        watching = asyncio.create_task(watch_disconnect(receive, inbox.end))
        self._register(session, inbox)
        if self._node.draining:
            session.close(codes.SHUTDOWN)
        try:
            await session.receive(first)
            while (frame := await inbox.take()) is not None:
                await session.receive(frame)
        finally:
            watching.cancel()
            self._unregister(session)
            disconnects.log(out.ended, origin.address, origin.transport, session.user)
            await session.end()
        limit = stream.limit_close()
        yield b""  # goes on when the client has taken most of what was written
        limit.cancel()

    def _register(self, session: Session, inbox: Inbox) -> None:
        def put(frame: bytes) -> None:
            if not inbox.put(frame):
                session.close(codes.TOO_MANY_REQUESTS_DISCONNECT)

        self._node.sessions.add(session)
        if self._kind.mode.emulated:
            self._node.control_plane.routes[session.id] = put

    def _unregister(self, session: Session) -> None:
        self._node.control_plane.routes.pop(session.id, None)
        self._node.remove(session)


class EmulationHandlers:
    """Commands of clients that read a stream, perhaps of another node."""

    def __init__(self, node: Node) -> None:
        self._control_plane = node.control_plane

    async def post(self, request: Request[None, None]) -> Answer:
        """Hands commands to a session; its replies go to the stream."""
        codec = PROTOBUF if _is_binary(request) else JSON
        try:
            command = codec.decode_emulation(request.data)
        except (msgspec.DecodeError, ValueError) as error:
            raise errors.BadBody(why=str(error)) from error
        known = 0 < len(command.node) <= _NODE_MAX and await self._control_plane.frame(
            command.node, command.session, bytes(command.data)
        )
        if not known:
            raise errors.NotFound(why="There is no node of this session.")
        return DONE


def _is_binary(request: Request[Any, Any]) -> bool:
    """Returns whether the client speaks Protobuf."""
    media_type = request.header(b"content-type") or ""
    return media_type.partition(";")[0].strip().lower() == _PROTOBUF


connect_query = QueryReader(ConnectQuery).read
