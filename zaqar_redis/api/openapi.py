# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI description of the API, made from the table of routes and its Structs.

An operation is described by its handler's docstring, an error by its class.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec.json import schema_components

from zaqar_redis import errors, rules
from zaqar_redis.api import ignored
from zaqar_redis.api.exchange import JSON, Answer, Request
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.api.schemas import ProblemOut

_ABOUT = """\
Producers post messages to named queues.  Consumers claim them for a while, work, and delete them;
what is not deleted before the claim ends can be claimed again.  Others read along by listing.

Every queue belongs to the project in `X-Project-ID`.  A queue is created when it is put or first
posted to; one that does not exist reads as empty, and deleting what does not exist succeeds.

Bodies are JSON in UTF-8, but for those of messages.  Unknown fields are ignored, unless the schema
forbids them.  Integers fit 64 bits and have no fraction: 60, not 60.0.  To page, follow the `next`
link until a page is empty.

A post that got no answer, or 503, is repeated without posting twice if it has an `Idempotency-Key`.
"""


def _value(text: str, **schema: Any) -> dict[str, Any]:
    """Returns what describes a header, or a parameter that must be given."""
    return {"description": text, "required": True, "schema": {"type": "string"} | schema}


_NAMED = ("queue", "topic", "pool", "flavor")
_NAME = {"maxLength": rules.QUEUE_NAME_MAX, "pattern": rules.QUEUE_NAME_PATTERN}
_PROJECT = {"minLength": 1, "maxLength": rules.PROJECT_MAX}
_KEY = {"minLength": 1, "maxLength": rules.IDEMPOTENCY_KEY_MAX, "pattern": "^[!-~]+$"}
_REQUEST_ID = "^req-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_TELLS_APART = "tells clients apart, so that one does not list its own messages"
_CLIENT_IDS = {
    "strict": _value(
        f"A UUID that {_TELLS_APART}; the operator may allow other names.", format="uuid"
    ),
    "off": _value(
        f"A name, such as a UUID, that {_TELLS_APART}.",
        minLength="limits.min_length_client_id",
        maxLength="limits.max_length_client_id",
    ),
}
_PARAMETERS = {
    "X-Project-ID": _value(
        "The project; `X-Tenant-ID` and `X-Tenant` are understood in its place.", **_PROJECT
    ),
    "Idempotency-Key": _value(
        "A new name for each post: when it comes again within the queue's `_idempotency_window`, "
        "nothing is posted, and the first answer is given.",
        **_KEY,
    )
    | {"required": False},
}
_HEADERS = {
    "X-OpenStack-Request-ID": _value("Names the request; clients may log it.", pattern=_REQUEST_ID),
    "Retry-After": _value("Seconds after which to try again.", type="integer", minimum=0),
    "Ignored": _value(f"Names in the request that have no effect, at most {ignored.NAMES_MAX}.")
    | {"required": False},
}
_SIGNED = {"type": "apiKey", "in": "header", "name": "URL-Signature"} | {
    "description": "Opens what `share` signed, and what is below it.  `URL-Signature`, "
    "`URL-Expires`, `URL-Methods`, `URL-Paths` (lists with commas) and `X-Project-ID` carry it."
}
_CREDENTIALS: dict[str, dict[str, str]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An access key, as `id.secret`, or a JSON Web Token.",
    },
    "basic": {"type": "http", "scheme": "basic", "description": "An access key: id and secret."},
    "keystone": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Auth-Token",
        "description": "A token of Keystone.",
    },
}
#: Stands for all types that a message may have.
_OCTETS = "application/octet-stream"
_ALWAYS = (errors.BadRequest, errors.BadSignature, errors.NotAcceptable)


def with_description(routes: Sequence[ApiRoute], limits: rules.Limits) -> list[ApiRoute]:
    """Returns the routes, and one more that serves the description of them all."""

    @functools.cache
    def text() -> bytes:
        return document(described, limits)

    async def describe_api(request: Request[None, None]) -> Answer:
        """Describes the API in OpenAPI 3.1, with the limits of this service."""
        return Answer(text())

    route = ("GET", "/openapi.json", describe_api, "service:openapi")
    answers = {200: dict[str, Any]}
    described = (*routes, ApiRoute(*route, answers=answers, public=True, needs_store=False))
    return list(described)


def document(routes: Sequence[ApiRoute], limits: rules.Limits) -> bytes:
    """Returns the description of *routes* without sockets, in JSON."""
    routes = [route for route in routes if route.websocket is None]
    kinds = [ProblemOut, *(kind for route in routes for kind in _kinds(route))]
    found, schemas = schema_components(kinds, ref_template="#/components/schemas/{name}")
    shapes = dict(zip(kinds, found, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, shapes)
    parameters = _PARAMETERS | {"Client-ID": _CLIENT_IDS[limits.client_id_uuid_safe]}
    described = {
        "openapi": "3.1.0",
        "info": {"title": "zaqar-redis", "version": "2", "description": _ABOUT},
        "security": [{}, *({name: []} for name in _CREDENTIALS)],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "headers": _HEADERS,
            "parameters": {
                name: {"name": name, "in": "header"} | each for name, each in parameters.items()
            },
            "securitySchemes": {"presignedUrl": _SIGNED, **_CREDENTIALS},
        },
    }
    return with_limits(msgspec.json.encode(described), limits)


def with_limits(text: bytes, limits: rules.Limits) -> bytes:
    """Returns schemas in JSON with the operator's limits in the place of their names."""
    # A number where a string is nothing but the name.
    return re.sub(
        rb'(")?limits\.(\w+)(?(1)")', lambda found: b"%d" % getattr(limits, found[2].decode()), text
    )


def _kinds(route: ApiRoute) -> Iterator[Any]:
    """Yields the kinds of all documents of a route."""
    if route.body is not None:
        yield route.body.kind
    for status in route.answers:
        yield from _answered(route, status)


def _answered(route: ApiRoute, status: int) -> tuple[Any, ...]:
    kind = route.answers.get(status, ())
    return kind if isinstance(kind, tuple) else () if kind is None else (kind,)


def _operation(route: ApiRoute, shapes: dict[Any, Any]) -> dict[str, Any]:
    summary, _, text = inspect.cleandoc(route.handler.__doc__ or "").partition("\n")
    name = re.sub(r".*<locals>\.|Handlers", "", route.handler.__qualname__)
    if "{topic}" in route.path and not name.startswith("Topic"):
        name = f"topic_{name}"  # the handlers of queues
    tag = route.action.partition(":")[0]
    raw_query = route.body.raw_query if route.body else None
    operation = {
        "operationId": "head_" * (route.method == "HEAD") + name.replace(".", "_").lower(),
        "tags": [tag],
        "summary": summary.rstrip("."),
        "description": text.strip(),
        "parameters": [*_parameters(route), *_query_parameters(route.query or raw_query)],
        "responses": dict(_responses(route, shapes)),
    }
    if tag in ("messages", "claims", "subscription"):  # what a pre-signed URL may open
        operation["security"] = [
            *({name: []} for name in ("presignedUrl", *_CREDENTIALS)),
            {},
        ]
    if (body := route.body) is not None:
        content: dict[str, Any] = {body.media_type: {"schema": shapes[body.kind]}}
        if body.raw_query is not None:
            content[_OCTETS] = {}
        operation["requestBody"] = {
            "description": f"{body.size_max} bytes at most.",
            "required": body.default is None,
            "content": content,
        }
    return operation


def _parameters(route: ApiRoute) -> Iterator[dict[str, Any]]:
    names = [] if route.public else ["Client-ID", "X-Project-ID"]
    if errors.IdempotencyKeyReused in route.problems:
        names.append("Idempotency-Key")
    for name in names:
        yield {"$ref": f"#/components/parameters/{name}"}
    for name in re.findall(r"{(\w+)}", route.path):
        kind, schema = ("Name", _NAME) if name in _NAMED else ("Id", {"minLength": 1})
        yield {"name": name, "in": "path"} | _value(f"{kind} of the {name}.", **schema)


def _query_parameters(query: type[msgspec.Struct] | None) -> Iterator[dict[str, Any]]:
    if query is None:
        return
    [found] = schema_components((query,))[1].values()
    for name, field in found["properties"].items():
        del field["default"]
        shape = field.pop("anyOf", [{}])[0] | field  # the other kind is null: it is not given
        parameter = {"name": name, "in": "query", "description": shape.pop("description")}
        explode = {"explode": False} if shape["type"] == "array" else {}
        yield parameter | explode | {"schema": shape}


def _responses(route: ApiRoute, shapes: dict[Any, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    problems: list[type[errors.Problem]] = [*route.problems, *_ALWAYS]
    if not route.public:
        problems += (errors.Unauthenticated, errors.Forbidden, errors.TooManyRequests)
    if route.body is not None:
        problems.append(errors.UnsupportedContentCoding)
    if route.needs_store:
        problems.append(errors.Unavailable)
        if route.method not in ("GET", "HEAD", "DELETE"):
            problems.append(errors.StoreFull)
    for status in sorted({*route.answers, *(each.status for each in problems)}):
        kinds = _answered(route, status)
        texts = [
            inspect.cleandoc(each.__doc__ or each.message).replace("\n", " ")
            for each in problems
            if each.status == status
        ]
        if texts:
            kinds = (*kinds, ProblemOut)
        response = {
            "description": " Or: ".join(texts) or HTTPStatus(status).phrase,
            "headers": _headers(route, status),
        }
        if kinds and route.method != "HEAD":
            one_of = [shapes[kind] for kind in kinds]
            schema = {"anyOf": one_of} if len(one_of) > 1 else one_of[0]
            others: dict[str, Any] = {"*/*": {}} if route.is_raw and status == 200 else {}
            response["content"] = {JSON if texts else route.media_type: {"schema": schema}} | others
        yield str(status), response


def _headers(route: ApiRoute, status: int) -> dict[str, Any]:
    names = ["X-OpenStack-Request-ID", *(["Retry-After"] if status in (429, 503, 507) else [])]
    headers: dict[str, Any] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    if status == 201 or (route.method, status) == ("PUT", 204):
        pattern = re.sub(r"{\w+}", "[^/]+", f"^{route.path}")
        end = "$" * (route.method == "PUT")
        headers["Location"] = _value("Where it is.", pattern=pattern + end)
    if status < 400 and route.checked:
        headers["Ignored"] = {"$ref": "#/components/headers/Ignored"}
    if status < 400:
        for name, text in route.headers.items():
            headers[name] = _value(text) | {"required": False}
    return headers
