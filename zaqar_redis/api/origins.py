# SPDX-License-Identifier: Apache-2.0
"""Origins of web pages that may connect, and CORS for them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import falcon

from zaqar_redis import errors
from zaqar_redis.api.exchange import Send
from zaqar_redis.api.resources import RouteResource

_FOREIGN = "Pages of this origin are not among allowed_origins."
#: Seconds for which a browser caches a preflight: else it sends one before every command.
_PREFLIGHT_MAX_AGE = "600"


class AllowedOrigins:
    def __init__(self, globs: tuple[str, ...]) -> None:
        self._globs = globs

    def check(self, headers: dict[bytes, bytes]) -> None:
        """Raises Forbidden for a page that may not connect.

        Those may that a glob matches, and pages of the service itself, as the console.  A
        client without an origin is no page, and may.
        """
        origin = headers.get(b"origin", b"").decode("latin-1")
        host = headers.get(b"host", b"").decode("latin-1")
        if (
            origin
            and origin.partition("://")[2] != host
            and not any(fnmatchcase(origin, glob) for glob in self._globs)
        ):
            raise errors.Forbidden(why=_FOREIGN)

    async def admits(self, scope: dict[str, Any], send: Send) -> bool:
        """Returns whether a handshake may go on; refuses it if not."""
        try:
            self.check(dict(scope["headers"]))
        except errors.Forbidden:
            await send({"type": "websocket.close"})  # before it was accepted: 403
            return False
        return True


class PageMiddleware(falcon.CORSMiddleware):  # type: ignore[type-arg]  # new in Falcon 4.3
    """CORS for routes that are for pages; requests of pages that may not connect are refused."""

    def __init__(self, origins: AllowedOrigins) -> None:
        super().__init__(allow_credentials="*")
        self._origins = origins

    async def process_resource(self, req: Any, resp: Any, resource: object, params: Any) -> None:
        if isinstance(resource, RouteResource) and resource.cors:
            self._origins.check(req.context.headers)
            req.context.cors = True

    def process_response(self, req: Any, resp: Any, resource: object, req_succeeded: bool) -> None:
        if "cors" in req.context:
            super().process_response(req, resp, resource, req_succeeded)
            resp.append_header("Vary", "Origin")
            if resp.get_header("Access-Control-Max-Age"):
                resp.set_header("Access-Control-Max-Age", _PREFLIGHT_MAX_AGE)
