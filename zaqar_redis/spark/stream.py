# SPDX-License-Identifier: Apache-2.0
"""Streaming reads that leave messages where they are.

Spark asks for the initial offset more than once and tells of finished batches late or
never; what is done about each is said where it is done.
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

from zaqar_redis.records import Top
from zaqar_redis.spark import losses, offsets, partitions, reading, subscribed
from zaqar_redis.spark.offsets import Entry, Offset
from zaqar_redis.spark.options import LATEST, Options
from zaqar_redis.spark.partitions import RangePartition
from zaqar_redis.spark.reading import Wanted
from zaqar_redis.spark.stores import Stores, Where
from zaqar_redis.spark.streaming import StreamReader
from zaqar_redis.spark.subscribed import Ends, Subscribed
from zaqar_redis.spark.waiting import Waiting

#: Options that mean nothing here: who gives them believes that messages are claimed.
_OF_CLAIMERS = ("group", "claimTtl", "claimGrace")


class BrowseReader(StreamReader["_Planner"]):
    def __init__(self, at: Where, options: Options, columns: tuple[str, ...]) -> None:
        """Raises BadConfiguration."""
        super().__init__(at, options, _OF_CLAIMERS)
        self._wanted = Wanted(
            columns=columns,
            size=options["fetchSize"],
            include_expired=options["includeExpired"],
            fail_on_data_loss=options["failOnDataLoss"],
        )

    def begin(self) -> _Planner:
        return _Planner(self._options, Stores(self._where))

    def reportLatestOffset(self) -> Offset | None:
        return self.plan.report()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return reading.read(self._where, self._wanted, cast(RangePartition, partition))


class _Planner:
    """What Spark is told, from what queues hold."""

    def __init__(self, options: Options, stores: Stores) -> None:
        self._options = options
        self._stores = stores
        self._project = stores.where.project
        self._subscribed = Subscribed(options, stores)
        self._waiting = Waiting(stores, options["maxWait"])
        self._fail: bool = options["failOnDataLoss"]
        #: with AvailableNow: by queue, the rank to stop before
        self._frozen: dict[str, int] | None = None
        #: since when there is something, but less than is wanted
        self._since: float | None = None
        #: where the stream was when there was nothing for it
        self._idle: Offset | None = None
        self._ends: dict[str, Ends] = {}
        #: queues that are not there, which was said
        self._gone: set[str] = set()

    def close(self) -> None:
        self._waiting.close()
        self._stores.close()

    def initial(self) -> Offset:
        names = self._subscribed.names()
        subscribed.check_names("startingOffsets", self._options["startingOffsets"] or "", names)
        return offsets.sorted_(
            {
                self._key(ends.queue): offsets.initial(ends.top.epoch, self._first(ends, ends.top))
                for ends in self._subscribed.present()
            }
        )

    def _first(self, ends: Ends, top: Top) -> int:
        if "startingTimestamp" in self._options.given:
            self._options.one_of("startingTimestamp", "startingOffsets")
            return self._subscribed.seek(ends, self._options["startingTimestamp"])
        position = subscribed.at(self._options["startingOffsets"], ends.queue, LATEST)
        return losses.start(
            ends.queue, position.epoch, subscribed.rank(position, top), top, self._fail
        )

    def latest(self, start: Offset, limit: ReadLimit) -> Offset:
        """Where the next batch ends.  Raises losses.DataLoss."""
        give_up = self._waiting.end()
        if start == self._idle and self._can_wait() and not self._waiting.news(give_up):
            return start
        while True:
            end = self._reachable(start)
            self._waiting.looked(self._ends.values())
            begins = any("initial" in entry for entry in start.values())
            enough = end != start and not self._too_few(sum(self._lags(start, end).values()))
            # Where it begins is to be written down, whether there are messages or not.
            if begins or enough:
                self._idle = self._since = None
                return self._cut(start, self._limited(start, end, limit))
            self._idle = start
            # What is heard need not be for us: Spark has its answer in time all the same.
            if self._frozen is not None or time.monotonic() >= give_up:
                return start
            if not self._waiting.news(give_up):
                return start

    def _can_wait(self) -> bool:
        return self._frozen is None and not self._overdue()

    def _overdue(self) -> bool:
        """Whether what is there has waited for more of it for long enough."""
        delay = self._options["maxTriggerDelay"]
        return self._since is not None and time.monotonic() >= self._since + delay

    def _too_few(self, lag: int) -> bool:
        least = self._options["minOffsetsPerTrigger"]
        if least is None or lag >= least or self._frozen is not None:
            return False
        if self._since is None:
            self._since = time.monotonic()
        return not self._overdue()

    def _reachable(self, start: Offset) -> Offset:
        """As far as there are messages, whatever the limit."""
        end: Offset = {}
        names = {self._key(queue): queue for queue in self._subscribed.names()}
        for key in start.keys() | names.keys():
            queue, before = offsets.queue_of(key), start.get(key)
            # Whoever asks for it again later finds it where it was left.
            is_left = key != self._key(queue) or not self._subscribed.wants(queue)
            entry = before if is_left else self._reached(queue, before)
            if entry is not None:
                end[key] = entry
        return offsets.sorted_(end)

    def _reached(self, queue: str, before: Entry | None) -> Entry | None:
        ends = self._subscribed.ends(queue)
        if ends is None:
            self._ends.pop(queue, None)
            if before is None:
                return None
            if self._fail or queue not in self._gone:
                losses.gone(queue, before["epoch"], before["offset"], self._fail)
            self._gone.add(queue)
            return before
        self._ends[queue] = ends
        self._gone.discard(queue)
        top = ends.top
        if before is None:  # it joins: all of it is new
            return offsets.reached(top.epoch, self._until(queue, top), top.first)
        begin = losses.start(queue, before["epoch"], before["offset"], top, self._fail)
        until = max(begin, self._until(queue, top))
        goes_on = top.epoch == before["epoch"] and begin == before["offset"]
        if goes_on and until == begin and "initial" not in before:
            return before
        return offsets.reached(
            top.epoch, until, None if goes_on and "initial" not in before else begin
        )

    def _until(self, queue: str, top: Top) -> int:
        if self._frozen is None:
            return top.following
        return min(top.following, self._frozen.get(queue, top.first))

    def _lags(self, start: Offset, end: Offset) -> dict[str, int]:
        return {key: entry["offset"] - _begin(start.get(key), entry) for key, entry in end.items()}

    def _limited(self, start: Offset, end: Offset, limit: ReadLimit) -> Offset:
        lags = self._lags(start, end)
        rows = self._rows(limit, lags)
        if rows is None:
            return end
        parts = offsets.shared(lags, rows)
        limited = {
            key: entry | {"offset": _begin(start.get(key), entry) + parts.get(key, 0)}
            for key, entry in end.items()
        }
        return offsets.sorted_(limited)

    def _cut(self, start: Offset, end: Offset) -> Offset:
        """The same, with the number of tasks that each queue's part is read by."""
        lags = self._lags(start, end)
        total, least = sum(lags.values()), partitions.wanted(self._options)
        most = self._options["maxRecordsPerPartition"]
        return offsets.sorted_(
            {
                key: entry
                | {"parts": partitions.parts(lags[key], math.ceil(least * lags[key] / total), most)}
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
                    lag * self._ends[offsets.queue_of(key)].top.size
                    for key, lag in lags.items()
                    if lag
                )
                return math.ceil(size * sum(lags.values()) / weight) if weight else None
            case _:
                return None

    def report(self) -> Offset | None:
        return offsets.sorted_(
            {
                self._key(queue): offsets.reached(ends.top.epoch, ends.top.following)
                for queue, ends in self._ends.items()
            }
        )

    def freeze(self) -> None:
        self._frozen = {
            queue: ends.top.following
            for queue in self._subscribed.names()
            if (ends := self._subscribed.ends(queue)) is not None
        }

    def partitions(self, start: Offset, end: Offset) -> Sequence[RangePartition]:
        made: list[RangePartition] = []
        for key, entry in end.items():
            begin, stop = _begin(start.get(key), entry), entry["offset"]
            if begin >= stop:
                continue
            queue = offsets.queue_of(key)
            place = self._stores.patiently(queue, lambda place: place)
            whole = RangePartition(queue, entry["epoch"], begin, stop, place)
            made += [
                replace(whole, start=low, end=high)
                for low, high in partitions.split(begin, stop, entry["parts"])
            ]
        return partitions.interleaved(made, partitions.by_queue)

    def _key(self, queue: str) -> str:
        return offsets.key(self._project, queue)


def _begin(before: Entry | None, entry: Entry) -> int:
    """The rank at which a batch that ends with *entry* begins."""
    if "from" in entry and (before is None or before != entry):
        return int(entry["from"])
    return int(before["offset"]) if before else int(entry["offset"])
