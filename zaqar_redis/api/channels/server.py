# SPDX-License-Identifier: Apache-2.0
"""``POST /api/<method>``: the server API, for backends and operators with a key.

``GET /console/channels``: the same list with rates, for the console and for commands.
"""

from __future__ import annotations

import glob
import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from zaqar_redis import errors
from zaqar_redis.api.api_key import ApiKeyChecks
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.console import answers
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.project_context import ProjectContext
from zaqar_redis.realtime.protocol import codes
from zaqar_redis.realtime.protocol.codes import CommandRejected
from zaqar_redis.service.channels import METHODS, ChannelService, api_error, resource

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

#: `Request.calls`, in their order
_Calls = dict[tuple[str, str, int], None]

LOG = logging.getLogger(__name__)


class _LegacyRequest(Struct):
    """A request in Centrifugo's older form."""

    method: str = ""
    params: Raw = Raw(b"{}")


class ChannelsQuery(Struct, frozen=True, kw_only=True):
    #: a name
    channel: str | None = None
    #: a glob
    pattern: str | None = None


class ServerApi(ComposedVerbs):
    def __init__(self, node: Node, project: str, checks: ApiKeyChecks) -> None:
        self._node = node
        self._context = ProjectContext(node, project)
        self._checks = checks

    def routes(self) -> Iterator[ApiRoute]:
        row = self._checks.route
        body = partial(Body, size_max=_BODY_MAX, error=errors.ContentTooLarge)
        legacy = body(_LegacyRequest, "A call", default=_LegacyRequest())
        params = body(Raw, "Parameters", default=Raw(b"{}"))
        yield row("POST", "/api", self.call_legacy, "channels:call", body=legacy)
        for method in METHODS:
            call = f"/api/{method}", partial(self.call, method), f"channels:{method}"
            yield row("POST", *call, body=params, hot=True)
        # Of no other segment: Falcon prefers the literal ones.
        unknown = "/api/{method}", self.refuse
        yield ApiRoute("POST", *unknown, "channels:call", public=True, checked=False)
        listing = "/console/channels", self.list_channels, "channels:channels"
        yield row("GET", *listing, query=ChannelsQuery)

    @verb
    def call(self, method: str, request: Request[None, Raw]) -> Steps[Answer]:
        """Calls a method of the server API."""
        # Some callers leave at once: what has begun is done all the same.
        answer: Answer = yield self._node.finish(self._call(method, request, request.document))
        return answer

    async def call_legacy(self, request: Request[None, _LegacyRequest]) -> Answer:
        """Calls the method that the document names: Centrifugo's older form."""
        document = request.document
        return await self._call(document.method, request, document.params, is_named=False)

    async def list_channels(self, request: Request[ChannelsQuery, None]) -> Answer:
        """Channels with subscribers, and how many publications a second each of them has."""
        channel, pattern = request.query.channel or "", request.query.pattern or ""
        authorize = partial(self._checks.authorize, request)
        authorize("channels:channels", resource(channel))
        channels = ChannelService(self._context.for_project(request.project), authorize)
        found = await channels.figures(glob.escape(channel) or pattern)
        return answers.answer({"channels": found})

    async def refuse(self, request: Request[None, None], method: str) -> Answer:
        """Refuses a method that does not exist.  Raises NotFound."""
        names = ", ".join(METHODS)
        raise errors.NotFound(why=f"There is no method {method}; the methods are {names}.")

    async def _call(
        self, method: str, request: Request[None, Any], params: Raw, *, is_named: bool = True
    ) -> Answer:
        """*is_named*: the path says which method it is, so that the audit log has it."""
        authorize = partial(self._checks.authorize, request)
        if method == "batch" or not is_named:
            calls: _Calls = {}
            request.calls = calls
            authorize = partial(self._authorize_call, request, calls)
        channels = ChannelService(self._context.for_project(request.project), authorize)
        answer = await _answer(channels, method, params)
        status = 200
        if "error" in answer and request.header(_ERROR_MODE) == "transport":
            status = _STATUS.get(answer["error"].code, 500)
        return Answer(msgspec.json.encode(answer), status)

    def _authorize_call(
        self, request: Request[Any, Any], calls: _Calls, action: str, resource: str
    ) -> None:
        """Authorizes a call that stands in the body, and notes it for the audit log."""
        status = 200
        try:
            self._checks.authorize(request, action, resource)
        except errors.Forbidden:
            status = 403
            raise
        finally:
            calls[action, f"/api/{action.partition(':')[2]}", status] = None


async def _answer(channels: ChannelService, method: str, params: Raw) -> dict[str, Any]:
    try:
        result = await channels.call(method, params)
    except (CommandRejected, errors.Unavailable) as error:
        return {"error": api_error(error)}
    except errors.Forbidden:
        raise
    except Exception:  # a bug: answered in the format that callers read
        LOG.exception("the method %s failed", method, extra={"action": "bug"})
        return {"error": api_error(CommandRejected(codes.INTERNAL))}
    # Replies of a batch have no result around them.
    return msgspec.structs.asdict(result) if method == "batch" else {"result": result}
