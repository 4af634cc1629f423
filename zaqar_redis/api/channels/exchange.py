# SPDX-License-Identifier: Apache-2.0
"""One request and its answer, straight on ASGI: streams need no framework."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

#: Bytes of a request; as much as a frame of a WebSocket may have.
_BODY_MAX = 64 * 1024
_PROTOBUF = "application/octet-stream"


class RequestRejected(Exception):
    """A request that is answered with a status and no body."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Exchange:
    def __init__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        #: headers of every answer
        self.headers: Headers = []

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @property
    def is_binary(self) -> bool:
        """Whether the client speaks Protobuf."""
        return self.header(b"content-type").partition(";")[0].strip().lower() == _PROTOBUF

    def header(self, name: bytes) -> str:
        """Returns a request header, empty when it is missing."""
        return header(self.scope, name)

    def query(self, name: str) -> str:
        """Returns a query parameter, empty when it is missing."""
        return query(self.scope, name)

    async def body(self) -> bytes:
        """Returns the body.  Raises RequestRejected when it is too large, or is cut off."""
        parts: list[bytes] = []
        size = 0
        while True:
            event = await self.receive()
            if event["type"] == "http.disconnect":
                raise RequestRejected(400)
            parts.append(event["body"])
            size += len(event["body"])
            if size > _BODY_MAX:
                raise RequestRejected(413)
            if not event["more_body"]:
                return b"".join(parts)

    async def respond(
        self, status: int, headers: Headers | None = None, document: bytes = b""
    ) -> None:
        length = [] if status == 204 else [(b"content-length", str(len(document)).encode())]
        await self.start(status, [*length, *(headers or [])])
        await self.send({"type": "http.response.body", "body": document})

    async def start(self, status: int, headers: Headers) -> None:
        start = {"type": "http.response.start", "status": status}
        await self.send(start | {"headers": [*headers, *self.headers]})


def header(scope: dict[str, Any], name: bytes) -> str:
    """Returns a header of *scope*, empty when it is missing."""
    found: bytes = dict(scope["headers"]).get(name, b"")
    return found.decode("latin-1")


def query(scope: dict[str, Any], name: str) -> str:
    """Returns a query parameter of *scope*, empty when it is missing."""
    given: str = scope["query_string"].decode("latin-1")
    return parse_qs(given).get(name, [""])[0]
