# SPDX-License-Identifier: Apache-2.0
"""A store for Spark, and Spark's calls of the data source, without its JVM."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

from tests.support.blocking import ProjectStore
from tests.support.stores import CLIENT, TTL
from zaqar_redis import clock
from zaqar_redis.keyspace import envelope
from zaqar_redis.records import Attributes, MessageListing, NewMessage, Watermarks
from zaqar_redis.spark.source import ZaqarDataSource
from zaqar_redis.storage.redis.bulk.ledger import RedisLedger

T = TypeVar("T")

#: Messages posted in one call.
_CHUNK = 1000
#: The default of spark.sql.execution.arrow.maxRecordsPerBatch.
_ARROW_ROWS = 10_000


class SparkTestStore(ProjectStore):
    """A store for queries, with Redis' own clock."""

    def __init__(self, uri: str, project: str) -> None:
        super().__init__(uri, project, clock.store)

    def post(
        self,
        *bodies: Any,
        queue: str = "q",
        ttl: int = TTL,
        delay: int = -1,
        ago: float = 0,
        attributes: Attributes | None = None,
    ) -> None:
        """Posts JSON values, as if *ago* seconds ago."""
        now = clock.store if not ago else lambda: round((time.time() - ago) * 1000)
        ledger = RedisLedger(self.client, now)
        messages = [NewMessage(json.dumps(body).encode(), attributes=attributes) for body in bodies]
        for first in range(0, len(messages), _CHUNK):
            chunk = [
                (ttl, delay, envelope.tail(message, _client()))
                for message in messages[first : first + _CHUNK]
            ]
            ledger.append(
                self.project, queue, chunk, size=0, default_ttl=TTL, encrypted=False
            ).run()

    def remove(self, *ranks: int, queue: str = "q") -> None:
        ids = self.ids(queue)
        self.messages.delete(
            self.project, queue, [ids[rank] for rank in ranks], claims=None, force=True
        ).run()

    def ids(self, queue: str = "q") -> dict[int, str]:
        """Returns ids by rank, of at most 1000 messages."""
        listing = MessageListing(1000, include_claimed=True, include_delayed=True)
        page = self.messages.list(self.project, queue, listing).run()
        return {message.rank: message.id for message in page.items}

    def watermarks(self, queue: str = "q") -> Watermarks:
        found = self.ranges.watermarks(self.project, queue).run()
        assert found
        return found

    def leases(self, queue: str = "q") -> dict[str, float]:
        """Returns live claims with their end, in ms."""
        flat = self.command("ZRANGE", self.key("leases", queue), 0, -1, "WITHSCORES")
        return {
            claim.decode(): float(end) for claim, end in zip(flat[::2], flat[1::2], strict=True)
        }

    def expire_claims(self, queue: str = "q") -> None:
        """Lets the claims of a killed stream expire."""
        over = round(time.time() * 1000) - 1000
        for claim in self.leases(queue):
            self.command("ZADD", self.key("leases", queue), over, claim)
        for rank in self.command("ZRANGE", self.key("claimed", queue), 0, -1):
            self.command("ZADD", self.key("claimed", queue), over, rank)
        self.command("HSET", self.key("queue", queue), "due", over)

    def keys(self, pattern: str) -> list[bytes]:
        """Returns the keys that match, of all nodes."""
        return [name for node in self.client.nodes() for name in node.command("KEYS", pattern)]

    def expire_roles(self) -> None:
        """Lets the roles expire that a killed process of this project has taken."""
        for role in self.keys(f"zr:{{control}}:role:*{self.project}*"):
            self.command("PEXPIRE", role, 1)

    def source(self, **options: object) -> ZaqarDataSource:
        return source(**{"uri": self.uri, "project": self.project} | options)


def _client() -> bytes:
    return envelope.client_bytes(CLIENT)


def source(**options: object) -> ZaqarDataSource:
    """Returns the data source as Spark creates it: case-insensitive options, values as text."""
    return ZaqarDataSource(
        CaseInsensitiveDict({name: str(value) for name, value in options.items()})
    )


def columns(data_source: DataSource) -> StructType:
    schema = data_source.schema()
    assert isinstance(schema, StructType)
    return schema


def pickled(value: T) -> T:
    """Returns a value as another process would unpickle it."""
    return cast(T, pickle.loads(pickle.dumps(value)))


class BatchRead:
    """A batch read: planned in one process, executed in others."""

    def __init__(
        self,
        data_source: DataSource,
        schema: StructType | None = None,
        filters: Sequence[Filter] = (),
    ) -> None:
        self._source = data_source
        self.schema = schema or columns(data_source)
        self._reader: DataSourceReader = data_source.reader(self.schema)
        #: filters that Spark has to apply itself
        self.remaining_filters = list(self._reader.pushFilters(list(filters))) if filters else []
        planned = self._reader.partitions()
        assert isinstance(planned, list)
        #: the planned partitions
        self.partitions: list[Any] = planned

    def table(self) -> pa.Table:
        # Spark runs at least one task.
        tasks = self.partitions or [InputPartition(None)]
        return read(self._source, self._reader, self.schema, tasks)

    def rows(self) -> list[dict[str, Any]]:
        return cast("list[dict[str, Any]]", self.table().to_pylist())


def batch(data_source: DataSource) -> list[dict[str, Any]]:
    return BatchRead(data_source).rows()


def read(
    data_source: DataSource,
    reader: DataSourceReader | DataSourceStreamReader,
    schema: StructType,
    partitions: Iterable[InputPartition],
) -> pa.Table:
    """Returns the rows of all tasks in order, after Spark's own validation."""
    batches = [
        each
        for partition in partitions
        for each in task(data_source, pickled(reader), schema, pickled(partition))
    ]
    return pa.Table.from_batches(batches, schema=to_arrow_schema(schema, timezone="UTC"))


def task(
    data_source: DataSource,
    reader: DataSourceReader | DataSourceStreamReader,
    schema: StructType,
    partition: InputPartition,
) -> Iterator[pa.RecordBatch]:
    found = cast("Iterator[pa.RecordBatch]", reader.read(partition))
    yield from records_to_arrow_batches(found, _ARROW_ROWS, schema, data_source)


def values(rows: Iterable[dict[str, Any]]) -> list[Any]:
    """Returns the JSON values of the bodies."""
    return [json.loads(row["body"]) for row in rows]


class SimulatedQuery:
    """A streaming query that makes Spark's calls in Spark's order.

    Its checkpoint is in memory: `offsets` is the write-ahead log, `finished` the number
    of batches in the commit log.  `restart` continues from it with another reader, as
    another process would.
    """

    def __init__(self, data_source: DataSource, *, available_now: bool = False) -> None:
        self._source = data_source
        self._available_now = available_now
        self.schema = columns(data_source)
        self.offsets: list[str] = []
        self.finished = 0
        self.reader: Any = None
        self._limit: ReadLimit | None = None
        self._start()

    def _start(self) -> None:
        self.reader = self._source.streamReader(self.schema)
        self._limit = self.reader.getDefaultReadLimit()
        if self._available_now:
            assert isinstance(self.reader, SupportsTriggerAvailableNow)
            self.reader.prepareForTriggerAvailableNow()

    def stop(self) -> None:
        self.reader.stop()

    def restart(self, data_source: DataSource | None = None) -> None:
        self.stop()
        self._source = data_source or self._source
        self._start()

    @property
    def end(self) -> dict[str, Any]:
        """The last offset in the write-ahead log."""
        return cast("dict[str, Any]", json.loads(self.offsets[-1]))

    def begin(self, number: int) -> dict[str, Any]:
        """Returns the start of a batch; like Spark, calls initialOffset each time."""
        if number == 0:
            return cast("dict[str, Any]", json.loads(json.dumps(self.reader.initialOffset())))
        return cast("dict[str, Any]", json.loads(self.offsets[number - 1]))

    def latest(self) -> str:
        """Returns the latest offset, which Spark compares with the previous one."""
        start = self.begin(len(self.offsets))
        end = json.dumps(self.reader.latestOffset(start, self._limit))
        # Spark takes another order of keys for a new offset.
        assert end == json.dumps(json.loads(end), sort_keys=True)
        return end

    def plan(self) -> bool:
        """Plans the next batch and logs its end; returns False if there is none."""
        number = len(self.offsets)
        assert self.finished == number, "the batch before is not finished"
        end = self.latest()
        # The first batch is always planned.
        if number and end == self.offsets[-1]:
            return False
        # The marker of an initial offset never gets into the log.
        assert '"initial"' not in end
        self.offsets.append(end)
        if number:  # Spark commits a batch only when it plans the next
            self.reader.commit(self.begin(number))
        return True

    def partitions(self) -> list[Any]:
        """Returns the partitions of the last logged batch, finished or not."""
        return list(self.reader.partitions(self.begin(len(self.offsets) - 1), self.end))

    def read(self) -> list[dict[str, Any]]:
        """Returns the rows of the last logged batch."""
        found = read(self._source, self.reader, self.schema, self.partitions())
        return cast("list[dict[str, Any]]", found.to_pylist())

    def finish(self) -> None:
        self.finished = len(self.offsets)

    def trigger(self) -> list[dict[str, Any]] | None:
        """Runs the next batch; returns its rows, or None if there is none."""
        if not self.plan():
            return None
        rows = self.read()
        self.finish()
        return rows

    def drain(self) -> list[dict[str, Any]]:
        """Runs all batches; returns their rows."""
        found: list[dict[str, Any]] = []
        while (rows := self.trigger()) is not None:
            found += rows
        return found
