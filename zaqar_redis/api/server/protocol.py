# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 on one connection: uvicorn's protocol, and a fast path for the hot routes.

A hot request whose head is plain is answered here, without ASGI, a framework and a task; all
others take the ASGI path.  Both stand in one pipeline, and are answered in order.
"""

from __future__ import annotations

import asyncio
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, cast

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from zaqar_redis.api import problems
from zaqar_redis.api.exchange import Answer
from zaqar_redis.api.server import answers, malformed
from zaqar_redis.api.server.handshakes import Handshakes
from zaqar_redis.api.server.header_sections import HeaderSections
from zaqar_redis.api.server.hot_request import HotRequest, answer_admitted
from zaqar_redis.api.server.streams import TRANSPORT
from zaqar_redis.api.server.transport import CoalescingTransport, PipelineFlow
from zaqar_redis.keyspace.script import EagerRun, Verb
from zaqar_redis.metrics.definitions import HTTP_REJECTED

if TYPE_CHECKING:
    from zaqar_redis.api.app import App

#: Bytes of a request's line and headers; about what nginx and gunicorn allow.
_HEAD_MAX = 64 * 1024
#: Headers of requests that take the ASGI path: they are rare, and it handles them all.
_UNUSUAL = frozenset(
    (b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"x-tenant-id", b"x-tenant")
)


class HttpProtocol(HttpToolsProtocol):
    #: when the request whose turn it is was whole, in nanoseconds; 0: it is not timed
    _answer_began = 0
    #: of all connections of the process
    _header_sections = HeaderSections()
    _handshakes = Handshakes()
    _in_head = False
    #: a chunk has begun, and no byte of it came: it may be the last, with headers behind it
    _behind_chunk = False
    #: bytes of a head, but those of the data in which it begins; None: they were not counted yet
    _head: int | None = None
    #: what was read at once between two requests, until the first head in it is parsed
    _first_data: bytes | None = None
    #: the parser ignores what follows the request, e.g. one with ``Connection: close``
    _is_last = False
    #: start of a request that is not complete, or of the connection, by the loop's clock; None:
    #: the parser is between two requests
    _request_started_at: float | None = None
    #: end of the last response after which no request waited; of no meaning while one is served
    _idle_since: float | None = None
    #: bytes of answers that were not sent yet when `time_out` looked last
    _unsent = 0
    #: when there were none, or fewer than at the look before
    _sent_at = 0.0
    #: the request on the fast path whose turn it is
    _current: HotRequest | None = None
    #: its answer, which waits until the client has read what was written before
    _unwritten: bytes | None = None
    #: ends the connection when all requests are answered: no request comes after them
    _rejection: bytes | None = None

    # uvicorn declares a BaseTransport; the server passes a Transport.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._output = CoalescingTransport(transport)
        super().connection_made(cast(asyncio.Transport, self._output))
        self.flow = PipelineFlow(self.transport, self.pipeline)
        self._app = cast("App", self.config.app)
        # Tested for each request, which costs a tenth of a method that a subclass overrides.
        self._counts = self._app.settings.metrics is not None
        self._request_started_at = self._sent_at = self.loop.time()
        if len(self.connections) > self._app.settings.max_connections:
            self._refuse(answers.TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._rejection = None
        if self._current is not None:
            self._current.disconnect()

    def data_received(self, data: bytes) -> None:
        if self._rejection is not None:
            return  # not paused: a client that leaves is noticed
        if self._request_started_at is None and not self._is_last:
            if self._begin_known(data):
                return
            self._first_data = data
        try:
            self.parser.feed_data(data)
        except HttpParserError as error:
            why = malformed.note(error, data, self.client)
            self._refuse(answers.last(400, f"The request is not valid HTTP/1.1: {why}."))
        except HttpParserUpgrade:
            if self._should_upgrade():  # else the request is answered as one without
                self.flow.pause_reading()  # nothing comes before the answer
                self._handshakes.add(self._begin_socket)
        self._first_data = None
        if self._in_head or self._behind_chunk:
            # The data in which it begins may hold whole requests before it.
            self._head = 0 if self._head is None else self._head + len(data)
            if self._head > _HEAD_MAX and not self.transport.is_closing():
                self._refuse(answers.TOO_LARGE)

    def on_message_begin(self) -> None:
        self._in_head, self._head = True, None
        self._request_started_at = self.loop.time()
        self.url = b""
        self.headers = []
        self._parts: list[bytes] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        first_data, self._first_data = self._first_data, None
        headers = dict(self.headers)
        url = self.url
        path, _, query = (url if url.isascii() else b"").decode().partition("?")
        found = self._app.hot_routes.find(self.parser.get_method(), path)
        if found is None or "#" in query or not self._is_plain(headers, found[0].size_max):
            self._begin_asgi(headers)
            self._in_head = False  # not earlier: what fails here is no request yet
            return
        self._in_head = False
        if first_data is not None:
            line = b"%b %b HTTP/1.1" % (self.parser.get_method(), url)
            self._header_sections.add(line, self.headers, first_data)
        self._line_up(HotRequest(*found, path, query, headers))

    def _begin_known(self, data: bytes) -> bool:
        """Begins and perhaps answers the request that *data* is, if its headers are known.

        Returns whether they are.  The parser must be between two requests: it sees nothing of it.
        """
        known = self._header_sections.read(data)
        if known is None:
            return False
        method, path, query, headers, body = known
        found = self._app.hot_routes.find(method, path)
        if found is None or len(body) > found[0].size_max:
            return False
        request = HotRequest(*found, path, query, headers, body)
        self._line_up(request)
        if request.has_turn:
            self._answer(request)
        return True

    def _line_up(self, request: HotRequest) -> None:
        """Gives a request its place behind those before it; reads no more while it waits."""
        before = self.cycle
        self.cycle = cast(Any, request)
        if before is not None and not before.response_complete:
            request.has_turn = False
            self.flow.pause_reading()
            self.pipeline.appendleft((cast(Any, request), self.app))

    def _is_plain(self, headers: dict[bytes, bytes], size_max: int) -> bool:
        parser = self.parser
        return (
            _UNUSUAL.isdisjoint(headers)
            and b"host" in headers
            and len(headers) == len(self.headers)  # none is repeated
            # Without the header only HTTP/1.1 keeps a connection, and its version costs more.
            and parser.should_keep_alive()
            and (b"connection" not in headers or parser.get_http_version() == "1.1")
            and int(headers.get(b"content-length", 0)) <= size_max
        )

    def _begin_asgi(self, headers: dict[bytes, bytes]) -> None:
        url, all_headers = self.url, self.headers
        super().on_message_begin()  # it makes the scope
        self.url, self.headers = url, all_headers
        # Of its own: headers that come behind chunks are no headers of the request.
        self.scope["headers"] = all_headers.copy()
        self.expect_100_continue = headers.get(b"expect", b"").lower() == b"100-continue"
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            raise ValueError("its version is another one")
        if b"host" not in headers and self.parser.get_http_version() == "1.1":
            raise ValueError("it has no header Host")  # RFC 9112, 3.2
        # RFC 9112, 6.1: where the body ends is not sure.
        if b"transfer-encoding" in headers and self.parser.get_http_version() == "1.0":
            raise ValueError("HTTP/1.0 has no Transfer-Encoding")
        if self.parser.should_upgrade():
            self._check_upgrade(headers)
        self._is_last = not self.parser.should_keep_alive()
        self.scope["extensions"] = cast(Any, {TRANSPORT: self.transport})
        super().on_headers_complete()

    def _check_upgrade(self, headers: dict[bytes, bytes]) -> None:
        """Raises ValueError if bytes could be taken for what they are not."""
        # The parser takes no body for it, whatever the protocol: it would be the next request.
        if b"transfer-encoding" in headers or int(headers.get(b"content-length", 0)):
            raise ValueError("a request with Upgrade may not have a body")
        before: Any = self.cycle
        if self._should_upgrade() and before is not None and not before.response_complete:
            raise ValueError("Upgrade has to wait for the answer before")  # else within the socket

    def _begin_socket(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self._output.flush()  # the socket writes to the transport below
            self.handle_websocket_upgrade()

    def on_chunk_header(self) -> None:
        self._behind_chunk, self._head = True, None

    def on_body(self, body: bytes) -> None:
        request: Any = self.cycle
        if type(request) is not HotRequest:
            self._behind_chunk = False
            super().on_body(body)
        else:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        self._request_started_at = None
        request: Any = self.cycle
        # The handshake of a socket is no cycle: the one before it may be hot, and complete.
        if type(request) is not HotRequest or request.is_complete:
            self._behind_chunk = False
            super().on_message_complete()
            return
        request.is_complete = True
        request.data = b"".join(self._parts)
        self._parts.clear()
        if request.has_turn:
            self._answer(request)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if type(cycle) is not HotRequest:
            super()._start_asgi_task(cycle, app)
            return
        cycle.has_turn = True
        if cycle.is_complete:
            # Not at once: a thousand small requests may wait, each in a call of the one before.
            self.loop.call_soon(self._answer, cycle)

    def _answer(self, request: HotRequest) -> None:
        if self.transport.is_closing():
            return
        self._current = request
        checks, endpoint = self._app.checks, request.endpoint
        if endpoint.times_next:
            endpoint.times_next = False
            self._answer_began = perf_counter_ns()
        route = endpoint.route
        try:
            if route.checked:
                checks.check_head(route.method, request, is_raw=route.is_raw)
            admission = None
            if route.guard is not None:
                admission = route.guard(request, route.action)
            elif not route.public:
                prefix = endpoint.queue_prefix
                queue = None if prefix is None else prefix + request.params[0]
                admission = checks.admit(request, route.action, queue)
            if admission is None:
                verb = endpoint(request, request.params)
            else:
                verb = Verb(None, answer_admitted(admission, request))
        except Exception as error:
            self._on_end(request, None, error)
            return
        run = EagerRun(cast("Verb[Answer]", verb), partial(self._on_end, request))
        if not run.has_ended:
            request.run = run

    def _on_end(
        self, request: HotRequest, answer: Answer | None, error: BaseException | None
    ) -> None:
        # An idle connection keeps its last request: neither what it brought, nor a cycle.
        request.run = None
        request.data = b""
        request.document = None
        self._app.checks.release(request)
        if request.disconnected:
            return
        request_id = next(self._app.request_ids)
        if error is not None or answer is None:
            answer = problems.answer(
                cast(BaseException, error), request.method, request.path, request, request_id
            )
        if request.endpoint.is_audited or request.is_foreign:
            route = request.endpoint.route
            self._app.audit.record(route.action, route.method, request, answer.status, request_id)
        if self._counts:
            request.endpoint.answered[answer.status] += 1
            if self._answer_began:
                took = perf_counter_ns() - self._answer_began
                request.endpoint.durations[answer.status].append(took)
                self._answer_began = 0
        data = self._encode(request, answer, request_id)
        if self.flow.write_paused:
            self._unwritten = data
        else:
            # Several requests of one read may be refused at once.
            self._write(request, data, is_last=error is None and not self.pipeline)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unwritten is not None and self._current is not None:
            data, self._unwritten = self._unwritten, None
            self._write(self._current, data, is_last=not self.pipeline)

    def _write(self, request: HotRequest, data: bytes, *, is_last: bool) -> None:
        """*is_last*: no other answer is to be expected in this turn of the loop."""
        self._current = None
        request.response_complete = True
        if is_last:
            self._output.write_now(data)
        else:
            self._output.write(data)
        if not request.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _encode(self, request: HotRequest, answer: Answer, request_id: str) -> bytes:
        status, body = answer.status, answer.body
        first = answers.first_lines(status, tuple(self.server_state.default_headers))
        media_type = f"\r\ncontent-type: {answer.media_type}" if body else ""
        others = "".join([f"\r\n{name}: {text}" for name, text in answer.headers])
        length = "" if status == 204 else f"\r\ncontent-length: {len(body)}"
        end = "\r\n\r\n" if request.keep_alive else "\r\nconnection: close\r\n\r\n"
        head = f"{first}{request_id}{media_type}{others}{length}{end}"
        return head.encode("latin-1") + body

    def on_response_complete(self) -> None:
        """Goes on with the next request of the pipeline.

        uvicorn sets a timer for each idle connection; `time_out` looks at all of them.
        """
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        elif self._rejection is not None:
            self._end_with(self._rejection)
        else:
            self._idle_since = self.loop.time()
        if self.flow.read_paused:
            self.flow.resume_reading()
            if self._request_started_at is not None:
                self._request_started_at = self.loop.time()

    def time_out(self, now: float) -> None:
        """Closes the connection if it is idle, or its request is incomplete, for too long.

        Cuts it off if its client reads nothing of an answer for as long.
        """
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent:
            self._sent_at = now
        self._unsent = unsent
        if self._sent_at < now - self._app.settings.request_timeout:
            self.transport.abort()
            return
        if self.transport.is_closing() or self.flow.read_paused:
            return
        cycle: Any = self.cycle
        started, idle = self._request_started_at, self._idle_since
        if started is not None:
            if started < now - self._app.settings.request_timeout:
                # Its answer may have begun before its body ended, but not before its head did.
                answered = not self._in_head and getattr(cycle, "response_started", False)
                self._refuse(b"" if answered else answers.TOO_SLOW)
        elif idle is not None and idle < now - self.timeout_keep_alive and cycle.response_complete:
            self.transport.close()

    def _refuse(self, answer: bytes) -> None:
        """Ends the connection with *answer*, after those of the requests before.

        It is empty when a slow request was answered before it was complete.
        """
        HTTP_REJECTED.add(answer[9:12].decode() or "408")
        if self._rejection is not None:
            return
        before: Any = self.cycle
        if not self._in_head and self._request_started_at is not None:
            # What is wrong is the body of the last request.
            before = self.pipeline.popleft()[0] if self.pipeline else None
        if before is None or before.response_complete:
            self._end_with(answer)
        else:
            self._rejection = answer

    def _end_with(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.transport.close()
