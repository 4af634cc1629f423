# SPDX-License-Identifier: Apache-2.0
"""Which web pages may come, and what their browsers want to hear before they let them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import Any

from zaqar_redis import errors
from zaqar_redis.api.channels.exchange import Exchange, Headers, Receive, Refusal, Send

#: Seconds for which a browser need not ask again: else it asks before every command.
_ASK_AGAIN = b"600"


class Origins:
    def __init__(self, globs: tuple[str, ...]) -> None:
        self._globs = globs

    def allow(self, origin: str, host: str) -> bool:
        """Pages of others must be named; one without an origin is none, nor is one that *host*
        itself has served, as the console."""
        return (
            not origin
            or origin.partition("://")[2] == host
            or any(fnmatchcase(origin, glob) for glob in self._globs)
        )


class CrossOrigin:
    """A handler for some methods of HTTP, open to pages of the origins allowed."""

    def __init__(
        self,
        origins: Origins,
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
            await exchange.answer(403)
            return
        exchange.headers = _shared(origin) if origin else []
        method = scope["method"]
        if method == "OPTIONS":
            await exchange.answer(204, self._allowed(exchange))
        elif method not in self._methods:
            allowed = ", ".join((*self._methods, "OPTIONS")).encode()
            await exchange.answer(405, [(b"allow", allowed)])
        else:
            await self._handled(exchange)

    async def _handled(self, exchange: Exchange) -> None:
        try:
            await self._handler(exchange)
        except Refusal as refusal:
            await exchange.answer(refusal.status)
        except errors.Unavailable:
            await exchange.answer(503)

    def _allowed(self, exchange: Exchange) -> Headers:
        asked = exchange.header(b"access-control-request-headers")
        return [
            (b"access-control-allow-methods", ", ".join(self._methods).encode()),
            (b"access-control-allow-headers", asked.encode("latin-1")),
            (b"access-control-max-age", _ASK_AGAIN),
        ]


def _shared(origin: str) -> Headers:
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-credentials", b"true"),
        (b"vary", b"Origin"),
    ]
