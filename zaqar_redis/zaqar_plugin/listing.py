# SPDX-License-Identifier: Apache-2.0
"""Listing as stock Zaqar wants it: first the items of a page, then the next marker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from zaqar_redis.records import Page

#: Items read at once while some of them are filtered out.
_STEP = 100


def filtered(
    page: Callable[[str, int], Page[Any]],
    kfilter: dict[str, Any] | None,
    marker: str | None,
    limit: int,
    detailed: bool,
    name: str | None,
) -> Iterator[Any]:
    """Yields the queues or topics whose name contains *name* and whose metadata have *kfilter*,
    then the marker.
    """
    found: list[dict[str, Any]] = []
    wanted = kfilter or {}
    after, step = marker or "", _STEP if wanted or name else limit
    while len(found) < limit:
        read = page(after, step)
        for item in read.items:
            after = item.name
            if (name or "") not in after or any(
                item.metadata.get(key) != value for key, value in wanted.items()
            ):
                continue
            found.append({"name": after} | ({"metadata": item.metadata} if detailed else {}))
            if len(found) == limit:
                break
        if len(read.items) < step:
            break
    yield iter(found)
    yield found[-1]["name"] if found else None
