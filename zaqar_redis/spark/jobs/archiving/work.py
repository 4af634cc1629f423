# SPDX-License-Identifier: Apache-2.0
"""One run: finish what another began, then batch after batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from pyspark.errors import PySparkException

from zaqar_redis.spark.jobs.archiving.batches import Batches
from zaqar_redis.spark.jobs.archiving.books import Books, Manifest, Range
from zaqar_redis.spark.jobs.archiving.compaction import Compactor
from zaqar_redis.spark.jobs.archiving.plan import Planner
from zaqar_redis.spark.jobs.archiving.settings import Settings

#: Batches between two compactions while a run follows: each leaves files in a folder.
_COMPACT_EVERY = 16


@dataclass
class Totals:
    """What one run did."""

    batches: int = 0
    #: of them: read by a run that did not come to its end
    resumed: int = 0
    ranks: int = 0
    rows: int = 0
    files: int = 0
    #: bytes
    size: int = 0
    #: messages
    by_queue: Counter[str] = field(default_factory=Counter)

    def add(self, manifest: Manifest) -> None:
        self.batches += 1
        self.ranks += manifest.ranks
        self.rows += manifest.rows
        self.files += len(manifest.files)
        self.size += sum(each.size for each in manifest.files)
        for each in manifest.files:
            self.by_queue[each.queue] += each.rows


class Work:
    def __init__(
        self,
        settings: Settings,
        project: str,
        books: Books,
        planner: Planner,
        batches: Batches,
        compactor: Compactor,
    ) -> None:
        self._settings = settings
        self._project = project
        self._books = books
        self._planner = planner
        self._batches = batches
        self._compactor = compactor
        self._state = books.state()
        self.totals = Totals()
        #: folders with new files, and batches, since the last compaction
        self._touched: set[str] = set()
        self._uncompacted = 0

    def go(self, stop: Event) -> None:
        """Archive until there is no more, or until it is to *stop*.

        Raises Refused, BadConfiguration, and what Spark and Hadoop raise.
        """
        self._resume()
        waiting = self._waiting()
        while not stop.is_set():
            if waiting:
                waiting = self._batch(waiting)
            elif self._settings.follow is None:
                break
            else:
                stop.wait(self._settings.follow)
                waiting = self._waiting()
        self._compact()

    def _waiting(self) -> list[Range]:
        return self._planner.waiting(self._state.of_project(self._project))

    def _resume(self) -> None:
        manifest = self._books.manifest(self._state.batch + 1)
        if manifest is not None:
            self._finish(manifest)
            self.totals.resumed += 1
        self._compactor.finish()
        self._books.tidy()

    def _batch(self, waiting: Sequence[Range]) -> list[Range]:
        """Archive a batch; what is waiting behind it."""
        ranges, rest = self._planner.cut(waiting, self._settings.per_batch)
        try:
            manifest = self._batches.stage(self._state.batch + 1, ranges)
        except PySparkException:
            if self._planner.same(ranges):
                raise
            # A queue went away under the readers: that is a loss, or is to be gone around.
            return self._waiting()
        self._finish(manifest)
        return rest

    def _finish(self, manifest: Manifest) -> None:
        self._state = self._batches.finish(manifest, self._state)
        self.totals.add(manifest)
        self._touched.update(each.folder for each in manifest.files)
        self._uncompacted += 1
        if self._settings.follow is not None and self._uncompacted >= _COMPACT_EVERY:
            self._compact()

    def _compact(self) -> None:
        if self._settings.compact:
            self._compactor.run(self._touched)
        self._touched.clear()
        self._uncompacted = 0

    def details(self) -> dict[str, Any]:
        done, totals = self._compactor.done, self.totals
        return {
            "batches": {
                "read by this run": totals.batches - totals.resumed,
                "read by an earlier run that did not end": totals.resumed,
            },
            "files": totals.files,
            "bytes": totals.size,
            "compacted": {"files before": done.before, "files after": done.after},
            "offsets": self._state.of_project(self._project),
            "losses": list(self._planner.losses),
        } | ({"damaged": self.damaged} if self.damaged else {})

    @property
    def damaged(self) -> list[str]:
        """What is wrong with files of the archive that this run came upon."""
        return list(self._compactor.damaged)
