# SPDX-License-Identifier: Apache-2.0
"""How a batch gets into an archive, in steps that a crash may part.

1. Its messages are written to a folder that is this try's own.
2. A manifest says which files these are.  Before it, a crash leaves an archive without
   the batch, and the next run plans anew.  From here on it is finished out of the staged
   files, and the queues are not asked again: the messages may have expired meanwhile.
3. The files are moved to their places, under names that any try gives them.
4. The table, where the format has one, takes them in; it knows the batch by its number.
5. The batch is written down as done, with where each queue is to be read on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from zaqar_redis.spark.jobs.archiving import books, layout
from zaqar_redis.spark.jobs.archiving.books import Books, File, Manifest, Range, State
from zaqar_redis.spark.jobs.archiving.files import Files
from zaqar_redis.spark.jobs.archiving.inventory import Inventory
from zaqar_redis.spark.jobs.archiving.lock import Held
from zaqar_redis.spark.jobs.archiving.tables import Table


class Batches:
    def __init__(
        self,
        spark: SparkSession,
        files: Files,
        kept: Books,
        table: Table | None,
        source: Mapping[str, str],
        held: Held,
    ) -> None:
        self._spark = spark
        self._files = files
        self._books = kept
        self._inventory = Inventory(files)
        self._table = table
        #: options of the data source but for queues and ranks
        self._source = source
        self._held = held

    def stage(self, batch: int, ranges: Sequence[Range]) -> Manifest:
        """Steps 1 and 2.  Raises Refused, and what Spark raises when it cannot read."""
        attempt = books.attempt()
        folder = f"{books.STAGED}/{attempt}"
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
        self._books.staged(manifest)
        return manifest

    def finish(self, manifest: Manifest, state: State) -> State:
        """Steps 3 to 5, whichever of them are done already."""
        self._held()
        for file in manifest.files:
            self._files.move(file.staged, file.name)
        if self._table is not None:
            self._table.add(manifest.batch, manifest.files)
        after = state.after(manifest)
        self._books.finished(manifest, after)
        self._inventory.fold_when_due()
        self._files.remove(f"{books.STAGED}/{manifest.attempt}")
        return after

    def _staged(self, batch: int, folder: str) -> tuple[File, ...]:
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
            File(
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
