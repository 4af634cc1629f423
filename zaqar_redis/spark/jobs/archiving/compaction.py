# SPDX-License-Identifier: Apache-2.0
"""Compacts many small files of a folder into one.

A compaction is a change of the archive as a batch is one, see commit.py.  Files that are
damaged or incomplete stay as they are: the new file would hide that.

Readers of the plain files may meanwhile see messages of the folder twice, never too few,
or fail because a file was removed; `reading.ArchiveReader` leaves out files that another
one replaces.  Readers of a table see the change at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from zaqar_redis.spark.jobs.archiving import damage, layout, transaction_log, verification
from zaqar_redis.spark.jobs.archiving.commit import Committer
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.transaction_log import (
    ArchiveFile,
    FileStats,
    Manifest,
    TransactionLog,
)

if TYPE_CHECKING:
    from zaqar_redis.spark.jobs.archiving.delta import DeltaFormat

#: A folder with more small files is compacted: each file costs a reader a request.
MANY = 8
#: Bytes below which a file is small: a quarter of a row group of Parquet, so that opening
#: it costs more than reading it.
_SMALL = 32 * 1024 * 1024
#: Bytes of files that become one: one task sorts them, on disk if need be.
_MOST = 128 * 1024 * 1024


@dataclass
class Compactor:
    spark: SparkSession
    files: HadoopFolder
    log: TransactionLog
    table: DeltaFormat | None
    committer: Committer
    #: errors of files that stay as they are, each once
    damaged: dict[str, None] = field(default_factory=dict)

    def run(self, folders: Iterable[str]) -> Iterator[Manifest]:
        """Compacts the folders that have more than `MANY` small files; yields what it did."""
        known = self.log.files()
        current = known.keys() if self.table is None else known.keys() & self.table.files()
        for folder in sorted(folders):
            found = (f"{folder}/{name}" for name in self.files.names(folder))
            small = {
                name: known[name] for name in found if name in current and known[name].size < _SMALL
            }
            if len(small) > MANY:
                for group in _groups(small):
                    manifest = self._staged(folder, group)
                    if manifest is not None:
                        self.committer.commit(manifest)
                        yield manifest

    def _staged(self, folder: str, group: Mapping[str, FileStats]) -> Manifest | None:
        """Merges files of a folder; returns None when some are damaged, and notes that."""
        attempt = transaction_log.attempt()
        staged = f"{transaction_log.STAGED}/{attempt}"
        try:
            file = self._merged(staged, f"{folder}/compact-{attempt}.parquet", group)
        except damage.ArchiveDamaged as error:
            # Archiving continues: messages that are not archived would expire.
            self.damaged[str(error)] = None
            self.files.remove(staged)
            return None
        number = self.committer.state.number + 1
        return Manifest(number, attempt, (file,), replaced=tuple(group))

    @damage.read_errors_translated()
    def _merged(self, staged: str, name: str, group: Mapping[str, FileStats]) -> ArchiveFile:
        """Merges files into one, to be named *name*.  Raises damage.ArchiveDamaged."""
        read = self.spark.read.schema(layout.SCHEMA).options(**layout.READ)
        (
            read.parquet(*[self.files.at(each) for each in group])
            .coalesce(1)
            .sortWithinPartitions("epoch", "rank")
            .write.options(**layout.WRITTEN)
            .parquet(self.files.at(staged))
        )
        merged = read.parquet(self.files.at(staged))
        ((path, stats),) = verification.found(merged, self.files).items()
        archived = sum(each.rows for each in group.values())
        if archived != stats.rows:
            raise damage.ArchiveDamaged(
                f"{self.files.at(next(iter(group)))} and {len(group) - 1} files beside it: "
                f"{archived} messages were archived in them, and {stats.rows} are there"
            )
        return ArchiveFile(path, name, stats.rows, stats.size)


def _groups(small: Mapping[str, FileStats]) -> Iterator[dict[str, FileStats]]:
    """Yields groups of neighbouring files to merge, each of at least two."""
    group: dict[str, FileStats] = {}
    for name, stats in small.items():
        if sum(each.size for each in group.values()) + stats.size > _MOST:
            if len(group) > 1:
                yield group
            group = {}
        group[name] = stats
    if len(group) > 1:
        yield group
