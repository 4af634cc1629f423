# SPDX-License-Identifier: Apache-2.0
"""Whether what a client missed can be given to it, and how it joins what is live.

Pure: a client subscribes first, then the history is read, then both are joined here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from zaqar_redis.realtime.engine import Position


class Placed(Protocol):
    """A publication in a history."""

    @property
    def offset(self) -> int: ...


P = TypeVar("P", bound=Placed)


class Hole(Exception):
    """Live publications do not follow the history: some were lost on the way."""


def is_recovered(wanted: Position, found: Sequence[Placed], top: Position) -> bool:
    """Whether *found* is all that came after *wanted*, up to the *top*."""
    if wanted.epoch not in ("", top.epoch):
        return False
    # They come in order, so as many as there were are all there were.
    return len(found) == top.offset - wanted.offset


def is_in_cache(wanted: Position, found: Sequence[Placed], top: Position) -> bool:
    """The same where only the latest publication counts."""
    return found[0].offset == top.offset if found else wanted == top


def joined(read: Sequence[P], live: Iterable[P], top: Position) -> tuple[list[P], int]:
    """The history, and behind it what came while it was read; and the offset of the end.

    *top* is the position when the history was read.  Raises Hole.
    """
    whole = list(read)
    end = top.offset
    for each in live:
        if each.offset <= end:
            continue
        if each.offset != end + 1:
            raise Hole
        whole.append(each)
        end = each.offset
    return whole, end
