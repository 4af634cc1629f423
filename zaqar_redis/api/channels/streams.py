# SPDX-License-Identifier: Apache-2.0
"""Sessions over HTTP: what they say is a response without an end.

What their clients say comes with the request, and then by requests to ``/emulation``, or,
from unidirectional clients, not at all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from zaqar_redis.api.channels.exchange import Exchange, Headers, Receive, Refusal
from zaqar_redis.api.channels.outbox import Frame, Outbox, Turn
from zaqar_redis.api.streams import TRANSPORT, Stream, chunked
from zaqar_redis.realtime import codes, wire
from zaqar_redis.realtime.codec import JSON, PUSHES, Codec
from zaqar_redis.realtime.codes import Close
from zaqar_redis.realtime.node import Node
from zaqar_redis.realtime.protobuf import PROTOBUF
from zaqar_redis.realtime.scope import Scope
from zaqar_redis.realtime.session import Session
from zaqar_redis.realtime.world import Ways

#: Name of the parameter with the first command, where there is no body.
CONNECT = "cf_connect"
#: Frames that may wait for a command before them, and their bytes: as many requests as a
#: browser has open to all servers, and a dozen of the largest.
_INBOX_MAX = 256
_INBOX_BYTES_MAX = 1024 * 1024
#: Seconds for a client to take what was written before its connection is cut.
_LEAVE = 5.0
_HEADERS: Headers = [
    (b"cache-control", b"private, no-cache, no-store, must-revalidate, max-age=0"),
    (b"pragma", b"no-cache"),
    (b"expires", b"0"),
    # nginx would keep it until a buffer is full.
    (b"x-accel-buffering", b"no"),
]
_EMULATED = Ways(emulated=True)
_UNIDIRECTIONAL = Ways(unidirectional=True)


def _lines(replies: Sequence[bytes]) -> bytes:
    return chunked(b"".join([reply + b"\n" for reply in replies]))


def _events(replies: Sequence[bytes]) -> bytes:
    return chunked(b"".join([b"data: %b\n\n" % reply for reply in replies]))


def _messages(replies: Sequence[bytes]) -> bytes:
    return chunked(PROTOBUF.frame(replies))


class Kind(Struct, frozen=True):
    """How replies are written down."""

    codec: Codec
    frame: Frame
    media: bytes
    ways: Ways
    #: without it browsers wait for the first event before they call it open
    opening: bytes = b""

    def farewell(self, close: Close) -> bytes:
        return farewell(self.codec, close)


def farewell(codec: Codec, close: Close) -> bytes:
    """The last push."""
    told = wire.Disconnect(close.code, close.reason, close.reconnect)
    return codec.encode(wire.Reply(push=wire.Push(disconnect=told)))


HTTP_STREAM = Kind(JSON, _lines, b"application/x-ndjson", _EMULATED)
HTTP_STREAM_PROTOBUF = Kind(PROTOBUF, _messages, b"application/octet-stream", _EMULATED)
SSE = Kind(JSON, _events, b"text/event-stream; charset=utf-8", _EMULATED, b"\r\n")
UNI_HTTP_STREAM = Kind(PUSHES, _lines, b"application/x-ndjson", _UNIDIRECTIONAL)
UNI_SSE = Kind(PUSHES, _events, b"text/event-stream; charset=utf-8", _UNIDIRECTIONAL, b"\r\n")


class Inbox:
    """Frames for a session, which takes one after the other."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._changed = asyncio.Event()

    def put(self, frame: bytes) -> bool:
        """False: it is full."""
        self._size += len(frame)
        if len(self._frames) >= _INBOX_MAX or self._size > _INBOX_BYTES_MAX:
            return False
        self._frames.append(frame)
        self._changed.set()
        return True

    def end(self) -> None:
        """Nobody is interested in an answer any more."""
        self._ended = True
        self._changed.set()

    async def take(self) -> bytes | None:
        """The next one; None: it has ended."""
        while not self._ended:
            if self._frames:
                frame = self._frames.popleft()
                self._size -= len(frame)
                return frame
            self._changed.clear()
            await self._changed.wait()
        return None


class Streams:
    """Responses of one kind."""

    def __init__(
        self, node: Node, project: str, turn: Turn, kind: Kind, binary: Kind | None = None
    ) -> None:
        """*binary*: the kind for those who speak Protobuf."""
        self._node = node
        self._turn = turn
        self._scope = Scope(node, project)
        self._kind = kind
        self._binary = binary

    async def __call__(self, exchange: Exchange) -> None:
        """Raises Refusal."""
        kind = self._kind
        if self._binary is not None and exchange.is_binary:
            kind = self._binary
        first = await _first(exchange, kind)
        await exchange.start(200, [(b"content-type", kind.media), *_HEADERS])
        inbox = Inbox()
        stream = Stream(exchange.scope["extensions"][TRANSPORT], inbox.end)
        if kind.opening:
            stream.write(chunked(kind.opening))
        out = Outbox(stream, kind.frame, self._turn, kind.farewell)
        session = Session(self._scope, kind.codec, out, kind.ways)
        watching = asyncio.create_task(_until_gone(exchange.receive, inbox))
        self._enter(session, inbox)
        if self._node.leaving:
            session.close(codes.SHUTDOWN)
        try:
            await session.receive(first)
            while (frame := await inbox.take()) is not None:
                await session.receive(frame)
        finally:
            watching.cancel()
            self._exit(session)
            await asyncio.gather(session.end(), _finish(exchange, stream))

    def _enter(self, session: Session, inbox: Inbox) -> None:
        def put(frame: bytes) -> None:
            if not inbox.put(frame):
                session.close(codes.TOO_MANY)

        self._node.sessions.add(session)
        if self._kind.ways.emulated:
            self._node.steering.inlets[session.id] = put

    def _exit(self, session: Session) -> None:
        self._node.steering.inlets.pop(session.id, None)
        self._node.sessions.remove(session)


async def _first(exchange: Exchange, kind: Kind) -> bytes:
    """What the client begins with.  Raises Refusal."""
    if exchange.method == "GET":
        frame = exchange.query(CONNECT).encode()
    else:
        frame = await exchange.body()
    if not frame and kind.ways.unidirectional:
        return b"{}"
    if not frame:
        raise Refusal(400)
    return frame


async def _until_gone(receive: Receive, inbox: Inbox) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    inbox.end()


async def _finish(exchange: Exchange, stream: Stream) -> None:
    """Who does not read must not keep the service from stopping, whatever is left to be sent:
    with much, `send` waits; with little, the transport alone does, once it was closed."""
    asyncio.get_running_loop().call_later(_LEAVE, stream.abort_if_closing)
    try:
        async with asyncio.timeout(_LEAVE):
            await exchange.send({"type": "http.response.body"})
    except TimeoutError:
        stream.abort()
