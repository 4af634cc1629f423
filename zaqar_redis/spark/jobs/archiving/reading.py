# SPDX-License-Identifier: Apache-2.0
"""Read what is archived: for jobs, and for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from zaqar_redis import errors
from zaqar_redis.spark.jobs.archiving import damage, layout, tables
from zaqar_redis.spark.jobs.archiving.books import Books, Head
from zaqar_redis.spark.jobs.archiving.files import Files
from zaqar_redis.spark.jobs.archiving.inventory import Content, Inventory
from zaqar_redis.spark.jobs.archiving.looking import ALWAYS, Dates, Look, Part, found, wrong
from zaqar_redis.spark.jobs.running import Refused
from zaqar_redis.spark.offsets import Entry

#: How often a reader looks again when files went away under it: a compaction of the same
#: few folders, each time just then, is not to be expected.
_LOOKS = 5
#: Folders of queues that are looked into one by one: to list an archive of many queues for
#: the sake of a few takes longer, and Spark lists more paths than these by jobs.
_FOLDERS = 32
#: Parts of the name of such a folder: project and queue.
_OF_QUEUE = 2


def opened(spark: SparkSession, target: str) -> Archive:
    """Raises BadConfiguration when there is no archive, or its format's library is missing."""
    files = Files(spark, target)
    books = Books(files)
    head = books.head()
    if head is None:
        raise errors.BadConfiguration(f"{files.root} is no archive of queues")
    return Archive(spark, files, books, head)


class Archive:
    def __init__(self, spark: SparkSession, files: Files, books: Books, head: Head) -> None:
        self._spark = spark
        self._files = files
        self._books = books
        self._inventory = Inventory(files)
        self._table = tables.opened(files, head)
        self.format = head.format

    def offsets(self, project: str, queues: Sequence[str] | None = None) -> dict[str, Entry]:
        """By queue, ``{"epoch", "offset"}``: the rank at which archiving will go on.

        Raises BadConfiguration when nothing of the project, or of one of *queues*, was archived.
        """
        state = self._books.state()
        found = state.of_project(project)
        if not found:
            others = ", ".join(state.projects()) or "none"
            raise errors.BadConfiguration(
                f'--project: {self._files.root} has no queue of the project "{project}"; it has '
                f"queues of: {others}"
            )
        if queues is None:
            return found
        for queue in queues:
            if queue not in found:
                raise errors.BadConfiguration(
                    f'--queue: the queue "{queue}" of the project "{project}" was never archived '
                    f"in {self._files.root}"
                )
        return {queue: found[queue] for queue in queues}

    def messages(
        self, project: str, queues: Sequence[str] | None = None, dates: Dates = ALWAYS
    ) -> DataFrame:
        """The messages of some queues, or of all of the project, and of some days.

        Columns are those of the data source but what is of claims, and ``date``; filters on
        queue and date leave out whole folders.  The frame is of the files that were archived
        until now.  They are looked at before: their names, sizes and numbers of rows.  What
        is in their pages is compared with checksums when it is read.

        Raises Refused when a file is missing, or is not what was written.
        """
        part = Part(project, _set(queues), dates)
        look = self._look(part)
        if look.wrong:
            raise Refused(_said(self._files, look.wrong))
        return self._frame(part, look, look.expected)

    def whatever(
        self, project: str, queues: Sequence[str] | None = None
    ) -> tuple[DataFrame, dict[str, str]]:
        """The messages in all files that are there, as readers of plain Parquet find them,
        and by file what is wrong with it.

        Raises Refused when a file cannot be read.
        """
        part = Part(project, _set(queues))
        look = self._look(part)
        if look.unreadable:
            raise Refused(_said(self._files, look.wrong))
        if self._table is not None:
            names = set(look.expected) & set(look.found)
        else:
            replaced = (each for each in self._books.compactions() if each.name in look.found)
            names = set(look.found).difference(*(each.files for each in replaced))
        return self._frame(part, look, names), look.wrong

    def _look(self, part: Part) -> Look:
        """Compare the books with the files.

        Files that are wrong are so for good only when a second look, into the books too,
        finds the same: they may have been compacted between one and the other.
        """
        look = self._once(part)
        for _ in range(_LOOKS - 1):
            if not look.wrong:
                break
            before, look = look, self._once(part)
            if not before.wrong.keys().isdisjoint(look.wrong):
                break
        return look

    def _once(self, part: Part) -> Look:
        # In this order: files of later batches are not missed, and not minded.
        expected = {name: content for name, content in self._expected().items() if part.has(name)}
        frame = self._reader().parquet(*self._paths(expected))
        try:
            there = found(part.of(frame), self._files)
        except damage.Unreadable as error:
            name = self._files.below(error.uri)
            return Look(frame, expected, {}, {name: error.reason}, unreadable=True)
        return Look(frame, expected, there, wrong(expected, there))

    def _paths(self, expected: Iterable[str]) -> list[str]:
        """Folders to look into: those of queues, or that of all when these are too many."""
        folders = {"/".join(name.split("/")[:_OF_QUEUE]) for name in expected}
        if len(folders) > _FOLDERS:
            return [self._files.root]
        there = [self._files.at(each) for each in sorted(folders) if self._files.exists(each)]
        return there or [self._files.root]

    def _expected(self) -> dict[str, Content | None]:
        """The files that count; None: others than we maintain the table, and wrote it."""
        kept = self._inventory.current()
        if self._table is None:
            return {**kept}
        return {name: kept.get(name) for name in self._table.files()}

    def _frame(self, part: Part, look: Look, names: Iterable[str]) -> DataFrame:
        some = set(names)
        if some == look.found.keys():
            frame = look.frame
        elif some:
            frame = self._reader().parquet(*[self._files.at(name) for name in sorted(some)])
        else:
            frame = self._spark.createDataFrame([], layout.WITH_DATE)
        return part.of(frame).select(*layout.COLUMNS, "date")

    def _reader(self) -> DataFrameReader:
        # Types are given: Spark would make a number of a queue that is called "123".
        reader = self._spark.read.schema(layout.WITH_DATE).options(**layout.READ)
        return reader.option("basePath", self._files.root)


def _set(queues: Sequence[str] | None) -> frozenset[str] | None:
    return None if queues is None else frozenset(queues)


def _said(files: Files, wrong: dict[str, str]) -> str:
    name, what = min(wrong.items())
    more = len(wrong) - 1
    others = f"; so it is with {more} more files" if more else ""
    return f"{files.at(name)} {what}{others}"
