# SPDX-License-Identifier: Apache-2.0
"""Archives with missing or damaged files: readers report them in one line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import commands
from tests.spark.jobs.archives import archive, archived, files
from tests.support.spark_reads import SparkTestStore
from tests.support.tiers import in_gate
from zaqar_redis.spark.jobs import analytics, audit, replay, running
from zaqar_redis.spark.jobs.archiving import (
    compaction,
    reading,
    tables,
    transaction_log,
    verification,
)
from zaqar_redis.spark.jobs.replaying.settings import ReplaySettings
from zaqar_redis.spark.jobs.report import JobReport
from zaqar_redis.spark.jobs.running import JobRefused, SparkJob

TARGET = "copy"
DAY = 86400


class Lake:
    """An archive of three files: the queue "q" on two days, and the queue "r"."""

    def __init__(
        self, spark: SparkSession, store: SparkTestStore, folder: Path, format: str
    ) -> None:
        self.spark = spark
        self.store = store
        self.folder = folder
        store.post(*range(20), ago=2 * DAY, ttl=3 * DAY)
        store.post(*range(20, 50))
        store.post("r", queue="r")
        archive(spark, folder, store, "q,r", format=format)
        self.old, self.new = (file for file in files(folder) if "queue=q" in file.parts)

    def replay(self, **how: Any) -> int:
        """Replays; returns the number of messages written."""
        where = {"uri": self.store.uri, "project": self.store.project}
        settings = ReplaySettings(**{"target": TARGET} | how)
        report = replay.replay(self.spark, str(self.folder), where, settings)
        return commands.parts(report).get("written", 0)

    def written(self) -> list[Any]:
        queue = self.store.queues.get(self.store.project, TARGET).run()
        return [] if queue is None else self.store.bodies(TARGET)

    def compact(self, monkeypatch: pytest.MonkeyPatch) -> JobReport:
        """Archives another batch, and compacts its day to one file."""
        monkeypatch.setattr(compaction, "MANY", 1)
        self.store.post(*range(50, 60))
        return archive(self.spark, self.folder, self.store)


@pytest.fixture
def make_lake(spark: SparkSession, store: SparkTestStore, tmp_path: Path) -> Callable[[str], Lake]:
    return lambda format: Lake(spark, store, tmp_path / "lake", format)


@pytest.fixture
def lake(make_lake: Callable[[str], Lake]) -> Lake:
    return make_lake(tables.PARQUET)


def _remove_hadoop_checksum(file: Path) -> None:
    """Removes the checksum file that Hadoop only writes on local disks."""
    (file.parent / f".{file.name}.crc").unlink()


def _flip_bit(file: Path) -> None:
    """Flips one bit of a body."""
    group = pq.ParquetFile(file).metadata.row_group(0)
    columns = {group.column(number).path_in_schema: number for number in range(group.num_columns)}
    body = group.column(columns["body"])
    content = bytearray(file.read_bytes())
    content[body.data_page_offset + body.total_compressed_size - 5] ^= 1
    file.write_bytes(content)
    _remove_hadoop_checksum(file)


def _error_line(
    capsys: pytest.CaptureFixture[str], lake: Lake, job: SparkJob, *words: object
) -> str:
    """Runs a failing command; returns its only line of stderr."""
    where = ["--storage", lake.store.uri, "--project", lake.store.project, "--no-progress"]
    capsys.readouterr()
    assert running.main(job, [*map(str, words), *where]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("format", in_gate(tables.FORMATS))
def test_missing_file_is_named_and_nothing_is_written(
    make_lake: Callable[[str], Lake], capsys: pytest.CaptureFixture[str], format: str
) -> None:
    lake = make_lake(format)
    lake.new.unlink()
    line = _error_line(capsys, lake, replay, lake.folder, "--target-queue", TARGET)
    assert f"{lake.new} is missing: 30 messages were archived in it" in line
    with pytest.raises(JobRefused, match="is missing"):
        lake.replay(queues=["q"], preserve=True)
    assert lake.written() == []
    # Intact files are replayed
    assert lake.replay(queues=["r"]) == 1
    assert lake.replay(queues=["q"], date_to=_date(lake.old), target="old") == 20


def _date(file: Path) -> date:
    return date.fromisoformat(file.parent.name.partition("=")[2])


def test_missing_folders_are_reported_as_missing_files(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (lake.old, lake.new):
        file.unlink()
        _remove_hadoop_checksum(file)
        file.parent.rmdir()
    line = _error_line(capsys, lake, replay, lake.folder, "--target-queue", TARGET)
    assert f"{lake.old} is missing: 20 messages" in line
    assert line.endswith("; so it is with 1 more files")
    assert lake.written() == []


def test_file_with_fewer_messages_is_refused(lake: Lake) -> None:
    pq.write_table(pq.ParquetFile(lake.old).read().slice(5), lake.old)
    _remove_hadoop_checksum(lake.old)
    with pytest.raises(JobRefused, match=r"20 messages in \d+ bytes were, and it has 15 messages"):
        lake.replay()
    lake.old.write_bytes(lake.old.read_bytes()[:-50])
    with pytest.raises(JobRefused, match=r"-00000\.parquet cannot be read: .* not a Parquet file"):
        lake.replay()
    assert lake.written() == []


@pytest.mark.parametrize("preserve", in_gate([False, True]))
def test_flipped_bit_is_detected(
    lake: Lake, capsys: pytest.CaptureFixture[str], preserve: bool
) -> None:
    _flip_bit(lake.old)
    words = ["--queue", "q", "--target-queue", TARGET, *["--preserve"] * preserve]
    line = _error_line(capsys, lake, replay, lake.folder, *words)
    assert f"{lake.old} is damaged: what is in it does not fit its checksums" in line
    assert lake.written() == []


def test_flipped_bit_is_detected_despite_ignore_corrupt_files(lake: Lake) -> None:
    _flip_bit(lake.new)
    lake.spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        with pytest.raises(JobRefused, match="does not fit its checksums"):
            lake.replay()
    finally:
        lake.spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


@pytest.mark.nightly
def test_damaged_file_is_reported_by_audit_and_analytics(
    lake: Lake, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _flip_bit(lake.new)
    line = _error_line(capsys, lake, audit, lake.folder)
    assert f"{lake.new} is damaged" in line
    report = ["--archive", lake.folder, tmp_path / "report"]
    assert _error_line(capsys, lake, analytics, *report) == line
    # An audit reports a missing file together with its missing messages
    lake.new.unlink()
    assert f"{lake.new} is missing" in _error_line(capsys, lake, analytics, *report)
    where = {"uri": lake.store.uri, "project": lake.store.project}
    found = audit.audit(lake.spark, str(lake.folder), where)
    assert not found.good
    (file,) = found.details["files missing or changed"]
    assert file.startswith(str(lake.new.relative_to(lake.folder)))
    assert found.details["queues"]["q"]["missing"] == 30


@pytest.mark.nightly
def test_compacted_file_replaces_the_old_ones_in_checks(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lake.compact(monkeypatch).good
    assert not lake.new.exists()
    assert lake.replay(queues=["q"]) == 60
    (compacted,) = lake.folder.rglob("compact-*.parquet")
    _flip_bit(compacted)
    with pytest.raises(JobRefused, match=rf"{compacted.name} is damaged"):
        lake.replay(queues=["q"], target="other")
    compacted.unlink()
    with pytest.raises(JobRefused, match=rf"{compacted.name} is missing: 40 messages"):
        lake.replay(queues=["q"])


@pytest.mark.nightly
def test_damaged_files_are_not_compacted(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    intact = lake.new.read_bytes()
    _flip_bit(lake.new)
    report = lake.compact(monkeypatch)
    assert (archived(report), report.good) == (10, False)
    (message,) = report.details["damaged"]
    assert f"{lake.new} is damaged" in message
    lake.new.write_bytes(intact)
    pq.write_table(pq.ParquetFile(lake.new).read().slice(5), lake.new)
    (message,) = lake.compact(monkeypatch).details["damaged"]
    assert message.endswith("50 messages were archived in them, and 45 are there")
    assert lake.new.exists()
    assert not any((lake.folder / "_zaqar/staged").iterdir())


@pytest.mark.nightly
def test_reader_is_consistent_during_compaction_and_growth(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a compaction between the reads of the transaction log and of the files
    real, again = verification.found, iter([True])

    def late(*arguments: Any) -> Any:
        if next(again, False):
            lake.compact(monkeypatch)
        return real(*arguments)

    monkeypatch.setattr(reading, "found", late)
    # When it is read, then it is complete, without later batches
    messages = reading.ArchiveReader(lake.spark, str(lake.folder)).messages(lake.store.project)
    lake.store.post("late", queue="r")
    assert archived(archive(lake.spark, lake.folder, lake.store, "r", compact=False)) == 1
    assert messages.count() == 61


@pytest.mark.nightly
def test_transaction_log_lists_files_of_all_batches(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an archive of so many batches that most of their records are merged
    monkeypatch.setattr(transaction_log, "_CHECKPOINT", 3)
    monkeypatch.setattr(transaction_log, "_KEPT", 1)
    lake.store.post(*range(50, 58))
    archive(lake.spark, lake.folder, lake.store, per_batch=1, compact=False)
    log = lake.folder / "_zaqar"
    records = sorted((log / "done").glob("[!.]*"))
    assert len(records) < 5
    assert lake.replay() == 59
    # When a file of the first batch or a record of the last ones is deleted, it is reported
    lake.old.unlink()
    with pytest.raises(JobRefused, match=rf"{lake.old.name} is missing"):
        lake.replay()
    records[-2].unlink()
    with pytest.raises(JobRefused, match=r"the record of change \d in _zaqar/done is missing"):
        lake.replay()


def test_foreign_files_are_ignored(lake: Lake) -> None:
    lake.new.with_name("stranger.parquet").write_bytes(lake.new.read_bytes())
    assert lake.replay(queues=["q"]) == 50
