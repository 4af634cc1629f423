# SPDX-License-Identifier: Apache-2.0
"""The front ends of channels: the endpoints for SDKs, and the server API for backends."""

from __future__ import annotations

from functools import partial

import msgspec

from zaqar_redis import errors
from zaqar_redis.api.api_key import ApiKeyChecks, ApiKeySettings
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.channels import server, streams
from zaqar_redis.api.channels.streams import ConnectQuery, EmulationHandlers, StreamHandlers
from zaqar_redis.api.channels.websocket import UniWebSocket, WebSocket
from zaqar_redis.api.exchange import require_upgrade
from zaqar_redis.api.origins import AllowedOrigins, PageMiddleware
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.api.server.outbox import FlushScheduler
from zaqar_redis.auth import tickets, tokens
from zaqar_redis.auth.access import Access
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
    api_key: ApiKeySettings = ApiKeySettings()
    #: signs tickets of the console; empty: there are none
    ticket_secret: bytes = b""
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
                settings.ticket_secret,
            ),
            queues=queues,
            accepts_clients=settings.accepts_clients,
        )
        origins = AllowedOrigins(settings.allowed_origins)
        self.middleware = PageMiddleware(origins)
        checks = ApiKeyChecks(settings.api_key, origins, access, settings.project)
        self.namespaces = settings.namespaces
        self.routes = [
            *_connection_routes(self.node, origins, settings.project),
            *server.ServerApi(self.node, settings.project, checks).routes(),
        ]


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
