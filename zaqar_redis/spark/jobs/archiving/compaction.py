# SPDX-License-Identifier: Apache-2.0
"""Many small files of a folder become one.

The one is written aside, then a record says which files it stands for, then it is moved
in and the others are removed; what a crash leaves undone, the next run does.  The record
stays until the list of files has it.

What is damaged, or is not all there, stays as it is: the one file would hide it.

Whoever reads the plain files meanwhile may see messages of the folder twice, never too
few, or fail because a file went away under him; `reading.Archive` leaves out files that
another one stands for.  Readers of a table see the change at once; there the old files
stay for readers of older states until the table's own clean-up removes them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from zaqar_redis.spark.jobs.archiving import books, damage, layout
from zaqar_redis.spark.jobs.archiving.books import Books, Compaction
from zaqar_redis.spark.jobs.archiving.files import Files, Found
from zaqar_redis.spark.jobs.archiving.inventory import Content, Inventory
from zaqar_redis.spark.jobs.archiving.lock import Held
from zaqar_redis.spark.jobs.archiving.tables import Table

#: A folder with more small files than this is compacted: each costs a reader a request.
MANY = 8
#: What is small, bytes: a quarter of a row group of Parquet, so that reading it is mostly
#: getting there.
_SMALL = 32 * 1024 * 1024
#: Bytes of files that become one: one task sorts them, on disk if need be.
_MOST = 128 * 1024 * 1024
#: Compactions until the list of files is written anew: each costs readers a request, and
#: a list as many lines as there are files.
_FOLD = 64


@dataclass
class Compacted:
    """How many files became how many."""

    before: int = 0
    after: int = 0


class Compactor:
    def __init__(
        self, spark: SparkSession, files: Files, kept: Books, table: Table | None, held: Held
    ) -> None:
        self._spark = spark
        self._files = files
        self._books = kept
        self._table = table
        self._held = held
        self._inventory = Inventory(files)
        #: not in the list of files yet
        self._ended: list[Compaction] = []
        self.done = Compacted()
        #: what is wrong with files that stay as they are, each once
        self.damaged: dict[str, None] = {}

    def finish(self) -> None:
        """What another run began."""
        for compaction in self._books.compactions():
            self._finish(compaction)
        self._fold()

    def run(self, folders: Iterable[str]) -> None:
        """Compact those of the folders that have more than `MANY` small files."""
        known = self._inventory.current()
        live = set(self._table.files()) if self._table is not None else known.keys()
        for folder in sorted(folders):
            found = self._files.listed(folder)
            small = [each for each in found if each.size < _SMALL and each.name in live]
            if len(small) > MANY:
                for group in _groups(small):
                    self._one(folder, group, known)
        self._fold()

    def _one(self, folder: str, group: Sequence[Found], known: Mapping[str, Content]) -> None:
        id = uuid.uuid4().hex
        staged = f"{books.STAGED}/{id}"
        try:
            file, rows = self._staged(staged, group, known)
        except damage.Damaged as error:
            # Archiving goes on: what is not archived would expire.
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
        self._books.compacting(compaction)
        self._finish(compaction)

    @damage.noticed()
    def _staged(
        self, staged: str, group: Sequence[Found], known: Mapping[str, Content]
    ) -> tuple[Found, int]:
        """One file out of some, and how many messages it has.  Raises damage.Damaged."""
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
            raise damage.Damaged(
                f"{self._files.at(group[0].name)} and {len(group) - 1} files beside it: "
                f"{rows} messages were archived in them, and {merged} are there"
            )
        return file, rows

    def _archived(self, group: Sequence[Found], known: Mapping[str, Content]) -> int:
        """Messages that were written to files; where others maintain the table, that are there."""
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


def _groups(small: Sequence[Found]) -> Iterator[list[Found]]:
    """Neighbours that become one file; none of a single one."""
    group: list[Found] = []
    for file in small:
        if sum(each.size for each in group) + file.size > _MOST:
            if len(group) > 1:
                yield group
            group = []
        group.append(file)
    if len(group) > 1:
        yield group
