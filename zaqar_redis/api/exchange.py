# SPDX-License-Identifier: Apache-2.0
"""A request and its answer as plain values: handlers see no framework and no server."""

from __future__ import annotations

import abc
import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from zaqar_redis.auth.identity import NOBODY, Identity
from zaqar_redis.records import Message
from zaqar_redis.rules import TOPIC_PREFIX

#: What oslo.middleware takes for the id of a request of another service.
_GLOBAL_ID = re.compile(r"req-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OF_QUEUE = re.compile(r"/v2/(?:queues/|(topics)/)([^/]+)")

QueryT = TypeVar("QueryT")
DocumentT = TypeVar("DocumentT")

#: Names are in lower case, as HTTP/2 has them.
Headers = tuple[tuple[str, str], ...]
#: ASGI's
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

#: The header of every answer.
REQUEST_ID = "x-openstack-request-id"

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class RequestSpan(Protocol):
    """The span of one request that is traced."""

    @property
    def traceparent(self) -> str:
        """What messages carry that the request posts; empty when nobody samples the span."""

    def add_links(self, messages: Iterable[Message]) -> None:
        """Links the span to those that posted the messages."""


class Request(abc.ABC, Generic[QueryT, DocumentT]):
    """A request; when a handler sees it, its head was checked and its body was read."""

    #: who sends it; `NOBODY` on public routes, and until it is known
    identity: Identity = NOBODY
    project = ""
    #: the project that the path names, or ""
    target = ""
    client = ""
    #: an administrator acts for a project that is not its own
    is_foreign = False
    #: the project for which it is counted as in flight; None: it is not
    counted_for: str | None = None
    #: None: nobody traces it
    span: RequestSpan | None = None
    #: of a batch: policy rule, path and HTTP status of what is in it, each once
    calls: Iterable[tuple[str, str, int]] = ()
    #: names in it that have no effect
    ignored: Sequence[str] = ()
    #: as the route's `query` and `body` say; unset where it has none
    query: QueryT
    document: DocumentT

    def __init__(
        self,
        path: str,
        query_string: str,
        headers: dict[bytes, bytes],
        data: bytes = b"",
    ) -> None:
        """*path* is decoded, *query_string* is not; names of *headers* are in lower case."""
        self.path = path
        self.query_string = query_string
        self.headers = headers
        self.data = data

    @property
    @abc.abstractmethod
    def method(self) -> str: ...

    @property
    @abc.abstractmethod
    def raw_path(self) -> str:
        """The path as it was sent, not decoded."""

    @abc.abstractmethod
    async def read_body(self) -> bytes:
        """Returns the whole body, which is `data` from then on.

        Raises BadRequest when it is larger than the route allows, and BadBody when it is cut off.
        """

    @abc.abstractmethod
    def watch_disconnect(self) -> asyncio.Event:
        """Returns an event that is set when the client disconnects."""

    @property
    def queue(self) -> str:
        """The queue that the path names, or ''; of a topic that which it is."""
        found = _OF_QUEUE.match(self.path)
        if found is None:
            return ""
        return f"{TOPIC_PREFIX}{found[2]}" if found[1] else found[2]

    @property
    def global_id(self) -> str:
        """The id of the request of another service that has led to this one, or ''."""
        given = self.header(b"x-openstack-request-id") or ""
        return given if _GLOBAL_ID.fullmatch(given) else ""

    def header(self, name: bytes) -> str | None:
        found = self.headers.get(name)
        return None if found is None else found.decode("latin-1")


class Answer:
    """An answer; without a *body* it has no media type."""

    __slots__ = ("body", "headers", "media_type", "status")

    def __init__(
        self,
        body: bytes = b"",
        status: int = 200,
        headers: Headers = (),
        media_type: str = JSON,
    ) -> None:
        self.body = body
        self.status = status
        self.headers = headers
        self.media_type = media_type


#: The answer of what has nothing to tell.
DONE = Answer(status=204)


async def require_upgrade(request: Request[None, None]) -> Answer:
    """A WebSocket, for those who ask for the upgrade."""
    return Answer(status=426, headers=(("upgrade", "websocket"), ("connection", "upgrade")))


class StreamAnswer(Answer):
    """An answer without an end, whose parts go straight to the transport."""

    __slots__ = ("run",)

    def __init__(
        self,
        run: Callable[[asyncio.Transport, Receive], AsyncIterator[bytes]],
        media_type: str,
        headers: Headers,
    ) -> None:
        """*run* is called when the head was sent.  What it yields is sent through ASGI."""
        super().__init__(headers=(("content-type", media_type), *headers))
        self.run = run


async def watch_disconnect(receive: Receive, on_disconnect: Callable[[], None]) -> None:
    """Calls *on_disconnect* when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    on_disconnect()
