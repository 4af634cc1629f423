# SPDX-License-Identifier: Apache-2.0
"""Sessions over HTTP: replies and pushes are a response without an end.

Commands come with the request, and then by requests to ``/emulation``, or, from
unidirectional clients, not at all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from zaqar_redis.api.channels.exchange import Exchange, Headers, Receive, RequestRejected
from zaqar_redis.api.server.outbox import FlushScheduler, FrameEncoder, Outbox
from zaqar_redis.api.server.streams import TRANSPORT, ResponseStream, encode_chunk
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.project_context import ProjectContext
from zaqar_redis.realtime.protocol import codes, wire
from zaqar_redis.realtime.protocol.codec import JSON, UNI_JSON, Codec
from zaqar_redis.realtime.protocol.codes import DisconnectCode
from zaqar_redis.realtime.protocol.protobuf import PROTOBUF
from zaqar_redis.realtime.session.context import TransportMode
from zaqar_redis.realtime.session.session import Session

#: Name of the parameter with the first command, where there is no body.
CONNECT = "cf_connect"
#: Frames that may wait for a command before them, and their bytes: as many requests as a
#: browser has open to all servers, and a dozen of the largest.
_INBOX_MAX = 256
_INBOX_BYTES_MAX = 1024 * 1024
#: Characters of a node's id; ours have fewer.
_NODE_MAX = 64
#: Seconds for a client to take what was written before its connection is cut.
_CLOSE_TIMEOUT = 5.0
_HEADERS: Headers = [
    (b"cache-control", b"private, no-cache, no-store, must-revalidate, max-age=0"),
    (b"pragma", b"no-cache"),
    (b"expires", b"0"),
    # Otherwise nginx sends nothing until a buffer is full.
    (b"x-accel-buffering", b"no"),
]
_EMULATED = TransportMode(emulated=True)
_UNIDIRECTIONAL = TransportMode(unidirectional=True)


def _lines(replies: Sequence[bytes]) -> bytes:
    return encode_chunk(b"".join([reply + b"\n" for reply in replies]))


def _events(replies: Sequence[bytes]) -> bytes:
    return encode_chunk(b"".join([b"data: %b\n\n" % reply for reply in replies]))


def _messages(replies: Sequence[bytes]) -> bytes:
    return encode_chunk(PROTOBUF.frame(replies))


class StreamFormat(Struct, frozen=True):
    """The format of a streaming response."""

    codec: Codec
    frame: FrameEncoder
    media: bytes
    mode: TransportMode
    #: opens an event stream: without it browsers wait for the first event
    preamble: bytes = b""

    def disconnect_push(self, close: DisconnectCode) -> bytes:
        return disconnect_push(self.codec, close)


def disconnect_push(codec: Codec, close: DisconnectCode) -> bytes:
    """Returns the last push of a connection."""
    disconnect = wire.Disconnect(close.code, close.reason, close.reconnect)
    return codec.encode(wire.Reply(push=wire.Push(disconnect=disconnect)))


HTTP_STREAM = StreamFormat(JSON, _lines, b"application/x-ndjson", _EMULATED)
HTTP_STREAM_PROTOBUF = StreamFormat(PROTOBUF, _messages, b"application/octet-stream", _EMULATED)
SSE = StreamFormat(JSON, _events, b"text/event-stream; charset=utf-8", _EMULATED, b"\r\n")
UNI_HTTP_STREAM = StreamFormat(UNI_JSON, _lines, b"application/x-ndjson", _UNIDIRECTIONAL)
UNI_SSE = StreamFormat(
    UNI_JSON, _events, b"text/event-stream; charset=utf-8", _UNIDIRECTIONAL, b"\r\n"
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


class StreamHandler:
    """The handler of streaming responses of one format."""

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

    async def __call__(self, exchange: Exchange) -> None:
        """Raises RequestRejected."""
        kind = self._kind
        if self._binary is not None and exchange.is_binary:
            kind = self._binary
        first = await _first(exchange, kind)
        await exchange.start(200, [(b"content-type", kind.media), *_HEADERS])
        inbox = Inbox()
        stream = ResponseStream(exchange.scope["extensions"][TRANSPORT], inbox.end)
        if kind.preamble:
            stream.write(encode_chunk(kind.preamble))
        out = Outbox(stream, kind.frame, self._scheduler, kind.disconnect_push)
        session = Session(self._context, kind.codec, out, kind.mode)
        watching = asyncio.create_task(_watch_disconnect(exchange.receive, inbox))
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
            await asyncio.gather(session.end(), _finish(exchange, stream))

    def _register(self, session: Session, inbox: Inbox) -> None:
        def put(frame: bytes) -> None:
            if not inbox.put(frame):
                session.close(codes.TOO_MANY_REQUESTS_DISCONNECT)

        self._node.sessions.add(session)
        if self._kind.mode.emulated:
            self._node.control_plane.routes[session.id] = put

    def _unregister(self, session: Session) -> None:
        self._node.control_plane.routes.pop(session.id, None)
        self._node.sessions.remove(session)


async def _first(exchange: Exchange, kind: StreamFormat) -> bytes:
    """Returns the client's first frame.  Raises RequestRejected."""
    if exchange.method == "GET":
        frame = exchange.query(CONNECT).encode()
    else:
        frame = await exchange.body()
    if not frame and kind.mode.unidirectional:
        return b"{}"
    if not frame:
        raise RequestRejected(400)
    return frame


async def _watch_disconnect(receive: Receive, inbox: Inbox) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    inbox.end()


async def _finish(exchange: Exchange, stream: ResponseStream) -> None:
    """Ends the response.  A client that does not read must not keep the service from stopping:
    with much left to send, `send` waits; with little, the transport does, once it is closed."""
    asyncio.get_running_loop().call_later(_CLOSE_TIMEOUT, stream.abort_if_closing)
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT):
            await exchange.send({"type": "http.response.body"})
    except TimeoutError:
        stream.abort()


class EmulationHandler:
    """``POST /emulation``: commands of a client that reads a stream, perhaps of another node."""

    def __init__(self, node: Node) -> None:
        self._control_plane = node.control_plane

    async def __call__(self, exchange: Exchange) -> None:
        """Hands commands to a session; its replies go to the stream.

        Raises RequestRejected and Unavailable.
        """
        body = await exchange.body()
        codec = PROTOBUF if exchange.is_binary else JSON
        try:
            request = codec.decode_emulation(body)
        except (msgspec.DecodeError, ValueError) as error:
            raise RequestRejected(400) from error
        if not 0 < len(request.node) <= _NODE_MAX:
            raise RequestRejected(404)
        known = await self._control_plane.frame(request.node, request.session, bytes(request.data))
        await exchange.respond(204 if known else 404)
