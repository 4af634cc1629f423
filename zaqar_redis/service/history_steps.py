# SPDX-License-Identifier: Apache-2.0
"""What happened between the points of a history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from zaqar_redis.figures import HistoryPoint

#: Of a `HistoryPoint`: what happened since the queue was created.
COUNTERS = ("posted", "claims", "released", "deleted", "expired", "purged", "dead_lettered")


class HistoryStep(Struct, frozen=True):
    """A queue at a moment, with what happened since the step before.  Times are seconds."""

    at: int
    free: int
    claimed: int
    delayed: int
    total: int
    #: age of the oldest message; None: there is none
    oldest: int | None
    posted: int
    claims: int
    released: int
    deleted: int
    expired: int
    purged: int
    dead_lettered: int


def happened(before: HistoryPoint, after: HistoryPoint) -> dict[str, int]:
    """Returns what happened between two points of a queue, by the names of the counters."""
    # A queue that was created again counts from zero.
    return {
        name: now - was if (now := getattr(after, name)) >= (was := getattr(before, name)) else now
        for name in COUNTERS
    }


def steps(points: Sequence[HistoryPoint], interval: int) -> Iterator[HistoryStep]:
    """Yields what happened between the points, by differences of their counters.

    Between two points that are further apart than *interval* nothing changed until shortly before
    the second one: there is one more step then.
    """
    if points:
        yield _step(points[0], points[0], points[0].at)
    for before, after in pairwise(points):
        if after.at - before.at > 1.5 * interval:
            yield _step(before, before, after.at - interval)
        yield _step(before, after, after.at)


def _step(before: HistoryPoint, after: HistoryPoint, at: int) -> HistoryStep:
    return HistoryStep(
        at=at,
        free=after.free,
        claimed=after.claimed,
        delayed=after.delayed,
        total=after.free + after.claimed + after.delayed,
        oldest=max(0, at - after.oldest) if after.oldest else None,
        **happened(before, after),
    )
