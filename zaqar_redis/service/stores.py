# SPDX-License-Identifier: Apache-2.0
"""The stores of a service, as operators watch them: each by itself, available or not."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from zaqar_redis import errors, runner
from zaqar_redis.figures import QueueFigures, StoreStatus
from zaqar_redis.keyspace.client import CommandRefused
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.deliveries import Deliveries
from zaqar_redis.storage.figures import StoreFigures
from zaqar_redis.storage.pools import PooledDriver

T = TypeVar("T")

#: Queues that are read together: three milliseconds of the event loop, and as many of the store,
#: which serves others in between.
_PAGE = 200
#: Seconds for which what a store has told is shared by all who ask.
_FRESH = 1.0
#: Round trips that are timed: one alone may meet a fork, or another request of this process.
_PINGS = 5

#: Milliseconds for which deliveries may be due that no notifier has taken: each looks far more
#: often, and takes whatever is due.
_LATE_MS = 60_000
#: Queues with such deliveries that are counted.
_LATE_MAX = 100

#: What a Redis is used for; one may be for several.
StoreKind = Literal["queues", "control", "channels"]


async def store_names(driver: Driver) -> list[str]:
    """Returns the names of all stores.  Raises StoreUnavailable when they are not known yet."""
    if not isinstance(driver, PooledDriver):
        return [DEFAULT_POOL]
    return [DEFAULT_POOL, *await driver.router.stores.pools()]


async def open_store(driver: Driver, name: str) -> Driver:
    """Returns the driver of a store.  Raises Unavailable, BadConfiguration."""
    if not isinstance(driver, PooledDriver):
        return driver
    return (await driver.router.stores.get(name)).driver


async def queue_pages(
    figures: StoreFigures, project: str, share: int, *, topics: bool = False
) -> AsyncIterator[Sequence[QueueFigures]]:
    """Yields the figures of all queues, or topics, that a project has in a store, by name.

    Of the time that this takes, it works for one part in *share*: the rest is pauses.
    """
    names = await figures.names(project, "", _PAGE, topics=topics)
    while names:
        began = time.monotonic()
        page, names = await asyncio.gather(
            figures.queues(project, names),
            figures.names(project, names[-1], _PAGE, topics=topics),
        )
        yield page
        await asyncio.sleep((time.monotonic() - began) * (share - 1))


class StoreReport(Struct, frozen=True):
    """A store at a moment, as this process sees it."""

    kind: StoreKind
    name: str
    available: bool
    #: why it is not available, or what is wrong with it; empty: nothing
    error: str = ""
    #: milliseconds of a round trip, the median
    latency: float | None = None
    #: milliseconds by which its clock is ahead of this process's
    clock_skew: float | None = None
    #: in all projects
    queues: int | None = None
    #: None: it does not say
    status: StoreStatus | None = None
    #: project and queue or topic of those with deliveries that nobody makes; a hundred at most
    late: Sequence[tuple[str, str]] = ()
    #: it would be available if it were named in another way
    misconfigured: bool = False


class StoreMonitor:
    """Asks the stores how they are.  However long one takes, who asks does not wait for it."""

    def __init__(
        self, driver: Driver, channels: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """*channels*: pings the stores of channels, if there are any."""
        self._driver = driver
        self._channels = channels
        #: every store, and how many queues it has by the catalogue; None: not known
        self._queues: dict[str, int | None] = {DEFAULT_POOL: None}
        #: the last question of each kind, and when it was asked; perhaps there is no answer yet
        self._asked: dict[tuple[str, str], tuple[float, asyncio.Task[Any]]] = {}
        #: of stores that have answered the first part of the last question, and not yet all of it
        self._begun: dict[tuple[str, str], StoreReport] = {}

    async def reports(self, seconds: float) -> list[StoreReport]:
        """Returns a report of each store; of one that does not answer in time, that it does not,
        and of one that is slow to tell the rest, that it answers.

        Takes *seconds* at most.  Whoever asks often is given the same.
        """
        began = time.monotonic()
        counting = self._ask(("counts", ""), self._count)
        # When the control store is away, the stores that were known are asked.
        await asyncio.wait((counting,), timeout=seconds / 3)
        counts = self._queues
        asked: dict[tuple[StoreKind, str], asyncio.Task[StoreReport]] = {
            ("queues", name): self._ask(("queues", name), partial(self._store, name))
            for name in counts
        }
        if isinstance(self._driver, PooledDriver):
            of = self._driver.control
            ask = partial(_ask, "control", "control", of.ping, of.status, self._note_begun)
            asked["control", "control"] = self._ask(("control", "control"), ask)
        if self._channels is not None:
            ask = partial(_ask, "channels", "channels", self._channels)
            asked["channels", "channels"] = self._ask(("channels", "channels"), ask)
        left = max(0.0, seconds - (time.monotonic() - began))
        await asyncio.wait(asked.values(), timeout=left)
        found = [
            task.result() if task.done() else self._begun.get(about) or _late(*about, seconds)
            for about, task in asked.items()
        ]
        runs = {each.status.run for each in found if each.kind == "queues" and each.status}
        return [
            replace(each, queues=counts.get(each.name)) if each.kind == "queues" else each
            for each in found
            # One Redis is reported once.
            if each.kind == "queues" or each.status is None or each.status.run not in runs
        ]

    async def unavailable(self, seconds: float) -> list[str]:
        """Returns the stores that do not answer in time."""
        return [each.name for each in await self.reports(seconds) if not each.available]

    async def close(self) -> None:
        await runner.cancel(*(task for _, task in self._asked.values()))

    def _ask(
        self, about: tuple[str, str], ask: Callable[[], Coroutine[Any, Any, T]]
    ) -> asyncio.Task[T]:
        """Returns a question that has no answer yet, or was asked a moment ago; else asks."""
        now = time.monotonic()
        asked_at, task = self._asked.get(about, (0.0, None))
        if task is None or (task.done() and now - asked_at > _FRESH):
            self._begun.pop(about, None)
            task = asyncio.create_task(ask())
            self._asked[about] = now, task
        return task

    def _note_begun(self, report: StoreReport) -> None:
        self._begun[report.kind, report.name] = report

    async def _count(self) -> None:
        if isinstance(self._driver, PooledDriver):
            with contextlib.suppress(errors.Unavailable):
                counts = await self._driver.jobs.counts()
                self._queues = {**counts}
                for each in self._asked.keys() - {("queues", name) for name in counts}:
                    if each[0] == "queues" and self._asked[each][1].done():
                        del self._asked[each]
                        self._begun.pop(each, None)

    async def _store(self, name: str) -> StoreReport:
        try:
            store = await open_store(self._driver, name)
        except Exception as error:  # whatever it is, the operator must see it
            return _away("queues", name, error)
        return await ask_driver("queues", name, store, self._note_begun)


async def ask_driver(
    kind: StoreKind,
    name: str,
    driver: Driver,
    on_answer: Callable[[StoreReport], None] = lambda report: None,
) -> StoreReport:
    """Asks a store of queues how it is.  Raises nothing: what goes wrong is in the report.

    *on_answer* gets a report without what takes longer, as soon as the store has answered.
    """
    status = driver.figures.status if driver.figures is not None else None
    report = await _ask(kind, name, driver.ping, status, on_answer)
    if kind != "queues" or driver.deliveries is None or not report.available:
        return report
    on_answer(report)
    try:
        return replace(report, late=await _late_deliveries(driver.deliveries))
    except CommandRefused:  # a user who may not run scripts: nothing is known of deliveries
        return report
    except Exception as error:  # as in `_store`
        return _away(kind, name, error)


async def _late_deliveries(deliveries: Deliveries) -> Sequence[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    async for each in deliveries.due(_LATE_MS):
        found.append(each)
        if len(found) == _LATE_MAX:
            break
    return found


async def _ask(
    kind: StoreKind,
    name: str,
    ping: Callable[[], Awaitable[None]],
    status: Callable[[], Awaitable[StoreStatus | None]] | None = None,
    on_answer: Callable[[StoreReport], None] = lambda report: None,
) -> StoreReport:
    try:
        latency = statistics.median([await _round_trip(ping) for _ in range(_PINGS)])
        on_answer(StoreReport(kind, name, True, "", latency))
        asked = time.time()
        told = await status() if status is not None else None
    except Exception as error:  # as in `_store`
        return _away(kind, name, error)
    skew = None
    if told is not None and told.now is not None:
        skew = told.now - 500 * (asked + time.time())  # as if it read its clock half way
    return StoreReport(kind, name, True, "", latency, skew, status=told)


async def _round_trip(ping: Callable[[], Awaitable[None]]) -> float:
    """Returns milliseconds."""
    began = time.monotonic()
    await ping()
    return 1000 * (time.monotonic() - began)


def _late(kind: StoreKind, name: str, seconds: float) -> StoreReport:
    return StoreReport(kind, name, False, f"It did not answer within {seconds:g} s.")


def _away(kind: StoreKind, name: str, error: Exception) -> StoreReport:
    if isinstance(error, errors.StoreInCluster):  # it says more than Redis does
        return StoreReport(kind, name, False, errors.reason(error), misconfigured=True)
    return StoreReport(kind, name, False, errors.reason(error.__cause__ or error))
