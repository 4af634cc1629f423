# SPDX-License-Identifier: Apache-2.0
"""``POST /api/<method>``: the server API, for backends and operators with a key."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import falcon
import msgspec
from msgspec import Raw, Struct

from zaqar_redis import errors, rules
from zaqar_redis.api.channels.origins import AllowedOrigins
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.queries import QueryReader
from zaqar_redis.api.routes import ApiRoute, Body, Guard
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.project_context import ProjectContext
from zaqar_redis.realtime.protocol import codes
from zaqar_redis.realtime.protocol.codes import CommandRejected
from zaqar_redis.service.channels import METHODS, ChannelService, api_error

#: Bytes of a request: ten thousand channels of a broadcast, with long names.
_BODY_MAX = 4 * 1024 * 1024
#: Header of requests that want errors in the HTTP status as well.
_ERROR_MODE = b"x-centrifugo-error-mode"
_STATUS = {
    codes.INTERNAL.code: 500,
    codes.UNKNOWN_CHANNEL.code: 404,
    codes.NOT_FOUND.code: 404,
    codes.BAD_REQUEST.code: 400,
    codes.NOT_AVAILABLE.code: 400,
    codes.UNRECOVERABLE.code: 416,
}

LOG = logging.getLogger(__name__)


class ServerApiSettings(Struct, frozen=True, rename=lambda field: f"api_{field}"):
    key: Annotated[
        str | None,
        rules.SECRET,
        "Key that backends and operators need to use /api; without a key, /api refuses all "
        "requests.",
    ] = None
    insecure: Annotated[bool, "Allow /api without a key; for development only."] = False


class _LegacyRequest(Struct):
    """A request in Centrifugo's older form."""

    method: str = ""
    params: Raw = Raw(b"{}")


class _KeyQuery(Struct, frozen=True):
    api_key: str = ""


_read_query = QueryReader(_KeyQuery).read


class ApiKeyAuth:
    """Accepts requests with the key; when insecure, all but pages of other origins."""

    def __init__(self, settings: ServerApiSettings, origins: AllowedOrigins) -> None:
        self._settings = settings
        self._origins = origins

    def check(self, request: Request[Any, Any]) -> None:
        """Raises HTTPStatus 401, without a body, and Forbidden."""
        if self._settings.insecure:
            # Else any page open in the operator's browser could call the API.
            self._origins.check(request.headers)
            return
        kind, _, given = (request.header(b"authorization") or "").partition(" ")
        key_given = (
            request.header(b"x-api-key")
            or (given.strip() if kind.lower() == "apikey" else "")
            or _read_query(request.query_string).api_key
        )
        key = self._settings.key
        if not key or not hmac.compare_digest(key_given.encode(), key.encode()):
            raise falcon.HTTPStatus(401)


class ServerApi(ComposedVerbs):
    def __init__(self, node: Node, project: str) -> None:
        self._node = node
        self._project = project
        self._context = ProjectContext(node, project)

    def routes(self, guard: Guard) -> Iterator[ApiRoute]:
        row = partial(ApiRoute, "POST", public=True, checked=False, guard=guard)
        body = partial(Body, size_max=_BODY_MAX, error=errors.ContentTooLarge)
        legacy = body(_LegacyRequest, "A call", default=_LegacyRequest())
        params = body(Raw, "Parameters", default=Raw(b"{}"))
        yield row("/api", self.call_legacy, "channels:call", body=legacy)
        for method in METHODS:
            call = partial(self.call, method)
            yield row(f"/api/{method}", call, f"channels:{method}", body=params, hot=True)
        # Of no other segment: Falcon prefers the literal ones.
        unknown = "/api/{method}", self.refuse
        yield ApiRoute("POST", *unknown, "channels:call", public=True, checked=False)

    @verb
    def call(self, method: str, request: Request[None, Raw]) -> Steps[Answer]:
        """Calls a method of the server API."""
        # Some callers leave at once: what has begun is done all the same.
        answer: Answer = yield self._node.finish(self._call(method, request, request.document))
        return answer

    async def call_legacy(self, request: Request[None, _LegacyRequest]) -> Answer:
        """Calls the method that the document names: Centrifugo's older form."""
        return await self._call(request.document.method, request, request.document.params)

    async def refuse(self, request: Request[None, None], method: str) -> Answer:
        """Refuses a method that does not exist.  Raises NotFound."""
        names = ", ".join(METHODS)
        raise errors.NotFound(why=f"There is no method {method}; the methods are {names}.")

    async def _call(self, method: str, request: Request[None, Any], params: Raw) -> Answer:
        project = rules.project_id(request.header(b"x-project-id") or self._project)
        channels = ChannelService(self._context.for_project(project))
        answer = await _answer(channels, method, params)
        status = 200
        if "error" in answer and request.header(_ERROR_MODE) == "transport":
            status = _STATUS.get(answer["error"].code, 500)
        return Answer(msgspec.json.encode(answer), status)


async def _answer(channels: ChannelService, method: str, params: Raw) -> dict[str, Any]:
    try:
        result = await channels.call(method, params)
    except (CommandRejected, errors.Unavailable) as error:
        return {"error": api_error(error)}
    except Exception:  # a bug: answered in the format that callers read
        LOG.exception("the method %s failed", method, extra={"action": "bug"})
        return {"error": api_error(CommandRejected(codes.INTERNAL))}
    # Replies of a batch have no result around them.
    return msgspec.structs.asdict(result) if method == "batch" else {"result": result}
