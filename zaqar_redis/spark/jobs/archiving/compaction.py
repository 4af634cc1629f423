# SPDX-License-Identifier: Apache-2.0
"""Compacts many small files of a folder into one.

The new file is staged, then a record names the files it replaces, then it is moved in and
the others are removed; the next run finishes what a crash leaves undone.  The record stays
until the list of files has it.

Files that are damaged or incomplete stay as they are: the new file would hide that.

Readers of the plain files may meanwhile see messages of the folder twice, never too few,
or fail because a file was removed; `reading.ArchiveReader` leaves out files that another
one replaces.  Readers of a table see the change at once; there the old files
stay for readers of older states until the table's own clean-up removes them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from zaqar_redis.spark.jobs.archiving import damage, layout, transaction_log
from zaqar_redis.spark.jobs.archiving.files import FileEntry, HadoopFolder
from zaqar_redis.spark.jobs.archiving.inventory import FileIndex, FileStats
from zaqar_redis.spark.jobs.archiving.lock import LockCheck
from zaqar_redis.spark.jobs.archiving.tables import TableFormat
from zaqar_redis.spark.jobs.archiving.transaction_log import Compaction, TransactionLog

#: A folder with more small files is compacted: each file costs a reader a request.
MANY = 8
#: Bytes below which a file is small: a quarter of a row group of Parquet, so that opening
#: it costs more than reading it.
_SMALL = 32 * 1024 * 1024
#: Bytes of files that become one: one task sorts them, on disk if need be.
_MOST = 128 * 1024 * 1024
#: Compactions until the list of files is rewritten: each costs readers a request, and a
#: list has as many lines as there are files.
_FOLD = 64


@dataclass
class CompactionStats:
    """Number of files before and after compactions."""

    before: int = 0
    after: int = 0


class Compactor:
    def __init__(
        self,
        spark: SparkSession,
        files: HadoopFolder,
        log: TransactionLog,
        table: TableFormat | None,
        held: LockCheck,
    ) -> None:
        self._spark = spark
        self._files = files
        self._log = log
        self._table = table
        self._held = held
        self._inventory = FileIndex(files)
        #: not in the list of files yet
        self._ended: list[Compaction] = []
        self.done = CompactionStats()
        #: errors of files that stay as they are, each once
        self.damaged: dict[str, None] = {}

    def finish(self) -> None:
        """Finishes compactions that another run began."""
        for compaction in self._log.compactions():
            self._finish(compaction)
        self._fold()

    def run(self, folders: Iterable[str]) -> None:
        """Compacts the folders that have more than `MANY` small files."""
        known = self._inventory.current()
        live = set(self._table.files()) if self._table is not None else known.keys()
        for folder in sorted(folders):
            found = self._files.listed(folder)
            small = [each for each in found if each.size < _SMALL and each.name in live]
            if len(small) > MANY:
                for group in _groups(small):
                    self._one(folder, group, known)
        self._fold()

    def _one(self, folder: str, group: Sequence[FileEntry], known: Mapping[str, FileStats]) -> None:
        id = uuid.uuid4().hex
        staged = f"{transaction_log.STAGED}/{id}"
        try:
            file, rows = self._staged(staged, group, known)
        except damage.ArchiveDamaged as error:
            # Archiving continues: messages that are not archived would expire.
            self.damaged[str(error)] = None
            self._files.remove(staged)
            return
        compaction = Compaction(
            id=id,
            staged=file.name,
            name=f"{folder}/compact-{id}.parquet",
            files=tuple(each.name for each in group),
            rows=rows,
            size=file.size,
        )
        self._held()
        self._log.compacting(compaction)
        self._finish(compaction)

    @damage.read_errors_translated()
    def _staged(
        self, staged: str, group: Sequence[FileEntry], known: Mapping[str, FileStats]
    ) -> tuple[FileEntry, int]:
        """Merges files; returns the file and its messages.  Raises damage.ArchiveDamaged."""
        paths = [self._files.at(each.name) for each in group]
        messages = self._spark.read.schema(layout.SCHEMA).options(**layout.READ).parquet(*paths)
        (
            messages.coalesce(1)
            .sortWithinPartitions("epoch", "rank")
            .write.options(**layout.WRITTEN)
            .parquet(self._files.at(staged))
        )
        (file,) = self._files.listed(staged)
        rows, merged = self._archived(group, known), self._rows(file.name)
        if rows != merged:
            raise damage.ArchiveDamaged(
                f"{self._files.at(group[0].name)} and {len(group) - 1} files beside it: "
                f"{rows} messages were archived in them, and {merged} are there"
            )
        return file, rows

    def _archived(self, group: Sequence[FileEntry], known: Mapping[str, FileStats]) -> int:
        """Returns messages recorded for files; where others maintain the table, counts them."""
        return sum(
            known[each.name].rows if each.name in known else self._rows(each.name) for each in group
        )

    def _rows(self, name: str) -> int:
        return self._spark.read.schema(layout.SCHEMA).parquet(self._files.at(name)).count()

    def _finish(self, compaction: Compaction) -> None:
        self._held()
        self._files.move(compaction.staged, compaction.name)
        if self._table is not None:
            self._table.replace(compaction)
        else:
            for name in compaction.files:
                self._files.remove(name)
        self._files.remove(compaction.staged.rpartition("/")[0])
        self.done.before += len(compaction.files)
        self.done.after += 1
        self._ended.append(compaction)
        if len(self._ended) >= _FOLD:
            self._fold()

    def _fold(self) -> None:
        if self._ended:
            self._inventory.fold(self._ended)
            self._ended.clear()


def _groups(small: Sequence[FileEntry]) -> Iterator[list[FileEntry]]:
    """Yields groups of neighbouring files to merge, each of at least two."""
    group: list[FileEntry] = []
    for file in small:
        if sum(each.size for each in group) + file.size > _MOST:
            if len(group) > 1:
                yield group
            group = []
        group.append(file)
    if len(group) > 1:
        yield group
