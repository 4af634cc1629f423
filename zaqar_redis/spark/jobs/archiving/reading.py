# SPDX-License-Identifier: Apache-2.0
"""Read what is archived: for jobs, and for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from zaqar_redis import errors
from zaqar_redis.spark.jobs.archiving import layout, tables
from zaqar_redis.spark.jobs.archiving.books import Books, Head
from zaqar_redis.spark.jobs.archiving.files import Files
from zaqar_redis.spark.offsets import Entry


def opened(spark: SparkSession, target: str) -> Archive:
    """Raises BadConfiguration when there is no archive, or its format's library is missing."""
    files = Files(spark, target)
    books = Books(files)
    head = books.head()
    if head is None:
        raise errors.BadConfiguration(f"TARGET: {files.root} is no archive of queues")
    return Archive(spark, files, books, head)


class Archive:
    def __init__(self, spark: SparkSession, files: Files, books: Books, head: Head) -> None:
        self._spark = spark
        self._files = files
        self._books = books
        self._table = tables.opened(files, head)
        self.format = head.format

    def offsets(self, project: str) -> dict[str, Entry]:
        """By queue, ``{"epoch", "offset"}``: the rank at which archiving will go on."""
        return self._books.state().of_project(project)

    def messages(self, project: str, queues: Sequence[str] | None = None) -> DataFrame:
        """The messages of some queues, or of all of the project.

        Columns are those of the data source but what is of claims, and ``date``; filters on
        queue and date leave out whole folders.
        """
        # Types are given: Spark would make a number of a queue that is called "123".
        reader = self._spark.read.schema(layout.WITH_DATE).option("basePath", self._files.root)
        names = self._names()
        if names is None:
            found = reader.parquet(self._files.root)
        elif names:
            found = reader.parquet(*[self._files.at(name) for name in names])
        else:
            found = self._spark.createDataFrame([], layout.WITH_DATE)
        wanted = F.col("project") == project
        if queues is not None:
            wanted &= F.col("queue").isin(list(queues))
        return found.where(wanted).select(*layout.COLUMNS, "date")

    def _names(self) -> list[str] | None:
        """The files that count; None: all that are there."""
        if self._table is not None:
            return self._table.files()
        pending = [each for each in self._books.compactions() if self._files.exists(each.name)]
        if not pending:
            return None
        replaced = {name for each in pending for name in each.files}
        return [each.name for each in self._files.listed("") if _counts(each.name, replaced)]


def _counts(name: str, replaced: set[str]) -> bool:
    return name not in replaced and not name.startswith("_")
