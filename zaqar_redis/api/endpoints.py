# SPDX-License-Identifier: Apache-2.0
"""Routes that are ready to answer requests, whichever path these take."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any

from zaqar_redis import errors, rules
from zaqar_redis.api import ignored, raw_bodies
from zaqar_redis.api.exchange import JSON, Answer, Request
from zaqar_redis.api.ignored import DocumentReader
from zaqar_redis.api.queries import NoQuery, QueryReader
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.metrics.definitions import HTTP_DURATIONS, HTTP_REQUESTS

#: Bytes of a body that is read though it may be of no use: the ASGI path takes no more at once.
_UNGUARDED_MAX = 64 * 1024


class Endpoint(ComposedVerbs):
    """A route, with what reads its requests."""

    def __init__(self, route: ApiRoute, *, is_audited: bool = False) -> None:
        self.route = route
        self.is_audited = is_audited
        #: the next request on the fast path is timed: the first one, then now and then
        self.times_next = True
        #: how many were answered, and how many nanoseconds some of them took, by status
        self.answered = HTTP_REQUESTS.by_status(route.method, route.path)
        self.durations = HTTP_DURATIONS.by_status(route.method, route.path)
        self._handler = route.handler
        #: what makes the first parameter of its path the name of a queue; None: it names none
        self.queue_prefix = _queue_prefix(route.path)
        self._body = route.body
        #: bytes of a body on the fast path, which reads it before it asks the guard
        self.size_max = route.body.size_max if route.body and not route.guard else _UNGUARDED_MAX
        self._query: QueryReader[Any] | None = None
        if route.query or route.checked:
            self._query = QueryReader(route.query or NoQuery)
        self._reader: DocumentReader | None = None
        if route.body is not None and route.body.kind is not bytes:
            self._reader = DocumentReader(route.body)
        self._raw: raw_bodies.RawBodyReader | None = None
        if route.body is not None and route.body.raw_query is not None:
            self._raw = raw_bodies.RawBodyReader(route.body)

    def __call__(self, request: Request[Any, Any], params: Sequence[str]) -> Awaitable[Answer]:
        """Reads query and document, and calls the handler.  Raises BadParameter, BadBody."""
        names: list[str] = []
        raw, kind = self._raw, None
        if raw is not None and request.headers.get(b"content-type") not in raw_bodies.USUAL:
            kind = raw_bodies.content_type(request.headers)
        if raw is not None and kind is not None:
            request.data = raw.document(request, kind, names)
        elif self._query is not None:
            request.query = self._query.read(request.query_string, names)
        body, reader = self._body, self._reader
        if body is not None and reader is not None:
            if body.media_type != JSON and request.header(b"content-type") != body.media_type:
                raise errors.UnsupportedMediaType(
                    why=f"{body.noun} is changed with {body.media_type}."
                )
            if request.data or body.default is None:
                request.document = reader.read(request.data, names)
            else:
                request.document = body.default
        if names:
            ignored.check(names, is_strict=self.route.strict)
            request.ignored = names
        if names or (body is not None and body.ignored is not None):
            return self._naming(request, params)
        return self._handler(request, *params)

    @verb
    def _naming(self, request: Request[Any, Any], params: Sequence[str]) -> Steps[Answer]:
        """Calls the handler, which may ignore more; its answer names all that was ignored."""
        answer: Answer = yield self._handler(request, *params)
        if request.ignored:
            ignored.check(request.ignored, is_strict=self.route.strict)
            answer = copy.copy(answer)
            answer.headers += ((ignored.HEADER, ignored.header(request.ignored)),)
        return answer


def _queue_prefix(path: str) -> str | None:
    if "{queue}" in path:
        return ""
    return rules.TOPIC_PREFIX if "{topic}" in path else None


def request_ids() -> Iterator[str]:
    """Yields ``req-`` and a UUID: a name for log lines, not a secret.

    A random half for the process and a counter: random digits for each request
    would cost more than routing it.
    """
    process = f"{random.getrandbits(64):016x}"
    prefix = f"req-{process[:8]}-{process[8:12]}-{process[12:]}"
    for number in itertools.count(1):
        # Twice as fast as an f-string.
        yield "%s-%04x-%012x" % (prefix, number >> 48, number & 0xFFFFFFFFFFFF)  # noqa: UP031
