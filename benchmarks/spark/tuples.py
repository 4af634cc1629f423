# SPDX-License-Identifier: Apache-2.0
"""A data source with a tuple for each message: what ours would be without Arrow.

It sends the same commands to Redis in the same tasks, and has the same columns; only the
decoding of the replies differs.  The queue that is read has no claims, so none are read.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.spark.testbed import PROJECT, TASKS
from zaqar_redis.keyspace import envelope
from zaqar_redis.keyspace.blocking import BlockingClient
from zaqar_redis.spark import columns
from zaqar_redis.spark.stores import StoreConfig, StoreConnections
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.redis import identity
from zaqar_redis.storage.redis.bulk.range_reader import RangeFields, RangeReader, RawPage

#: Messages of a page: the default of the data source.
PAGE = 2000

Row = tuple[Any, ...]


@dataclass
class TupleRange(InputPartition):
    """The ranks of a task, *end* excluded."""

    start: int
    end: int

    def __post_init__(self) -> None:
        super().__init__(None)


class TupleSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "zaqar_tuples"

    def schema(self) -> StructType:
        return columns.default_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return _TupleReader(dict(self.options))


class _TupleReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._store_config = StoreConfig(options["uri"], options["uri"], PROJECT, timeout=30.0)
        self._queue, self._epoch = options["queue"], options["epoch"]
        self._following = int(options["following"])

    def partitions(self) -> Sequence[InputPartition]:
        bounds = [1 + (self._following - 1) * part // TASKS for part in range(TASKS + 1)]
        return [TupleRange(start, end) for start, end in pairwise(bounds)]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        part = cast(TupleRange, partition)
        with StoreConnections(self._store_config) as stores:
            client = stores.client(self._store_config.uri)
            yield from rows(client, self._queue, self._epoch, part.start, part.end)


def rows(client: BlockingClient, queue: str, epoch: str, start: int, end: int) -> Iterator[Row]:
    """Yields all default columns of the messages from the rank *start* to before *end*."""
    reader = RangeReader(client, PROJECT, queue, epoch)
    for page in reader.pages(start, end, PAGE, RangeFields(holds=True)):
        yield from _of_page(page, queue, epoch)


def _of_page(page: RawPage, queue: str, epoch: str) -> Iterator[Row]:
    prefix = identity.prefix(epoch)
    for rank, stored in zip(page.ranks, page.envelopes, strict=True):
        if stored is None:
            continue
        created, expires, ttl, delay, flags, client, length = envelope.head(stored)
        if expires <= page.now:
            continue
        origin, _, body = envelope.rest(stored, length)
        yield (
            PROJECT,
            queue,
            "queue",
            DEFAULT_POOL,
            identity.message_id(prefix, rank),
            rank,
            epoch,
            body,
            datetime.fromtimestamp(created / 1000, UTC),
            datetime.fromtimestamp(expires / 1000, UTC),
            ttl,
            delay,
            str(uuid.UUID(bytes=client)),
            None,
            None,
            0,
            origin or None,
            envelope.is_encrypted(flags),
        )
