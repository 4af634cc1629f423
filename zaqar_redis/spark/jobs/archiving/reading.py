# SPDX-License-Identifier: Apache-2.0
"""Reads archives: for jobs, and for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from zaqar_redis import errors
from zaqar_redis.spark.jobs.archiving import damage, layout, tables
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.transaction_log import FileStats, TransactionLog
from zaqar_redis.spark.jobs.archiving.verification import (
    ALWAYS,
    ArchiveFilter,
    Dates,
    VerifiedFiles,
    found,
    wrong,
)
from zaqar_redis.spark.jobs.running import JobRefused
from zaqar_redis.spark.offsets import QueueOffset
from zaqar_redis.spark.options import SourceOptions

#: Tries of a reader whose files are removed while it reads: several compactions of the
#: same few folders, each just then, are not to be expected.
_VERIFY_TRIES = 5
#: Most folders of queues that are listed one by one: listing the whole archive for a few
#: queues takes longer, and Spark lists more paths than these by jobs.
_FOLDERS = 32
#: Levels of such a folder: project and queue.
_OF_QUEUE = 2


class ArchiveReader:
    def __init__(self, spark: SparkSession, target: str) -> None:
        """Raises BadConfiguration when the archive or its format's library is missing."""
        self._spark = spark
        self._files = HadoopFolder(spark, target)
        self._log = TransactionLog(self._files)
        head = self._log.head()
        if head is None:
            raise errors.BadConfiguration(f"{self._files.root} is no archive of queues")
        self._table = tables.opened(self._files, head)

    def offsets(self, project: str, queues: Sequence[str] | None = None) -> dict[str, QueueOffset]:
        """Returns by queue ``{"epoch", "offset"}``: the next rank to archive.

        Raises BadConfiguration when nothing of the project, or of one of *queues*, was archived.
        """
        state = self._log.state()
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

    def selected(self, options: SourceOptions) -> dict[str, QueueOffset]:
        """Returns the same of the queues that options of the data source name, else of all."""
        found = self.offsets(options["project"], options["subscribe"])
        pattern = options["subscribePattern"]
        return {name: at for name, at in found.items() if not pattern or pattern.fullmatch(name)}

    def messages(
        self, project: str, queues: Sequence[str] | None = None, dates: Dates = ALWAYS
    ) -> DataFrame:
        """Returns the messages of some queues, or of all of the project, and of some days.

        Columns are those of the data source except those of claims, and ``date``; filters on
        queue and date leave out whole folders.  The frame has the files that were archived
        until now.  Their names, sizes and numbers of rows are verified first; checksums of
        pages are verified when they are read.

        Raises JobRefused when a file is missing, or differs from what was written.
        """
        part = ArchiveFilter(project, _set(queues), dates)
        verified = self._verify(part)
        if verified.wrong:
            raise JobRefused(_error_text(self._files, verified.wrong))
        return self._frame(part, verified, verified.expected)

    def messages_as_found(
        self, project: str, queues: Sequence[str] | None = None
    ) -> tuple[DataFrame, dict[str, str]]:
        """Returns the messages in all files that exist, as readers of plain Parquet find them,
        and by file what is wrong with it.

        Raises JobRefused when a file cannot be read.
        """
        part = ArchiveFilter(project, _set(queues))
        verified = self._verify(part)
        if verified.unreadable:
            raise JobRefused(_error_text(self._files, verified.wrong))
        if self._table is not None:
            names = set(verified.expected) & set(verified.found)
        else:
            names = verified.found.keys() - self._log.replaced(verified.found)
        return self._frame(part, verified, names), verified.wrong

    def _verify(self, part: ArchiveFilter) -> VerifiedFiles:
        """Compares the transaction log with the files.

        A file is wrong only when a second comparison, which reads the log again, finds the
        same: it may have been compacted between reading log and files.
        """
        verified = self._verify_once(part)
        for _ in range(_VERIFY_TRIES - 1):
            if not verified.wrong:
                break
            before, verified = verified, self._verify_once(part)
            if not before.wrong.keys().isdisjoint(verified.wrong):
                break
        return verified

    def _verify_once(self, part: ArchiveFilter) -> VerifiedFiles:
        # The log first: files of later batches are then neither missing nor unexpected.
        expected = {name: content for name, content in self._expected().items() if part.has(name)}
        frame = self._reader().parquet(*self._paths(expected))
        try:
            content = found(part.of(frame), self._files)
        except damage.UnreadableFile as error:
            name = self._files.below(error.uri)
            return VerifiedFiles(frame, expected, {}, {name: error.reason}, unreadable=True)
        return VerifiedFiles(frame, expected, content, wrong(expected, content))

    def _paths(self, expected: Iterable[str]) -> list[str]:
        """Returns folders to list: those of queues, or the root when these are too many."""
        folders = {"/".join(name.split("/")[:_OF_QUEUE]) for name in expected}
        if len(folders) > _FOLDERS:
            return [self._files.root]
        existing = [self._files.at(each) for each in sorted(folders) if self._files.exists(each)]
        return existing or [self._files.root]

    def _expected(self) -> dict[str, FileStats | None]:
        """Returns the current files; None: another program that maintains the table wrote it."""
        kept = self._log.files()
        if self._table is None:
            return {**kept}
        return {name: kept.get(name) for name in self._table.files()}

    def _frame(
        self, part: ArchiveFilter, verified: VerifiedFiles, names: Iterable[str]
    ) -> DataFrame:
        some = set(names)
        if some == verified.found.keys():
            frame = verified.frame
        elif some:
            frame = self._reader().parquet(*[self._files.at(name) for name in sorted(some)])
        else:
            frame = self._spark.createDataFrame([], layout.WITH_DATE)
        return part.of(frame).select(*layout.COLUMNS, "date")

    def _reader(self) -> DataFrameReader:
        # With types: Spark would turn a queue named "123" into a number.
        reader = self._spark.read.schema(layout.WITH_DATE).options(**layout.READ)
        return reader.option("basePath", self._files.root)


def _set(queues: Sequence[str] | None) -> frozenset[str] | None:
    return None if queues is None else frozenset(queues)


def _error_text(files: HadoopFolder, wrong: dict[str, str]) -> str:
    name, what = min(wrong.items())
    more = len(wrong) - 1
    others = f"; so it is with {more} more files" if more else ""
    return f"{files.at(name)} {what}{others}"
