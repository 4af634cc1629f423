# SPDX-License-Identifier: Apache-2.0
"""The history of the figures of every queue, and what is wrong with queues.

One worker of the installation reads all queues every minute or so.  A point is stored only for
queues whose figures have changed, so that idle ones cost nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from zaqar_redis import errors
from zaqar_redis.figures import Alarm, HistoryPoint, LargeQueue, QueueFigures
from zaqar_redis.service.queue_alarms import QueueAlarms
from zaqar_redis.service.stores import open_store, queue_pages, store_names
from zaqar_redis.storage.figures import StoreFigures
from zaqar_redis.storage.pools import PooledDriver

LOG = logging.getLogger(__name__)

#: The role of the process that samples all queues.
_ROLE = "history"
#: Seconds for which it has the role after its last round, beside two intervals.
_LEASE_SECONDS = 10.0
#: Sampling works for one part of its time in so many; the rest is pauses.
_SHARE = 5
#: Queues whose last point is remembered: some 25 MB; of more, points are compared in the store.
_REMEMBERED_MAX = 100_000
#: Points that are written together: a few milliseconds.
_PAGE = 100
#: Largest queues of a store that are noted: an alarm names them in a line.
_LARGEST = 3


class HistorySettings(Struct, frozen=True):
    interval: Annotated[
        int,
        Meta(ge=0, le=3600),
        "Seconds between two points of the history of a queue, which the console shows; 0: there "
        "is no history, and no alarms about queues.",
    ] = 60
    hours: Annotated[int, Meta(ge=1, le=168), "Hours for which the history of a queue is kept."] = (
        24
    )
    queues_max: Annotated[
        int,
        Meta(ge=1, le=100_000),
        "Maximum number of queues that get a point at a time: the busiest ones. A queue that is "
        "busy all the time takes some 90 KB a day, so this bounds the memory of all histories.",
    ] = 1000
    stuck_after: Annotated[
        int,
        Meta(ge=1),
        "Seconds for which one claim may hold the oldest message of a queue, renewed or not, "
        "before the console shows an alarm.",
    ] = 600

    @property
    def seconds(self) -> int:
        """For how long a history is kept."""
        return self.hours * 3600

    @property
    def points(self) -> int:
        """How many points a history has at most."""
        return self.seconds // self.interval


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


_COUNTERS = ("posted", "claims", "released", "deleted", "expired", "purged", "dead_lettered")


def point(figures: QueueFigures) -> HistoryPoint:
    of = figures.counters
    return HistoryPoint(
        at=figures.at // 1000,
        free=figures.free,
        claimed=figures.claimed,
        delayed=figures.delayed,
        oldest=figures.oldest // 1000,
        posted=of.posted,
        claims=of.claimed,
        released=of.released,
        deleted=of.deleted,
        expired=of.expired,
        purged=of.purged,
        dead_lettered=of.dead_lettered,
    )


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
    # A queue that was created again counts from zero.
    counts = {
        name: now - was if (now := getattr(after, name)) >= (was := getattr(before, name)) else now
        for name in _COUNTERS
    }
    return HistoryStep(
        at=at,
        free=after.free,
        claimed=after.claimed,
        delayed=after.delayed,
        total=after.free + after.claimed + after.delayed,
        oldest=max(0, at - after.oldest) if after.oldest else None,
        **counts,
    )


def _largest(
    before: Sequence[LargeQueue], project: str, page: Sequence[QueueFigures]
) -> Sequence[LargeQueue]:
    """Returns the largest queues of those *before* and a page of a project's."""
    found = [LargeQueue(project, each.name, each.total, each.memory) for each in page if each.total]
    # By name: a project may be read twice.
    by_name = {(each.project, each.name): each for each in (*before, *found)}
    return heapq.nlargest(_LARGEST, by_name.values(), key=attrgetter("memory"))


#: Messages that came or went since its last point, a number that breaks ties, project, queue.
_Changed = tuple[int, int, str, str, HistoryPoint]


class HistoryService:
    def __init__(self, driver: PooledDriver, settings: HistorySettings) -> None:
        self.settings = settings
        self._driver = driver
        self._histories = driver.control.histories
        #: project and queue -> its last point, and how many messages had come and gone by then
        self._last: dict[tuple[str, str], tuple[int, int]] = {}
        self._alarms = QueueAlarms(settings.stuck_after)

    async def read(self, project: str, queue: str, hours: int) -> list[HistoryStep]:
        """Returns the history of a queue up to now.  Raises NotFound, StoreUnavailable."""
        found = await self._driver.queues.get(project, queue)
        if found is None:
            raise errors.NotFound(why=f"Queue {queue} does not exist.")
        points = [*await self._histories.read(project, queue)]
        now = await self._now(project, queue)
        if now is not None and (not points or points[-1].at < now.at):
            points.append(now)
        since = points[-1].at - hours * 3600 if points else 0
        begin = bisect_left(points, since, key=lambda each: each.at)
        # What was so when the time began that is asked for.
        before = [replace(points[begin - 1], at=since)] if begin else []
        return [*steps(before + points[begin:], self.settings.interval)]

    async def alarms(self, project: str) -> Sequence[Alarm]:
        """Returns what was wrong with the project's queues in the last round."""
        return await self._histories.alarms(project)

    async def largest_queues(self) -> Mapping[str, Sequence[LargeQueue]]:
        """Returns the largest queues of each store in the last round, the largest first."""
        return await self._histories.largest_queues()

    async def _now(self, project: str, queue: str) -> HistoryPoint | None:
        located = await self._driver.control.catalogue.locate(project, queue)
        store = self._driver.router.stores.default.driver
        if located.pool is not None:
            store = await open_store(self._driver, located.pool)
        if store.figures is None:
            return None
        found = await store.figures.queues(project, [queue])
        return point(found[0]) if found else None

    async def run(self) -> None:
        """Samples all queues again and again, if this process is the one that does."""
        due = time.monotonic()
        while True:
            # Regularly, however long a round takes: a point covers one interval.
            due = max(due + self.settings.interval, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
            try:
                lease = 2 * self.settings.interval + _LEASE_SECONDS
                if await self._driver.control.lead(_ROLE, lease):
                    await self.sample()
                else:
                    self._last.clear()
            except errors.Unavailable:
                continue  # the next round may succeed
            except Exception:  # e.g. a user without the right to a command
                LOG.exception("cannot sample queues", extra={"action": "history_failed"})

    async def resign(self) -> None:
        """Lets another process sample."""
        with contextlib.suppress(errors.Unavailable):
            await self._driver.control.resign(_ROLE)

    async def sample(self) -> None:
        """Appends a point to the history of each queue that has changed, and notes alarms and the
        largest queues."""
        busiest: list[_Changed] = []
        last: dict[tuple[str, str], tuple[int, int]] = {}
        largest: dict[str, Sequence[LargeQueue]] = {}
        self._alarms.begin()
        for name in await store_names(self._driver):
            try:
                figures = (await open_store(self._driver, name)).figures
                if figures is not None:
                    largest[name] = await self._sample_store(figures, last, busiest)
            except (errors.Unavailable, errors.BadConfiguration):
                continue  # its queues get their points when it is back
        self._last = last
        lease = 3 * self.settings.interval + round(_LEASE_SECONDS)
        # Before the points, which a store whose memory is full does not take.
        await self._histories.put_alarms(self._alarms.end(), largest, lease)
        await self._append(busiest)

    async def _sample_store(
        self,
        figures: StoreFigures,
        last: dict[tuple[str, str], tuple[int, int]],
        busiest: list[_Changed],
    ) -> Sequence[LargeQueue]:
        """Notes all queues and topics of a store.  Returns the largest queues."""
        largest: Sequence[LargeQueue] = ()
        async for project, topics in figures.projects():
            async for page in queue_pages(figures, project, _SHARE, topics=topics):
                for each in page:
                    self._alarms.add(project, each)
                if topics:  # nobody claims from them: they have no history
                    continue
                largest = _largest(largest, project, page)
                for each in page:
                    self._note(project, each, last, busiest)
        return largest

    def _note(
        self,
        project: str,
        figures: QueueFigures,
        last: dict[tuple[str, str], tuple[int, int]],
        busiest: list[_Changed],
    ) -> None:
        if not figures.counters.posted:
            return  # it never had a message
        queue, now = (project, figures.name), point(figures)
        if queue in last:
            return  # it moves, and was read in the other store
        total = now.posted + now.claims + now.deleted
        state = hash(msgspec.structs.astuple(now)[1:])
        before = self._last.get(queue)
        if before is None or before[0] != state:
            activity = total - before[1] if before is not None else 0
            entry = activity, len(last), project, figures.name, now
            if len(busiest) < self.settings.queues_max:
                heapq.heappush(busiest, entry)
            else:
                entry = heapq.heappushpop(busiest, entry)
                # It still differs from its last point, and so comes again.
                left_out = entry[2], entry[3]
                if left_out in self._last:
                    last[left_out] = self._last[left_out]
                else:
                    last.pop(left_out, None)
                if left_out == queue:
                    return
        if len(last) < _REMEMBERED_MAX:
            last[queue] = state, total

    async def _append(self, busiest: list[_Changed]) -> None:
        by_project: dict[str, dict[str, HistoryPoint]] = {}
        for _, _, project, queue, now in busiest:
            by_project.setdefault(project, {})[queue] = now
        settings = self.settings
        for project, points in by_project.items():
            names = list(points)
            for begin in range(0, len(names), _PAGE):
                began = time.monotonic()
                page = {name: points[name] for name in names[begin : begin + _PAGE]}
                await self._histories.append(project, page, settings.points, settings.seconds)
                await asyncio.sleep((time.monotonic() - began) * (_SHARE - 1))
