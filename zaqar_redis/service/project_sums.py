# SPDX-License-Identifier: Apache-2.0
"""The figures of whole projects, as points of their histories: sums over their queues."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from zaqar_redis.figures import HistoryPoint
from zaqar_redis.service.history_steps import COUNTERS, happened


class _Sum(Struct):
    """The queues of a project in one round."""

    at: int = 0
    free: int = 0
    claimed: int = 0
    delayed: int = 0
    #: when the oldest message was created; 0: there is none
    oldest: int = 0


class ProjectSums:
    """Sums of queues that are read in rounds.

    The counters of a project count from the first round, and never fall: sums of those of its
    queues would, when a queue is deleted or its store is away.
    """

    def __init__(self) -> None:
        self._counters: dict[str, dict[str, int]] = {}
        self._sums: dict[str, _Sum] = {}

    def begin(self) -> None:
        self._sums = {}

    def add(self, project: str, before: HistoryPoint | None, now: HistoryPoint) -> None:
        """*before*: as the queue was read last; None: nothing happened since, or nobody knows."""
        found = self._sums.setdefault(project, _Sum())
        found.at = max(found.at, now.at)
        found.free += now.free
        found.claimed += now.claimed
        found.delayed += now.delayed
        found.oldest = min(filter(None, (found.oldest, now.oldest)), default=0)
        counters = self._counters.setdefault(project, dict.fromkeys(COUNTERS, 0))
        if before is not None:
            for name, count in happened(before, now).items():
                counters[name] += count

    def points(self, at: int) -> Iterator[tuple[str, HistoryPoint]]:
        """Yields each project and its point, once all queues were read; *at*: seconds, of those
        that have no queue any more."""
        for project, counters in [*self._counters.items()]:
            found = self._sums.get(project)
            if found is None:
                del self._counters[project]
                found = _Sum(at)
            states = found.at, found.free, found.claimed, found.delayed, found.oldest
            yield project, HistoryPoint(*states, **counters)
