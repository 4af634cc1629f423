# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 on one connection: uvicorn's protocol, and a short way for the hot routes.

A hot request whose head is plain is answered here, without ASGI, a framework and a task; all
others take uvicorn's way to the ASGI application.  Both stand in one pipeline, and are answered
in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Protocol, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from zaqar_redis.api import problems
from zaqar_redis.api.checks import RequestChecks
from zaqar_redis.api.endpoints import Endpoint
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.server.hot_routes import HotPath, HotRoutes
from zaqar_redis.api.streams import TRANSPORT
from zaqar_redis.keyspace.script import EagerRun, Verb

#: Bytes of a request's line and headers; about what nginx and gunicorn allow.
_HEAD_MAX = 64 * 1024
_END = b"content-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n" + _END
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\n" + _END
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n" + _END
#: Headers of requests that take uvicorn's way: they are rare, and it handles them all.
_UNUSUAL = frozenset((b"transfer-encoding", b"expect", b"upgrade"))


class ServedApp(Protocol):
    """What the protocol needs of the application, besides ASGI."""

    @property
    def settings(self) -> Any: ...

    @property
    def hot_routes(self) -> HotRoutes: ...

    @property
    def checks(self) -> RequestChecks: ...

    @property
    def request_ids(self) -> Iterator[str]: ...


class CoalescingTransport:
    """A transport that joins the writes of one iteration of the event loop.

    uvicorn writes the head and the body of a response apart, and uvloop makes a
    system call for each, which for a small answer is a tenth of the whole request.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        #: the transport below, for writers that join by themselves
        self.unbuffered = transport
        self._pieces: list[bytes] = []
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)

    def write_now(self, data: bytes) -> None:
        """Writes what waits and *data*, when nothing more is expected in this iteration."""
        if self._pieces:
            self._pieces.append(data)
            self._flush()
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _NoEvent:
    """In the place of an event that nobody waits for."""

    def set(self) -> None:
        pass


class HotCycle:
    """A request on the short way; to uvicorn's protocol it is one of its cycles."""

    __slots__ = (
        "data",
        "disconnected",
        "disconnected_event",
        "endpoint",
        "fields",
        "has_turn",
        "is_complete",
        "keep_alive",
        "of_queue",
        "params",
        "response_complete",
        "run",
        "url",
    )

    message_event = _NoEvent()

    def __init__(
        self,
        endpoint: Endpoint,
        params: list[str],
        of_queue: bool,
        url: bytes,
        fields: dict[bytes, bytes],
        has_turn: bool,
    ) -> None:
        """*has_turn*: all requests before it are answered."""
        self.endpoint = endpoint
        self.params = params
        self.of_queue = of_queue
        self.url = url
        self.fields = fields
        self.has_turn = has_turn
        self.data = b""
        self.is_complete = False
        self.response_complete = False
        self.keep_alive = True
        self.disconnected = False
        self.disconnected_event: asyncio.Event | None = None
        self.run: EagerRun[Answer] | None = None

    def watch_disconnect(self) -> asyncio.Event:
        self.disconnected_event = asyncio.Event()
        return self.disconnected_event

    def disconnect(self) -> None:
        self.disconnected = True
        if self.disconnected_event is not None:
            self.disconnected_event.set()
        elif self.run is not None:
            self.run.cancel()


class HttpProtocol(HttpToolsProtocol):
    _in_head = False
    _head = 0
    #: start of a request that is not complete, by the loop's clock; None: there is none
    _request_started_at: float | None = None
    #: end of the last response, if no request has begun since
    _idle_since: float | None = None
    #: the request on the short way whose turn it is
    _current: HotCycle | None = None
    #: its answer, which waits until the client has read what was written before
    _unwritten: bytes | None = None

    # uvicorn declares a BaseTransport; the server passes a Transport.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._output = CoalescingTransport(transport)
        super().connection_made(cast(asyncio.Transport, self._output))
        self._app = cast(ServedApp, self.config.app)
        self._request_started_at = self.loop.time()
        if len(self.connections) > self._app.settings.max_connections:
            self._reject(_TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._current is not None:
            self._current.disconnect()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > _HEAD_MAX and not self.transport.is_closing():
                self._reject(_TOO_LARGE)

    def on_message_begin(self) -> None:
        self._in_head, self._head = True, 0
        self._idle_since = None
        self._request_started_at = self.loop.time()
        self.url = b""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        fields = dict(self.headers)
        path, _, query = self.url.partition(b"?")
        found = self._app.hot_routes.find(self.parser.get_method(), path)
        if found is not None and self._is_plain(fields, query, found[0]):
            self._begin_hot(found, query, fields)
        else:
            self._begin_ordinary(fields)

    def _is_plain(self, fields: dict[bytes, bytes], query: bytes, endpoint: Endpoint) -> bool:
        parser, body = self.parser, endpoint.route.body
        return (
            _UNUSUAL.isdisjoint(fields)
            # Without the header only HTTP/1.1 keeps a connection, and its version costs more.
            and parser.should_keep_alive()
            and (b"connection" not in fields or parser.get_http_version() == "1.1")
            and (body is None or int(fields.get(b"content-length", 0)) <= body.size_max)
            and query.isascii()
            and b"#" not in query
        )

    def _begin_hot(
        self, found: tuple[Endpoint, list[str], HotPath], query: bytes, fields: dict[bytes, bytes]
    ) -> None:
        endpoint, params, path = found
        before = self.cycle
        has_turn = before is None or before.response_complete
        cycle = HotCycle(endpoint, params, path.of_queue, self.url, fields, has_turn)
        self.cycle = cast(Any, cycle)
        if not has_turn:
            self.flow.pause_reading()
            self.pipeline.appendleft((cast(Any, cycle), self.app))

    def _begin_ordinary(self, fields: dict[bytes, bytes]) -> None:
        url, headers = self.url, self.headers
        super().on_message_begin()  # it makes the scope
        self.url = url
        self.headers[:] = headers
        self.expect_100_continue = fields.get(b"expect", b"").lower() == b"100-continue"
        extensions: dict[str, Any] = {TRANSPORT: self.transport}
        self.scope["extensions"] = extensions
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        cycle: Any = self.cycle
        if type(cycle) is not HotCycle:
            super().on_body(body)
        elif cycle.endpoint.route.body is not None:
            cycle.data = cycle.data + body if cycle.data else body

    def on_message_complete(self) -> None:
        self._request_started_at = None
        cycle: Any = self.cycle
        if type(cycle) is not HotCycle:
            super().on_message_complete()
            return
        cycle.is_complete = True
        if cycle.has_turn:
            self._answer(cycle)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if type(cycle) is not HotCycle:
            super()._start_asgi_task(cycle, app)
            return
        cycle.has_turn = True
        if cycle.is_complete:
            # Not at once: a thousand small requests may wait, each in a call of the one before.
            self.loop.call_soon(self._answer, cycle)

    def _answer(self, cycle: HotCycle) -> None:
        if self.transport.is_closing():
            return
        app, route = self._app, cycle.endpoint.route
        self._current = cycle
        path, _, query = cycle.url.decode().partition("?")
        request: Request[Any, Any] = Request(
            path, query, cycle.fields, cycle.data, cycle.watch_disconnect
        )
        try:
            app.checks.check_head(route.method, path, cycle.fields)
            if not route.public:
                queue = cycle.params[0] if cycle.of_queue else None
                request.project, request.client = app.checks.identify(cycle.fields, queue)
            verb = cycle.endpoint(request, cycle.params)
        except Exception as error:
            self._on_end(cycle, None, error)
            return
        run = EagerRun(cast(Verb[Answer], verb), lambda *end: self._on_end(cycle, *end))
        cycle.run = run

    def _on_end(self, cycle: HotCycle, answer: Answer | None, error: BaseException | None) -> None:
        if cycle.disconnected:
            return
        if answer is None:
            route = cycle.endpoint.route
            path = cycle.url.partition(b"?")[0].decode()
            answer = problems.answer(cast(BaseException, error), route.method, path)
        data = self._encode(answer, cycle.keep_alive)
        if self.flow.write_paused:
            self._unwritten = data
        else:
            self._write(cycle, data)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unwritten is not None and self._current is not None:
            data, self._unwritten = self._unwritten, None
            self._write(self._current, data)

    def _write(self, cycle: HotCycle, data: bytes) -> None:
        self._current = None
        cycle.response_complete = True
        if self.pipeline:
            self._output.write(data)
        else:
            self._output.write_now(data)
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _encode(self, answer: Answer, keep_alive: bool) -> bytes:
        lines = [_STATUS_LINES[answer.status]]
        for name, value in self.server_state.default_headers:
            lines.append(f"{name.decode()}: {value.decode()}\r\n")
        lines.append(f"x-openstack-request-id: {next(self._app.request_ids)}\r\n")
        if answer.body:
            lines.append(f"content-type: {answer.media_type}\r\n")
        for header, text in answer.headers:
            lines.append(f"{header}: {text}\r\n")
        if answer.status != 204:
            lines.append(f"content-length: {len(answer.body)}\r\n")
        lines.append("\r\n" if keep_alive else "connection: close\r\n\r\n")
        return "".join(lines).encode("latin-1") + answer.body

    def on_response_complete(self) -> None:
        """Goes on with the next request of the pipeline.

        uvicorn sets a timer for each idle connection; `time_out` looks at all of them.
        """
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        else:
            self._idle_since = self.loop.time()

    def time_out(self, now: float) -> None:
        """Closes the connection if it is idle, or its request is incomplete, for too long."""
        if self.transport.is_closing():
            return
        started, idle = self._request_started_at, self._idle_since
        if started is not None and started < now - self._app.settings.request_timeout:
            cycle: Any = self.cycle
            answered = type(cycle) is not HotCycle and cycle is not None and cycle.response_started
            self._reject(b"" if answered else _TOO_SLOW)
        elif idle is not None and started is None and idle < now - self.timeout_keep_alive:
            self.transport.close()

    def _reject(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.transport.close()


_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus
}
