# SPDX-License-Identifier: Apache-2.0
"""Shared parts of jobs that write from tasks: counts, rate limits and errors."""

from __future__ import annotations

import argparse
import pickle
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from zaqar_redis import errors, rules
from zaqar_redis.spark import stores
from zaqar_redis.spark.jobs import running
from zaqar_redis.spark.options import WRITE, SourceOptions
from zaqar_redis.spark.stores import StoreConfig, StoreConnections

T = TypeVar("T")

#: Messages by queue and outcome.
OutcomeCounts = Counter[tuple[str, str]]
#: Processes the rows of a task; its result goes to the driver.
TaskFunction = Callable[[Iterator[pa.RecordBatch]], T]

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


class RateLimiter:
    """Limits a task to so many messages a second; None: no limit."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._next = 0.0

    def wait(self) -> None:
        """Waits until more may be written."""
        time.sleep(max(0.0, self._next - time.monotonic()))

    def advance(self, messages: int) -> None:
        """Counts written messages.  Time lost to delays is not caught up."""
        if self._rate is not None:
            self._next = max(time.monotonic(), self._next) + messages / self._rate


def store_options(parsed: argparse.Namespace) -> dict[str, str]:
    """Returns the store options of the data source, for a job that selects no queues."""
    given = {"uri": parsed.storage, "controlUri": parsed.control, "project": parsed.project}
    return {name: text for name, text in given.items() if text is not None}


def store_config(given: Mapping[str, str]) -> StoreConfig:
    """Returns the configuration of a store, checked.  Raises BadConfiguration."""
    config = stores.store_config(SourceOptions(WRITE, given))
    with StoreConnections(config) as opened:
        opened.check()
    return config


def check_bounds(name: str, value: float | None, least: float, most: float) -> None:
    """Raises BadConfiguration when an argument is given and out of its limits."""
    if value is not None and not least <= value <= most:
        raise errors.BadConfiguration(f"{name}: it must be {least:g} to {most:g}, not {value:g}")


def check_queue_name(name: str, queue: str | None) -> None:
    """Raises BadConfiguration when an argument is given and no name of a queue."""
    if queue is not None and not rules.is_queue_name(queue):
        raise errors.BadConfiguration(f'{name}: "{queue}" is no name of a queue')
