# SPDX-License-Identifier: Apache-2.0
"""``POST /api/<method>``: backends and operators, who show a key."""

from __future__ import annotations

import hmac
import logging
from typing import Any

import falcon.asgi
import msgspec
from msgspec import Raw, Struct

from zaqar_redis import errors, rules
from zaqar_redis.api.channels.origins import Origins
from zaqar_redis.realtime import codes
from zaqar_redis.realtime.codes import Refused
from zaqar_redis.realtime.node import Node
from zaqar_redis.realtime.scope import Scope
from zaqar_redis.service.channels import METHODS, Channels, fault

#: Bytes of a request: ten thousand channels of a broadcast, with long names.
_BODY_MAX = 4 * 1024 * 1024
#: With it errors are told by the status as well.
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


class Settings(Struct, frozen=True):
    #: empty: nobody has one
    key: str = ""
    #: whoever comes may do everything
    insecure: bool = False


class _Old(Struct):
    """The older form of a request."""

    method: str = ""
    params: Raw = Raw(b"{}")


_old = msgspec.json.Decoder(_Old)
_whole = msgspec.json.Decoder(Raw)


class Guard:
    """Lets those in who show the key; where none is asked for, no pages of others."""

    def __init__(self, settings: Settings, origins: Origins) -> None:
        self._settings = settings
        self._origins = origins

    def check(self, req: falcon.asgi.Request) -> None:
        """Raises HTTPStatus 401 without a word, and HTTPForbidden."""
        if self._settings.insecure:
            # Else any page that the operator looks at could use the operator's browser for it.
            if not self._origins.allow(
                req.get_header("Origin") or "", req.get_header("Host") or ""
            ):
                raise falcon.HTTPForbidden(description="pages of this origin may not do that")
            return
        kind, _, given = (req.get_header("Authorization") or "").partition(" ")
        shown = (
            req.get_header("X-API-Key")
            or (given.strip() if kind.lower() == "apikey" else "")
            or req.get_param("api_key")
            or ""
        )
        key = self._settings.key
        if not key or not hmac.compare_digest(shown.encode(), key.encode()):
            raise falcon.HTTPStatus(401)


class ServerApi:
    def __init__(self, node: Node, guard: Guard, project: str) -> None:
        self._guard = guard
        self._project = project
        self._scope = Scope(node, project)

    async def on_post(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, method: str = ""
    ) -> None:
        if method and method not in METHODS:
            raise falcon.HTTPNotFound(description=f"the methods are {', '.join(METHODS)}")
        self._guard.check(req)
        body = await _read(req)
        project = rules.project_id(req.get_header("X-Project-ID") or self._project)
        channels = Channels(self._scope.of(project))
        try:
            if not method:
                old = _old.decode(body)
                method, body = old.method, bytes(old.params)
            _whole.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise falcon.HTTPBadRequest(description=str(error)) from error
        resp.content_type = falcon.MEDIA_JSON
        answer = await _answer(channels, method, body)
        if "error" in answer and req.get_header(_ERROR_MODE) == "transport":
            resp.status = _STATUS.get(answer["error"].code, 500)
        resp.data = _encode(answer)


async def _answer(channels: Channels, method: str, body: bytes) -> dict[str, Any]:
    try:
        result = await channels.call(method, body)
    except (Refused, errors.Unavailable) as error:
        return {"error": fault(error)}
    except Exception:  # a bug: callers are told in the form that they read
        LOG.exception("the method %s failed", method, extra={"action": "bug"})
        return {"error": fault(Refused(codes.INTERNAL))}
    # Replies of a batch have no result around them.
    return msgspec.structs.asdict(result) if method == "batch" else {"result": result}


async def _read(req: falcon.asgi.Request) -> bytes:
    body = await req.stream.read(_BODY_MAX + 1)
    if len(body) > _BODY_MAX:
        raise falcon.HTTPContentTooLarge(description=f"a request has at most {_BODY_MAX} bytes")
    return body or b"{}"
