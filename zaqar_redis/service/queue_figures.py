# SPDX-License-Identifier: Apache-2.0
"""The figures of all queues, or topics, of a project, sorted and filtered, for who watches them.

A worker reads them when somebody looks, and again every few seconds while somebody does.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from zaqar_redis import errors, rules, runner
from zaqar_redis.figures import QueueFigures
from zaqar_redis.service.stores import open_store, queue_pages, store_names
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.pools import PooledDriver

LOG = logging.getLogger(__name__)

#: Most queues of a project that are read: some 50 MB.
_QUEUES_MAX = 100_000
#: Most lists that are watched at once; who has not been looked at for longest gives way.
_PROJECTS_MAX = 16
#: Seconds between the end of a reading and the next one.
_INTERVAL = 2.0
#: A reading works for one part of its time in so many: only the first one makes no pauses.
_SHARE = 4
#: Seconds without a look after which a project is not watched any more.
_LOOKED = 15.0
#: Queues that are sorted, or added up, in one go: a millisecond or two.
_CHUNK = 2000

SortColumn = Literal[
    "name",
    "free",
    "claimed",
    "delayed",
    "total",
    "oldest",
    "posted",
    "claimed_rate",
    "deleted",
    "dead_letters",
    "subscriptions",
]

#: Of these that are figures of a queue at a moment.
_STATES = ("free", "claimed", "delayed", "total")


class QueueRow(Struct, gc=False):
    """A queue or topic, as it is listed."""

    #: of a topic, too, as clients know it
    name: str
    #: the pool that it is in
    store: str
    figures: QueueFigures
    #: a second, since the reading before; None: there was none
    posted: float | None = None
    claimed_rate: float | None = None
    deleted: float | None = None
    dead_lettered: float | None = None
    #: of *posted*, those that other queues sent as dead letters
    received_dead_letters: float = 0.0
    #: messages in its dead-letter queue
    dead_letters: int = 0
    #: it is the dead-letter queue of another one
    is_dead_letter_queue: bool = False

    @property
    def subscriptions(self) -> int:
        return self.figures.subscriptions

    @property
    def oldest(self) -> float | None:
        """Seconds since the oldest message was created; None: there is none."""
        figures = self.figures
        return max(0, figures.at - figures.oldest) / 1000 if figures.oldest else None


class Totals(Struct):
    """Of all queues of a project; rates a second, None when they are not known yet.

    *posted* does not count messages again that become dead letters.
    """

    queues: int = 0
    messages: int = 0
    free: int = 0
    claimed: int = 0
    delayed: int = 0
    #: messages in dead-letter queues
    dead_letters: int = 0
    posted: float | None = None
    claimed_rate: float | None = None
    deleted: float | None = None

    def add(self, rows: Iterable[QueueRow]) -> None:
        for row in rows:
            figures = row.figures
            self.queues += 1
            self.messages += figures.total
            self.free += figures.free
            self.claimed += figures.claimed
            self.delayed += figures.delayed
            if row.is_dead_letter_queue:
                self.dead_letters += figures.total
            if row.posted is not None:
                # Two queues are not read at the same moment.
                posted = max(0.0, row.posted - row.received_dead_letters)
                self.posted = (self.posted or 0.0) + posted
                self.claimed_rate = (self.claimed_rate or 0.0) + (row.claimed_rate or 0.0)
                self.deleted = (self.deleted or 0.0) + (row.deleted or 0.0)


class ProjectFigures(Struct):
    """The queues of a project at a moment."""

    #: by name
    rows: list[QueueRow]
    totals: Totals
    #: when the reading ended, in seconds since 1970
    sampled_at: float
    #: False: not all could be read yet
    complete: bool = True
    #: stores that could not be read: of their queues the last known figures are shown
    unavailable: tuple[str, ...] = ()


class QueueFilter(Struct, frozen=True):
    """Which queues are wanted, and in which order."""

    search: str = ""
    sort: SortColumn = "name"
    descending: bool = False
    not_empty: bool = False
    dead_letters: bool = False

    def matches(self, row: QueueRow) -> bool:
        return (
            (not self.search or self.search in row.name.lower())
            and (not self.not_empty or row.figures.total > 0)
            and (
                not self.dead_letters
                or row.dead_letters > 0
                or (row.is_dead_letter_queue and row.figures.total > 0)
            )
        )

    def key(self) -> Callable[[QueueRow], Any]:
        if self.sort == "name":
            return lambda row: row.name
        name = f"figures.{self.sort}" if self.sort in _STATES else self.sort
        value = attrgetter(name)
        return lambda row: -1 if (found := value(row)) is None else found


async def select(
    found: ProjectFigures, wanted: QueueFilter, offset: int, limit: int
) -> tuple[list[QueueRow], int]:
    """Returns a page of the queues that are wanted, and how many these are.

    Other requests of this worker go on meanwhile.
    """
    chunks: list[list[QueueRow]] = []
    matching = 0
    key = wanted.key()
    for begin in range(0, len(found.rows), _CHUNK):
        chunk = [row for row in found.rows[begin : begin + _CHUNK] if wanted.matches(row)]
        matching += len(chunk)
        chunk.sort(key=key, reverse=wanted.descending)
        del chunk[offset + limit :]
        chunks.append(chunk)
        await asyncio.sleep(0)
    merged = heapq.merge(*chunks, key=key, reverse=wanted.descending)
    return list(islice(merged, offset, offset + limit)), matching


class _ProjectWatch:
    """Reads the queues, or topics, of one project for as long as somebody looks."""

    def __init__(self, driver: Driver, project: str, *, topics: bool) -> None:
        self._driver = driver
        self._project = project
        self._topics = topics
        self.looked_at = time.monotonic()
        self.found: ProjectFigures | None = None
        #: what is being read, by name
        self._reading: dict[str, QueueRow] = {}
        #: stores whose queues were all read once
        self._read_stores: set[str] = set()
        self.first = asyncio.Event()
        self.task = asyncio.create_task(self._run(), name="queue figures")

    def partial(self) -> ProjectFigures:
        """Returns what has been read so far."""
        rows = sorted(self._reading.values(), key=lambda row: row.name)
        totals = Totals()
        totals.add(rows)
        return ProjectFigures(rows, totals, time.time(), complete=False)

    async def _run(self) -> None:
        share = 1
        try:
            while time.monotonic() - self.looked_at < _LOOKED:
                try:
                    self.found = await self._read(share)
                except Exception:  # e.g. a user without the right to a command
                    LOG.exception("cannot read queues", extra={"action": "figures_failed"})
                self.first.set()
                share = _SHARE
                await asyncio.sleep(_INTERVAL)
        finally:
            self.first.set()
            self.found = None  # some MB, which nobody needs until the next look

    async def _read(self, share: int) -> ProjectFigures:
        before = {row.name: row for row in self.found.rows} if self.found is not None else {}
        self._reading = {}
        try:
            names = await store_names(self._driver)
        except errors.Unavailable:
            names = list({DEFAULT_POOL: None} | {row.store: None for row in before.values()})
        read = await asyncio.gather(*(self._read_store(name, before, share) for name in names))
        unavailable = await self._own(
            [name for name, good in zip(names, read, strict=True) if not good]
        )
        rows = list(self._reading.values())
        rows += [
            # What it is now nobody knows: no rates, and no part of the project's.
            replace(row, posted=None, claimed_rate=None, deleted=None, dead_lettered=None)
            for name, row in before.items()
            if row.store in unavailable and name not in self._reading
        ]
        rows.sort(key=lambda row: row.name)
        await _note_dead_letters(rows)
        totals = Totals()
        for begin in range(0, len(rows), _CHUNK):
            totals.add(rows[begin : begin + _CHUNK])
            await asyncio.sleep(0)
        self._reading = {}
        self._read_stores.update(name for name, good in zip(names, read, strict=True) if good)
        complete = len(rows) < _QUEUES_MAX and self._read_stores.issuperset(unavailable)
        return ProjectFigures(rows, totals, time.time(), complete, unavailable)

    async def _own(self, stores: Sequence[str]) -> tuple[str, ...]:
        """Returns those that have something of the project, as far as the catalogue knows."""
        if not stores or not isinstance(self._driver, PooledDriver):
            return tuple(stores)
        try:
            pools = await self._driver.control.catalogue.pools_of(self._project)
        except errors.Unavailable:
            return tuple(stores)
        return tuple(name for name in stores if name in pools or name == DEFAULT_POOL)

    async def _read_store(self, name: str, before: dict[str, QueueRow], share: int) -> bool:
        """Returns whether all queues of a store could be read."""
        try:
            figures = (await open_store(self._driver, name)).figures
            if figures is None:
                return True
            pages = queue_pages(figures, self._project, share, topics=self._topics)
            async for page in pages:
                for each in page:
                    row = _row(name, each, before)
                    self._reading[row.name] = row
                if len(self._reading) >= _QUEUES_MAX:
                    return True
        except (errors.Unavailable, errors.BadConfiguration):
            return False
        return True


def _row(store: str, figures: QueueFigures, before: Mapping[str, QueueRow]) -> QueueRow:
    row = QueueRow(figures.name.removeprefix(rules.TOPIC_PREFIX), store, figures)
    known = before[row.name].figures if row.name in before else None
    # A queue that was created again counts from zero.
    if known is not None and known.epoch == figures.epoch and known.at < figures.at:
        seconds = (figures.at - known.at) / 1000
        now, then = figures.counters, known.counters
        row.posted = max(0, now.posted - then.posted) / seconds
        row.claimed_rate = max(0, now.claimed - then.claimed) / seconds
        row.deleted = max(0, now.deleted - then.deleted) / seconds
        row.dead_lettered = max(0, now.dead_lettered - then.dead_lettered) / seconds
    return row


async def _note_dead_letters(rows: Sequence[QueueRow]) -> None:
    """Notes which rows are dead-letter queues, what they receive, and how many messages the others
    have there."""
    totals = {row.figures.dead_letter_queue: 0 for row in rows}
    rates = dict.fromkeys(totals, 0.0)
    for row in rows:
        rates[row.figures.dead_letter_queue] += row.dead_lettered or 0.0
    await asyncio.sleep(0)
    for row in rows:
        if row.name in totals:
            row.is_dead_letter_queue = True
            row.received_dead_letters = rates[row.name]
            totals[row.name] = row.figures.total
    await asyncio.sleep(0)
    for row in rows:
        row.dead_letters = totals[row.figures.dead_letter_queue]


class QueueFiguresService:
    """The figures of the queues and topics of all projects that somebody looks at."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        #: by project, and whether it reads topics
        self._watches: dict[tuple[str, bool], _ProjectWatch] = {}

    async def get(self, project: str, seconds: float, *, topics: bool = False) -> ProjectFigures:
        """Returns the queues, or topics, of a project, as they were read some seconds ago.

        Takes *seconds* at most: then it returns what has been read so far.
        """
        watch = self._watches.get((project, topics))
        if watch is None or watch.task.done():
            self._watches = {
                key: each for key, each in self._watches.items() if not each.task.done()
            }
            if len(self._watches) >= _PROJECTS_MAX:
                least = min(self._watches, key=lambda key: self._watches[key].looked_at)
                self._watches.pop(least).task.cancel()
            watch = _ProjectWatch(self._driver, project, topics=topics)
            self._watches[project, topics] = watch
        watch.looked_at = time.monotonic()
        if watch.found is None:
            try:
                async with asyncio.timeout(seconds):
                    await watch.first.wait()
            except TimeoutError:
                pass
        return watch.found or watch.partial()

    async def close(self) -> None:
        await runner.cancel(*(watch.task for watch in self._watches.values()))
