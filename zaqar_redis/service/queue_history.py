# SPDX-License-Identifier: Apache-2.0
"""The history of the figures of every queue and project, and what is wrong with queues.

One worker of the installation reads all queues every minute or so.  A point is stored only for
queues and projects whose figures have changed, so that idle ones cost nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from zaqar_redis import errors
from zaqar_redis.clock import Clock, process
from zaqar_redis.figures import Alarm, HistoryPoint, LargeQueue, QueueFigures
from zaqar_redis.service.history_steps import COUNTERS, HistoryStep, steps
from zaqar_redis.service.project_sums import ProjectSums
from zaqar_redis.service.queue_alarms import QueueAlarms
from zaqar_redis.service.stores import open_store, queue_pages, store_names
from zaqar_redis.storage.figures import StoreFigures
from zaqar_redis.storage.pools import PooledDriver

LOG = logging.getLogger(__name__)

T = TypeVar("T")

#: The role of the process that samples all queues.
_ROLE = "history"
#: Seconds for which it has the role after its last round, beside two intervals.
_LEASE_SECONDS = 10.0
#: Sampling works for one part of its time in so many; the rest is pauses.
_SHARE = 5
#: Queues whose last point is remembered: some 25 MB; of more, points are compared in the store, and
#: what happens is in no history of a project.
_REMEMBERED_MAX = 100_000
#: In place of a queue, in the history of its project.
_PROJECT = ""
#: Points that are written together: a few milliseconds.
_PAGE = 100
#: Projects and queues that are gone through in one go: a millisecond or two.
_CHUNK = 300
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
        "Maximum number of queues that get a point at a time: the busiest ones; and of projects. A "
        "queue that is busy all the time takes some 90 KB a day, so this bounds the memory of all "
        "histories.",
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


def _largest(
    before: Sequence[LargeQueue], project: str, page: Sequence[QueueFigures]
) -> Sequence[LargeQueue]:
    """Returns the largest queues of those *before* and a page of a project's."""
    found = [LargeQueue(project, each.name, each.total, each.memory) for each in page if each.total]
    # By name: a project may be read twice.
    by_name = {(each.project, each.name): each for each in (*before, *found)}
    return heapq.nlargest(_LARGEST, by_name.values(), key=attrgetter("memory"))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HistoryPoint).decode
_NO_POINT = HistoryPoint(0, 0, 0, 0, 0, **dict.fromkeys(COUNTERS, 0))


class _Known(Struct, gc=False):
    """A queue or project, by its points without their times, which take some 60 bytes."""

    #: as it was read last
    read: bytes
    #: the last one of its history; empty: this process has appended none
    stored: bytes = b""


#: Messages that came or went since its last point, a number that breaks ties, project and queue.
_Changed = tuple[int, int, tuple[str, str], HistoryPoint]


async def _paused(items: Iterable[T]) -> AsyncIterator[T]:
    """Yields the items; others work after some of them."""
    for number, item in enumerate(items):
        if number % _CHUNK == _CHUNK - 1:
            await asyncio.sleep(0)
        yield item


def _read(now: HistoryPoint) -> bytes:
    return _encode(replace(now, at=0))


def _activity(known: _Known | None, now: HistoryPoint) -> int:
    if known is None or not known.stored:
        return 0
    before = _decode(known.stored)
    return now.posted + now.claims + now.deleted - before.posted - before.claims - before.deleted


class HistoryService:
    def __init__(
        self, driver: PooledDriver, settings: HistorySettings, now: Clock = process
    ) -> None:
        """*now*: of this process, not of a store."""
        self.settings = settings
        self._driver = driver
        self._now = now
        self._histories = driver.control.histories
        self._forget()
        self._alarms = QueueAlarms(settings.stuck_after)

    def _forget(self) -> None:
        #: whether a round was made, so that what is not known is new
        self._began = False
        #: project and queue -> what the last round has read
        self._last: dict[tuple[str, str], _Known] = {}
        #: what it has not, of the round before: a queue that moves, or whose store was away
        self._missed: dict[tuple[str, str], _Known] = {}
        self._sums = ProjectSums()

    async def read(self, project: str, queue: str, hours: int) -> list[HistoryStep]:
        """Returns the history of a queue up to now.  Raises NotFound, StoreUnavailable."""
        found = await self._driver.queues.get(project, queue)
        if found is None:
            raise errors.NotFound(why=f"Queue {queue} does not exist.")
        points = [*await self._histories.read(project, queue)]
        now = await self._queue_now(project, queue)
        if now is not None and (not points or points[-1].at < now.at):
            points.append(now)
        return self._steps(points, hours)

    async def read_project(self, project: str, hours: int) -> list[HistoryStep]:
        """Returns the history of a project: the sums of its queues.  Raises StoreUnavailable."""
        points = [*await self._histories.read(project, _PROJECT)]
        now = self._now() // 1000
        # The next point may be on its way.
        if points and now - points[-1].at > 2 * self.settings.interval:
            points.append(replace(points[-1], at=now))
        return self._steps(points, hours)

    def _steps(self, points: list[HistoryPoint], hours: int) -> list[HistoryStep]:
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

    async def _queue_now(self, project: str, queue: str) -> HistoryPoint | None:
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
                    self._forget()
            except errors.Unavailable:
                continue  # the next round may succeed
            except Exception:  # e.g. a user without the right to a command
                LOG.exception("cannot sample queues", extra={"action": "history_failed"})

    async def resign(self) -> None:
        """Lets another process sample."""
        with contextlib.suppress(errors.Unavailable):
            await self._driver.control.resign(_ROLE)

    async def sample(self) -> None:
        """Appends a point to the history of each queue and project that has changed, and notes
        alarms and the largest queues."""
        busiest: list[_Changed] = []
        last: dict[tuple[str, str], _Known] = {}
        largest: dict[str, Sequence[LargeQueue]] = {}
        self._alarms.begin()
        self._sums.begin()
        complete = True
        for name in await store_names(self._driver):
            try:
                figures = (await open_store(self._driver, name)).figures
                if figures is not None:
                    largest[name] = await self._sample_store(figures, last, busiest)
            except (errors.Unavailable, errors.BadConfiguration):
                complete = False  # its queues get their points when it is back
        projects = await self._end_round(last, complete=complete)
        lease = 3 * self.settings.interval + round(_LEASE_SECONDS)
        # Before the points, which a store whose memory is full does not take.
        await self._histories.put_alarms(self._alarms.end(), largest, lease)
        await self._append(busiest + projects)

    async def _end_round(
        self, last: dict[tuple[str, str], _Known], *, complete: bool
    ) -> list[_Changed]:
        """Remembers what was read.  Returns the points of projects that have changed, if all
        stores were read."""
        projects: list[_Changed] = []
        if complete:
            async for project, total in _paused(self._sums.points(self._now() // 1000)):
                self._offer((project, _PROJECT), total, last, projects)
        missed = {} if complete else self._missed
        async for queue, known in _paused([*self._last.items()]):
            # While a store is away, queues come and go in others.
            if queue not in last and len(missed) < _REMEMBERED_MAX:
                missed[queue] = known
        self._missed, self._last, self._began = missed, last, True
        return projects

    async def _sample_store(
        self,
        figures: StoreFigures,
        last: dict[tuple[str, str], _Known],
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
        last: dict[tuple[str, str], _Known],
        busiest: list[_Changed],
    ) -> None:
        if not figures.counters.posted:
            return  # it never had a message
        queue, now = (project, figures.name), point(figures)
        if queue in last:
            return  # it moves, and was read in the other store
        self._sums.add(project, self._before(queue, now), now)
        self._offer(queue, now, last, busiest)

    def _before(self, queue: tuple[str, str], now: HistoryPoint) -> HistoryPoint | None:
        """Returns what `ProjectSums.add` needs."""
        known = self._known(queue)
        if known is not None:
            return None if known.read == _read(now) else _decode(known.read)
        is_new = self._began and len(self._last) < _REMEMBERED_MAX
        return _NO_POINT if is_new else None

    def _known(self, queue: tuple[str, str]) -> _Known | None:
        return self._last.get(queue) or self._missed.get(queue)

    def _offer(
        self,
        queue: tuple[str, str],
        now: HistoryPoint,
        last: dict[tuple[str, str], _Known],
        busiest: list[_Changed],
    ) -> None:
        """Adds the point to the *busiest* if it has changed, perhaps in place of another one."""
        known, read = self._known(queue), _read(now)
        if len(last) < _REMEMBERED_MAX:
            last[queue] = _Known(read, read)
        if known is not None and known.stored == read:
            return
        entry = _activity(known, now), len(last), queue, now
        if len(busiest) < self.settings.queues_max:
            heapq.heappush(busiest, entry)
            return
        left_out = heapq.heappushpop(busiest, entry)[2]
        if left_out in last:
            # It still differs from its last point, and so comes again.
            before = self._known(left_out)
            last[left_out].stored = before.stored if before is not None else b""

    async def _append(self, busiest: list[_Changed]) -> None:
        by_project: dict[str, dict[str, HistoryPoint]] = {}
        for _, _, (project, queue), now in busiest:
            by_project.setdefault(project, {})[queue] = now
        settings = self.settings
        for project, points in by_project.items():
            names = list(points)
            for begin in range(0, len(names), _PAGE):
                began = time.monotonic()
                page = {name: points[name] for name in names[begin : begin + _PAGE]}
                await self._histories.append(project, page, settings.points, settings.seconds)
                await asyncio.sleep((time.monotonic() - began) * (_SHARE - 1))
