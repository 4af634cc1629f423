# SPDX-License-Identifier: Apache-2.0
"""Many small files of a folder become one.

The one is written aside, then a record says which files it stands for, then it is moved
in and the others are removed; what a crash leaves undone, the next run does.

Whoever reads the plain files meanwhile may see messages of the folder twice, never too
few, or fail because a file went away under him; `reading.Archive` leaves out files that
another one stands for.  Readers of a table see the change at once; there the old files
stay for readers of older states until the table's own clean-up removes them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from zaqar_redis.spark.jobs.archiving import books, layout
from zaqar_redis.spark.jobs.archiving.books import Books, Compaction
from zaqar_redis.spark.jobs.archiving.files import Files, Found
from zaqar_redis.spark.jobs.archiving.lock import Held
from zaqar_redis.spark.jobs.archiving.tables import Table
from zaqar_redis.spark.jobs.running import Refused

#: A folder with more small files than this is compacted: each costs a reader a request.
MANY = 8
#: What is small, bytes: a quarter of a row group of Parquet, so that reading it is mostly
#: getting there.
_SMALL = 32 * 1024 * 1024
#: Bytes of files that become one: one task sorts them, on disk if need be.
_MOST = 128 * 1024 * 1024


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
        self.done = Compacted()

    def finish(self) -> None:
        """What another run began."""
        for compaction in self._books.compactions():
            self._finish(compaction)

    def run(self, folders: Iterable[str]) -> None:
        """Compact those of the folders that have more than `MANY` small files."""
        live = set(self._table.files()) if self._table is not None else None
        for folder in sorted(folders):
            found = self._files.listed(folder)
            small = [
                each for each in found if each.size < _SMALL and (live is None or each.name in live)
            ]
            if len(small) > MANY:
                for group in _groups(small):
                    self._finish(self._staged(folder, group))

    def _staged(self, folder: str, group: Sequence[Found]) -> Compaction:
        id = uuid.uuid4().hex
        staged = f"{books.STAGED}/{id}"
        paths = [self._files.at(each.name) for each in group]
        messages = self._spark.read.schema(layout.SCHEMA).parquet(*paths)
        (
            messages.coalesce(1)
            .sortWithinPartitions("epoch", "rank")
            .write.option("compression", "zstd")
            .parquet(self._files.at(staged))
        )
        (file,) = self._files.listed(staged)
        rows, merged = messages.count(), self._rows(file.name)
        if rows != merged:
            raise Refused(
                f"{folder}: {rows} messages became {merged} in {staged}; it stays as it is"
            )
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
        return compaction

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
        self._books.compacted(compaction)
        self._files.remove(compaction.staged.rpartition("/")[0])
        self.done.before += len(compaction.files)
        self.done.after += 1


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
