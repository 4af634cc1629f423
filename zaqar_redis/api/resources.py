# SPDX-License-Identifier: Apache-2.0
"""Falcon resources, made from the table of routes: the ASGI path of a request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import attrgetter
from time import perf_counter_ns
from typing import Any

import falcon
import falcon.asgi

from zaqar_redis import errors, rules
from zaqar_redis.api import access_log, problems, request_heads
from zaqar_redis.api.audit import RequestAudit
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.checks import RequestChecks
from zaqar_redis.api.endpoints import Endpoint
from zaqar_redis.api.exchange import (
    REQUEST_ID,
    Answer,
    Request,
    StreamAnswer,
    watch_disconnect,
)
from zaqar_redis.api.route_advice import RouteAdvice
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.api.server.streams import TRANSPORT
from zaqar_redis.metrics.definitions import HTTP_DURATIONS, HTTP_REQUESTS

#: Where the application keeps ASGI's receive() in the scope, and its first event.
RECEIVE = "zaqar_redis.receive"
FIRST_EVENT = "zaqar_redis.first"

Responder = Callable[..., Awaitable[None]]


#: What is read of a body that the route does not use, if it is signed.
_UNUSED = Body(bytes, "The body")


class AsgiRequest(Request[Any, Any]):
    def __init__(self, req: falcon.asgi.Request, body: Body | None) -> None:
        """*body*: that of the route, or None."""
        super().__init__(req.path, req.query_string, req.context.headers)
        self._scope = req.scope
        self._body = body or _UNUSED
        self._has_read = False
        self._watching: asyncio.Task[None] | None = None

    @property
    def method(self) -> str:
        method: str = self._scope["method"]
        return method

    @property
    def raw_path(self) -> str:
        sent: bytes = self._scope["raw_path"]
        return sent.decode("latin-1")

    async def read_body(self) -> bytes:
        if not self._has_read:
            self.data = await _read(self._scope, self.headers, self._body)
            self._has_read = True
        return self.data

    def watch_disconnect(self) -> asyncio.Event:
        disconnected = asyncio.Event()
        receive = self._scope[RECEIVE]
        self._watching = asyncio.create_task(watch_disconnect(receive, disconnected.set))
        return disconnected

    def end(self) -> None:
        """Ends what the request has begun, once it is answered."""
        if self._watching is not None:
            self._watching.cancel()


class RouteResource:
    """The Falcon resource of all routes of one path: Falcon finds a responder for each method."""

    def __init__(self, path: str, routes: Iterable[ApiRoute]) -> None:
        names = re.findall(r"{(\w+)}", path)
        #: by method
        self.routes: dict[str, ApiRoute] = {}
        for route in routes:
            setattr(self, f"on_{route.method.lower()}", _responder(route, names))
            self.routes[route.method] = route
            # the same for all methods
            self.public, self.checked, self.cors = route.public, route.checked, route.cors


class RequestMiddleware:
    """Gives each answer a request id, and checks each request: some things of all, others of
    those for a path that exists.  Records and measures it when it is answered."""

    def __init__(
        self,
        checks: RequestChecks,
        request_ids: Iterator[str],
        audit: RequestAudit,
        *,
        measures: bool,
        logs: bool,
    ) -> None:
        self._checks = checks
        self._request_ids = request_ids
        self._audit = audit
        self._measures, self._logs = measures, logs

    async def process_request(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        req.context.began = perf_counter_ns()  # for all who measure it
        resp.set_header(REQUEST_ID, next(self._request_ids))
        req.context.headers = request_heads.read(req.scope)

    async def process_resource(
        self,
        req: falcon.asgi.Request,
        resp: falcon.asgi.Response,
        resource: object,
        params: dict[str, Any],
    ) -> None:
        if not isinstance(resource, RouteResource) or req.method == "OPTIONS":
            return  # API: everybody may ask for the allowed methods
        route = resource.routes.get(req.method)
        request = req.context.request = AsgiRequest(req, route.body if route else None)
        if resource.checked:
            is_raw = route is not None and route.is_raw
            self._checks.check_head(req.method, request, is_raw=is_raw)
        if not resource.public:
            action = route.action if route else None
            queue, project = _queue_of(params), params.get("project")
            admission = self._checks.admit(request, action, queue, project)
            if admission is not None:
                await admission
            if "queue" in params:
                rules.queue_name(params["queue"])
            elif "topic" in params:
                rules.topic(params["topic"])

    async def process_response(
        self,
        req: falcon.asgi.Request,
        resp: falcon.asgi.Response,
        resource: object,
        succeeded: bool,
    ) -> None:
        route = resource.routes.get(req.method) if isinstance(resource, RouteResource) else None
        request: AsgiRequest | None = getattr(req.context, "request", None)
        status, request_id = resp.status_code, resp.get_header(REQUEST_ID) or ""
        if request is not None:  # first: whatever fails below, it does not count any more
            self._checks.release(request)
        if self._logs:
            seconds = (perf_counter_ns() - req.context.began) / 1e9
            about: Any = {"peer": access_log.peer_of(req.scope.get("client")), "request": request}
            access_log.write(req.method, req.path, status, seconds, **about, request_id=request_id)
        if (
            request is not None
            and route is not None
            and (request.is_foreign or self._audit.covers(route.action))
        ):
            self._audit.record(route.action, req.method, request, status, request_id)
        if self._measures:
            # Others may have any method and path, each of which would be a row.
            labels = (route.method, route.path) if route is not None else ("other", "other")
            HTTP_REQUESTS.by_status(*labels)[status] += 1
            took = perf_counter_ns() - req.context.began
            HTTP_DURATIONS.by_status(*labels)[status].append(took)


def install(
    app: falcon.asgi.App[Any, Any], routes: Iterable[ApiRoute], advice: RouteAdvice
) -> None:
    """Adds the routes, and the handlers of what fails."""
    for path, of_path in groupby(sorted(routes, key=attrgetter("path")), attrgetter("path")):
        app.add_route(path, RouteResource(path, of_path))
    for kind in (Exception, falcon.HTTPError, falcon.HTTPStatus):  # the last that fits is used
        app.add_error_handler(kind, _answer_error)
    unrouted = (falcon.HTTPRouteNotFound, falcon.HTTPMethodNotAllowed)
    app.add_error_handler(unrouted, partial(_answer_unrouted, advice))


def _queue_of(params: dict[str, Any]) -> str | None:
    """Returns the queue that a path names; rights name topics by it, too."""
    if "topic" in params:
        return f"{rules.TOPIC_PREFIX}{params['topic']}"
    return params.get("queue")


async def _answer_error(
    req: falcon.asgi.Request, resp: falcon.asgi.Response, error: Exception, params: Any
) -> None:
    request: AsgiRequest | None = getattr(req.context, "request", None)
    request_id = resp.get_header(REQUEST_ID) or ""
    _set(resp, problems.answer(error, req.method, req.path, request, request_id))


async def _answer_unrouted(
    advice: RouteAdvice,
    req: falcon.asgi.Request,
    resp: falcon.asgi.Response,
    error: falcon.HTTPError,
    params: Any,
) -> None:
    found: Exception = error
    if not isinstance(error, falcon.HTTPMethodNotAllowed):
        error.description = advice.of_path(req.method, req.path)
    elif lacks := advice.of_lack(req.path):  # only the template of another path fits
        found = errors.NotFound(why=lacks)
    else:
        allowed = dict(error.headers or {})["Allow"]
        error.description = advice.of_method(req.method, req.path, allowed)
    await _answer_error(req, resp, found, params)


def _responder(route: ApiRoute, names: list[str]) -> Responder:
    endpoint = Endpoint(route)

    async def respond(req: falcon.asgi.Request, resp: falcon.asgi.Response, **params: str) -> None:
        request: AsgiRequest = req.context.request
        if route.guard is not None:
            admission = route.guard(request, route.action)
            if admission is not None:
                await admission
        if route.body is not None:
            await request.read_body()
        try:
            answer = await endpoint(request, [params[name] for name in names])
        finally:
            request.end()
        _set(resp, answer)
        if isinstance(answer, StreamAnswer):
            resp.stream = answer.run(req.scope["extensions"][TRANSPORT], req.scope[RECEIVE])

    return respond


def _set(resp: falcon.asgi.Response, answer: Answer) -> None:
    resp.status = answer.status
    if answer.body:
        resp.content_type = answer.media_type
        resp.data = answer.body
    for name, value in answer.headers:
        resp.set_header(name, value)


async def _read(scope: dict[str, Any], headers: dict[bytes, bytes], body: Body) -> bytes:
    """Returns the whole body.

    Raises BadRequest when it is larger than the route allows, and BadBody when it is cut off.
    """
    length = int(headers.get(b"content-length", -1))
    if length == 0:
        return b""
    if length > body.size_max:
        raise body.too_large()
    # Straight from the server: falcon's stream costs as much as parsing a message.
    receive = scope[RECEIVE]
    event = scope[FIRST_EVENT]
    data: bytes = event["body"]
    while event["more_body"] and len(data) <= body.size_max:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise errors.BadBody(why="The request ended before its body did.")
        data += event["body"]
    if len(data) > body.size_max:
        raise body.too_large()
    return data
