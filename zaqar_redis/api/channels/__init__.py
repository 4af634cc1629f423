# SPDX-License-Identifier: Apache-2.0
"""The front ends of channels: the endpoints for SDKs, and the server API for backends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import falcon.asgi
import msgspec

from zaqar_redis.api import console, resources
from zaqar_redis.api.channels import server, streams
from zaqar_redis.api.channels.exchange import Exchange, Receive, Send
from zaqar_redis.api.channels.origins import AllowedOrigins, CorsHandler
from zaqar_redis.api.channels.streams import EmulationHandler, StreamHandler
from zaqar_redis.api.channels.websocket import UniWebSocket, WebSocket
from zaqar_redis.api.server.outbox import FlushScheduler
from zaqar_redis.auth import tickets, tokens
from zaqar_redis.realtime.engine import Engine
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.queue_channels import QueueChannels
from zaqar_redis.realtime.session import context
from zaqar_redis.realtime.session.namespaces import Namespaces

#: First segments of the paths that the channels' front end handles.
_PATHS = frozenset(("api", "connection", "emulation"))

Handler = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class ChannelSettings(msgspec.Struct, frozen=True):
    namespaces: Namespaces
    tokens: tokens.TokenSettings
    session: context.SessionSettings
    #: globs: origins of pages that may connect
    allowed_origins: tuple[str, ...]
    project: str
    server: server.ServerApiSettings = server.ServerApiSettings()
    #: None: no web console
    console: console.ConsoleSettings | None = None
    #: whether clients connect; not to the node of a command
    accepts_clients: bool = True


class ChannelsApp:
    """The ASGI application for clients and backends, over one engine."""

    def __init__(
        self, engine: Engine, settings: ChannelSettings, queues: QueueChannels | None = None
    ) -> None:
        """*queues*: the queues that are channels, too."""
        self.node = Node(
            engine,
            settings.session,
            settings.namespaces,
            tickets.TicketVerifier(
                settings.tokens, settings.console.secret if settings.console else b""
            ),
            queues=queues,
            accepts_clients=settings.accepts_clients,
        )
        origins, scheduler = AllowedOrigins(settings.allowed_origins), FlushScheduler()
        self._sockets = _sockets(self.node, origins, settings.project, scheduler)
        self._streams = _streams(self.node, origins, settings.project, scheduler)
        self._http: falcon.asgi.App[Any, Any] = falcon.asgi.App()
        resources.install(self._http, ())
        guard = server.ApiKeyAuth(settings.server, origins)
        api = server.ServerApi(self.node, guard, settings.project)
        self._http.add_route("/api", api)
        self._http.add_route("/api/{method}", api)
        self._paths = _PATHS
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

    def handles(self, path: str) -> bool:
        """Returns whether requests for *path* belong to this application."""
        return path.lstrip("/").partition("/")[0] in self._paths

    def begin_shutdown(self) -> None:
        """Ends connections: the service is about to stop."""
        self.node.begin_shutdown()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        path = scope["path"]
        if scope["type"] == "http":
            await self._streams.get(path, self._http)(scope, receive, send)
        else:
            await self._sockets.get(path, _reject_socket)(scope, receive, send)


def _sockets(
    node: Node, origins: AllowedOrigins, project: str, scheduler: FlushScheduler
) -> dict[str, Handler]:
    return {
        "/connection/websocket": WebSocket(node, origins, project, scheduler),
        "/connection/uni_websocket": UniWebSocket(node, origins, project, scheduler),
    }


def _streams(
    node: Node, origins: AllowedOrigins, project: str, scheduler: FlushScheduler
) -> dict[str, Handler]:
    def stream(methods: tuple[str, ...], *kinds: streams.StreamFormat) -> Handler:
        return CorsHandler(origins, methods, StreamHandler(node, project, scheduler, *kinds))

    post, both = ("POST",), ("GET", "POST")
    return {
        "/emulation": CorsHandler(origins, post, EmulationHandler(node)),
        "/connection/http_stream": stream(post, streams.HTTP_STREAM, streams.HTTP_STREAM_PROTOBUF),
        "/connection/sse": stream(both, streams.SSE),
        "/connection/uni_http_stream": stream(post, streams.UNI_HTTP_STREAM),
        "/connection/uni_sse": stream(both, streams.UNI_SSE),
        "/connection/websocket": _no_upgrade,
        "/connection/uni_websocket": _no_upgrade,
    }


async def _no_upgrade(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    headers = [(b"upgrade", b"websocket"), (b"connection", b"upgrade")]
    await Exchange(scope, receive, send).respond(426, headers)


async def _reject_socket(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close"})
