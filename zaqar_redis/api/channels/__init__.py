# SPDX-License-Identifier: Apache-2.0
"""The doors of channels: what SDKs connect to, and what backends call."""

from __future__ import annotations

from typing import Any

import falcon.asgi
import msgspec

from zaqar_redis.api import problems
from zaqar_redis.api.channels import server
from zaqar_redis.api.channels.websocket import PATH, Receive, Send, WebSocket
from zaqar_redis.auth import tokens
from zaqar_redis.realtime import world
from zaqar_redis.realtime.engine import Engine
from zaqar_redis.realtime.namespaces import Namespaces
from zaqar_redis.realtime.node import Node
from zaqar_redis.realtime.queues import Queues

#: First parts of the paths that are theirs.
_OURS = frozenset(("api", "connection"))


class Settings(msgspec.Struct, frozen=True):
    namespaces: Namespaces
    tokens: tokens.Settings
    session: world.Settings
    #: globs of the origins of pages that may connect
    allowed_origins: tuple[str, ...]
    project: str
    server: server.Settings = server.Settings()
    #: whether clients connect; a command's node has none
    serves: bool = True


class Channels:
    """What clients and backends reach, over one engine."""

    def __init__(self, engine: Engine, settings: Settings, queues: Queues | None = None) -> None:
        """*queues* that are channels too."""
        self.node = Node(
            engine,
            settings.session,
            settings.namespaces,
            tokens.Verifier(settings.tokens),
            queues=queues,
            serves=settings.serves,
        )
        self._websocket = WebSocket(self.node, settings.allowed_origins, settings.project)
        self._http: falcon.asgi.App[Any, Any] = falcon.asgi.App()
        problems.install(self._http)
        api = server.ServerApi(self.node, server.Guard(settings.server), settings.project)
        self._http.add_route("/api", api)
        self._http.add_route("/api/{method}", api)

    async def start(self) -> None:
        await self.node.start()

    async def close(self) -> None:
        await self.node.close()

    def has(self, path: str) -> bool:
        """Whether requests for it are to come here."""
        return path.lstrip("/").partition("/")[0] in _OURS

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["path"] == PATH:
            await self._websocket(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close"})
