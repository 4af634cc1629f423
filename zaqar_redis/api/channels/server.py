# SPDX-License-Identifier: Apache-2.0
"""``POST /api/<method>``: the server API, for backends and operators with a key."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Iterator
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Raw, Struct

from zaqar_redis import errors, rules
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.channels.origins import AllowedOrigins
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.queries import QueryReader
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.auth.access import Access
from zaqar_redis.auth.identity import ADMIN, API_KEY, NONE, Identity, with_implied
from zaqar_redis.auth.strategy import project_header
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

#: `Request.calls`, in their order
_Calls = dict[tuple[str, str, int], None]

LOG = logging.getLogger(__name__)


class ServerApiSettings(Struct, frozen=True, rename=lambda field: f"api_{field}"):
    key: Annotated[
        str | None,
        rules.SECRET,
        "Key with which backends and operators use /api of every project; they may use "
        "credentials of [auth] strategy, too. Without it, and with strategy none, /api refuses "
        "all requests.",
    ] = None
    insecure: Annotated[bool, "Allow /api without a key; for development only."] = False


class _LegacyRequest(Struct):
    """A request in Centrifugo's older form."""

    method: str = ""
    params: Raw = Raw(b"{}")


class _KeyQuery(Struct, frozen=True):
    api_key: str = ""


_read_query = QueryReader(_KeyQuery).read


#: Who has the key: an administrator of every project.
_KEY_HOLDER = Identity("", "api_key", with_implied(frozenset((ADMIN,))), strategy=API_KEY)


class ServerApiChecks:
    """Checks who calls the server API, and whether that is allowed.

    A caller has the key, or a credential of the service's strategies.  When insecure, everybody
    counts as a caller with the key, but pages of other origins.
    """

    def __init__(
        self, settings: ServerApiSettings, origins: AllowedOrigins, access: Access, project: str
    ) -> None:
        """*project*: of calls that name none by callers that belong to none."""
        self._settings = settings
        self._origins = origins
        self._authenticator = access.authenticator
        self._policy = access.policy
        self._project = project
        self._challenge = ", ".join(filter(None, ("ApiKey", self._authenticator.challenge)))

    def admit(self, request: Request[Any, Any], action: str) -> Awaitable[None] | None:
        """Sets identity and project of a request, and asks the policy: a `Guard`.

        Raises Unauthenticated, Forbidden, Unavailable and BadQueue, and so does what is awaited.
        """
        if self._settings.insecure:
            # Else any page open in the operator's browser could call the API.
            self._origins.check(request.headers)
            self._authorize(_KEY_HOLDER, request, action)
            return None
        key = _given_key(request)
        if key:
            self._check_key(key)
            self._authorize(_KEY_HOLDER, request, action)
            return None
        found = self._authenticator.identify(request)
        if type(found) is not Identity:
            return self._admit_later(found, request, action)
        self._authorize(found, request, action)
        return None

    def authorize(self, request: Request[Any, Any], action: str, resource: str | None) -> None:
        """Raises Forbidden unless who sends the request may do this in its project.

        *resource*: None: whether they may do it to any.
        """
        self._policy.authorize(request.identity, action, request.project, resource)

    def allowed(self, request: Request[Any, Any]) -> list[str]:
        """Returns the rules by which who sends the request may act on something in its project."""

        def is_allowed(action: str) -> bool:
            try:
                self.authorize(request, action, None)
            except errors.Forbidden:
                return False
            return True

        return sorted(name for name in self._policy.rules if ":" in name and is_allowed(name))

    def _check_key(self, given: str) -> None:
        key = self._settings.key
        if not key or not hmac.compare_digest(given.encode(), key.encode()):
            raise self._unauthenticated("The API key is not valid.")

    async def _admit_later(self, found: Any, request: Request[Any, Any], action: str) -> None:
        self._authorize(await found, request, action)

    def _authorize(self, identity: Identity, request: Request[Any, Any], action: str) -> None:
        if identity.strategy == NONE:
            raise self._unauthenticated("The request has neither an API key nor a credential.")
        named = project_header(request.headers) or b""
        project = named.decode("latin-1") or identity.project or self._project
        request.identity = identity
        request.project = rules.project_id(project)
        request.is_foreign = identity.is_foreign_to(request.project)
        self._policy.authorize(identity, action, request.project, None)

    def _unauthenticated(self, why: str) -> errors.Unauthenticated:
        return errors.Unauthenticated(why=why, challenge=self._challenge)


def _given_key(request: Request[Any, Any]) -> str:
    kind, _, given = (request.header(b"authorization") or "").partition(" ")
    return (
        request.header(b"x-api-key")
        or (given.strip() if kind.lower() == "apikey" else "")
        or (_read_query(request.query_string).api_key if request.query_string else "")
    )


class ServerApi(ComposedVerbs):
    def __init__(self, node: Node, project: str, checks: ServerApiChecks) -> None:
        self._node = node
        self._context = ProjectContext(node, project)
        self._checks = checks

    def routes(self) -> Iterator[ApiRoute]:
        row = partial(ApiRoute, "POST", public=True, checked=False, guard=self._checks.admit)
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
        document = request.document
        return await self._call(document.method, request, document.params, is_named=False)

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
