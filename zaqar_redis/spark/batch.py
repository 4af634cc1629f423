# SPDX-License-Identifier: Apache-2.0
"""Batch reads: the queues as they are when the query is planned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
from zaqar_redis.records import Top
from zaqar_redis.spark import losses, partitions, reading, subscribed
from zaqar_redis.spark.options import EARLIEST, LATEST, Options
from zaqar_redis.spark.partitions import RangePartition
from zaqar_redis.spark.reading import Wanted
from zaqar_redis.spark.stores import Stores, Where
from zaqar_redis.spark.subscribed import Ends, Subscribed
from zaqar_redis.storage.drivers.redis import range_reader


class BatchReader(DataSourceReader):
    """Reads what there is.  Raises BadConfiguration when the store cannot be used."""

    def __init__(self, at: Where, options: Options, columns: tuple[str, ...]) -> None:
        self._where = at
        self._options = options
        self._wanted = Wanted(
            columns=columns,
            size=options["fetchSize"],
            include_expired=options["includeExpired"],
            include_claimed=options["includeClaimed"],
            include_delayed=options["includeDelayed"],
            fail_on_data_loss=options["failOnDataLoss"],
        )
        #: what filters leave to be read
        self._only: frozenset[str] | None = None
        self._least, self._most = 0, math.inf

    def partitions(self) -> Sequence[InputPartition]:
        with Stores(self._where) as stores:
            plan = _Plan(self._options, stores)
            ranges = [
                (ends, *self._filtered(*plan.range(ends)))
                for ends in plan.ends()
                if self._only is None or ends.queue in self._only
            ]
            return plan.split([each for each in ranges if each[1] < each[2]])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes a partition of its own when there is none.
        if not isinstance(partition, RangePartition):
            return iter(())
        return reading.read(self._where, self._wanted, partition)

    def _filtered(self, start: int, end: int) -> tuple[int, int]:
        return max(start, self._least), int(min(end, self._most))


class FilteringReader(BatchReader):
    """The same, for whom Spark's filters on queue and rank choose what is fetched.

    Another class, because Spark refuses every reader that could take filters while its
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


class _Plan:
    """What options say, applied to what queues hold."""

    def __init__(self, options: Options, stores: Stores) -> None:
        self._options = options
        self._stores = stores
        self._subscribed = Subscribed(options, stores)

    def ends(self) -> list[Ends]:
        """Of every queue that is read.

        Raises BadConfiguration when one that was named is not there.
        """
        names = self._subscribed.names()
        for option in ("startingOffsets", "endingOffsets"):
            subscribed.check_names(option, self._options[option] or EARLIEST, names)
        return self._subscribed.present()

    def range(self, ends: Ends) -> tuple[int, int]:
        """The first rank to read, and the one to stop before."""
        return self._start(ends, ends.top), self._end(ends, ends.top)

    def _start(self, ends: Ends, top: Top) -> int:
        if "startingTimestamp" in self._options.given:
            self._options.one_of("startingTimestamp", "startingOffsets")
            return self._subscribed.seek(ends, self._options["startingTimestamp"])
        position = subscribed.at(self._options["startingOffsets"], ends.queue, EARLIEST)
        return losses.start(
            ends.queue,
            position.epoch,
            subscribed.rank(position, top),
            top,
            self._options["failOnDataLoss"],
        )

    def _end(self, ends: Ends, top: Top) -> int:
        if "endingTimestamp" in self._options.given:
            self._options.one_of("endingTimestamp", "endingOffsets")
            return self._subscribed.seek(ends, self._options["endingTimestamp"])
        position = subscribed.at(self._options["endingOffsets"], ends.queue, LATEST)
        if position.epoch not in (None, top.epoch):
            raise errors.BadConfiguration(
                f'option "endingOffsets": the queue "{ends.queue}" is in the epoch {top.epoch}, '
                f"not in {position.epoch}"
            )
        return min(subscribed.rank(position, top), top.following)

    def split(self, ranges: Sequence[tuple[Ends, int, int]]) -> list[RangePartition]:
        """Tasks of about as many messages each."""
        counted = [(*each, self._count(*each)) for each in ranges]
        total = sum(count for *_, count in counted)
        least = partitions.wanted(self._options)
        made = []
        for ends, start, end, count in counted:
            share = math.ceil(least * count / total) if total else 1
            number = partitions.parts(count, share, self._options["maxRecordsPerPartition"])
            bounds = [start, *self._bounds(ends, start, count, number), end]
            whole = RangePartition(ends.queue, ends.top.epoch, start, end, ends.place)
            made += [
                replace(whole, start=low, end=high) for low, high in pairwise(bounds) if low < high
            ]
        return partitions.interleaved(made, partitions.by_store)

    def _count(self, ends: Ends, start: int, end: int) -> int:
        client = self._stores.client(ends.place.uri)
        return range_reader.count(client, self._stores.where.project, ends.queue, start, end)

    def _bounds(self, ends: Ends, start: int, count: int, number: int) -> list[int]:
        """Ranks between which there are equally many messages."""
        client, project = self._stores.client(ends.place.uri), self._stores.where.project
        places = [count * part // number for part in range(1, number)]
        return range_reader.bounds(client, project, ends.queue, start, places) if places else []
