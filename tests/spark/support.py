# SPDX-License-Identifier: Apache-2.0
"""Queues in a real Redis, and what Spark does to the data source, without Spark's JVM."""

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

from zaqar_redis import clock
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.keyspace.client import BlockingClient
from zaqar_redis.records import Draft, Taken, Top
from zaqar_redis.spark.source import ZaqarDataSource
from zaqar_redis.storage.drivers.redis.claims import Claims
from zaqar_redis.storage.drivers.redis.ledger import Ledger
from zaqar_redis.storage.drivers.redis.messages import Messages
from zaqar_redis.storage.drivers.redis.queues import Queues
from zaqar_redis.storage.drivers.redis.ranges import Ranges

T = TypeVar("T")

CLIENT = "8f4c1f2e-3c56-4b5e-9e0a-6f5a5d0c7b11"
#: Seconds that messages live here when a test does not say.
TTL = 3600
#: Messages that go to Redis at once here.
_CHUNK = 1000
#: As spark.sql.execution.arrow.maxRecordsPerBatch is by itself.
_ARROW_ROWS = 10_000


class Store:
    """Verbs of the storage; what is not said otherwise happens to the queue "q"."""

    def __init__(self, uri: str, project: str) -> None:
        self.uri = uri
        self.project = project
        self.client = BlockingClient(uri, BatchSettings())
        self.queues = Queues(self.client, clock.store)
        self.messages = Messages(self.client, clock.store)
        self.claims = Claims(self.client, clock.store, self.messages.bury)

    def close(self) -> None:
        self.client.close()

    def key(self, slot: str, queue: str = "q") -> bytes:
        key: bytes = getattr(keys.of_queue(self.project, queue), slot)
        return key

    def command(self, *parts: bytes | str | int) -> Any:
        return self.client.command(*parts)

    def create(self, queue: str = "q", **metadata: Any) -> None:
        self.queues.create(self.project, queue, metadata).run()

    def delete(self, queue: str = "q") -> None:
        self.queues.delete(self.project, queue).run()

    def post(
        self, *bodies: Any, queue: str = "q", ttl: int = TTL, delay: int = -1, ago: float = 0
    ) -> None:
        """Post JSON values, as if that had been some seconds *ago*."""
        now = clock.store if not ago else lambda: round((time.time() - ago) * 1000)
        ledger = Ledger(self.client, now)
        for first in range(0, len(bodies), _CHUNK):
            chunk = [
                (ttl, delay, envelope.tail(Draft(json.dumps(body).encode()), _client()))
                for body in bodies[first : first + _CHUNK]
            ]
            ledger.append(self.project, queue, chunk, size=0, default_ttl=TTL, sealed=False).run()

    def remove(self, *ranks: int, queue: str = "q") -> None:
        ids = self.ids(queue)
        self.messages.delete(
            self.project, queue, [ids[rank] for rank in ranks], claims=None, force=True
        ).run()

    def ids(self, queue: str = "q") -> dict[int, str]:
        """Ids by rank, of at most 1000 messages."""
        page = self.messages.list(
            self.project,
            queue,
            after=None,
            limit=1000,
            hide_client=None,
            include_claimed=True,
            include_delayed=True,
        ).run()
        return {message.rank: message.id for message in page.items}

    def claim(self, limit: int, queue: str = "q", ttl: int = 600) -> Taken:
        return self.claims.create(self.project, queue, ttl=ttl, grace=60, limit=limit).run()

    def top(self, queue: str = "q") -> Top:
        top = Ranges(self.client, clock.store).top(self.project, queue).run()
        assert top
        return top

    def bodies(self, queue: str = "q") -> list[Any]:
        """What is in the queue, by rank."""
        ranks = self.command("ZRANGE", self.key("messages", queue), 0, -1)
        if not ranks:
            return []
        stored = self.command("HMGET", self.key("bodies", queue), *ranks)
        return [json.loads(each[58:]) for each in stored]

    def last_rank(self, queue: str = "q") -> int:
        """The rank of the last message that was ever posted."""
        return int(self.command("HGET", self.key("queue", queue), "rank") or 0)

    def leases(self, queue: str = "q") -> dict[str, float]:
        """Live claims, and when they end, in ms."""
        flat = self.command("ZRANGE", self.key("leases", queue), 0, -1, "WITHSCORES")
        return {
            claim.decode(): float(end) for claim, end in zip(flat[::2], flat[1::2], strict=True)
        }

    def source(self, **options: object) -> ZaqarDataSource:
        return source(**{"uri": self.uri, "project": self.project} | options)


def _client() -> bytes:
    return envelope.client_bytes(CLIENT)


def source(**options: object) -> ZaqarDataSource:
    """The data source as Spark makes it: names of options in lower case, values texts."""
    return ZaqarDataSource(
        CaseInsensitiveDict({name: str(value) for name, value in options.items()})
    )


def columns(made: DataSource) -> StructType:
    schema = made.schema()
    assert isinstance(schema, StructType)
    return schema


def pickled(value: T) -> T:
    """As it comes out at the other side of a socket."""
    return cast(T, pickle.loads(pickle.dumps(value)))


class Batch:
    """A batch read: planned in one process, read in others."""

    def __init__(
        self, made: DataSource, schema: StructType | None = None, filters: Sequence[Filter] = ()
    ) -> None:
        self._source = made
        self.schema = schema or columns(made)
        self._reader: DataSourceReader = made.reader(self.schema)
        #: filters that Spark has to apply itself
        self.left = list(self._reader.pushFilters(list(filters))) if filters else []
        planned = self._reader.partitions()
        assert isinstance(planned, list)
        #: what is really to be read
        self.partitions: list[Any] = planned

    def table(self) -> pa.Table:
        # Spark has one task at least.
        tasks = self.partitions or [InputPartition(None)]
        return read(self._source, self._reader, self.schema, tasks)

    def rows(self) -> list[dict[str, Any]]:
        return cast("list[dict[str, Any]]", self.table().to_pylist())


def batch(made: DataSource) -> list[dict[str, Any]]:
    return Batch(made).rows()


def read(
    made: DataSource,
    reader: DataSourceReader | DataSourceStreamReader,
    schema: StructType,
    partitions: Iterable[InputPartition],
) -> pa.Table:
    """What the tasks give, in order, after Spark's own look at it."""
    batches = [
        each
        for partition in partitions
        for each in task(made, pickled(reader), schema, pickled(partition))
    ]
    return pa.Table.from_batches(batches, schema=to_arrow_schema(schema, timezone="UTC"))


def task(
    made: DataSource,
    reader: DataSourceReader | DataSourceStreamReader,
    schema: StructType,
    partition: InputPartition,
) -> Iterator[pa.RecordBatch]:
    found = cast("Iterator[pa.RecordBatch]", reader.read(partition))
    yield from records_to_arrow_batches(found, _ARROW_ROWS, schema, made)


def values(rows: Iterable[dict[str, Any]]) -> list[Any]:
    """What the bodies say."""
    return [json.loads(row["body"]) for row in rows]


class Query:
    """A streaming query, with the calls that Spark makes, in their order.

    Its checkpoint is in memory: `offsets` is the write-ahead log, `finished` the number
    of batches in the commit log.  `restart` goes on from it with another reader, as
    another process would.
    """

    def __init__(self, made: DataSource, *, available_now: bool = False) -> None:
        self._source = made
        self._available_now = available_now
        self.schema = columns(made)
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

    def restart(self, made: DataSource | None = None) -> None:
        self.stop()
        self._source = made or self._source
        self._start()

    @property
    def end(self) -> dict[str, Any]:
        """The last offset that was written down."""
        return cast("dict[str, Any]", json.loads(self.offsets[-1]))

    def begin(self, number: int) -> dict[str, Any]:
        """Where a batch begins: Spark asks for the initial offset each time it wants it."""
        if number == 0:
            return cast("dict[str, Any]", json.loads(json.dumps(self.reader.initialOffset())))
        return cast("dict[str, Any]", json.loads(self.offsets[number - 1]))

    def latest(self) -> str:
        """The offset that Spark would compare with the one before."""
        start = self.begin(len(self.offsets))
        end = json.dumps(self.reader.latestOffset(start, self._limit))
        # The same in any order of keys would be news to Spark.
        assert end == json.dumps(json.loads(end), sort_keys=True)
        return end

    def plan(self) -> bool:
        """Whether there is another batch, which is in the log then."""
        number = len(self.offsets)
        assert self.finished == number, "the batch before is not finished"
        end = self.latest()
        # There is a first batch in any case.
        if number and end == self.offsets[-1]:
            return False
        # Where a stream would begin is for the first question only.
        assert '"initial"' not in end
        self.offsets.append(end)
        if number:  # so late, and not for the last batch
            self.reader.commit(self.begin(number))
        return True

    def partitions(self) -> list[Any]:
        """Of the last batch in the log, finished or not."""
        return list(self.reader.partitions(self.begin(len(self.offsets) - 1), self.end))

    def read(self) -> list[dict[str, Any]]:
        """The rows of the last batch in the log."""
        found = read(self._source, self.reader, self.schema, self.partitions())
        return cast("list[dict[str, Any]]", found.to_pylist())

    def finish(self) -> None:
        self.finished = len(self.offsets)

    def trigger(self) -> list[dict[str, Any]] | None:
        """The rows of another batch; None: there is none."""
        if not self.plan():
            return None
        rows = self.read()
        self.finish()
        return rows

    def drain(self) -> list[dict[str, Any]]:
        """The rows of all batches until there is none."""
        found: list[dict[str, Any]] = []
        while (rows := self.trigger()) is not None:
            found += rows
        return found
