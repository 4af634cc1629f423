# SPDX-License-Identifier: Apache-2.0
"""Batch reads: the queues as they are when the query is planned."""

from __future__ import annotations

import math
import sys
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from zaqar_redis import errors
from zaqar_redis.spark.options import SourceOptions
from zaqar_redis.spark.positions import EARLIEST, LATEST
from zaqar_redis.spark.reading import partition_reader, partitions, selection
from zaqar_redis.spark.reading.partitions import RangePartition, ReadSpec
from zaqar_redis.spark.reading.selection import QueueSelection, QueueSnapshot
from zaqar_redis.spark.stores import StoreConfig, StoreConnections
from zaqar_redis.storage.redis.bulk import range_reader

#: Spark runs this module, in a process of its own, only where it pushes filters.
_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


def reader(config: StoreConfig, options: SourceOptions, columns: tuple[str, ...]) -> BatchReader:
    """Returns the reader of a batch.  Raises BadConfiguration as it does."""
    # Spark shows a source no setting, and refuses one that takes filters where they are off.
    pushed = options["pushdown"] if "pushdown" in options.given else _PUSHING in sys.modules
    return (FilteringReader if pushed else BatchReader)(config, options, columns)


class BatchReader(DataSourceReader):
    """A batch read.  Raises BadConfiguration when options, or the store, cannot be used."""

    def __init__(
        self, config: StoreConfig, options: SourceOptions, columns: tuple[str, ...]
    ) -> None:
        if options["startingOffsets"] == LATEST:
            raise errors.BadConfiguration(
                'option "startingOffsets": a batch has nothing behind the latest message; '
                "give earliest, or ranks"
            )
        self._config = config
        self._options = options
        self._read_spec = ReadSpec(
            columns=columns,
            size=options["fetchSize"],
            include_expired=options["includeExpired"],
            include_claimed=options["includeClaimed"],
            include_delayed=options["includeDelayed"],
            fail_on_data_loss=options["failOnDataLoss"],
        )
        #: queues and ranks that pushed filters leave; None: all queues
        self._only: frozenset[str] | None = None
        self._least, self._most = 0, math.inf

    def partitions(self) -> Sequence[InputPartition]:
        with StoreConnections(self._config) as stores:
            plan = _BatchPlanner(self._options, stores)
            ranges = [
                (snapshot, max(start, self._least), int(min(end, self._most)))
                for snapshot, start, end in plan.ranges(self._only)
            ]
            return plan.split([each for each in ranges if each[1] < each[2]])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark passes a partition of its own when `partitions` returns none.
        if not isinstance(partition, RangePartition):
            return iter(())
        return partition_reader.read(self._config, self._read_spec, partition)


class FilteringReader(BatchReader):
    """A batch read to which Spark pushes filters on queue and rank.

    A class of its own, because Spark refuses every reader that has `pushFilters` while its
    option for that is off.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        return (each for each in filters if not self._takes(each))

    def _takes(self, given: Filter) -> bool:
        match given:
            case EqualTo(("queue",), str(queue)):
                self._restrict({queue})
            case In(("queue",), queues):
                self._restrict(set(queues))
            case EqualTo(("rank",), int(rank)):
                self._between(rank, rank + 1)
            case GreaterThan(("rank",), int(rank)):
                self._between(rank + 1, math.inf)
            case GreaterThanOrEqual(("rank",), int(rank)):
                self._between(rank, math.inf)
            case LessThan(("rank",), int(rank)):
                self._between(0, rank)
            case LessThanOrEqual(("rank",), int(rank)):
                self._between(0, rank + 1)
            case _:
                return False
        return True

    def _restrict(self, queues: set[str]) -> None:
        self._only = frozenset(queues if self._only is None else self._only & queues)

    def _between(self, least: int, most: float) -> None:
        self._least, self._most = max(self._least, least), min(self._most, most)


class _BatchPlanner:
    """Applies the options to what queues hold."""

    def __init__(self, options: SourceOptions, stores: StoreConnections) -> None:
        self._options = options
        self._stores = stores
        self._selection = QueueSelection(options, stores)

    def ranges(self, only: Container[str] | None) -> Iterator[tuple[QueueSnapshot, int, int]]:
        """Yields the queues that are read, the first rank of each, and the rank to stop before.

        *only*: queues that filters leave.  Raises BadConfiguration when a queue that was named
        does not exist.
        """
        self._selection.check_positions()
        for snapshot in self._selection.snapshots():
            if only is None or snapshot.queue in only:
                yield (
                    snapshot,
                    self._selection.start_rank(snapshot, EARLIEST),
                    self._end(snapshot),
                )

    def _end(self, snapshot: QueueSnapshot) -> int:
        if "endingTimestamp" in self._options.given:
            self._options.at_most_one_of("endingTimestamp", "endingOffsets")
            return self._selection.seek(snapshot, self._options["endingTimestamp"])
        watermarks = snapshot.watermarks
        position = selection.position_for(self._options["endingOffsets"], snapshot.queue, LATEST)
        if position.epoch not in (None, watermarks.epoch):
            raise errors.BadConfiguration(
                f'option "endingOffsets": the queue "{snapshot.queue}" is in the epoch '
                f"{watermarks.epoch}, not in {position.epoch}"
            )
        return min(selection.resolve_rank(position, watermarks), watermarks.next_rank)

    def split(self, ranges: Sequence[tuple[QueueSnapshot, int, int]]) -> list[RangePartition]:
        """Returns partitions with about as many messages each."""
        counted = [(*each, self._selection.count(*each)) for each in ranges]
        total = sum(count for *_, count in counted)
        least = partitions.min_partitions(self._options)
        planned = []
        for snapshot, start, end, count in counted:
            share = math.ceil(least * count / total) if total else 1
            number = partitions.partition_count(
                count, share, self._options["maxRecordsPerPartition"]
            )
            bounds = [start, *self._bounds(snapshot, start, count, number), end]
            full_range = RangePartition(
                snapshot.queue, snapshot.watermarks.epoch, start, end, snapshot.location
            )
            planned += [
                replace(full_range, start=low, end=high)
                for low, high in pairwise(bounds)
                if low < high
            ]
        return partitions.interleaved(planned, lambda each: each.location.uri)

    def _bounds(self, snapshot: QueueSnapshot, start: int, count: int, number: int) -> list[int]:
        """Returns ranks between which there are equally many messages."""
        client, project = self._stores.client(snapshot.location.uri), self._stores.config.project
        positions = [count * part // number for part in range(1, number)]
        if not positions:
            return []
        return range_reader.ranks_at(client, project, snapshot.queue, start, positions)
