# SPDX-License-Identifier: Apache-2.0
"""Streaming reads that leave messages where they are.

Spark asks for the initial offset more than once and reports finished batches late or
never; comments below say how each case is handled.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)

from zaqar_redis.records import Watermarks
from zaqar_redis.spark import offsets
from zaqar_redis.spark.offsets import Offset, QueueOffset
from zaqar_redis.spark.options import LATEST, SourceOptions
from zaqar_redis.spark.reading import data_loss, partition_reader, partitions, selection
from zaqar_redis.spark.reading.idle_poll import IdlePoll
from zaqar_redis.spark.reading.partition_reader import ReadSpec
from zaqar_redis.spark.reading.partitions import RangePartition
from zaqar_redis.spark.reading.selection import QueueSelection, QueueSnapshot
from zaqar_redis.spark.reading.stream_reader import StreamReader
from zaqar_redis.spark.stores import StoreConfig, StoreConnections

#: Options without a meaning here: whoever sets them expects messages to be claimed.
_CLAIM_OPTIONS = ("group", "claimTtl", "claimGrace")


class BrowseReader(StreamReader["_BrowsePlanner"]):
    def __init__(
        self, config: StoreConfig, options: SourceOptions, columns: tuple[str, ...]
    ) -> None:
        """Raises BadConfiguration."""
        super().__init__(config, options, _CLAIM_OPTIONS)
        self._read_spec = ReadSpec(
            columns=columns,
            size=options["fetchSize"],
            include_expired=options["includeExpired"],
            fail_on_data_loss=options["failOnDataLoss"],
        )

    def begin(self) -> _BrowsePlanner:
        return _BrowsePlanner(self._options, StoreConnections(self._config))

    def reportLatestOffset(self) -> Offset | None:
        return self.planner.latest_available()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return partition_reader.read(self._config, self._read_spec, cast(RangePartition, partition))


class _BrowsePlanner:
    """Computes the offsets and partitions of batches from what queues hold."""

    def __init__(self, options: SourceOptions, stores: StoreConnections) -> None:
        self._options = options
        self._stores = stores
        self._project = stores.config.project
        self._selection = QueueSelection(options, stores)
        self._idle_poll = IdlePoll(stores, options["maxWait"])
        self._fail_on_data_loss: bool = options["failOnDataLoss"]
        #: with AvailableNow: by queue, the rank to stop before
        self._frozen: dict[str, int] | None = None
        #: since when there are messages, but fewer than minOffsetsPerTrigger (monotonic)
        self._below_minimum_since: float | None = None
        #: the offset at which the stream was last idle
        self._idle: Offset | None = None
        self._snapshots: dict[str, QueueSnapshot] = {}
        #: queues that do not exist, already reported
        self._missing_queues: set[str] = set()

    def close(self) -> None:
        self._idle_poll.close()
        self._stores.close()

    def initial(self) -> Offset:
        names = self._selection.names()
        selection.check_names("startingOffsets", self._options["startingOffsets"] or "", names)
        return offsets.sorted_(
            {
                self._key(snapshot.queue): offsets.initial(
                    snapshot.watermarks.epoch, self._first(snapshot, snapshot.watermarks)
                )
                for snapshot in self._selection.snapshots()
            }
        )

    def _first(self, snapshot: QueueSnapshot, watermarks: Watermarks) -> int:
        if "startingTimestamp" in self._options.given:
            self._options.exactly_one_of("startingTimestamp", "startingOffsets")
            return self._selection.seek(snapshot, self._options["startingTimestamp"])
        position = selection.position_for(self._options["startingOffsets"], snapshot.queue, LATEST)
        return data_loss.resume_rank(
            snapshot.queue,
            position.epoch,
            selection.resolve_rank(position, watermarks),
            watermarks,
            self._fail_on_data_loss,
        )

    def latest(self, start: Offset, limit: ReadLimit) -> Offset:
        """Returns the offset at which the next batch ends.  Raises data_loss.DataLoss."""
        deadline = self._idle_poll.deadline()
        if start == self._idle and self._can_wait() and not self._idle_poll.wait(deadline):
            return start
        while True:
            end = self._available_offset(start)
            self._idle_poll.polled(self._snapshots.values())
            begins = any("initial" in entry for entry in start.values())
            enough = end != start and not self._too_few(sum(self._lags(start, end).values()))
            # The first offset goes to the checkpoint, whether there are messages or not.
            if begins or enough:
                self._idle = self._below_minimum_since = None
                return self._with_partition_counts(start, self._rate_limited(start, end, limit))
            self._idle = start
            # A hint may be about another queue: Spark gets its answer by the deadline all the same.
            if self._frozen is not None or time.monotonic() >= deadline:
                return start
            if not self._idle_poll.wait(deadline):
                return start

    def _can_wait(self) -> bool:
        return self._frozen is None and not self._max_delay_passed()

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
        """Returns the offset behind all messages, whatever the limit."""
        end: Offset = {}
        names = {self._key(queue): queue for queue in self._selection.names()}
        for key in start.keys() | names.keys():
            queue, before = offsets.queue_of(key), start.get(key)
            # A queue that is no longer selected keeps its offset, in case it is selected again.
            is_left = key != self._key(queue) or not self._selection.matches(queue)
            entry = before if is_left else self._queue_offset(queue, before)
            if entry is not None:
                end[key] = entry
        return offsets.sorted_(end)

    def _queue_offset(self, queue: str, before: QueueOffset | None) -> QueueOffset | None:
        snapshot = self._selection.snapshot(queue)
        if snapshot is None:
            self._snapshots.pop(queue, None)
            if before is None:
                return None
            if self._fail_on_data_loss or queue not in self._missing_queues:
                data_loss.queue_deleted(
                    queue, before["epoch"], before["offset"], self._fail_on_data_loss
                )
            self._missing_queues.add(queue)
            return before
        self._snapshots[queue] = snapshot
        self._missing_queues.discard(queue)
        watermarks = snapshot.watermarks
        if before is None:  # the queue is new to the stream: all of it is new
            return offsets.up_to(
                watermarks.epoch, self._end_rank(queue, watermarks), watermarks.first
            )
        begin = data_loss.resume_rank(
            queue, before["epoch"], before["offset"], watermarks, self._fail_on_data_loss
        )
        until = max(begin, self._end_rank(queue, watermarks))
        goes_on = watermarks.epoch == before["epoch"] and begin == before["offset"]
        if goes_on and until == begin and "initial" not in before:
            return before
        return offsets.up_to(
            watermarks.epoch, until, None if goes_on and "initial" not in before else begin
        )

    def _end_rank(self, queue: str, watermarks: Watermarks) -> int:
        if self._frozen is None:
            return watermarks.next_rank
        return min(watermarks.next_rank, self._frozen.get(queue, watermarks.first))

    def _lags(self, start: Offset, end: Offset) -> dict[str, int]:
        return {key: entry["offset"] - _begin(start.get(key), entry) for key, entry in end.items()}

    def _rate_limited(self, start: Offset, end: Offset, limit: ReadLimit) -> Offset:
        lags = self._lags(start, end)
        rows = self._rows(limit, lags)
        if rows is None:
            return end
        parts = offsets.rate_limit(lags, rows)
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
        return offsets.sorted_(
            {
                key: entry
                | {
                    "parts": partitions.partition_count(
                        lags[key], math.ceil(least * lags[key] / total), most
                    )
                }
                if lags[key]
                else entry
                for key, entry in end.items()
            }
        )

    def _rows(self, limit: ReadLimit, lags: dict[str, int]) -> int | None:
        match limit:
            case ReadMaxRows(rows):
                return rows
            case ReadMaxBytes(size):
                weight = sum(
                    lag * self._snapshots[offsets.queue_of(key)].watermarks.size
                    for key, lag in lags.items()
                    if lag
                )
                return math.ceil(size * sum(lags.values()) / weight) if weight else None
            case _:
                return None

    def latest_available(self) -> Offset | None:
        return offsets.sorted_(
            {
                self._key(queue): offsets.up_to(
                    snapshot.watermarks.epoch, snapshot.watermarks.next_rank
                )
                for queue, snapshot in self._snapshots.items()
            }
        )

    def freeze(self) -> None:
        self._frozen = {
            queue: snapshot.watermarks.next_rank
            for queue in self._selection.names()
            if (snapshot := self._selection.snapshot(queue)) is not None
        }

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
        return partitions.interleaved(planned, partitions.by_queue)

    def _key(self, queue: str) -> str:
        return offsets.key(self._project, queue)


def _begin(before: QueueOffset | None, entry: QueueOffset) -> int:
    """Returns the rank at which a batch that ends with *entry* begins."""
    if "from" in entry and (before is None or before != entry):
        return int(entry["from"])
    return int(before["offset"]) if before else int(entry["offset"])
