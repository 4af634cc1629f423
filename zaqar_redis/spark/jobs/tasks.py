# SPDX-License-Identifier: Apache-2.0
"""Shared parts of jobs that write from tasks: counts, rate limits and errors."""

from __future__ import annotations

import pickle
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from zaqar_redis.spark import stores
from zaqar_redis.spark.jobs import running
from zaqar_redis.spark.jobs.arguments import CHUNK_MESSAGES
from zaqar_redis.spark.options import WRITE, SourceOptions
from zaqar_redis.spark.stores import StoreConfig, StoreConnections
from zaqar_redis.spark.writing import rows

T = TypeVar("T")
M = TypeVar("M", bound=rows.Sized)

#: Messages by queue and outcome.
OutcomeCounts = Counter[tuple[str, str]]
#: Processes the rows of a task; its result goes to the driver.
TaskFunction = Callable[[Iterator[pa.RecordBatch]], T]

#: Bytes of a chunk.
_CHUNK_BYTES = 1024 * 1024

#: Errors of tasks when rows, or a queue, are not valid.
_TASK_ERROR = re.compile(
    r"^(?:[\w.]+\.)?(?:BadRow|NotRestored|BadRequest|InvalidEnvelope): (.+)", re.M
)


@dataclass
class _JobCommitMessage(WriterCommitMessage):
    result: Any


class _JobWriter(DataSourceArrowWriter):
    def __init__(self, work: TaskFunction[Any], path: str) -> None:
        self._work = work
        self._path = path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _JobCommitMessage:
        return _JobCommitMessage(self._work(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # This is a process of its own, beside the driver.
        results = [each.result for each in messages if isinstance(each, _JobCommitMessage)]
        Path(self._path).write_bytes(pickle.dumps(results))


def run_tasks(frame: DataFrame, work: TaskFunction[T]) -> list[T]:
    """Runs *work* over the partitions of a frame; returns its results.

    *work* must be picklable.  Raises running.JobRefused for errors that tasks raise about
    their rows.
    """
    # As a data sink: mapInArrow would do, but needs pandas, which nothing else here does.
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "results")

        class Sink(DataSource):
            @classmethod
            def name(cls) -> str:
                return "zaqar-job"

            def writer(self, schema: StructType, overwrite: bool) -> _JobWriter:
                return _JobWriter(work, path)

        frame.sparkSession.dataSource.register(Sink)
        try:
            frame.write.format("zaqar-job").mode("append").save()
        except PySparkException as error:
            found = _TASK_ERROR.search(str(error))
            if found is None:
                raise
            raise running.JobRefused(found[1]) from error
        # Written by our own commit, into a folder that only this user can write to.
        return cast("list[T]", pickle.loads(Path(path).read_bytes()))  # noqa: S301


def sum_counts(frame: DataFrame, work: TaskFunction[OutcomeCounts]) -> OutcomeCounts:
    """Returns the sum of what *work* counts.  Raises running.JobRefused."""
    return sum(run_tasks(frame, work), Counter())


def total(counts: OutcomeCounts, outcome: str) -> int:
    return sum(messages for (_, of), messages in counts.items() if of == outcome)


def by_queue(counts: OutcomeCounts) -> dict[str, dict[str, int]]:
    """Returns the counts other than 0, by queue and then by outcome, sorted."""
    found: dict[str, dict[str, int]] = {}
    for (queue, outcome), messages in sorted(counts.items()):
        if messages:
            found.setdefault(queue, {})[outcome] = messages
    return found


def chunks(messages: Iterable[M]) -> Iterator[list[M]]:
    """Yields messages in chunks for one round trip: each blocks Redis for a while."""
    return rows.sized_chunks(messages, CHUNK_MESSAGES, _CHUNK_BYTES)


def store_config(given: Mapping[str, str]) -> StoreConfig:
    """Returns the configuration of a store, checked.  Raises BadConfiguration."""
    config = stores.store_config(SourceOptions(WRITE, given))
    with StoreConnections(config) as opened:
        opened.check()
    return config
