# SPDX-License-Identifier: Apache-2.0
"""Streaming reads that leave messages where they are.

Spark asks for the initial offset more than once and reports finished batches late or
never; comments below say how each case is handled.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from zaqar_redis.spark import offsets
from zaqar_redis.spark.offsets import Offset, QueueOffset
from zaqar_redis.spark.options import SourceOptions
from zaqar_redis.spark.positions import LATEST
from zaqar_redis.spark.reading import data_loss, partition_reader, partitions
from zaqar_redis.spark.reading.partitions import RangePartition, ReadSpec
from zaqar_redis.spark.reading.selection import QueueSnapshot
from zaqar_redis.spark.reading.stream_planner import StreamPlanner
from zaqar_redis.spark.reading.stream_reader import StreamReader
from zaqar_redis.spark.stores import StoreConfig, StoreConnections


class _BrowsePlanner(StreamPlanner):
    """Computes the offsets and partitions of batches from what queues hold."""

    def __init__(self, options: SourceOptions, stores: StoreConnections) -> None:
        super().__init__(options, stores)
        #: since when there are messages, but fewer than minOffsetsPerTrigger (monotonic)
        self._below_minimum_since: float | None = None

    def initial(self) -> Offset:
        self._selection.check_positions()
        return super().initial()

    def _first(self, snapshot: QueueSnapshot) -> QueueOffset:
        rank = self._selection.start_rank(snapshot, LATEST)
        return offsets.initial(snapshot.watermarks.epoch, rank)

    def _behind(self, snapshot: QueueSnapshot, end: QueueOffset | None) -> QueueOffset:
        watermarks = snapshot.watermarks
        same = end is not None and end["epoch"] == watermarks.epoch
        rank = end["offset"] if end is not None and same else watermarks.first
        return offsets.up_to(watermarks.epoch, watermarks.next_rank) | {
            "gone": max(0, watermarks.first - rank),
            "lag": max(0, watermarks.next_rank - rank),
        }

    def _queues(self, start: Offset) -> Iterable[str]:
        own = self._key("")
        begun = (key.removeprefix(own) for key in start if key.startswith(own))
        return {*self._selection.names(), *filter(self._selection.matches, begun)}

    def _next_batch(self, start: Offset, limit: ReadLimit) -> Offset | None:
        end = self._available_offset(start)
        begins = any("initial" in entry for entry in start.values())
        enough = end != start and not self._too_few(sum(self._lags(start, end).values()))
        # The first offset goes to the checkpoint, whether there are messages or not.
        if not (begins or enough):
            return None
        self._below_minimum_since = None
        return self._with_partition_counts(start, self._rate_limited(start, end, limit))

    def _can_wait(self) -> bool:
        return super()._can_wait() and not self._max_delay_passed()

    def _max_delay_passed(self) -> bool:
        """Returns whether maxTriggerDelay has passed since there were messages."""
        delay = self._options["maxTriggerDelay"]
        return (
            self._below_minimum_since is not None
            and time.monotonic() >= self._below_minimum_since + delay
        )

    def _too_few(self, lag: int) -> bool:
        least = self._options["minOffsetsPerTrigger"]
        if least is None or lag >= least or self._frozen is not None:
            return False
        if self._below_minimum_since is None:
            self._below_minimum_since = time.monotonic()
        return not self._max_delay_passed()

    def _available_offset(self, start: Offset) -> Offset:
        """Returns the offset behind all messages, whatever the limit.

        A queue that does not exist, or is no longer selected, keeps its entry: it may be
        selected again.
        """
        ends = {
            self._key(queue): self._available_entry(snapshot, start.get(self._key(queue)))
            for queue, snapshot in self._snapshots.items()
        }
        return offsets.sorted_(start | ends)

    def _available_entry(self, snapshot: QueueSnapshot, before: QueueOffset | None) -> QueueOffset:
        queue, watermarks = snapshot.queue, snapshot.watermarks
        end = watermarks.next_rank
        if self._frozen is not None:
            end = min(end, self._frozen.get(queue, watermarks.first))
        if before is None:  # the queue is new to the stream: all of it is new
            return offsets.up_to(watermarks.epoch, end, watermarks.first)
        begin = data_loss.resume_rank(
            queue, before["epoch"], before["offset"], watermarks, self._fail_on_data_loss
        )
        goes_on = (
            watermarks.epoch == before["epoch"]
            and begin == before["offset"]
            and "initial" not in before
        )
        if goes_on and end <= begin:
            return before
        return offsets.up_to(watermarks.epoch, max(begin, end), None if goes_on else begin)

    def _lags(self, start: Offset, end: Offset) -> dict[str, int]:
        return {key: entry["offset"] - _begin(start.get(key), entry) for key, entry in end.items()}

    def _rate_limited(self, start: Offset, end: Offset, limit: ReadLimit) -> Offset:
        lags = self._lags(start, end)
        rows = self._rows(limit, {offsets.queue_of(key): lag for key, lag in lags.items() if lag})
        if rows is None:
            return end
        parts = offsets.rate_limit(lags, math.ceil(rows))
        limited = {
            key: entry | {"offset": _begin(start.get(key), entry) + parts.get(key, 0)}
            for key, entry in end.items()
        }
        return offsets.sorted_(limited)

    def _with_partition_counts(self, start: Offset, end: Offset) -> Offset:
        """Returns the same offset, with the number of tasks that read each queue."""
        lags = self._lags(start, end)
        total, least = sum(lags.values()), partitions.min_partitions(self._options)
        most = self._options["maxRecordsPerPartition"]
        parts = {
            key: {"parts": partitions.partition_count(lag, math.ceil(least * lag / total), most)}
            for key, lag in lags.items()
            if lag
        }
        return offsets.sorted_({key: entry | parts.get(key, {}) for key, entry in end.items()})

    def partitions(self, start: Offset, end: Offset) -> Sequence[RangePartition]:
        planned: list[RangePartition] = []
        for key, entry in end.items():
            begin, stop = _begin(start.get(key), entry), entry["offset"]
            if begin >= stop:
                continue
            queue = offsets.queue_of(key)
            location = self._stores.with_retry(queue, lambda location: location)
            full_range = RangePartition(queue, entry["epoch"], begin, stop, location)
            planned += [
                replace(full_range, start=low, end=high)
                for low, high in partitions.split(begin, stop, entry["parts"])
            ]
        # Not by store: a sink knows tasks by their number, and when a batch is repeated, a queue
        # may be in another store.
        return partitions.interleaved(planned, lambda each: each.queue)


class BrowseReader(StreamReader):
    planner_class = _BrowsePlanner
    # Whoever sets them expects messages to be claimed.
    unsupported = ("group", "claimTtl", "claimGrace")

    @staticmethod
    def knows(entry: QueueOffset) -> bool:
        return "claims" not in entry

    def __init__(
        self, config: StoreConfig, options: SourceOptions, columns: tuple[str, ...]
    ) -> None:
        super().__init__(config, options, columns)
        self._read_spec = ReadSpec(
            columns=columns,
            size=options["fetchSize"],
            include_expired=options["includeExpired"],
            fail_on_data_loss=options["failOnDataLoss"],
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return partition_reader.read(self._config, self._read_spec, cast(RangePartition, partition))


def _begin(before: QueueOffset | None, entry: QueueOffset) -> int:
    """Returns the rank at which a batch that ends with *entry* begins."""
    if "from" in entry and (before is None or before != entry):
        return int(entry["from"])
    return int(before["offset"]) if before else int(entry["offset"])
