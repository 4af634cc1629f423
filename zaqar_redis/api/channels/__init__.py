# SPDX-License-Identifier: Apache-2.0
"""The front ends of channels: the endpoints for SDKs, and the server API for backends."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from zaqar_redis import errors
from zaqar_redis.api import console
from zaqar_redis.api.channels import server, streams
from zaqar_redis.api.channels.origins import AllowedOrigins, PageMiddleware
from zaqar_redis.api.channels.streams import ConnectQuery, EmulationHandlers, StreamHandlers
from zaqar_redis.api.channels.websocket import UniWebSocket, WebSocket
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.routes import Body, Route
from zaqar_redis.api.server.outbox import FlushScheduler
from zaqar_redis.auth import tickets, tokens
from zaqar_redis.realtime.engine import Engine
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.queue_channels import QueueChannels
from zaqar_redis.realtime.session import context
from zaqar_redis.realtime.session.namespaces import Namespaces

#: Bytes of a request; as much as a frame of a WebSocket may have.
_BODY_MAX = 64 * 1024


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


class ChannelsFrontEnd:
    """Routes for clients and backends, over one engine."""

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
        origins = AllowedOrigins(settings.allowed_origins)
        self.middleware = PageMiddleware(origins)
        guard = server.ApiKeyAuth(settings.server, origins).check
        self.routes = [
            *_connection_routes(self.node, origins, settings.project),
            *server.ServerApi(self.node, settings.project).routes(guard),
        ]
        if settings.console is not None:
            self.routes += console.routes(
                settings.console, guard, settings.namespaces, settings.project
            )

    async def start(self) -> None:
        await self.node.start()

    async def close(self) -> None:
        await self.node.close()

    async def ping(self) -> None:
        """Raises StoreUnavailable when a store of channels does not answer."""
        await self.node.engine.ping()

    def begin_shutdown(self) -> None:
        """Ends connections: the service is about to stop."""
        self.node.begin_shutdown()


def _connection_routes(node: Node, origins: AllowedOrigins, project: str) -> Iterator[Route]:
    scheduler = FlushScheduler()
    connect = partial(Route, action="channels:connect", public=True, checked=False, cors=True)
    body = Body(bytes, "Commands", _BODY_MAX, error=errors.ContentTooLarge)
    for path, socket in (
        ("/connection/websocket", WebSocket(node, origins, project, scheduler)),
        ("/connection/uni_websocket", UniWebSocket(node, origins, project, scheduler)),
    ):
        yield connect("GET", path, _require_upgrade, websocket=socket)
    for path, has_get, kinds in (
        ("/connection/http_stream", False, (streams.HTTP_STREAM, streams.HTTP_STREAM_PROTOBUF)),
        ("/connection/sse", True, (streams.SSE,)),
        ("/connection/uni_http_stream", False, (streams.UNI_HTTP_STREAM,)),
        ("/connection/uni_sse", True, (streams.UNI_SSE,)),
    ):
        handlers = StreamHandlers(node, project, scheduler, *kinds)
        yield connect("POST", path, handlers.post, body=body)
        if has_get:
            yield connect("GET", path, handlers.get, query=ConnectQuery)
    yield connect("POST", "/emulation", EmulationHandlers(node).post, body=body)


async def _require_upgrade(request: Request[None, None]) -> Answer:
    """A WebSocket, for those who ask for the upgrade."""
    return Answer(status=426, headers=(("upgrade", "websocket"), ("connection", "upgrade")))
