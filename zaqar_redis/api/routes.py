# SPDX-License-Identifier: Apache-2.0
"""A row of the table of routes: what the REST API answers, and how."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from msgspec import Struct, field

from zaqar_redis import errors
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.exchange import JSON, Answer, Receive, Request, Send

#: Takes a `Request` and the path's parameters, in their order.
Handler = Callable[..., Awaitable[Answer]]
#: Takes a request and its action.
Guard = Callable[[Request[Any, Any], str], Awaitable[None] | None]
WebSocketHandler = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class ApiRoute(Struct, frozen=True):
    method: str
    #: ``{name}`` is one segment, any but a slash
    path: str
    handler: Handler
    #: the rule of `auth.policy` that says who may call it
    action: str
    query: type[Struct] | None = None
    body: Body | None = None
    #: status -> the document, or a tuple if it is one of several; None: there is no body
    answers: dict[int, Any] = field(default_factory=lambda: {204: None})
    #: what is raised beside what every request may get
    problems: tuple[type[errors.Problem], ...] = ()
    #: of the answers, beside those of all: name -> what it says
    headers: dict[str, str] = {}
    media_type: str = JSON
    needs_store: bool = True
    #: answered by the server itself, without the framework; then the handler is a verb, and the
    #: path names no project
    hot: bool = False
    #: needs neither client nor project
    public: bool = False
    #: its requests must look like those of Zaqar: signature, content type, Accept
    checked: bool = True
    #: who accepts no JSON may get the body of a message, of any type
    is_raw: bool = False
    #: refuses what has no effect, in the place of naming it
    strict: bool = False
    #: for web pages: CORS
    cors: bool = False
    #: in the place of the checks of who sends a request to Zaqar's API: raises for who may not,
    #: and so does what is awaited; before the body is read
    guard: Guard | None = None
    #: the socket that a GET may ask for
    websocket: WebSocketHandler | None = None


get, put, post, patch, delete = (
    partial(ApiRoute, method) for method in ("GET", "PUT", "POST", "PATCH", "DELETE")
)
