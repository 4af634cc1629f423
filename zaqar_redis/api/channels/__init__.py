# SPDX-License-Identifier: Apache-2.0
"""The doors of channels: what SDKs connect to, and what backends call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import falcon.asgi
import msgspec

from zaqar_redis.api import problems
from zaqar_redis.api.channels import console, server, streams
from zaqar_redis.api.channels.emulation import Emulation
from zaqar_redis.api.channels.exchange import Exchange, Receive, Send
from zaqar_redis.api.channels.origins import CrossOrigin, Origins
from zaqar_redis.api.channels.outbox import Turn
from zaqar_redis.api.channels.streams import Streams
from zaqar_redis.api.channels.websocket import UniWebSocket, WebSocket
from zaqar_redis.auth import tickets, tokens
from zaqar_redis.realtime import world
from zaqar_redis.realtime.engine import Engine
from zaqar_redis.realtime.namespaces import Namespaces
from zaqar_redis.realtime.node import Node
from zaqar_redis.realtime.queues import Queues

#: First parts of the paths that are theirs.
_OURS = frozenset(("api", "connection", "emulation"))

Handler = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class Settings(msgspec.Struct, frozen=True):
    namespaces: Namespaces
    tokens: tokens.Settings
    session: world.Settings
    #: globs of the origins of pages that may connect
    allowed_origins: tuple[str, ...]
    project: str
    server: server.Settings = server.Settings()
    #: None: there is no web console
    console: console.Settings | None = None
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
            tickets.Verifier(settings.tokens, settings.console.secret if settings.console else b""),
            queues=queues,
            serves=settings.serves,
        )
        origins, turn = Origins(settings.allowed_origins), Turn()
        self._sockets = _sockets(self.node, origins, settings.project, turn)
        self._streams = _streams(self.node, origins, settings.project, turn)
        self._http: falcon.asgi.App[Any, Any] = falcon.asgi.App()
        problems.install(self._http)
        guard = server.Guard(settings.server, origins)
        api = server.ServerApi(self.node, guard, settings.project)
        self._http.add_route("/api", api)
        self._http.add_route("/api/{method}", api)
        self._paths = _OURS
        if settings.console is not None:
            self._paths |= {"console"}
            console.install(
                self._http, settings.console, guard, settings.namespaces, settings.project
            )

    async def start(self) -> None:
        await self.node.start()

    async def close(self) -> None:
        await self.node.close()

    async def ping(self) -> None:
        """Raises StoreUnavailable when a store of channels does not answer."""
        await self.node.engine.ping()

    def has(self, path: str) -> bool:
        """Whether requests for it are to come here."""
        return path.lstrip("/").partition("/")[0] in self._paths

    def leave(self) -> None:
        """The service is about to stop: connections end."""
        self.node.leave()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        path = scope["path"]
        if scope["type"] == "http":
            await self._streams.get(path, self._http)(scope, receive, send)
        else:
            await self._sockets.get(path, _nowhere)(scope, receive, send)


def _sockets(node: Node, origins: Origins, project: str, turn: Turn) -> dict[str, Handler]:
    return {
        "/connection/websocket": WebSocket(node, origins, project, turn),
        "/connection/uni_websocket": UniWebSocket(node, origins, project, turn),
    }


def _streams(node: Node, origins: Origins, project: str, turn: Turn) -> dict[str, Handler]:
    def stream(methods: tuple[str, ...], *kinds: streams.Kind) -> Handler:
        return CrossOrigin(origins, methods, Streams(node, project, turn, *kinds))

    post, both = ("POST",), ("GET", "POST")
    return {
        "/emulation": CrossOrigin(origins, post, Emulation(node)),
        "/connection/http_stream": stream(post, streams.HTTP_STREAM, streams.HTTP_STREAM_PROTOBUF),
        "/connection/sse": stream(both, streams.SSE),
        "/connection/uni_http_stream": stream(post, streams.UNI_HTTP_STREAM),
        "/connection/uni_sse": stream(both, streams.UNI_SSE),
        "/connection/websocket": _no_upgrade,
        "/connection/uni_websocket": _no_upgrade,
    }


async def _no_upgrade(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    asked = [(b"upgrade", b"websocket"), (b"connection", b"upgrade")]
    await Exchange(scope, receive, send).answer(426, asked)


async def _nowhere(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close"})
