# SPDX-License-Identifier: Apache-2.0
"""The access log: a line for each request, and for each socket when it ends.

On the fast path, and for sockets, it is of classes beside those that log nothing, and chosen when a
worker starts: without it no request asks for it there.  Neither query strings nor headers are
logged, but for the Client-ID: they may have credentials.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from zaqar_redis.api.exchange import Receive, Request, Send

#: Its level is its own: that of the log says nothing about it.
LOG = logging.getLogger("zaqar_redis.access")


def write(
    method: str,
    path: str,
    status: int,
    seconds: float,
    *,
    peer: str,
    request: Request[Any, Any] | None = None,
    request_id: str = "",
) -> None:
    """Writes one line.

    *request*: None if nobody was asked who sends it.  *seconds*: until the answer was written, or
    the socket ended.
    """
    fields: dict[str, object] = {
        "action": "access",
        "method": method,
        "path": path,
        "status": status,
        "duration": round(seconds, 6),
        "peer": peer,
        "request_id": request_id,
    }
    if request is not None:
        fields |= {
            "project": request.project,
            "queue": request.queue,
            "user": request.identity.user,
            "client_id": request.client,
        }
    LOG.info("%s %s %d", method, path, status, extra=fields)


def peer_of(client: Any) -> str:
    return str(client[0]) if client else ""


class LoggingSockets:
    """The handler of a WebSocket, with an access log."""

    def __init__(self, serve: Any) -> None:
        self._serve = serve

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        started_at, status = time.monotonic(), 403  # API: what a socket gets that is refused

        async def note(event: Any) -> None:
            nonlocal status
            if event["type"] == "websocket.accept":
                status = 101
            elif event["type"] == "websocket.http.response.start":
                status = event["status"]
            await send(event)

        try:
            await self._serve(scope, receive, note)
        finally:
            seconds = time.monotonic() - started_at
            write("GET", scope["path"], status, seconds, peer=peer_of(scope.get("client")))
