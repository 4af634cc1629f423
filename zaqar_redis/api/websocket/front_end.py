# SPDX-License-Identifier: Apache-2.0
"""The endpoint of the WebSocket API."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any

from msgspec import Struct

from zaqar_redis.api.access_log import peer_of
from zaqar_redis.api.exchange import Receive, Send, require_upgrade
from zaqar_redis.api.origins import AllowedOrigins
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.api.server.outbox import FlushScheduler, Outbox
from zaqar_redis.api.server.sockets import FRAMES, WebSocketProtocol
from zaqar_redis.api.websocket.connection import ApiConnection, ConnectionContext
from zaqar_redis.realtime.protocol import codes
from zaqar_redis.realtime.session import disconnects

LOG = logging.getLogger(__name__)

PATH = "/v2/ws"


class WebSocketSettings(Struct, frozen=True):
    allowed_origins: Annotated[
        tuple[str, ...],
        "Globs; connections to the WebSocket API from web pages of other origins are refused.",
    ] = ()


class WebSocketApi:
    def __init__(
        self, context: ConnectionContext, settings: WebSocketSettings, read_timeout: float
    ) -> None:
        """*read_timeout*: seconds; a client that reads no answer for as long is cut off, and one
        that has sent no request that was let through after as long is closed.
        """
        self._context = context
        self._origins = AllowedOrigins(settings.allowed_origins)
        self._read_timeout = read_timeout
        self._scheduler = FlushScheduler()
        #: sockets that are open
        self.open = 0
        self.route = ApiRoute(
            "GET",
            PATH,
            require_upgrade,
            "websocket:connect",
            public=True,
            checked=False,
            websocket=self,
        )

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        await receive()
        if not await self._origins.admits(scope, send):
            return
        socket: WebSocketProtocol = scope["extensions"][FRAMES]
        socket.enable_pings()
        await send({"type": "websocket.accept"})
        self.open += 1
        out = Outbox(socket, b"".join, self._scheduler)
        connection = ApiConnection(self._context, out)
        loop = asyncio.get_running_loop()
        closing = loop.call_later(self._read_timeout, connection.close_unless_known)
        try:
            while (event := await receive())["type"] == "websocket.receive":
                frame = event.get("bytes")
                if frame is None:
                    await connection.receive(event["text"].encode(), binary=False)
                else:
                    await connection.receive(frame, binary=True)
                async with asyncio.timeout(self._read_timeout):
                    # Nothing is read from it meanwhile. And others have their turn.
                    await socket.drain()
                    await asyncio.sleep(0)
        except TimeoutError:
            out.close(codes.CONNECTION_CLOSED)
        finally:
            address = peer_of(scope.get("client"))
            disconnects.log(out.ended, address, "WebSocket API", connection.user)
            self.open -= 1
            closing.cancel()
            await connection.end()
