# SPDX-License-Identifier: Apache-2.0
"""What the console shows first: the overview of a project and of the installation.

Times are seconds, those that end in ``_at`` since 1970; rates are a second, and null as long as
they are not known.
"""

from __future__ import annotations

import time
from functools import partial

from msgspec import Struct

from zaqar_redis import errors
from zaqar_redis.api.api_key import ApiKeyChecks
from zaqar_redis.api.console.answers import HistoryQuery, answer, asked_history
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.figures import Alarm
from zaqar_redis.realtime.node.control import NodeReport
from zaqar_redis.service.overview import FailingSource, OperatorServices
from zaqar_redis.service.queue_figures import Totals
from zaqar_redis.service.stores import StoreReport

#: Queues and topics with failing subscriptions that are shown: an operator reads the first few.
_FAILING_MAX = 20
#: Projects to choose from: who looks for another one types its name.
_PROJECTS_MAX = 1000


class _SnapshotsOut(Struct):
    #: null: the store does not tell
    automatic: bool | None
    succeeded: bool
    #: seconds since the last one
    age: int


class _PersistenceOut(Struct):
    aof: bool
    #: appendfsync; null: the store does not tell
    aof_sync: str | None
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
    sync = status.settings.appendfsync if status.settings is not None else None
    out.persistence = _PersistenceOut(status.aof, sync, status.aof_works, snapshots)
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


class _FailingOut(Struct):
    #: queues or topics, and the name of one
    kind: str
    name: str
    #: how many of its subscriptions fail, and the id of one
    number: int
    subscription: str
    since: float
    failed_at: float
    error: str


def _failing(source: FailingSource) -> _FailingOut:
    of = source.subscriptions
    return _FailingOut(
        source.kind,
        source.name,
        of.number,
        of.id,
        of.since / 1000,
        of.failed_at / 1000,
        of.error,
    )


class _OverviewOut(Struct):
    project: str
    totals: Totals
    sampled_at: float
    complete: bool
    alarms: list[Alarm]
    #: the first of them
    failing: list[_FailingOut]
    #: subscriptions, of all queues and topics
    failing_subscriptions: int
    #: null: only administrators see them
    stores: list[_StoreOut] | None
    nodes: list[_NodeOut] | None


class OverviewHandlers:
    def __init__(self, services: OperatorServices, checks: ApiKeyChecks) -> None:
        self._services = services
        self._checks = checks

    async def show(self, request: Request[None, None]) -> Answer:
        """Totals and rates of a project, and what is wrong; for administrators stores and nodes."""
        self._checks.authorize(request, "console:overview", "")
        try:
            self._checks.authorize(request, "console:installation", "")
            everything = True
        except errors.Forbidden:
            everything = False
        found = await self._services.overview.get(request.project, everything=everything)
        return answer(
            _OverviewOut(
                request.project,
                found.figures.totals,
                found.figures.sampled_at,
                found.figures.complete,
                found.alarms,
                [_failing(each) for each in found.failing[:_FAILING_MAX]],
                sum(each.subscriptions.number for each in found.failing),
                [_store(each) for each in found.stores] if everything else None,
                [_node(each) for each in found.nodes] if everything else None,
            )
        )

    async def show_history(self, request: Request[HistoryQuery, None]) -> Answer:
        """The figures of a project in the last hours: the sums of its queues."""
        self._checks.authorize(request, "console:overview", "")
        history, hours = asked_history(self._services, request.query)
        points = await history.read_project(request.project, hours)
        return answer({"step": history.settings.interval, "hours": hours, "points": points})

    async def list_projects(self, request: Request[None, None]) -> Answer:
        """The projects that have queues or topics."""
        found, complete = await self._services.projects()
        complete = complete and len(found) <= _PROJECTS_MAX
        return answer({"projects": found[:_PROJECTS_MAX], "complete": complete})


def routes(services: OperatorServices, checks: ApiKeyChecks) -> list[ApiRoute]:
    handlers = OverviewHandlers(services, checks)
    row = partial(ApiRoute, "GET", public=True, checked=False, guard=checks.admit)
    return [
        row("/console/overview", handlers.show, "console:overview"),
        row(
            "/console/overview/history",
            handlers.show_history,
            "console:overview",
            query=HistoryQuery,
        ),
        row("/console/projects", handlers.list_projects, "console:projects"),
    ]
