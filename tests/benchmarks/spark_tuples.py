# SPDX-License-Identifier: Apache-2.0
"""Reading with a tuple for each message: what the data source would be without Arrow.

The same commands to Redis in the same tasks, and the same columns; only what is made of
the answers differs.  Nothing is claimed in the queue that is read, so that there are no
claims to look at either.
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

from tests.benchmarks.spark_site import PROJECT, TASKS
from zaqar_redis.keyspace import envelope
from zaqar_redis.keyspace.client import BlockingClient
from zaqar_redis.spark import columns
from zaqar_redis.spark.stores import Stores, Where
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.drivers.redis import identity
from zaqar_redis.storage.drivers.redis.range_reader import Content, RangeReader, RawPage

#: Messages of a page: as the data source has it by default.
PAGE = 2000

Row = tuple[Any, ...]


@dataclass
class Range(InputPartition):
    """Ranks of a task, the last one excluded."""

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
        return _Reader(dict(self.options))


class _Reader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._where = Where(options["uri"], options["uri"], PROJECT, timeout=30.0)
        self._queue, self._epoch = options["queue"], options["epoch"]
        self._following = int(options["following"])

    def partitions(self) -> Sequence[InputPartition]:
        bounds = [1 + (self._following - 1) * part // TASKS for part in range(TASKS + 1)]
        return [Range(start, end) for start, end in pairwise(bounds)]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        part = cast(Range, partition)
        with Stores(self._where) as stores:
            client = stores.client(self._where.uri)
            yield from rows(client, self._queue, self._epoch, part.start, part.end)


def rows(client: BlockingClient, queue: str, epoch: str, start: int, end: int) -> Iterator[Row]:
    """Messages from the rank *start* to before *end*: all default columns of each."""
    reader = RangeReader(client, PROJECT, queue, epoch)
    for page in reader.pages(start, end, PAGE, Content(holds=True)):
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
            DEFAULT,
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
            envelope.is_sealed(flags),
        )
