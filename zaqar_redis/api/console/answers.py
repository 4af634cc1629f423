# SPDX-License-Identifier: Apache-2.0
"""Answers of the console's endpoints: JSON that nobody stores, and pages of lists."""

from __future__ import annotations

from typing import Any

import msgspec

from zaqar_redis import rules
from zaqar_redis.api.exchange import Answer

#: Rows of a page, as many as a page of the public API may have at most.
_PAGE, _PAGE_MAX = 50, 1000
_NOT_STORED = (("cache-control", "no-store"),)


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
