# SPDX-License-Identifier: Apache-2.0
"""Copies one queue: by Spark's tasks while it is in use, then frozen by the driver."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zaqar_redis import clock, errors
from zaqar_redis.records import Watermarks
from zaqar_redis.spark.jobs.migrating.copy_range import CopyRange, CopyResult, copy
from zaqar_redis.spark.reading import partitions
from zaqar_redis.spark.stores import StoreConnections
from zaqar_redis.spark.task_progress import PROGRESS_PROPERTY, report_progress
from zaqar_redis.storage.redis.bulk import queue_counts, range_reader
from zaqar_redis.storage.redis.bulk.ranges import RedisRanges
from zaqar_redis.storage.transfer import Transfer, TransferTarget

#: Fewer messages than this are copied while the queue is frozen, in well under a second: a
#: task takes longer to start.
_TAIL_MESSAGES = 10_000
#: Messages of a task, which are copied again when it fails.
_TASK_MESSAGES = 100_000
#: Rounds after which a queue is frozen although more is posted than is copied meanwhile.
_MAX_ROUNDS = 10


class AlreadyMigrated(Exception):
    """The queue is in the target already."""


@dataclass(frozen=True)
class CopyEndpoints:
    """URIs of the two stores, for tasks."""

    source: str
    target: str


class CopyTask:
    """One try to copy one queue.  The mover calls `live` and `verify`."""

    def __init__(
        self, spark: SparkSession, stores: StoreConnections, endpoints: CopyEndpoints
    ) -> None:
        self._spark = spark
        self._stores = stores
        self._endpoints = endpoints
        #: address for tasks' progress; kept because another thread starts the tasks
        self._progress_address = spark.sparkContext.getLocalProperty(PROGRESS_PROPERTY)
        self._epoch = ""
        self._frozen: float | None = None
        #: messages that tasks have copied, and those copied while it was frozen
        self.live_count = 0
        self.rest_count = 0
        #: ranges whose checksums are equal in source and target
        self.ranges = 0
        self.verified = False

    @property
    def seconds_frozen(self) -> float:
        """Seconds since the queue was frozen; 0 when it was not."""
        return time.monotonic() - self._frozen if self._frozen is not None else 0.0

    async def live(
        self, project: str, queue: str, token: str, source: Transfer, target: TransferTarget
    ) -> int:
        """Copies while the queue is in use; returns the last copied rank, see
        storage/move/copy.py.  Raises CannotMove when a task failed."""
        copied_rank = await asyncio.to_thread(self._copy_rounds, project, queue, token)
        self._frozen = time.monotonic()
        return copied_rank

    async def verify(self, project: str, queue: str, copied_rank: int) -> None:
        """Raises CannotMove when the copy differs from the frozen queue."""
        await asyncio.to_thread(self._verify, project, queue, copied_rank)

    def _copy_rounds(self, project: str, queue: str, token: str) -> int:
        copied_rank = 0
        for _ in range(_MAX_ROUNDS):
            watermarks = self._watermarks(project, queue)
            if watermarks is None or self._epoch not in ("", watermarks.epoch):
                return self._reset()  # deleted, perhaps created again: all is copied when frozen
            self._epoch = watermarks.epoch
            if (
                watermarks.next_rank - 1 - copied_rank < _TAIL_MESSAGES
                or watermarks.count < _TAIL_MESSAGES
            ):
                break
            copy_range = CopyRange(
                *(
                    project,
                    queue,
                    watermarks.epoch,
                    token,
                    self._endpoints.source,
                    self._endpoints.target,
                ),
                timeout=self._stores.config.timeout,
            )
            try:
                copied = self._copy(copy_range, copied_rank + 1, watermarks.next_rank)
            except PySparkException as error:
                now = self._watermarks(project, queue)
                if now is None or now.epoch != watermarks.epoch:
                    return self._reset()
                raise errors.CannotMove(queue=queue, why=_reason(error)) from error
            self.live_count += sum(each.messages for each in copied)
            self.ranges += len(copied)
            copied_rank = watermarks.next_rank - 1
        return copied_rank

    def _reset(self) -> int:
        self._epoch = ""
        self.live_count = self.ranges = 0
        return 0

    def _watermarks(self, project: str, queue: str) -> Watermarks | None:
        return (
            RedisRanges(self._stores.client(self._endpoints.source), clock.store)
            .watermarks(project, queue)
            .run()
        )

    def _copy(self, copy_range: CopyRange, start: int, end: int) -> list[CopyResult]:
        """Raises PySparkException."""
        ranges = self._split(copy_range, start, end)

        # Not a DataFrame: running our Python on one would need pandas.
        if self._progress_address is not None:
            self._spark.sparkContext.setLocalProperty(PROGRESS_PROPERTY, self._progress_address)
        numbers = self._spark.sparkContext.parallelize(ranges, len(ranges))
        return numbers.map(lambda each: copy(copy_range, *each)).collect()

    def _split(self, copy_range: CopyRange, start: int, end: int) -> list[tuple[int, int]]:
        """Returns ranges with about as many messages each."""
        client = self._stores.client(copy_range.source)
        count = range_reader.count_range(client, copy_range.project, copy_range.queue, start, end)
        cores = self._spark.sparkContext.defaultParallelism
        number = partitions.partition_count(count, cores, _TASK_MESSAGES)
        positions = [count * part // number for part in range(1, number)]
        found = (
            range_reader.ranks_at(client, copy_range.project, copy_range.queue, start, positions)
            if positions
            else []
        )
        bounds = [start, *found, end]
        return [(low, high) for low, high in pairwise(bounds) if low < high]

    def _verify(self, project: str, queue: str, copied_rank: int) -> None:
        source = self._stores.client(self._endpoints.source)
        target = self._stores.client(self._endpoints.target)
        mine = queue_counts.count_queue(source, project, queue)
        if copied_rank and mine.epoch != self._epoch:
            raise errors.CannotMove(
                queue=queue, why="it was created again meanwhile; run this again"
            )
        wrong = mine.differences(queue_counts.count_queue(target, project, queue))
        if wrong:
            raise errors.CannotMove(
                queue=queue, why=f"its copy differs from it ({'; '.join(wrong)}); check the store"
            )
        self.rest_count = queue_counts.count_after(source, project, queue, copied_rank)
        with report_progress(self._progress_address) as advance:
            advance(self.rest_count)
        self.verified = True


#: Creates the task that copies one queue.
CopyTaskFactory = Callable[[CopyEndpoints], CopyTask]


def _reason(error: Exception) -> str:
    """Returns the line of a task's error that names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if line.startswith("zaqar_redis.")]
    return (raised or lines or [type(error).__name__])[-1].rstrip(".")
