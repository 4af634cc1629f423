# SPDX-License-Identifier: Apache-2.0
"""What the console shows first: the overview of a project and of the installation.

Times are seconds, those that end in ``_at`` since 1970; rates are a second, and null as long as
they are not known.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from zaqar_redis import errors
from zaqar_redis.api.api_key import ApiKeyChecks
from zaqar_redis.api.console.answers import HistoryQuery, answer, asked_history
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.figures import StoreStatus
from zaqar_redis.realtime.node.control import NodeReport
from zaqar_redis.service.overview import FailingSource, OperatorServices
from zaqar_redis.service.stores import StoreReport

#: Queues and topics with failing subscriptions that are shown: an operator reads the first few.
_FAILING_MAX = 20
#: Projects to choose from: who looks for another one types its name.
_PROJECTS_MAX = 1000


def _store(report: StoreReport) -> dict[str, Any]:
    status = report.status
    return {
        "kind": report.kind,
        "name": report.name,
        "available": report.available,
        "error": report.error or None,
        "latency_ms": report.latency,
        "clock_skew_ms": report.clock_skew,
        "queues": report.queues,
        "version": status and status.version,
        "uptime": status and status.uptime,
        "memory_used": status and status.memory_used,
        # null: no limit
        "memory_max": status and (status.memory_max or None),
        "memory_policy": status and status.memory_policy,
        "persistence": status and _persistence(status),
        "clients": status and status.clients,
        "ops_per_second": status and status.commands,
        "role": status and status.role,
        "replicas": status and status.replicas,
        "evicted": status and status.evicted,
    }


def _persistence(status: StoreStatus) -> dict[str, Any]:
    """Null: the store does not tell."""
    settings = status.settings
    return {
        "aof": status.aof,
        "aof_sync": settings and settings.appendfsync,
        "aof_succeeded": status.aof_works,
        "snapshots": {
            "automatic": settings and settings.snapshots,
            "succeeded": status.rdb_works,
            # seconds since the last one
            "age": max(0, round(time.time()) - status.last_snapshot),
        },
    }


def _node(report: NodeReport) -> dict[str, Any]:
    return {
        "id": report.node,
        "name": report.name,
        "version": report.version,
        "uptime": report.uptime,
        "cpu": report.cpu,
        "memory": report.memory,
        "loop_lag_ms": report.loop_lag,
        "connections": report.clients,
        "users": report.users,
        "channels": report.channels,
        "subscriptions": report.subscriptions,
        "unavailable": report.unavailable,
    }


def _failing(source: FailingSource) -> dict[str, Any]:
    of = source.subscriptions
    return {
        "kind": source.kind,
        "name": source.name,
        # how many of its subscriptions fail, and the id of one
        "number": of.number,
        "subscription": of.id,
        "since": of.since / 1000,
        "failed_at": of.failed_at / 1000,
        "error": of.error,
    }


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
            {
                "project": request.project,
                "totals": found.figures.totals,
                "sampled_at": found.figures.sampled_at,
                "complete": found.figures.complete,
                "alarms": found.alarms,
                "failing": list(map(_failing, found.failing[:_FAILING_MAX])),
                # subscriptions, of all queues and topics
                "failing_subscriptions": sum(each.subscriptions.number for each in found.failing),
                # null: only administrators see them
                "stores": list(map(_store, found.stores)) if everything else None,
                "nodes": list(map(_node, found.nodes)) if everything else None,
            }
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
    row, history = partial(checks.route, "GET"), "/console/overview/history"
    return [
        row("/console/overview", handlers.show, "console:overview"),
        row(history, handlers.show_history, "console:overview", query=HistoryQuery),
        row("/console/projects", handlers.list_projects, "console:projects"),
    ]
