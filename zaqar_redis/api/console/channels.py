# SPDX-License-Identifier: Apache-2.0
"""What the console shows of channels: connections, options, and tickets for their live tail."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from zaqar_redis import errors
from zaqar_redis.api.api_key import ApiKeyChecks
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.console.answers import answer, page_of
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.auth import tickets
from zaqar_redis.realtime.node.control import ConnectionFilter, ConnectionReport
from zaqar_redis.realtime.protocol.codes import CommandRejected
from zaqar_redis.realtime.session.namespaces import ChannelOptions, Namespaces
from zaqar_redis.service.channels import resource
from zaqar_redis.service.nodes import NodeMonitor

#: The last row that can be asked for: every node sends all connections before it.
_CONNECTIONS_MAX = 2000


class ConnectionsQuery(Struct, frozen=True, kw_only=True):
    user: str | None = None
    transport: str | None = None
    address: str | None = None
    offset: int | None = None
    limit: int | None = None


class ChannelQuery(Struct, frozen=True, kw_only=True):
    channel: str | None = None


class _TicketRequest(Struct):
    channel: str


def _connection(report: ConnectionReport) -> dict[str, Any]:
    return {
        "client": report.client,
        "user": report.user,
        "transport": report.transport,
        "address": report.address,
        "age": max(0.0, time.time() - report.connected_at),
        "channels": report.channels,  # the first of them
        "subscriptions": report.subscriptions,
        "node": report.node,
    }


class ChannelHandlers:
    def __init__(
        self, nodes: NodeMonitor, checks: ApiKeyChecks, namespaces: Namespaces, secret: bytes
    ) -> None:
        """*secret*: signs tickets."""
        self._nodes = nodes
        self._checks = checks
        self._namespaces = namespaces
        self._secret = secret

    async def list_connections(self, request: Request[ConnectionsQuery, None]) -> Answer:
        """Open connections of clients of channels, of all nodes; the latest first."""
        query = request.query
        offset, limit = page_of(query.offset, query.limit, _CONNECTIONS_MAX)
        wanted = ConnectionFilter(
            query.user or "", query.transport or "", query.address or "", limit
        )
        found, matching = await self._nodes.connections(request.project, wanted, offset)
        return answer({"connections": list(map(_connection, found)), "matching": matching})

    async def show_namespace(self, request: Request[ChannelQuery, None]) -> Answer:
        """The options that apply to a channel."""
        channel = request.query.channel or ""
        self._checks.authorize(request, "console:namespace", "")
        options = msgspec.structs.asdict(self._options(channel))
        return answer({"channel": channel, "options": options})

    async def issue_ticket(self, request: Request[None, _TicketRequest]) -> Answer:
        """A token for the live tail of one channel."""
        channel = request.document.channel
        self._options(channel)
        self._checks.authorize(request, "console:ticket", resource(channel))
        token = tickets.issue(self._secret, request.project, channel, time.time())
        return answer({"token": token})

    def _options(self, channel: str) -> ChannelOptions:
        """Raises BadRequest for a channel that there cannot be."""
        try:
            return self._namespaces.options(channel)
        except CommandRejected as refused:
            raise errors.BadRequest(why=refused.error.message) from refused


def routes(
    nodes: NodeMonitor, checks: ApiKeyChecks, namespaces: Namespaces, secret: bytes
) -> list[ApiRoute]:
    """*secret*: signs tickets."""
    handlers = ChannelHandlers(nodes, checks, namespaces, secret)
    get, ticket = partial(checks.route, "GET"), Body(_TicketRequest, "A ticket")
    connections, namespace = handlers.list_connections, handlers.show_namespace
    return [
        get("/console/connections", connections, "console:connections", query=ConnectionsQuery),
        get("/console/namespace", namespace, "console:namespace", query=ChannelQuery),
        checks.route(
            "POST", "/console/token", handlers.issue_ticket, "console:ticket", body=ticket
        ),
    ]
