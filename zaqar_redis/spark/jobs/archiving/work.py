# SPDX-License-Identifier: Apache-2.0
"""One run: finish what another began, then batch after batch, until a signal."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zaqar_redis.spark import offsets
from zaqar_redis.spark.jobs.archiving import layout, transaction_log, verification
from zaqar_redis.spark.jobs.archiving.commit import Committer
from zaqar_redis.spark.jobs.archiving.compaction import Compactor
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.plan import ArchivePlanner
from zaqar_redis.spark.jobs.archiving.settings import ArchiveSettings
from zaqar_redis.spark.jobs.archiving.transaction_log import ArchiveFile, Manifest, RankRange
from zaqar_redis.spark.offsets import QueueOffset

#: Batches between two compactions while a run follows: each leaves files in a folder.
_COMPACT_EVERY = 16


class StopRequest(threading.Event):
    #: the signal that was received
    by: signal.Signals | None = None


@contextlib.contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Yields a request that the first signal sets; the second one interrupts."""
    stop = StopRequest()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            interrupt = before[signal.SIGINT]
            if callable(interrupt):
                interrupt(signal.SIGINT, frame)
            raise KeyboardInterrupt
        stop.by = signal.Signals(number)
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may set signal handlers
        return
    before = {each: signal.signal(each, ask) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@dataclass
class ArchiveTotals:
    """What one run did."""

    batches: int = 0
    #: of them: read by a run that did not end
    resumed: int = 0
    ranks: int = 0
    rows: int = 0
    files: int = 0
    #: bytes
    size: int = 0
    #: messages
    by_queue: Counter[str] = field(default_factory=Counter)
    #: files before and after compactions
    compacted: Counter[str] = field(default_factory=Counter)

    def add(self, manifest: Manifest) -> None:
        if manifest.replaced:
            self.compacted["before"] += len(manifest.replaced)
            self.compacted["after"] += len(manifest.files)
            return
        self.batches += 1
        self.ranks += manifest.ranks
        self.rows += manifest.rows
        self.files += len(manifest.files)
        self.size += sum(each.size for each in manifest.files)
        for each in manifest.files:
            self.by_queue[each.queue] += each.rows


@dataclass(frozen=True)
class BatchStager:
    """Reads ranges of queues, and writes their messages to files."""

    spark: SparkSession
    files: HadoopFolder
    #: options of the data source, except queues and ranks
    source: Mapping[str, str]

    def stage(self, number: int, ranges: Sequence[RankRange]) -> Manifest:
        """Writes a batch, to be change *number*.

        Raises JobRefused, and what Spark raises when it cannot read.
        """
        attempt = transaction_log.attempt()
        folder = f"{transaction_log.STAGED}/{attempt}"
        starts = {each.queue: offsets.up_to(each.epoch, each.start) for each in ranges}
        ends = {each.queue: offsets.up_to(each.epoch, each.end) for each in ranges}
        reader = self.spark.read.format("zaqar").options(
            **self.source,
            subscribe=",".join(starts),
            columns=",".join(layout.COLUMNS),
            startingOffsets=json.dumps(starts),
            endingOffsets=json.dumps(ends),
        )
        layout.stage(reader.load(), self.files.at(folder))
        staged = self.spark.read.schema(layout.SCHEMA).parquet(self.files.at(folder))
        files = tuple(
            ArchiveFile(
                staged=name,
                name=layout.final(name.removeprefix(f"{folder}/"), number, part),
                rows=stats.rows,
                size=stats.size,
            )
            for part, (name, stats) in enumerate(
                sorted(verification.found(staged, self.files).items())
            )
        )
        return Manifest(number, attempt, files, self.source["project"], tuple(ranges))


@dataclass
class ArchiveRun:
    settings: ArchiveSettings
    project: str
    planner: ArchivePlanner
    stager: BatchStager
    committer: Committer
    compactor: Compactor
    totals: ArchiveTotals = field(default_factory=ArchiveTotals)
    #: the signal that ended it early, and the ranks that it left, by queue
    stopped_by: signal.Signals | None = None
    left: dict[str, int] = field(default_factory=dict)
    #: folders with new files, and batches, since the last compaction
    _touched: set[str] = field(default_factory=set)
    _uncompacted: int = 0

    def run(self, stop: StopRequest) -> None:
        """Archives until there is no more, or until *stop* is set.

        With the setting *follow*, continues until *stop* is set, and leaves nothing.

        Raises JobRefused, BadConfiguration, and what Spark and Hadoop raise.
        """
        self._resume()
        waiting = self._waiting()
        while not stop.is_set():
            if waiting:
                waiting = self._batch(waiting)
            elif self.settings.follow is None:
                break
            else:
                stop.wait(self.settings.follow)
                waiting = self._waiting()
        if stop.by is not None and self.settings.follow is None:
            self.stopped_by = stop.by
            self.left = {each.queue: each.end - each.start for each in waiting}
        self._compact()

    def _waiting(self) -> list[RankRange]:
        return self.planner.waiting(self._offsets)

    @property
    def _offsets(self) -> dict[str, QueueOffset]:
        return self.committer.state.of_project(self.project)

    def _resume(self) -> None:
        manifest = self.committer.resume()
        if manifest is not None:
            self._note(manifest)
            self.totals.resumed += not manifest.replaced

    def _batch(self, waiting: Sequence[RankRange]) -> list[RankRange]:
        """Archives a batch; returns what is waiting behind it."""
        ranges, rest = self.planner.cut(waiting, self.settings.per_batch)
        try:
            manifest = self.stager.stage(self.committer.state.number + 1, ranges)
        except PySparkException:
            if self.planner.same(ranges):
                raise
            # A queue was deleted while it was read: a loss, or to be skipped.
            return self._waiting()
        self.committer.commit(manifest)
        self._note(manifest)
        if self.settings.follow is not None and self._uncompacted >= _COMPACT_EVERY:
            self._compact()
        return rest

    def _note(self, manifest: Manifest) -> None:
        self.totals.add(manifest)
        self._touched.update(each.folder for each in manifest.files)
        self._uncompacted += 1

    def _compact(self) -> None:
        if self.settings.compact:
            for manifest in self.compactor.run(self._touched):
                self.totals.add(manifest)
        self._touched.clear()
        self._uncompacted = 0

    def details(self) -> dict[str, Any]:
        totals = self.totals
        return {
            "batches": {
                "read by this run": totals.batches - totals.resumed,
                "read by an earlier run that did not end": totals.resumed,
            },
            "files": totals.files,
            "bytes": totals.size,
            "compacted": {
                "files before": totals.compacted["before"],
                "files after": totals.compacted["after"],
            },
            "offsets": self._offsets,
            "losses": list(self.planner.losses),
        } | ({"damaged": self.damaged} if self.damaged else {})

    @property
    def damaged(self) -> list[str]:
        """Errors of archive files that this run found."""
        return list(self.compactor.damaged)
