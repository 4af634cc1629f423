# SPDX-License-Identifier: Apache-2.0
"""The metrics of stores and of chosen queues, which one worker of a service reads."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from zaqar_redis import errors, rules
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.records import Stats
from zaqar_redis.service.stores import StoreMonitor
from zaqar_redis.storage.contract import Driver

LOG = logging.getLogger(__name__)

#: Queues that are read together: one small write, and a slice of milliseconds for the store.
_PAGE = 100
#: Of the time that reading names takes, the worker does it at most one part in so many: there may
#: be hundreds of thousands of queues.
_NAMES_SHARE = 10
#: Looks at queues between two searches for new ones.
_LOOKS = 4
#: Seconds between two looks, however many queues are found meanwhile.
_READ_PAUSE = 1.0
#: Seconds that a store may take to tell its memory.
_STORE_TIMEOUT = 5.0


class QueueMetricsSettings(Struct, frozen=True):
    queues: Annotated[
        tuple[str, ...],
        "Queues that have metrics of their own: PROJECT/NAME each, where NAME may be a glob, such "
        "as default/orders-?. A queue that is named without a glob needs not exist.",
    ] = ()
    #: a snapshot has room for so many with the longest names: `metrics.shared`
    queues_max: Annotated[
        int,
        Meta(ge=1, le=1000),
        "Maximum number of these queues; each has 13 series. How many more match is a metric.",
    ] = 100
    queues_interval: Annotated[
        float,
        Meta(ge=1.0),
        "Seconds between two looks at them and at the memory of stores, by one worker of the "
        "service; a new queue that matches "
        "a glob is found after four of them.",
    ] = 15.0


class QueuePattern(Struct, frozen=True):
    """Which queues of a project are meant."""

    project: str
    #: what every name begins with
    prefix: str
    matches: Callable[[str], object]
    is_name: bool

    @classmethod
    def parse(cls, text: str) -> QueuePattern:
        """Raises ValueError."""
        project, slash, name = text.rpartition("/")
        if not (slash and project and name):
            raise ValueError("it must be PROJECT/NAME")
        prefix = re.split(r"[*?[]", name, maxsplit=1)[0]
        return cls(project, prefix, re.compile(fnmatch.translate(name)).fullmatch, prefix == name)


def problems(settings: QueueMetricsSettings) -> Iterator[str]:
    """Yields what is wrong with the settings."""
    for text in settings.queues:
        try:
            pattern = QueuePattern.parse(text)
            if pattern.is_name:
                rules.queue_name(pattern.prefix)
        except ValueError as error:
            yield f"[metrics] queues: {text}: {error}"
        except errors.BadQueue as error:
            yield f"[metrics] queues: {text}: {error.text}"


class QueueMetrics:
    """Reads stores and the chosen queues, in the one worker of the service that may."""

    def __init__(self, driver: Driver, settings: QueueMetricsSettings) -> None:
        self._queues = driver.queues
        self._stores = StoreMonitor(driver)
        self._settings = settings
        patterns = [QueuePattern.parse(text) for text in settings.queues]
        self._patterns = [each for each in patterns if not each.is_name]
        self._names = {(each.project, each.prefix): None for each in patterns if each.is_name}
        #: those that are read; a dict keeps their order
        self._chosen = dict([*self._names.items()][: settings.queues_max])
        #: set when there is one more
        self._has_more = asyncio.Event()
        self._was_logged = False

    async def run(self, may_read: Callable[[], bool]) -> None:
        """Reads until it is cancelled.  *may_read*: returns whether no other worker does."""
        try:
            while True:
                if may_read():
                    await asyncio.gather(
                        self._keep_finding(), self._keep_reading(), self._keep_reading_stores()
                    )
                await asyncio.sleep(_READ_PAUSE)  # until the worker that reads is gone
        finally:
            await self._stores.close()

    async def _keep_reading_stores(self) -> None:
        while True:
            reports = await self._stores.reports(_STORE_TIMEOUT)
            told = {(each.name,): each.status for each in reports if each.status is not None}
            metrics.STORE_MEMORY_USED.replace({of: each.memory_used for of, each in told.items()})
            metrics.STORE_MEMORY_LIMIT.replace(
                {of: each.memory_max or each.memory_machine for of, each in told.items()}
            )
            await asyncio.sleep(self._settings.queues_interval)

    async def _keep_finding(self) -> None:
        while self._patterns:
            try:
                await self._find()
            except errors.Unavailable:
                pass  # what was found before is read on
            except Exception:
                LOG.exception("cannot list queues", extra={"action": "queue_metrics_failed"})
            await asyncio.sleep(_LOOKS * self._settings.queues_interval)

    async def _find(self) -> None:
        """Finds the queues that match."""
        found = dict(self._names)
        for pattern in self._patterns:
            # Behind a name that is less than all that match, and in most cases just before them.
            after, is_over = pattern.prefix[:-1], False
            while not is_over:
                began = time.monotonic()
                page = await self._queues.list(pattern.project, after, _PAGE, None)
                names = [each.name for each in page.items]
                found |= {(pattern.project, name): None for name in names if pattern.matches(name)}
                self._choose(found)
                is_over = len(names) < _PAGE or _is_behind(names[-1], pattern.prefix)
                after = page.marker
                await asyncio.sleep((time.monotonic() - began) * (_NAMES_SHARE - 1))
        self._chosen = dict([*found.items()][: self._settings.queues_max])
        omitted = len(found) - len(self._chosen)
        metrics.QUEUES_OMITTED.set(omitted)
        if omitted and not self._was_logged:
            self._was_logged = True
            LOG.warning(
                "%d queues match [metrics] queues, but only %d have metrics: queues_max",
                len(found),
                len(self._chosen),
                extra={"action": "queues_omitted"},
            )

    def _choose(self, found: dict[tuple[str, str], None]) -> None:
        """Adds to the chosen ones what there is room for."""
        for queue in found:
            if len(self._chosen) >= self._settings.queues_max:
                return
            if queue not in self._chosen:
                self._chosen[queue] = None
                self._has_more.set()

    async def _keep_reading(self) -> None:
        while self._settings.queues:
            self._has_more.clear()
            try:
                await self._read([*self._chosen])
            except errors.Unavailable:
                pass  # the values before stand, and their time says how old they are
            except Exception:
                LOG.exception("cannot read queues", extra={"action": "queue_metrics_failed"})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.queues_interval):
                    await self._has_more.wait()
            await asyncio.sleep(_READ_PAUSE)

    async def _read(self, queues: Sequence[tuple[str, str]]) -> None:
        found: dict[tuple[str, str], Stats] = {}
        sizes: dict[tuple[str, str], float] = {}
        for first in range(0, len(queues), _PAGE):
            some = queues[first : first + _PAGE]
            stats = await asyncio.gather(*(self._queues.stats(*each) for each in some))
            found |= zip(some, stats, strict=True)
            read = await asyncio.gather(*(self._queues.size(*each) for each in some))
            sizes |= {queue: each.bytes for queue, each in zip(some, read, strict=True)}
        metrics.QUEUE_MESSAGES.replace(
            {
                (*queue, state): number
                for queue, stats in found.items()
                for state, number in (
                    ("free", stats.free - stats.delayed),
                    ("claimed", stats.claimed),
                    ("delayed", stats.delayed),
                )
            }
        )
        metrics.QUEUE_OLDEST.replace(
            {queue: each.oldest.age if each.oldest else 0 for queue, each in found.items()}
        )
        metrics.QUEUE_BYTES.replace(sizes)
        counters = {queue: msgspec.structs.asdict(each.counters) for queue, each in found.items()}
        for name, metric in metrics.QUEUE_COUNTERS.items():
            metric.replace({queue: each[name] for queue, each in counters.items()})
        metrics.QUEUES_READ.set(time.time())


def _is_behind(name: str, prefix: str) -> bool:
    return name > prefix and not name.startswith(prefix)
