# SPDX-License-Identifier: Apache-2.0
"""Archives of which something is missing or damaged: who reads them is told, in one line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs.archives import archive, archived, files
from tests.spark.support import Store
from zaqar_redis.spark.jobs import analytics, audit, replay, running
from zaqar_redis.spark.jobs.archiving import compaction, inventory, looking, reading, tables
from zaqar_redis.spark.jobs.replaying.settings import Settings
from zaqar_redis.spark.jobs.report import Report
from zaqar_redis.spark.jobs.running import Job, Refused

TARGET = "copy"
DAY = 86400


class Lake:
    """An archive of three files: the queue "q" on two days, and the queue "r"."""

    def __init__(self, spark: SparkSession, store: Store, folder: Path, format: str) -> None:
        self.spark = spark
        self.store = store
        self.folder = folder
        store.post(*range(20), ago=2 * DAY, ttl=3 * DAY)
        store.post(*range(20, 50))
        store.post("r", queue="r")
        archive(spark, folder, store, "q,r", format=format)
        self.old, self.new = (file for file in files(folder) if "queue=q" in file.parts)

    def replay(self, **how: Any) -> int:
        """Messages that it wrote."""
        where = {"uri": self.store.uri, "project": self.store.project}
        settings = Settings(**{"target": TARGET} | how)
        parts = replay.replay(self.spark, str(self.folder), where, settings).counts["messages read"]
        assert isinstance(parts, dict)
        return int(parts["written"])

    def written(self) -> list[Any]:
        there = self.store.queues.get(self.store.project, TARGET).run()
        return [] if there is None else self.store.bodies(TARGET)

    def compact(self, monkeypatch: pytest.MonkeyPatch) -> Report:
        """Another batch, and then one file for its day."""
        monkeypatch.setattr(compaction, "MANY", 1)
        self.store.post(*range(50, 60))
        return archive(self.spark, self.folder, self.store)


@pytest.fixture
def make(spark: SparkSession, store: Store, tmp_path: Path) -> Callable[[str], Lake]:
    return lambda format: Lake(spark, store, tmp_path / "lake", format)


@pytest.fixture
def lake(make: Callable[[str], Lake]) -> Lake:
    return make(tables.PARQUET)


def _bare(file: Path) -> None:
    """As object stores have it: without what Hadoop puts beside files of local disks."""
    (file.parent / f".{file.name}.crc").unlink()


def _flip(file: Path) -> None:
    """One bit of a body."""
    group = pq.ParquetFile(file).metadata.row_group(0)
    columns = {group.column(number).path_in_schema: number for number in range(group.num_columns)}
    body = group.column(columns["body"])
    content = bytearray(file.read_bytes())
    content[body.data_page_offset + body.total_compressed_size - 5] ^= 1
    file.write_bytes(content)
    _bare(file)


def _said(capsys: pytest.CaptureFixture[str], lake: Lake, job: Job, *words: object) -> str:
    """The one line that a command says when it fails."""
    where = ["--storage", lake.store.uri, "--project", lake.store.project, "--no-progress"]
    capsys.readouterr()
    assert running.main(job, [*map(str, words), *where]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("format", tables.FORMATS)
def test_a_missing_file_is_named_and_nothing_is_written(
    make: Callable[[str], Lake], capsys: pytest.CaptureFixture[str], format: str
) -> None:
    lake = make(format)
    lake.new.unlink()
    line = _said(capsys, lake, replay, lake.folder, "--target-queue", TARGET)
    assert f"{lake.new} is missing: 30 messages were archived in it" in line
    with pytest.raises(Refused, match="is missing"):
        lake.replay(queues=["q"], preserve=True)
    assert lake.written() == []
    # What is whole is replayed
    assert lake.replay(queues=["r"]) == 1
    assert lake.replay(queues=["q"], dates=(None, _date(lake.old)), target="old") == 20


def _date(file: Path) -> date:
    return date.fromisoformat(file.parent.name.partition("=")[2])


def test_a_lost_folder_is_missing_too(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    for file in (lake.old, lake.new):
        file.unlink()
        _bare(file)
        file.parent.rmdir()
    line = _said(capsys, lake, replay, lake.folder, "--target-queue", TARGET)
    assert f"{lake.old} is missing: 20 messages" in line
    assert line.endswith("; so it is with 1 more files")
    assert lake.written() == []


def test_a_file_with_fewer_messages_is_refused(lake: Lake) -> None:
    pq.write_table(pq.ParquetFile(lake.old).read().slice(5), lake.old)
    _bare(lake.old)
    with pytest.raises(Refused, match=r"20 messages in \d+ bytes were, and it has 15 messages"):
        lake.replay()
    lake.old.write_bytes(lake.old.read_bytes()[:-50])
    with pytest.raises(Refused, match=r"-00000\.parquet cannot be read: .* not a Parquet file"):
        lake.replay()
    assert lake.written() == []


@pytest.mark.parametrize("preserve", [False, True])
def test_a_flipped_bit_is_noticed(
    lake: Lake, capsys: pytest.CaptureFixture[str], preserve: bool
) -> None:
    _flip(lake.old)
    words = ["--queue", "q", "--target-queue", TARGET, *["--preserve"] * preserve]
    line = _said(capsys, lake, replay, lake.folder, *words)
    assert f"{lake.old} is damaged: what is in it does not fit its checksums" in line
    assert lake.written() == []


def test_it_is_noticed_whatever_the_session_does_not_mind(lake: Lake) -> None:
    _flip(lake.new)
    lake.spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        with pytest.raises(Refused, match="does not fit its checksums"):
            lake.replay()
    finally:
        lake.spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_other_jobs_tell_it_too(
    lake: Lake, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _flip(lake.new)
    line = _said(capsys, lake, audit, lake.folder)
    assert f"{lake.new} is damaged" in line
    report = ["--archive", lake.folder, tmp_path / "report"]
    assert _said(capsys, lake, analytics, *report) == line
    # A missing one, an audit reports beside the messages that are missing with it
    lake.new.unlink()
    assert f"{lake.new} is missing" in _said(capsys, lake, analytics, *report)
    where = {"uri": lake.store.uri, "project": lake.store.project}
    found = audit.audit(lake.spark, str(lake.folder), where)
    assert not found.good
    (file,) = found.details["files missing or changed"]
    assert file.startswith(str(lake.new.relative_to(lake.folder)))
    assert found.details["queues"]["q"]["missing"] == 30


def test_after_a_compaction_it_is_the_new_file_that_must_be_there(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lake.compact(monkeypatch).good
    assert not lake.new.exists()
    assert lake.replay(queues=["q"]) == 60
    (compacted,) = lake.folder.rglob("compact-*.parquet")
    _flip(compacted)
    with pytest.raises(Refused, match=rf"{compacted.name} is damaged"):
        lake.replay(queues=["q"], target="other")
    compacted.unlink()
    with pytest.raises(Refused, match=rf"{compacted.name} is missing: 40 messages"):
        lake.replay(queues=["q"])


def test_what_is_damaged_is_not_compacted(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = lake.new.read_bytes()
    _flip(lake.new)
    report = lake.compact(monkeypatch)
    assert (archived(report), report.good) == (10, False)
    (said,) = report.details["damaged"]
    assert f"{lake.new} is damaged" in said
    lake.new.write_bytes(whole)
    pq.write_table(pq.ParquetFile(lake.new).read().slice(5), lake.new)
    (said,) = lake.compact(monkeypatch).details["damaged"]
    assert said.endswith("50 messages were archived in them, and 45 are there")
    assert lake.new.exists()
    assert not any((lake.folder / "_zaqar/staged").iterdir())


def test_an_archive_may_grow_and_be_compacted_while_it_is_looked_at(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a compaction between a look into the books and one at the files
    real, again = looking.found, iter([True])

    def late(*arguments: Any) -> Any:
        if next(again, False):
            lake.compact(monkeypatch)
        return real(*arguments)

    monkeypatch.setattr(reading, "found", late)
    # When it is read, then all is there; what comes later is not seen
    messages = reading.opened(lake.spark, str(lake.folder)).messages(lake.store.project)
    lake.store.post("late", queue="r")
    assert archived(archive(lake.spark, lake.folder, lake.store, "r", compact=False)) == 1
    assert messages.count() == 61


def test_the_books_know_the_files_of_all_batches(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an archive of so many batches that few of their records are left
    monkeypatch.setattr(inventory, "_MANY", 3)
    monkeypatch.setattr(inventory, "_KEPT", 1)
    lake.store.post(*range(50, 58))
    archive(lake.spark, lake.folder, lake.store, per_batch=1, compact=False)
    books = lake.folder / "_zaqar"
    records = sorted((books / "done").glob("[!.]*"))
    assert len(records) < 5
    assert lake.replay() == 59
    # When a file of the first one goes, it is missed, and so is a record of the last ones
    lake.old.unlink()
    with pytest.raises(Refused, match=rf"{lake.old.name} is missing"):
        lake.replay()
    records[-2].unlink()
    with pytest.raises(Refused, match=r"the record of batch \d in _zaqar/done is missing"):
        lake.replay()


def test_files_that_are_not_of_the_archive_are_passed_over(lake: Lake) -> None:
    lake.new.with_name("stranger.parquet").write_bytes(lake.new.read_bytes())
    assert lake.replay(queues=["q"]) == 50
