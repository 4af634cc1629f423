# SPDX-License-Identifier: Apache-2.0
"""What the console's endpoints share: answers that nobody stores, pages of lists, histories."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from zaqar_redis import errors, rules
from zaqar_redis.api.exchange import Answer
from zaqar_redis.service.overview import OperatorServices
from zaqar_redis.service.queue_history import HistoryService

#: Rows of a page, as many as a page of the public API may have at most.
_PAGE, _PAGE_MAX = 50, 1000
#: Hours of a history, if it has as many.
_DAY = 24
_NOT_STORED = (("cache-control", "no-store"),)


class HistoryQuery(Struct, frozen=True, kw_only=True):
    hours: int | None = None


def answer(document: Any, status: int = 200) -> Answer:
    """*document*: what msgspec encodes; bytes are JSON already."""
    content = document if isinstance(document, bytes) else msgspec.json.encode(document)
    return Answer(content, status, headers=_NOT_STORED)


def page_of(offset: int | None, limit: int | None, most: int) -> tuple[int, int]:
    """Returns offset and limit of a page that ends at *most* rows.  Raises BadRequest."""
    size = _PAGE if limit is None else limit
    rules.within("limit", size, 1, _PAGE_MAX)
    rules.within("offset", offset or 0, 0, most - size)
    return offset or 0, size


def asked_history(services: OperatorServices, query: HistoryQuery) -> tuple[HistoryService, int]:
    """Returns what reads histories, and for how many hours.  Raises NotFound, BadRequest."""
    history = services.history
    if history is None:
        raise errors.NotFound(
            why="This service keeps no history: that needs a control store, and [history] interval."
        )
    most = history.settings.hours
    hours = min(_DAY, most) if query.hours is None else query.hours
    rules.within("hours", hours, 1, most)
    return history, hours
