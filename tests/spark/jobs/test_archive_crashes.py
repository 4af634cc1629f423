# SPDX-License-Identifier: Apache-2.0
"""Archiving that is killed at any step: nothing is lost or duplicated."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.spark.jobs import commands
from tests.spark.jobs.archives import PipelineProcess, archive, archived, duplicates, files, ranks
from tests.support import servers
from tests.support.spark_reads import SparkTestStore
from zaqar_redis.spark.jobs import archive as job
from zaqar_redis.spark.jobs import running
from zaqar_redis.spark.jobs.archiving import compaction, reading, tables, transaction_log
from zaqar_redis.spark.jobs.archiving.commit import Committer
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.plan import ArchivePlanner
from zaqar_redis.spark.jobs.archiving.transaction_log import TransactionLog

#: Steps before which a run is killed; a record it was about to write is truncated.
_STOPS = (
    *("write _zaqar/archive.json", "write _zaqar/manifests/", "move project={project}/queue=q/"),
    *("move project={project}/queue=r/", "write _zaqar/done/", "remove _zaqar/manifests/"),
    *("remove _zaqar/staged/", "write compaction _zaqar/manifests/"),
    *("move project={project}/queue=q/date={date}/compact-", "write compaction _zaqar/done/"),
    "remove _zaqar/done/",
)
#: Steps of plain files only: files of a table are never removed.
_STOPS_OF_FILES = ("remove project={project}/queue=q/", "remove project={project}/queue=r/")


class SimulatedKill(BaseException):
    """A simulated SIGKILL: nothing in the job catches it."""


class CrashPoint:
    """Kills a run before its first step with a given prefix."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stop: str | None = None
        for name, place in (("write", 0), ("move", 1), ("remove", 0)):
            monkeypatch.setattr(
                HadoopFolder, name, self._watching(name, place, getattr(HadoopFolder, name))
            )

    def set(self, stop: str | None) -> None:
        self._stop = stop

    def _watching(self, name: str, place: int, real: Any) -> Any:
        def step(files: HadoopFolder, *arguments: Any) -> None:
            kind = "compaction " if name == "write" and arguments[1].get("replaced") else ""
            stops = self._stop and f"{name} {kind}{arguments[place]}".startswith(self._stop)
            if not stops or name == "write":
                real(files, *arguments)
            if stops and name == "write":
                _cut_off(Path(files.local or "") / arguments[0])
            if stops:
                raise SimulatedKill

        return step


def _cut_off(record: Path) -> None:
    record.write_bytes(record.read_bytes()[:-9])
    (record.parent / f".{record.name}.crc").unlink(missing_ok=True)


@pytest.mark.nightly
@pytest.mark.parametrize("format", tables.FORMATS)
@pytest.mark.timeout(240)
def test_run_killed_before_any_step_is_completed_by_the_next(
    spark: SparkSession,
    store: SparkTestStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
) -> None:
    # Given an archive that compacts in each run, and a crash at another step of each
    monkeypatch.setattr(compaction, "MANY", 1)
    monkeypatch.setattr(transaction_log, "_CHECKPOINT", 3)
    monkeypatch.setattr(transaction_log, "_KEPT", 1)
    crash_point = CrashPoint(monkeypatch)
    stops = _STOPS + (_STOPS_OF_FILES if format == tables.PARQUET else ())
    today = datetime.now(UTC).date()
    survivors = 0
    for stop in stops:
        store.post(*range(2))
        store.post(*range(3), queue="r")
        crash_point.set(stop.format(project=store.project, date=today))
        with pytest.raises(SimulatedKill):
            archive(spark, tmp_path, store, "q,r", format=format)
        survivors += _remove_staged_messages(spark, tmp_path, store)
        _check_no_file_is_missing(spark, tmp_path, store)
    # When a run completes
    crash_point.set(None)
    archive(spark, tmp_path, store, "q,r")
    # Then it has everything once, also what expired between two attempts
    assert survivors > 0
    found = reading.ArchiveReader(spark, str(tmp_path)).messages(store.project)
    for queue, posted in (("q", 2 * len(stops)), ("r", 3 * len(stops))):
        rows = found.where(F.col("queue") == queue).select("rank").collect()
        assert sorted(row.rank for row in rows) == list(range(1, posted + 1))
        if format == tables.PARQUET:
            assert ranks(tmp_path, queue) == list(range(1, posted + 1))
    left = [each for each in (tmp_path / "_zaqar").glob("staged/*") if each.is_dir()]
    assert left == []


def _check_no_file_is_missing(spark: SparkSession, target: Path, store: SparkTestStore) -> None:
    if TransactionLog(HadoopFolder(spark, str(target))).head() is not None:
        _, wrong = reading.ArchiveReader(spark, str(target)).messages_as_found(store.project)
        assert wrong == {}


def _remove_staged_messages(spark: SparkSession, target: Path, store: SparkTestStore) -> int:
    log = TransactionLog(HadoopFolder(spark, str(target)))
    manifest = log.manifest()
    if manifest is None or manifest.number <= log.state().number:
        return 0
    gone = 0
    for each in manifest.ranges:
        staged = [rank for rank in store.ids(each.queue) if rank < each.end]
        store.remove(*staged, queue=each.queue)
        gone += len(staged)
    return gone


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_next_run_completes_a_killed_run(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    # Given a run that is killed after some of its batches
    store.post(*range(5_000))
    words = ["archive", str(tmp_path), "--queue", "q", "--max-per-batch", "100"]
    first = PipelineProcess(store, *words, "--no-compact")
    try:
        done = tmp_path / "_zaqar/done/0000000001.json"
        servers.wait_for(done.exists, "the second batch", commands.TIMEOUT_SECONDS)
    finally:
        first.process.send_signal(signal.SIGKILL)
        first.end()
    before = len(set(ranks(tmp_path)))
    assert 200 <= before < 5_000
    # When it runs again, then the archive has everything once
    report = archive(spark, tmp_path, store, per_batch=500)
    assert ranks(tmp_path) == list(range(1, 5_001))
    assert 5_000 - before <= archived(report) <= 5_000 - before + 100
    assert report.details["offsets"]["q"]["offset"] == 5_001
    assert report.details["compacted"]["files before"] > 8
    assert store.watermarks().next_rank == 5_001


def test_interrupted_run_reports_remaining_ranks(
    spark: SparkSession,
    store: SparkTestStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store.post(*range(30))
    commit = Committer.commit

    def interrupted(self: Committer, *arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return commit(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "commit", interrupted)
        words = ["--queue", "q", "--max-per-batch", "10", "--no-progress", str(tmp_path)]
        where = ["--storage", store.uri, "--project", store.project]
        code = running.main(job, [*words, *where, "--json"])
    report = json.loads(capsys.readouterr().out)
    assert (code, report["stopped_by"]) == (130, "SIGINT")
    assert report["counts"]["messages archived"] == {"q": 10}
    assert report["counts"]["ranks left"] == {"q": 20}
    assert archived(archive(spark, tmp_path, store)) == 20
    assert ranks(tmp_path) == list(range(1, 31))


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_follow_archives_new_messages_until_sigterm(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post(*range(10))
    follower = PipelineProcess(
        store, "archive", str(tmp_path), "--queue", "q", "--follow", "--every", "0.2"
    )
    try:
        servers.wait_for(
            lambda: len(files(tmp_path)) == 1, "the first batch", commands.TIMEOUT_SECONDS
        )
        store.post(*range(5))
        servers.wait_for(
            lambda: len(files(tmp_path)) == 2, "the second batch", commands.TIMEOUT_SECONDS
        )
        # No other process may write to it meanwhile
        with pytest.raises(running.JobRefused, match="another process"):
            archive(spark, tmp_path, store)
    finally:
        follower.process.send_signal(signal.SIGTERM)
        code, report, error = follower.end()
    assert code == 0, error
    assert report["counts"]["messages archived"] == {"q": 15}
    assert archived(archive(spark, tmp_path, store)) == 0
    assert not duplicates(ranks(tmp_path))


def test_queue_recreated_between_planning_and_reading_is_archived(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a queue that is recreated between planning and reading
    store.post(*range(10))
    cut, again = ArchivePlanner.cut, iter([True])

    def late(self: ArchivePlanner, *arguments: Any) -> Any:
        found = cut(self, *arguments)
        if next(again, False):
            store.delete()
            store.post(*range(4))
        return found

    monkeypatch.setattr(ArchivePlanner, "cut", late)
    # When it archives, then only the messages of the new queue are archived
    assert archived(archive(spark, tmp_path, store)) == 4
    assert ranks(tmp_path) == [1, 2, 3, 4]
