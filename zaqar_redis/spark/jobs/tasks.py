# SPDX-License-Identifier: Apache-2.0
"""What jobs that write from tasks have in common: they count, keep to a rate, and fail."""

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
from zaqar_redis.spark.options import WRITE, Options
from zaqar_redis.spark.stores import Stores, Where

T = TypeVar("T")

#: Messages by queue, and by what became of them.
Counts = Counter[tuple[str, str]]
#: What a task does with its rows, and what it tells the driver of them.
Work = Callable[[Iterator[pa.RecordBatch]], T]

#: What tasks say when rows, or a queue, are not what they must be.
_SAID = re.compile(r"^(?:[\w.]+\.)?(?:BadRow|NotRestored|BadRequest|NoEnvelope): (.+)", re.M)


@dataclass
class _Done(WriterCommitMessage):
    result: Any


class _Writer(DataSourceArrowWriter):
    def __init__(self, work: Work[Any], path: str) -> None:
        self._work = work
        self._path = path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Done:
        return _Done(self._work(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # This is a process of its own, beside the driver.
        results = [each.result for each in messages if isinstance(each, _Done)]
        Path(self._path).write_bytes(pickle.dumps(results))


def results(frame: DataFrame, work: Work[T]) -> list[T]:
    """Run *work* over the partitions of a frame; what it gave.

    *work* goes to tasks, so it is picklable.  Raises running.Refused for what tasks say of
    their rows.
    """
    # As a sink of Spark's: mapInArrow would do, but wants pandas, which nothing else here does.
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "results")

        class Sink(DataSource):
            @classmethod
            def name(cls) -> str:
                return "zaqar-job"

            def writer(self, schema: StructType, overwrite: bool) -> _Writer:
                return _Writer(work, path)

        frame.sparkSession.dataSource.register(Sink)
        try:
            frame.write.format("zaqar-job").mode("append").save()
        except PySparkException as error:
            said = _SAID.search(str(error))
            if said is None:
                raise
            raise running.Refused(said[1]) from error
        # Written by our own commit, into a folder that only this user can write to.
        return cast("list[T]", pickle.loads(Path(path).read_bytes()))  # noqa: S301


def counted(frame: DataFrame, work: Work[Counts]) -> Counts:
    """The sum of what *work* counts.  Raises running.Refused."""
    return sum(results(frame, work), Counter())


class Pace:
    """Keeps a task to so many messages a second."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._next = 0.0

    def wait(self) -> None:
        """Until more may be written."""
        time.sleep(max(0.0, self._next - time.monotonic()))

    def did(self, messages: int) -> None:
        """So many were written.  What is late is not made up for."""
        if self._rate is not None:
            self._next = max(time.monotonic(), self._next) + messages / self._rate


def store(parsed: argparse.Namespace) -> dict[str, str]:
    """Options of the data source that say where, of a job that reads no queues of its own."""
    given = {"uri": parsed.storage, "controlUri": parsed.control, "project": parsed.project}
    return {name: text for name, text in given.items() if text is not None}


def where(given: Mapping[str, str]) -> Where:
    """Out of options of the data source.  Raises BadConfiguration, for a store away too."""
    at = stores.where(Options(WRITE, given))
    with Stores(at) as opened:
        opened.check()
    return at


def check(name: str, value: float | None, least: float, most: float) -> None:
    """Raises BadConfiguration when an argument is given and out of its limits."""
    if value is not None and not least <= value <= most:
        raise errors.BadConfiguration(f"{name}: it must be {least:g} to {most:g}, not {value:g}")


def check_queue(name: str, queue: str | None) -> None:
    """Raises BadConfiguration when an argument is given and no name of a queue."""
    if queue is not None and not rules.is_queue_name(queue):
        raise errors.BadConfiguration(f'{name}: "{queue}" is no name of a queue')
