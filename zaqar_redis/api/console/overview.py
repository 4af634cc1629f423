# SPDX-License-Identifier: Apache-2.0
"""What the pages of the console show beyond the public API: overview, queues, connections.

Times are seconds, those that end in ``_at`` since 1970; rates are a second, and null as long as
they are not known.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, get_args

import msgspec
from msgspec import Struct

from zaqar_redis import errors, rules
from zaqar_redis.api import openapi, schemas
from zaqar_redis.api.channels.server import ServerApiChecks
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.figures import Alarm
from zaqar_redis.realtime.node.control import ConnectionFilter, ConnectionReport, NodeReport
from zaqar_redis.realtime.protocol.codes import CommandRejected
from zaqar_redis.realtime.session.namespaces import Namespaces
from zaqar_redis.records import MessageCounters
from zaqar_redis.service.overview import PATIENCE, OperatorServices
from zaqar_redis.service.queue_figures import (
    QueueFilter,
    QueueRow,
    SortColumn,
    Totals,
    select,
)
from zaqar_redis.service.stores import StoreReport

#: Rows of a page, as many as a page of the public API may have at most.
_PAGE, _PAGE_MAX = 50, 1000
#: The last row that can be asked for: every node sends all connections before it.
_CONNECTIONS_MAX = 2000
_COLUMNS: tuple[SortColumn, ...] = get_args(SortColumn)
_NOT_STORED = (("cache-control", "no-store"),)
_encode = msgspec.json.Encoder().encode


class QueuesQuery(Struct, frozen=True, kw_only=True):
    search: str | None = None
    sort: str | None = None
    order: str | None = None
    not_empty: bool | None = None
    dead_letters: bool | None = None
    offset: int | None = None
    limit: int | None = None


class HistoryQuery(Struct, frozen=True, kw_only=True):
    hours: int | None = None


class ConnectionsQuery(Struct, frozen=True, kw_only=True):
    user: str | None = None
    transport: str | None = None
    address: str | None = None
    offset: int | None = None
    limit: int | None = None


class ChannelQuery(Struct, frozen=True, kw_only=True):
    channel: str | None = None


class _QueueOut(Struct):
    name: str
    store: str
    free: int
    claimed: int
    delayed: int
    total: int
    oldest: float | None
    posted: float | None
    claimed_rate: float | None
    deleted: float | None
    dead_letters: int
    dead_letter_queue: str | None
    is_dead_letter_queue: bool
    created_at: float
    counters: MessageCounters


def _queue(row: QueueRow) -> _QueueOut:
    of = row.figures
    return _QueueOut(
        row.name,
        row.store,
        of.free,
        of.claimed,
        of.delayed,
        of.total,
        row.oldest,
        row.posted,
        row.claimed_rate,
        row.deleted,
        row.dead_letters,
        of.dead_letter_queue or None,
        row.is_dead_letter_queue,
        of.created / 1000,
        of.counters,
    )


class _QueuesOut(Struct):
    queues: list[_QueueOut]
    #: of the project
    total: int
    matching: int
    totals: Totals
    sampled_at: float
    #: False: not all queues have been read yet, or there are more than can be shown
    complete: bool
    #: stores whose queues are shown as they were last known
    unavailable: tuple[str, ...]


class _SnapshotsOut(Struct):
    #: null: the store does not tell
    automatic: bool | None
    succeeded: bool
    #: seconds since the last one
    age: int


class _PersistenceOut(Struct):
    aof: bool
    aof_succeeded: bool
    snapshots: _SnapshotsOut


class _StoreOut(Struct):
    kind: str
    name: str
    available: bool
    error: str | None
    latency_ms: float | None
    clock_skew_ms: float | None
    queues: int | None
    version: str | None = None
    uptime: int | None = None
    memory_used: int | None = None
    #: null: no limit
    memory_max: int | None = None
    memory_policy: str | None = None
    persistence: _PersistenceOut | None = None
    clients: int | None = None
    ops_per_second: int | None = None
    role: str | None = None
    replicas: int | None = None
    evicted: int | None = None


def _store(report: StoreReport) -> _StoreOut:
    out = _StoreOut(
        report.kind,
        report.name,
        report.available,
        report.error or None,
        report.latency,
        report.clock_skew,
        report.queues,
    )
    status = report.status
    if status is None:
        return out
    out.version, out.uptime = status.version, status.uptime
    out.memory_used, out.memory_max = status.memory_used, status.memory_max or None
    out.memory_policy = status.memory_policy
    age = max(0, round(time.time()) - status.last_snapshot)
    automatic = status.settings.snapshots if status.settings is not None else None
    snapshots = _SnapshotsOut(automatic, status.rdb_works, age)
    out.persistence = _PersistenceOut(status.aof, status.aof_works, snapshots)
    out.clients, out.ops_per_second = status.clients, status.commands
    out.role, out.replicas, out.evicted = status.role, status.replicas, status.evicted
    return out


class _NodeOut(Struct):
    id: str
    name: str
    version: str
    uptime: int
    cpu: float | None
    memory: int | None
    loop_lag_ms: float | None
    connections: int
    users: int
    channels: int
    subscriptions: int
    unavailable: list[str]


def _node(report: NodeReport) -> _NodeOut:
    return _NodeOut(
        report.node,
        report.name,
        report.version,
        report.uptime,
        report.cpu,
        report.memory,
        report.loop_lag,
        report.clients,
        report.users,
        report.channels,
        report.subscriptions,
        report.unavailable,
    )


class _OverviewOut(Struct):
    project: str
    totals: Totals
    sampled_at: float
    complete: bool
    alarms: list[Alarm]
    #: null: only administrators see them
    stores: list[_StoreOut] | None
    nodes: list[_NodeOut] | None


class _ConnectionOut(Struct):
    client: str
    user: str
    transport: str
    address: str
    age: float
    #: the first of them
    channels: list[str]
    subscriptions: int
    node: str


def _connection(report: ConnectionReport) -> _ConnectionOut:
    return _ConnectionOut(
        report.client,
        report.user,
        report.transport,
        report.address,
        max(0.0, time.time() - report.connected_at),
        report.channels,
        report.subscriptions,
        report.node,
    )


class OverviewHandlers:
    def __init__(
        self,
        services: OperatorServices,
        checks: ServerApiChecks,
        namespaces: Namespaces,
        limits: rules.Limits,
    ) -> None:
        self._services = services
        text = openapi.with_limits(_encode(schemas.ATTRIBUTES), limits)
        self._attributes = Answer(text, headers=_NOT_STORED)
        self._checks = checks
        self._namespaces = namespaces

    async def show(self, request: Request[None, None]) -> Answer:
        """Totals and rates of a project, and what is wrong; for administrators stores and nodes."""
        self._checks.authorize(request, "console:overview", "")
        try:
            self._checks.authorize(request, "console:installation", "")
            everything = True
        except errors.Forbidden:
            everything = False
        found = await self._services.overview.get(request.project, everything=everything)
        return _answer(
            _OverviewOut(
                request.project,
                found.figures.totals,
                found.figures.sampled_at,
                found.figures.complete,
                found.alarms,
                [_store(each) for each in found.stores] if everything else None,
                [_node(each) for each in found.nodes] if everything else None,
            )
        )

    async def list_queues(self, request: Request[QueuesQuery, None]) -> Answer:
        """A page of a project's queues with their figures, sorted by any column."""
        self._checks.authorize(request, "console:queues", "")
        query = request.query
        sort = next((name for name in _COLUMNS if name == (query.sort or "name")), None)
        if sort is None:
            why = f"it must be one of {', '.join(_COLUMNS)}."
            raise errors.BadParameter(name="sort", why=why)
        order = query.order or "asc"
        if order not in ("asc", "desc"):
            raise errors.BadParameter(name="order", why="it must be asc or desc.")
        offset, limit = _page(query.offset, query.limit, rules.INTEGER_MAX)
        wanted = QueueFilter(
            (query.search or "").lower(),
            sort,
            order == "desc",
            bool(query.not_empty),
            bool(query.dead_letters),
        )
        found = await self._services.queues.get(request.project, PATIENCE)
        rows, matching = await select(found, wanted, offset, limit)
        return _answer(
            _QueuesOut(
                [_queue(row) for row in rows],
                len(found.rows),
                matching,
                found.totals,
                found.sampled_at,
                found.complete,
                found.unavailable,
            )
        )

    async def show_history(self, request: Request[HistoryQuery, None], queue: str) -> Answer:
        """The figures of a queue in the last hours."""
        self._checks.authorize(request, "console:history", queue)
        history = self._services.history
        if history is None:
            raise errors.NotFound(
                why="This service keeps no history: that needs a control store, and [history] "
                "interval."
            )
        settings = history.settings
        hours = settings.hours if request.query.hours is None else request.query.hours
        rules.within("hours", hours, 1, settings.hours)
        points = await history.read(request.project, rules.queue_name(queue), hours)
        return _answer({"step": settings.interval, "hours": hours, "points": points})

    async def list_attributes(self, request: Request[None, None]) -> Answer:
        """The attributes of queues that the service uses: JSON schemas, with its limits."""
        return self._attributes

    async def list_connections(self, request: Request[ConnectionsQuery, None]) -> Answer:
        """Open connections of clients of channels, of all nodes; the latest first."""
        query = request.query
        offset, limit = _page(query.offset, query.limit, _CONNECTIONS_MAX)
        wanted = ConnectionFilter(
            query.user or "", query.transport or "", query.address or "", limit
        )
        found, matching = await self._services.overview.connections(request.project, wanted, offset)
        return _answer({"connections": list(map(_connection, found)), "matching": matching})

    async def show_namespace(self, request: Request[ChannelQuery, None]) -> Answer:
        """The options that apply to a channel."""
        channel = request.query.channel or ""
        self._checks.authorize(request, "console:namespace", "")
        try:
            options = self._namespaces.options(channel)
        except CommandRejected as refused:
            raise errors.BadRequest(why=refused.error.message) from refused
        return _answer({"channel": channel, "options": msgspec.structs.asdict(options)})


def _answer(document: Any) -> Answer:
    return Answer(_encode(document), headers=_NOT_STORED)


def _page(offset: int | None, limit: int | None, most: int) -> tuple[int, int]:
    """Returns offset and limit of a page that ends at *most* rows.  Raises BadRequest."""
    size = _PAGE if limit is None else limit
    rules.within("limit", size, 1, _PAGE_MAX)
    rules.within("offset", offset or 0, 0, most - size)
    return offset or 0, size


def routes(
    services: OperatorServices,
    checks: ServerApiChecks,
    namespaces: Namespaces,
    limits: rules.Limits,
) -> list[ApiRoute]:
    handlers = OverviewHandlers(services, checks, namespaces, limits)
    row = partial(ApiRoute, "GET", public=True, checked=False, guard=checks.admit)
    return [
        row("/console/overview", handlers.show, "console:overview"),
        row("/console/queues", handlers.list_queues, "console:queues", query=QueuesQuery),
        row("/console/attributes", handlers.list_attributes, "console:attributes"),
        row(
            "/console/queues/{queue}/history",
            handlers.show_history,
            "console:history",
            query=HistoryQuery,
        ),
        row(
            "/console/connections",
            handlers.list_connections,
            "console:connections",
            query=ConnectionsQuery,
        ),
        row("/console/namespace", handlers.show_namespace, "console:namespace", query=ChannelQuery),
    ]
