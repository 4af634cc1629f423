# SPDX-License-Identifier: Apache-2.0
"""How one queue is copied: in use by tasks of Spark, then frozen by the driver."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zaqar_redis import clock, errors
from zaqar_redis.records import Top
from zaqar_redis.spark import partitions
from zaqar_redis.spark.counting import PROPERTY, counting
from zaqar_redis.spark.jobs.migrating.ranges import Copied, Leg, copy
from zaqar_redis.spark.stores import Stores
from zaqar_redis.storage.drivers.redis import copies, range_reader
from zaqar_redis.storage.drivers.redis.ranges import Ranges
from zaqar_redis.storage.transfer import Transfer

#: Fewer messages than this come when the queue is frozen, in well under a second: a task
#: takes longer to start.
_TAIL = 10_000
#: Messages of a task: what is copied again when it fails.
_RANGE = 100_000
#: Rounds after which a queue is frozen although more is posted than is copied meanwhile.
_ROUNDS = 10


class AlreadyThere(Exception):
    """The queue is where it should be."""


class Gone(Exception):
    """There is no such queue any more."""


@dataclass(frozen=True)
class Ends:
    """Two stores, as tasks reach them."""

    source: str
    target: str


class Way:
    """For one try with one queue.  `live` and `verify` are what the mover is given."""

    def __init__(self, spark: SparkSession, stores: Stores, ends: Ends) -> None:
        self._spark = spark
        self._stores = stores
        self._ends = ends
        #: where tasks are to say how far they are: they are begun by another thread
        self._told = spark.sparkContext.getLocalProperty(PROPERTY)
        self._epoch = ""
        self._frozen: float | None = None
        #: messages that tasks have copied, and those that came when it was frozen
        self.live_count = 0
        self.rest_count = 0
        #: ranges whose checksums are the same at both sides
        self.ranges = 0
        self.verified = False

    @property
    def seconds_frozen(self) -> float:
        """Since the queue was frozen; 0 when it was not."""
        return time.monotonic() - self._frozen if self._frozen is not None else 0.0

    async def live(
        self, project: str, queue: str, token: str, here: Transfer, there: Transfer
    ) -> int:
        """See storage/pooled/copying.py.  Raises CannotMove when a task failed."""
        staged = await asyncio.to_thread(self._rounds, project, queue, token)
        self._frozen = time.monotonic()
        return staged

    async def verify(self, project: str, queue: str, staged: int) -> None:
        """Raises CannotMove when the copy is not like the frozen queue."""
        await asyncio.to_thread(self._verify, project, queue, staged)

    def _rounds(self, project: str, queue: str, token: str) -> int:
        staged = 0
        for _ in range(_ROUNDS):
            top = self._top(project, queue)
            if top is None or self._epoch not in ("", top.epoch):
                return self._none()  # deleted, and perhaps made again: all of it comes later
            self._epoch = top.epoch
            if top.following - 1 - staged < _TAIL or top.count < _TAIL:
                break
            leg = Leg(
                *(project, queue, top.epoch, token, self._ends.source, self._ends.target),
                timeout=self._stores.where.timeout,
            )
            try:
                copied = self._copy(leg, staged + 1, top.following)
            except PySparkException as error:
                now = self._top(project, queue)
                if now is None or now.epoch != top.epoch:
                    return self._none()
                raise errors.CannotMove(queue=queue, why=_reason(error)) from error
            self.live_count += sum(each.messages for each in copied)
            self.ranges += len(copied)
            staged = top.following - 1
        return staged

    def _none(self) -> int:
        self._epoch = ""
        self.live_count = self.ranges = 0
        return 0

    def _top(self, project: str, queue: str) -> Top | None:
        return Ranges(self._stores.client(self._ends.source), clock.store).top(project, queue).run()

    def _copy(self, leg: Leg, start: int, end: int) -> list[Copied]:
        """Raises PySparkException."""
        ranges = self._split(leg, start, end)

        # Not a DataFrame: its ways to run Python of ours want pandas.
        if self._told is not None:
            self._spark.sparkContext.setLocalProperty(PROPERTY, self._told)
        numbers = self._spark.sparkContext.parallelize(ranges, len(ranges))
        return numbers.map(lambda each: copy(leg, *each)).collect()

    def _split(self, leg: Leg, start: int, end: int) -> list[tuple[int, int]]:
        """Ranges of about as many messages each."""
        client = self._stores.client(leg.source)
        count = range_reader.count(client, leg.project, leg.queue, start, end)
        cores = self._spark.sparkContext.defaultParallelism
        number = partitions.parts(count, cores, _RANGE)
        places = [count * part // number for part in range(1, number)]
        found = range_reader.bounds(client, leg.project, leg.queue, start, places) if places else []
        bounds = [start, *found, end]
        return [(low, high) for low, high in pairwise(bounds) if low < high]

    def _verify(self, project: str, queue: str, staged: int) -> None:
        source = self._stores.client(self._ends.source)
        target = self._stores.client(self._ends.target)
        mine = copies.counts(source, project, queue)
        if staged and mine.epoch != self._epoch:
            raise errors.CannotMove(queue=queue, why="it was made anew meanwhile; run this again")
        wrong = mine.differences(copies.counts(target, project, queue))
        if wrong:
            raise errors.CannotMove(
                queue=queue, why=f"its copy is not like it ({'; '.join(wrong)}); check the store"
            )
        self.rest_count = copies.behind(source, project, queue, staged)
        with counting(self._told) as did:
            did(self.rest_count)
        self.verified = True


#: Makes what copies one queue.
Ways = Callable[[Ends], Way]


def _reason(error: Exception) -> str:
    """The last line of what a task said."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if line.startswith("zaqar_redis.")]
    return (raised or lines or [type(error).__name__])[-1].rstrip(".")
