# SPDX-License-Identifier: Apache-2.0
"""Recovery: whether missed publications can be delivered, and how they join the live ones.

Pure functions: a client subscribes first, then the history is read, then both are merged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from zaqar_redis.realtime.engine import Position


class HasOffset(Protocol):
    """A publication with an offset."""

    @property
    def offset(self) -> int: ...


P = TypeVar("P", bound=HasOffset)


class HistoryGap(Exception):
    """Live publications do not follow the history: some were lost on the way."""


def is_recovered(wanted: Position, found: Sequence[HasOffset], top: Position) -> bool:
    """Returns whether *found* is everything after *wanted*, up to the *top* position."""
    if wanted.epoch not in ("", top.epoch):
        return False
    # Offsets are consecutive, so the right number of publications is all of them.
    return len(found) == top.offset - wanted.offset


def is_in_cache(wanted: Position, found: Sequence[HasOffset], top: Position) -> bool:
    """Returns the same for cache mode, where only the latest publication counts."""
    return found[0].offset == top.offset if found else wanted == top


def merge(read: Sequence[P], live: Iterable[P], top: Position) -> tuple[list[P], int]:
    """Returns the history followed by what came while it was read, and the offset of the end.

    *top* is the position when the history was read.  Raises HistoryGap.
    """
    merged = list(read)
    end = top.offset
    for each in live:
        if each.offset <= end:
            continue
        if each.offset != end + 1:
            raise HistoryGap
        merged.append(each)
        end = each.offset
    return merged, end
