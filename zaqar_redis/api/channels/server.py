# SPDX-License-Identifier: Apache-2.0
"""``POST /api/<method>``: the server API, for backends and operators with a key."""

from __future__ import annotations

import hmac
import logging
from typing import Annotated, Any

import falcon.asgi
import msgspec
from msgspec import Raw, Struct

from zaqar_redis import errors, rules
from zaqar_redis.api.channels.origins import AllowedOrigins
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.project_context import ProjectContext
from zaqar_redis.realtime.protocol import codes
from zaqar_redis.realtime.protocol.codes import CommandRejected
from zaqar_redis.service.channels import METHODS, ChannelService, api_error

#: Bytes of a request: ten thousand channels of a broadcast, with long names.
_BODY_MAX = 4 * 1024 * 1024
#: Header of requests that want errors in the HTTP status as well.
_ERROR_MODE = "X-Centrifugo-Error-Mode"
_STATUS = {
    codes.INTERNAL.code: 500,
    codes.UNKNOWN_CHANNEL.code: 404,
    codes.NOT_FOUND.code: 404,
    codes.BAD_REQUEST.code: 400,
    codes.NOT_AVAILABLE.code: 400,
    codes.UNRECOVERABLE.code: 416,
}

_encode = msgspec.json.encode

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


_legacy_decoder = msgspec.json.Decoder(_LegacyRequest)
_raw_decoder = msgspec.json.Decoder(Raw)


class ApiKeyAuth:
    """Accepts requests with the key; when insecure, all but pages of other origins."""

    def __init__(self, settings: ServerApiSettings, origins: AllowedOrigins) -> None:
        self._settings = settings
        self._origins = origins

    def check(self, req: falcon.asgi.Request) -> None:
        """Raises HTTPStatus 401, without a body, and HTTPForbidden."""
        if self._settings.insecure:
            # Else any page open in the operator's browser could call the API.
            if not self._origins.allow(
                req.get_header("Origin") or "", req.get_header("Host") or ""
            ):
                raise falcon.HTTPForbidden(description="pages of this origin may not do that")
            return
        kind, _, given = (req.get_header("Authorization") or "").partition(" ")
        key_given = (
            req.get_header("X-API-Key")
            or (given.strip() if kind.lower() == "apikey" else "")
            or req.get_param("api_key")
            or ""
        )
        key = self._settings.key
        if not key or not hmac.compare_digest(key_given.encode(), key.encode()):
            raise falcon.HTTPStatus(401)


class ServerApi:
    def __init__(self, node: Node, guard: ApiKeyAuth, project: str) -> None:
        self._guard = guard
        self._project = project
        self._context = ProjectContext(node, project)

    async def on_post(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, method: str = ""
    ) -> None:
        if method and method not in METHODS:
            raise falcon.HTTPNotFound(description=f"the methods are {', '.join(METHODS)}")
        self._guard.check(req)
        body = await _read(req)
        project = rules.project_id(req.get_header("X-Project-ID") or self._project)
        channels = ChannelService(self._context.for_project(project))
        try:
            if not method:
                legacy = _legacy_decoder.decode(body)
                method, body = legacy.method, bytes(legacy.params)
            _raw_decoder.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise falcon.HTTPBadRequest(description=str(error)) from error
        resp.content_type = falcon.MEDIA_JSON
        answer = await _answer(channels, method, body)
        if "error" in answer and req.get_header(_ERROR_MODE) == "transport":
            resp.status = _STATUS.get(answer["error"].code, 500)
        resp.data = _encode(answer)


async def _answer(channels: ChannelService, method: str, body: bytes) -> dict[str, Any]:
    try:
        result = await channels.call(method, body)
    except (CommandRejected, errors.Unavailable) as error:
        return {"error": api_error(error)}
    except Exception:  # a bug: answered in the format that callers read
        LOG.exception("the method %s failed", method, extra={"action": "bug"})
        return {"error": api_error(CommandRejected(codes.INTERNAL))}
    # Replies of a batch have no result around them.
    return msgspec.structs.asdict(result) if method == "batch" else {"result": result}


async def _read(req: falcon.asgi.Request) -> bytes:
    body = await req.stream.read(_BODY_MAX + 1)
    if len(body) > _BODY_MAX:
        raise falcon.HTTPContentTooLarge(description=f"a request has at most {_BODY_MAX} bytes")
    return body or b"{}"
