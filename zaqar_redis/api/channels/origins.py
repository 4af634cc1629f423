# SPDX-License-Identifier: Apache-2.0
"""Origins of web pages that may connect, and the CORS headers that browsers require."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import Any

from zaqar_redis import errors
from zaqar_redis.api.channels.exchange import Exchange, Headers, Receive, RequestRejected, Send

#: Seconds for which a browser caches a preflight: else it sends one before every command.
_PREFLIGHT_MAX_AGE = b"600"


class AllowedOrigins:
    def __init__(self, globs: tuple[str, ...]) -> None:
        self._globs = globs

    def allow(self, origin: str, host: str) -> bool:
        """Returns whether a page of *origin* may connect: one of *host* itself, as the console, or
        one that a glob matches.  A client without an origin is no page, and may."""
        return (
            not origin
            or origin.partition("://")[2] == host
            or any(fnmatchcase(origin, glob) for glob in self._globs)
        )


class CorsHandler:
    """A handler for some methods of HTTP, with CORS for pages of the allowed origins."""

    def __init__(
        self,
        origins: AllowedOrigins,
        methods: tuple[str, ...],
        handler: Callable[[Exchange], Awaitable[None]],
    ) -> None:
        self._origins = origins
        self._methods = methods
        self._handler = handler

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        origin = exchange.header(b"origin")
        if not self._origins.allow(origin, exchange.header(b"host")):
            await exchange.respond(403)
            return
        exchange.headers = _cors_headers(origin) if origin else []
        method = scope["method"]
        if method == "OPTIONS":
            await exchange.respond(204, self._preflight_headers(exchange))
        elif method not in self._methods:
            allowed = ", ".join((*self._methods, "OPTIONS")).encode()
            await exchange.respond(405, [(b"allow", allowed)])
        else:
            await self._handle(exchange)

    async def _handle(self, exchange: Exchange) -> None:
        try:
            await self._handler(exchange)
        except RequestRejected as refusal:
            await exchange.respond(refusal.status)
        except errors.Unavailable:
            await exchange.respond(503)

    def _preflight_headers(self, exchange: Exchange) -> Headers:
        requested = exchange.header(b"access-control-request-headers")
        return [
            (b"access-control-allow-methods", ", ".join(self._methods).encode()),
            (b"access-control-allow-headers", requested.encode("latin-1")),
            (b"access-control-max-age", _PREFLIGHT_MAX_AGE),
        ]


def _cors_headers(origin: str) -> Headers:
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-credentials", b"true"),
        (b"vary", b"Origin"),
    ]
