# SPDX-License-Identifier: Apache-2.0
"""Falcon resources, made from the table of routes: the ASGI path of a request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any

import falcon
import falcon.asgi

from zaqar_redis import errors
from zaqar_redis.api import problems
from zaqar_redis.api.audit import RequestAudit
from zaqar_redis.api.checks import RequestChecks
from zaqar_redis.api.endpoints import Endpoint
from zaqar_redis.api.exchange import (
    REQUEST_ID,
    Answer,
    Request,
    StreamAnswer,
    watch_disconnect,
)
from zaqar_redis.api.routes import ApiRoute, Body
from zaqar_redis.api.server.streams import TRANSPORT

#: Where the application keeps ASGI's receive() in the scope, and its first event.
RECEIVE = "zaqar_redis.receive"
FIRST_EVENT = "zaqar_redis.first"

Responder = Callable[..., Awaitable[None]]


class AsgiRequest(Request[Any, Any]):
    """A request from ASGI."""

    __slots__ = ("_receive", "_watching")

    def __init__(self, req: falcon.asgi.Request) -> None:
        super().__init__(req.path, req.query_string, dict(req.scope["headers"]))
        self._receive = req.scope[RECEIVE]
        self._watching: asyncio.Task[None] | None = None

    def watch_disconnect(self) -> asyncio.Event:
        disconnected = asyncio.Event()
        self._watching = asyncio.create_task(watch_disconnect(self._receive, disconnected.set))
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
        self.actions: dict[str, str] = {}
        for route in routes:
            setattr(self, f"on_{route.method.lower()}", _responder(route, names))
            self.actions[route.method] = route.action
            # the same for all methods
            self.public, self.checked, self.cors = route.public, route.checked, route.cors


class RequestMiddleware:
    """Gives each answer a request id, and checks each request for a path that exists."""

    def __init__(
        self, checks: RequestChecks, request_ids: Iterator[str], audit: RequestAudit
    ) -> None:
        self._checks = checks
        self._request_ids = request_ids
        self._audit = audit

    async def process_request(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.set_header(REQUEST_ID, next(self._request_ids))

    async def process_resource(
        self,
        req: falcon.asgi.Request,
        resp: falcon.asgi.Response,
        resource: object,
        params: dict[str, Any],
    ) -> None:
        if not isinstance(resource, RouteResource) or req.method == "OPTIONS":
            return  # API: everybody may ask for the allowed methods
        request = req.context.request = AsgiRequest(req)
        if resource.checked:
            self._checks.check_head(req.method, request)
        if not resource.public:
            action = resource.actions.get(req.method)
            queue, project = params.get("queue"), params.get("project")
            admission = self._checks.admit(request, action, queue, project)
            if admission is not None:
                await admission

    async def process_response(
        self,
        req: falcon.asgi.Request,
        resp: falcon.asgi.Response,
        resource: object,
        succeeded: bool,
    ) -> None:
        action = resource.actions.get(req.method) if isinstance(resource, RouteResource) else None
        request: AsgiRequest | None = getattr(req.context, "request", None)
        if action is not None and request is not None and self._audit.covers(action):
            self._audit.record(
                action, req.method, request, resp.status_code, resp.get_header(REQUEST_ID) or ""
            )


def install(app: falcon.asgi.App[Any, Any], routes: Iterable[ApiRoute]) -> None:
    """Adds the routes, and the handlers of what fails."""
    for path, of_path in groupby(sorted(routes, key=attrgetter("path")), attrgetter("path")):
        app.add_route(path, RouteResource(path, of_path))
    for kind in (Exception, falcon.HTTPError, falcon.HTTPStatus):  # the last that fits is used
        app.add_error_handler(kind, _answer_error)


async def _answer_error(
    req: falcon.asgi.Request, resp: falcon.asgi.Response, error: Exception, params: Any
) -> None:
    request: AsgiRequest | None = getattr(req.context, "request", None)
    request_id = resp.get_header(REQUEST_ID) or ""
    _set(resp, problems.answer(error, req.method, req.path, request, request_id))


def _responder(route: ApiRoute, names: list[str]) -> Responder:
    endpoint = Endpoint(route)

    async def respond(req: falcon.asgi.Request, resp: falcon.asgi.Response, **params: str) -> None:
        request: AsgiRequest = req.context.request
        if route.guard is not None:
            route.guard(request)
        if route.body is not None:
            request.data = await _read(req, route.body)
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


async def _read(req: falcon.asgi.Request, body: Body) -> bytes:
    """Returns the whole body.

    Raises BadRequest when it is larger than the route allows, and BadBody when it is cut off.
    """
    length = req.content_length
    if length == 0:
        return b""
    if length is not None and length > body.size_max:
        raise body.too_large()
    # Straight from the server: falcon's stream costs as much as parsing a message.
    receive = req.scope[RECEIVE]
    event = req.scope[FIRST_EVENT]
    data: bytes = event["body"]
    while event["more_body"] and len(data) <= body.size_max:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise errors.BadBody(why="The request ended before its body did.")
        data += event["body"]
    if len(data) > body.size_max:
        raise body.too_large()
    return data
