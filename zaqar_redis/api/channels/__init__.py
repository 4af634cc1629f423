# SPDX-License-Identifier: Apache-2.0
"""The front ends of channels: the endpoints for SDKs, and the server API for backends."""

from __future__ import annotations

from functools import partial

import msgspec

from zaqar_redis import errors, rules
from zaqar_redis.api import console
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.channels import server, streams
from zaqar_redis.api.channels.origins import AllowedOrigins, PageMiddleware
from zaqar_redis.api.channels.streams import ConnectQuery, EmulationHandlers, StreamHandlers
from zaqar_redis.api.channels.websocket import UniWebSocket, WebSocket
from zaqar_redis.api.console import channels, keys, overview
from zaqar_redis.api.console import queues as console_queues
from zaqar_redis.api.exchange import require_upgrade
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.api.server.outbox import FlushScheduler
from zaqar_redis.auth import tickets, tokens
from zaqar_redis.auth.access import Access
from zaqar_redis.realtime.engine import Engine
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.queue_channels import QueueChannels
from zaqar_redis.realtime.session import context
from zaqar_redis.realtime.session.namespaces import Namespaces
from zaqar_redis.service.overview import OperatorServices

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
    """A node, its routes for clients and backends, and the middleware that these need."""

    def __init__(
        self,
        engine: Engine,
        settings: ChannelSettings,
        access: Access,
        queues: QueueChannels | None = None,
    ) -> None:
        """*queues*: the queues that are channels, too."""
        self.node = Node(
            engine,
            settings.session,
            settings.namespaces,
            tickets.TicketVerifier(
                settings.tokens,
                settings.project,
                access,
                settings.console.secret if settings.console else b"",
            ),
            queues=queues,
            accepts_clients=settings.accepts_clients,
        )
        origins = AllowedOrigins(settings.allowed_origins)
        self.middleware = PageMiddleware(origins)
        self._checks = server.ServerApiChecks(settings.server, origins, access, settings.project)
        self._settings = settings
        self.routes = [
            *_connection_routes(self.node, origins, settings.project),
            *server.ServerApi(self.node, settings.project, self._checks).routes(),
            # Commands need it, too, also where there is no console.
            *channels.routes(self.node, settings.project, self._checks),
        ]
        if settings.console is not None:
            self.routes += console.routes(settings.console, self._checks, settings.namespaces)

    @property
    def has_console(self) -> bool:
        return self._settings.console is not None

    def overview_routes(self, services: OperatorServices, limits: rules.Limits) -> list[ApiRoute]:
        """Returns the routes of the console that show more than the public API."""
        namespaces, settings = self._settings.namespaces, self._settings.console
        found = overview.routes(services, self._checks, namespaces)
        found += console_queues.routes(services, self._checks, limits)
        if services.access_keys is not None:
            seal = settings.seal if settings is not None else None
            found += keys.routes(services.access_keys, self._checks, seal)
        return found


def _connection_routes(node: Node, origins: AllowedOrigins, project: str) -> list[ApiRoute]:
    scheduler = FlushScheduler()
    stream = partial(StreamHandlers, node, project, scheduler)
    http_stream = stream(streams.HTTP_STREAM, streams.HTTP_STREAM_PROTOBUF)
    sse, uni_sse = stream(streams.SSE), stream(streams.UNI_SSE)
    uni_http_stream = stream(streams.UNI_HTTP_STREAM)
    both_ways = WebSocket(node, origins, project, scheduler)
    one_way = UniWebSocket(node, origins, project, scheduler)
    page = partial(ApiRoute, action="channels:connect", public=True, checked=False, cors=True)
    get, get_stream = partial(page, "GET"), partial(page, "GET", query=ConnectQuery)
    commands = Body(bytes, "Commands", _BODY_MAX, error=errors.ContentTooLarge)
    post = partial(page, "POST", body=commands)
    return [
        get("/connection/websocket", require_upgrade, websocket=both_ways),
        get("/connection/uni_websocket", require_upgrade, websocket=one_way),
        post("/connection/http_stream", http_stream.post),
        post("/connection/sse", sse.post),
        get_stream("/connection/sse", sse.get),
        post("/connection/uni_http_stream", uni_http_stream.post),
        post("/connection/uni_sse", uni_sse.post),
        get_stream("/connection/uni_sse", uni_sse.get),
        post("/emulation", EmulationHandlers(node).post),
    ]
