# SPDX-License-Identifier: Apache-2.0
"""What Spark does to a writer: tasks that may be tried again, and a driver that commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tests.spark.support import pickled
from zaqar_redis.keyspace.client import BlockingClient
from zaqar_redis.keyspace.script import Call
from zaqar_redis.spark.sink import Written

_TYPES = {
    "body": pa.binary(),
    "queue": pa.string(),
    "ttl": pa.int32(),
    "delay": pa.int32(),
}
#: The rows of one task.
Rows = Iterable[pa.RecordBatch]


@dataclass
class Context:
    """What Spark's task context tells."""

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


def rows(*bodies: Any, **columns: Sequence[Any]) -> pa.RecordBatch:
    """Rows with these bodies, texts or bytes, and other columns."""
    texts = [body.encode() if isinstance(body, str) else body for body in bodies]
    given: dict[str, Sequence[Any]] = {"body": texts, **columns}
    fields = [(name, _TYPES[name]) for name in given]
    return pa.RecordBatch.from_pydict(given, schema=pa.schema(fields))


def numbered(first: int, end: int) -> pa.RecordBatch:
    return rows(*[str(number) for number in range(first, end)])


def schema_of(batch: pa.RecordBatch) -> StructType:
    return from_arrow_schema(batch.schema)


class Write:
    """One write of a batch, or of one batch of a stream: its tasks, then its end."""

    def __init__(self, made: DataSource, context: Context, schema: StructType) -> None:
        self._context = context
        self._writer: Any = made.writer(schema, overwrite=False)
        #: by task, what its last try gave
        self.messages: dict[int, Written] = {}

    def task(self, number: int, batches: Rows, attempt: int = 0) -> Written:
        self._context.partition, self._context.attempt = number, attempt
        written: Written = pickled(pickled(self._writer).write(iter(batches)))
        self.messages[number] = written
        return written

    def _in_order(self) -> list[Written]:
        return [self.messages[number] for number in sorted(self.messages)]

    def commit(self) -> None:
        pickled(self._writer).commit(self._in_order())


class StreamWrite(Write):
    def __init__(
        self, made: DataSource, context: Context, schema: StructType, batch: int = 0
    ) -> None:
        context.batch = batch
        self._context = context
        self._batch = batch
        self._writer = made.streamWriter(schema, overwrite=False)
        self.messages = {}

    def commit(self) -> None:
        pickled(self._writer).commit(self._in_order(), self._batch)


def whole(write: Write, *tasks: Rows) -> list[Written]:
    """Run every task once, and commit."""
    written = [write.task(number, batches) for number, batches in enumerate(tasks)]
    write.commit()
    return written


def breaking(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same, and then the task dies."""
    yield from batches
    raise Broken


class Broken(Exception):
    """What happens to a task."""


class Died(Exception):
    """The process is gone."""


class Dying:
    """Blocking clients, which die before or behind a certain call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        #: whether that call still comes in
        self.behind = False
        known = BlockingClient.call

        def call(client: BlockingClient, call: Call) -> Any:
            if self.left == 0 and not self.behind:
                raise Died
            answer = known(client, call)
            if self.left == 0:
                raise Died
            self.left -= 1
            return answer

        monkeypatch.setattr(BlockingClient, "call", call)
