# SPDX-License-Identifier: Apache-2.0
"""Commits a batch to an archive, in steps between which it may crash.

1. Its messages are written to a folder that is unique to this try.
2. A manifest says which files these are.  Before it, a crash leaves an archive without
   the batch, and the next run plans anew.  From here on it is finished from the staged
   files, and the queues are not read again: the messages may have expired meanwhile.
3. The files are moved to their folders, under names that are the same for any try.
4. The table, where the format has one, commits them; it knows the batch by its number.
5. The batch is recorded as done, with the offsets at which to read on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from zaqar_redis.spark.jobs.archiving import layout, transaction_log
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.inventory import FileIndex
from zaqar_redis.spark.jobs.archiving.lock import LockCheck
from zaqar_redis.spark.jobs.archiving.tables import TableFormat
from zaqar_redis.spark.jobs.archiving.transaction_log import (
    ArchiveFile,
    ArchiveState,
    Manifest,
    RankRange,
    TransactionLog,
)


class BatchCommitter:
    def __init__(
        self,
        spark: SparkSession,
        files: HadoopFolder,
        log: TransactionLog,
        table: TableFormat | None,
        source: Mapping[str, str],
        held: LockCheck,
    ) -> None:
        self._spark = spark
        self._files = files
        self._log = log
        self._inventory = FileIndex(files)
        self._table = table
        #: options of the data source, except queues and ranks
        self._source = source
        self._held = held

    def stage(self, batch: int, ranges: Sequence[RankRange]) -> Manifest:
        """Does steps 1 and 2.  Raises JobRefused, and what Spark raises when it cannot read."""
        attempt = transaction_log.attempt()
        folder = f"{transaction_log.STAGED}/{attempt}"
        named = {each.queue: each for each in ranges}
        reader = self._spark.read.format("zaqar").options(
            **self._source,
            subscribe=",".join(named),
            columns=",".join(layout.COLUMNS),
            startingOffsets=json.dumps({q: _at(r.epoch, r.start) for q, r in named.items()}),
            endingOffsets=json.dumps({q: _at(r.epoch, r.end) for q, r in named.items()}),
        )
        layout.stage(reader.load(), self._files.at(folder))
        manifest = Manifest(
            batch, self._source["project"], attempt, tuple(ranges), self._staged(batch, folder)
        )
        self._held()
        self._log.staged(manifest)
        return manifest

    def finish(self, manifest: Manifest, state: ArchiveState) -> ArchiveState:
        """Does steps 3 to 5; skips those that are done already."""
        self._held()
        for file in manifest.files:
            self._files.move(file.staged, file.name)
        if self._table is not None:
            self._table.add(manifest.batch, manifest.files)
        after = state.after(manifest)
        self._log.finished(manifest, after)
        self._inventory.fold_when_due()
        self._files.remove(f"{transaction_log.STAGED}/{manifest.attempt}")
        return after

    def _staged(self, batch: int, folder: str) -> tuple[ArchiveFile, ...]:
        start = f"/{folder}/"
        found = (
            self._spark.read.schema("queue STRING")
            .parquet(self._files.at(folder))
            .select("queue", "_metadata.file_path", "_metadata.file_size")
            .groupBy("queue", "file_path", "file_size")
            .agg(F.count("*").alias("rows"))
            .collect()
        )
        rows = sorted((unquote(row.file_path).partition(start)[2], row) for row in found)
        return tuple(
            ArchiveFile(
                staged=f"{folder}/{path}",
                name=layout.final(path, batch, part),
                queue=row.queue,
                rows=row["rows"],
                size=row.file_size,
            )
            for part, (path, row) in enumerate(rows)
        )


def _at(epoch: str, rank: int) -> dict[str, str | int]:
    return {"epoch": epoch, "offset": rank}
