# SPDX-License-Identifier: Apache-2.0
"""Spark's calls of a writer: tasks that may be retried, and a driver that commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tests.support.spark_reads import pickled
from zaqar_redis.keyspace.blocking import BlockingClient, BlockingClusterClient
from zaqar_redis.keyspace.script import Call
from zaqar_redis.spark import attributes, task
from zaqar_redis.spark.writing.sink import WriteCommitMessage

_TYPES = {
    "body": pa.binary(),
    "queue": pa.string(),
    "ttl": pa.int32(),
    "delay": pa.int32(),
    "deliver_at": pa.timestamp("us", "UTC"),
    "attributes": attributes.ARROW,
    **{name: pa.int32() if name == "priority" else pa.string() for name in attributes.FIELDS},
}
#: The rows of one task.
Rows = Iterable[pa.RecordBatch]


@dataclass
class FakeTaskContext:
    """A replacement for Spark's task context."""

    partition: int = 0
    attempt: int = 0
    query: str | None = "0d4c1c7e-query"
    batch: int = 0

    def partitionId(self) -> int:
        return self.partition

    def attemptNumber(self) -> int:
        return self.attempt

    def getLocalProperty(self, name: str) -> str | None:
        known = {"sql.streaming.queryId": self.query, "streaming.sql.batchId": str(self.batch)}
        return known[name]


def current_context() -> FakeTaskContext:
    """Returns the context of tasks in this test, which the fixture `context` has set."""
    return cast(FakeTaskContext, task._context())


def rows(*bodies: Any, **columns: Sequence[Any]) -> pa.RecordBatch:
    """Returns rows with these bodies (text or bytes) and other columns."""
    texts = [body.encode() if isinstance(body, str) else body for body in bodies]
    given: dict[str, Sequence[Any]] = {"body": texts, **columns}
    fields = [(name, _TYPES[name]) for name in given]
    return pa.RecordBatch.from_pydict(given, schema=pa.schema(fields))


def numbered(first: int, end: int) -> pa.RecordBatch:
    return rows(*[str(number) for number in range(first, end)])


def schema_of(batch: pa.RecordBatch) -> StructType:
    return from_arrow_schema(batch.schema)


class BatchWrite:
    """One batch write: its tasks, then the commit."""

    def __init__(self, data_source: DataSource, schema: StructType) -> None:
        self._writer: Any = data_source.writer(schema, overwrite=False)
        #: commit messages of the last attempts, by task
        self.messages: dict[int, WriteCommitMessage] = {}

    def task(self, number: int, batches: Rows, attempt: int = 0) -> WriteCommitMessage:
        context = current_context()
        context.partition, context.attempt = number, attempt
        written: WriteCommitMessage = pickled(pickled(self._writer).write(iter(batches)))
        self.messages[number] = written
        return written

    def _in_order(self) -> list[WriteCommitMessage]:
        return [self.messages[number] for number in sorted(self.messages)]

    def commit(self) -> None:
        pickled(self._writer).commit(self._in_order())


class StreamWrite(BatchWrite):
    def __init__(self, data_source: DataSource, schema: StructType, batch: int = 0) -> None:
        current_context().batch = batch
        self._batch = batch
        self._writer = data_source.streamWriter(schema, overwrite=False)
        self.messages = {}

    def commit(self) -> None:
        pickled(self._writer).commit(self._in_order(), self._batch)


def write_all(write: BatchWrite, *tasks: Rows) -> list[WriteCommitMessage]:
    """Runs every task once, and commits."""
    written = [write.task(number, batches) for number, batches in enumerate(tasks)]
    write.commit()
    return written


def failing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the batches, then fails the task."""
    yield from batches
    raise TaskFailed


class TaskFailed(Exception):
    """The failure of a task."""


class WriterDied(Exception):
    """The crash of a process."""


class CrashingClients:
    """Blocking clients that crash before or after a certain call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        #: whether that call is still executed
        self.behind = False
        for kind in (BlockingClient, BlockingClusterClient):
            monkeypatch.setattr(kind, "call", self._crashing(kind.call))

    def _crashing(self, known: Callable[[Any, Call], Any]) -> Callable[[Any, Call], Any]:
        def call(client: BlockingClient, call: Call) -> Any:
            if self.left == 0 and not self.behind:
                raise WriterDied
            answer = known(client, call)
            if self.left == 0:
                raise WriterDied
            self.left -= 1
            return answer

        return call
