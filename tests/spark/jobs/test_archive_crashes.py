# SPDX-License-Identifier: Apache-2.0
"""Archiving that is stopped anywhere: nothing is lost, nothing is there twice."""

from __future__ import annotations

import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests import servers
from tests.spark.jobs import commands
from tests.spark.jobs.archives import Command, archive, archived, doubles, files, ranks
from tests.spark.support import Store
from zaqar_redis.spark.jobs import running
from zaqar_redis.spark.jobs.archiving import compaction, reading, tables
from zaqar_redis.spark.jobs.archiving.books import Books
from zaqar_redis.spark.jobs.archiving.files import Files
from zaqar_redis.spark.jobs.archiving.plan import Planner

#: Where a run is stopped, before it does so; a record that it was to write is cut off.
_STOPS = (
    "write _zaqar/archive.json",
    "write _zaqar/manifests/",
    "move project={project}/queue=q/",
    "move project={project}/queue=r/",
    "write _zaqar/done/",
    "remove _zaqar/manifests/",
    "remove _zaqar/staged/",
    "write _zaqar/compactions/",
    "move project={project}/queue=q/date={date}/compact-",
    "write _zaqar/files/",
    "remove _zaqar/files/",
    "remove _zaqar/compactions/",
)
#: A table's own files are not removed.
_STOPS_OF_FILES = ("remove project={project}/queue=q/", "remove project={project}/queue=r/")


class Crash(BaseException):
    """As SIGKILL, nothing in the job catches it."""


class Bomb:
    """Stops a run before its first step that begins so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stop: str | None = None
        for name, place in (("write", 0), ("move", 1), ("remove", 0)):
            monkeypatch.setattr(Files, name, self._watching(name, place, getattr(Files, name)))

    def set(self, stop: str | None) -> None:
        self._stop = stop

    def _watching(self, name: str, place: int, real: Any) -> Any:
        def step(files: Files, *arguments: Any) -> None:
            stops = self._stop and f"{name} {arguments[place]}".startswith(self._stop)
            if not stops or name == "write":
                real(files, *arguments)
            if stops and name == "write":
                _cut_off(Path(files.local or "") / arguments[0])
            if stops:
                raise Crash

        return step


def _cut_off(record: Path) -> None:
    record.write_bytes(record.read_bytes()[:-9])
    (record.parent / f".{record.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("format", tables.FORMATS)
@pytest.mark.timeout(240)
def test_a_run_may_stop_before_any_step(
    spark: SparkSession,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
) -> None:
    # Given an archive whose runs compact each time, and another crash in each of them
    monkeypatch.setattr(compaction, "MANY", 1)
    bomb = Bomb(monkeypatch)
    stops = _STOPS + (_STOPS_OF_FILES if format == tables.PARQUET else ())
    today = datetime.now(UTC).date()
    survivors = 0
    for stop in stops:
        store.post(*range(2))
        store.post(*range(3), queue="r")
        bomb.set(stop.format(project=store.project, date=today))
        with pytest.raises(Crash):
            archive(spark, tmp_path, store, "q,r", format=format)
        survivors += _expire_what_is_staged(spark, tmp_path, store)
        _nothing_is_missed(spark, tmp_path, store)
    # When it runs to its end
    bomb.set(None)
    archive(spark, tmp_path, store, "q,r")
    # Then all is in it once, also what expired between two tries
    assert survivors > 0
    found = reading.opened(spark, str(tmp_path)).messages(store.project)
    for queue, posted in (("q", 2 * len(stops)), ("r", 3 * len(stops))):
        rows = found.where(F.col("queue") == queue).select("rank").collect()
        assert sorted(row.rank for row in rows) == list(range(1, posted + 1))
        if format == tables.PARQUET:
            assert ranks(tmp_path, queue) == list(range(1, posted + 1))
    left = [each for each in (tmp_path / "_zaqar").glob("staged/*") if each.is_dir()]
    assert left == []


def _nothing_is_missed(spark: SparkSession, target: Path, store: Store) -> None:
    if Books(Files(spark, str(target))).head() is not None:
        _, wrong = reading.opened(spark, str(target)).whatever(store.project)
        assert wrong == {}


def _expire_what_is_staged(spark: SparkSession, target: Path, store: Store) -> int:
    books = Books(Files(spark, str(target)))
    manifest = books.manifest(books.state().batch + 1)
    if manifest is None:
        return 0
    gone = 0
    for each in manifest.ranges:
        staged = [rank for rank in store.ids(each.queue) if rank < each.end]
        store.remove(*staged, queue=each.queue)
        gone += len(staged)
    return gone


@pytest.mark.timeout(300)
def test_killed_in_the_middle_it_goes_on(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    # Given a run that is killed after some of its batches
    store.post(*range(5_000))
    words = ["archive", str(tmp_path), "--queue", "q", "--max-per-batch", "500"]
    first = Command(store, *words, "--no-compact")
    try:
        done = tmp_path / "_zaqar/done/0000000001.json"
        servers.wait_for(done.exists, "the second batch", commands.PATIENCE)
    finally:
        first.process.send_signal(signal.SIGKILL)
        first.end()
    before = len(set(ranks(tmp_path)))
    assert 1000 <= before < 5_000
    # When it runs again, then all is there once
    report = archive(spark, tmp_path, store, per_batch=500)
    assert ranks(tmp_path) == list(range(1, 5_001))
    assert 5_000 - before <= archived(report) <= 5_000 - before + 500
    assert report.details["offsets"]["q"]["offset"] == 5_001
    assert report.details["compacted"]["files before"] > 8
    assert store.top().following == 5_001


@pytest.mark.timeout(300)
def test_following_it_archives_what_comes_and_ends_when_asked(
    spark: SparkSession, store: Store, tmp_path: Path
) -> None:
    store.post(*range(10))
    following = Command(
        store, "archive", str(tmp_path), "--queue", "q", "--follow", "--every", "0.2"
    )
    try:
        servers.wait_for(lambda: len(files(tmp_path)) == 1, "the first batch", commands.PATIENCE)
        store.post(*range(5))
        servers.wait_for(lambda: len(files(tmp_path)) == 2, "the second batch", commands.PATIENCE)
        # Nobody else may write there meanwhile
        with pytest.raises(running.Refused, match="another process"):
            archive(spark, tmp_path, store)
    finally:
        following.process.send_signal(signal.SIGTERM)
        code, report, error = following.end()
    assert code == 0, error
    assert report["counts"]["messages archived"] == {"q": 15}
    assert archived(archive(spark, tmp_path, store)) == 0
    assert not doubles(ranks(tmp_path))


def test_a_queue_that_goes_away_under_the_readers_is_told_or_gone_around(
    spark: SparkSession, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a queue that is made again between planning and reading
    store.post(*range(10))
    cut, again = Planner.cut, iter([True])

    def late(self: Planner, *arguments: Any) -> Any:
        found = cut(self, *arguments)
        if next(again, False):
            store.delete()
            store.post(*range(4))
        return found

    monkeypatch.setattr(Planner, "cut", late)
    # When it archives, then what is there is archived: nothing of the old one ever was
    assert archived(archive(spark, tmp_path, store)) == 4
    assert ranks(tmp_path) == [1, 2, 3, 4]
