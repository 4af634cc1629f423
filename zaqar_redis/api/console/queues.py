# SPDX-License-Identifier: Apache-2.0
"""What the console shows of queues and topics beyond the public API.

Times are seconds, those that end in ``_at`` since 1970; rates are a second, and null as long as
they are not known.
"""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

import msgspec
from msgspec import Struct

from zaqar_redis import errors, rules
from zaqar_redis.api import metadata_schemas, openapi
from zaqar_redis.api.api_key import ApiKeyChecks
from zaqar_redis.api.console.answers import HistoryQuery, answer, asked_history, page_of
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.service.overview import PATIENCE, OperatorServices
from zaqar_redis.service.queue_figures import QueueFilter, QueueRow, SortColumn, select

_COLUMNS: tuple[SortColumn, ...] = get_args(SortColumn)


class QueuesQuery(Struct, frozen=True, kw_only=True):
    search: str | None = None
    sort: str | None = None
    order: str | None = None
    not_empty: bool | None = None
    dead_letters: bool | None = None
    offset: int | None = None
    limit: int | None = None
    topics: bool | None = None


class AttributesQuery(Struct, frozen=True, kw_only=True):
    topics: bool | None = None


def _queue(row: QueueRow) -> dict[str, Any]:
    of = row.figures
    return {
        "name": row.name,
        "store": row.store,
        "free": of.free,
        "claimed": of.claimed,
        "delayed": of.delayed,
        "total": of.total,
        "oldest": row.oldest,
        "posted": row.posted,
        "claimed_rate": row.claimed_rate,
        "deleted": row.deleted,
        "dead_letters": row.dead_letters,
        "dead_letter_queue": of.dead_letter_queue or None,
        "is_dead_letter_queue": row.is_dead_letter_queue,
        "subscriptions": row.subscriptions,
        "created_at": of.created / 1000,
        "counters": of.counters,
    }


class QueueListHandlers:
    def __init__(
        self, services: OperatorServices, checks: ApiKeyChecks, limits: rules.Limits
    ) -> None:
        self._services = services
        self._checks = checks
        #: of queues, and of topics
        self._attributes = [
            answer(openapi.with_limits(msgspec.json.encode(schema), limits))
            for schema in (metadata_schemas.ATTRIBUTES, metadata_schemas.TOPIC_ATTRIBUTES)
        ]

    async def list_queues(self, request: Request[QueuesQuery, None]) -> Answer:
        """A page of a project's queues, or topics, with their figures, sorted by any column."""
        self._checks.authorize(request, "console:queues", "")
        query = request.query
        sort = next((name for name in _COLUMNS if name == (query.sort or "name")), None)
        if sort is None:
            why = f"it must be one of {', '.join(_COLUMNS)}."
            raise errors.BadParameter(name="sort", why=why)
        order = query.order or "asc"
        if order not in ("asc", "desc"):
            raise errors.BadParameter(name="order", why="it must be asc or desc.")
        offset, limit = page_of(query.offset, query.limit, rules.INTEGER_MAX)
        wanted = QueueFilter(
            (query.search or "").lower(),
            sort,
            order == "desc",
            bool(query.not_empty),
            bool(query.dead_letters),
        )
        found = await self._services.queues.get(
            request.project, PATIENCE, topics=bool(query.topics)
        )
        rows, matching = await select(found, wanted, offset, limit)
        return answer(
            {
                "queues": list(map(_queue, rows)),
                "total": len(found.rows),  # of the project
                "matching": matching,
                "totals": found.totals,
                "sampled_at": found.sampled_at,
                # False: not all queues have been read yet, or there are more than can be shown
                "complete": found.complete,
                # stores whose queues are shown as they were last known
                "unavailable": found.unavailable,
            }
        )

    async def show_history(self, request: Request[HistoryQuery, None], queue: str) -> Answer:
        """The figures of a queue in the last hours."""
        self._checks.authorize(request, "console:history", queue)
        history, hours = asked_history(self._services, request.query)
        points = await history.read(request.project, rules.queue_name(queue), hours)
        return answer({"step": history.settings.interval, "hours": hours, "points": points})

    async def list_attributes(self, request: Request[AttributesQuery, None]) -> Answer:
        """The attributes of queues, or topics, that the service uses: schemas with its limits."""
        return self._attributes[bool(request.query.topics)]


def routes(
    services: OperatorServices, checks: ApiKeyChecks, limits: rules.Limits
) -> list[ApiRoute]:
    handlers = QueueListHandlers(services, checks, limits)
    row, history = partial(checks.route, "GET"), "/console/queues/{queue}/history"
    attributes = "/console/attributes", handlers.list_attributes, "console:attributes"
    return [
        row("/console/queues", handlers.list_queues, "console:queues", query=QueuesQuery),
        row(*attributes, query=AttributesQuery),
        row(history, handlers.show_history, "console:history", query=HistoryQuery),
    ]
