# SPDX-License-Identifier: Apache-2.0
"""The job ``archive``: files and partitions, run after run."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import Row, SparkSession

from tests.spark.jobs.archives import archive, archived, duplicates, files, ranks
from tests.support.spark_reads import SparkTestStore
from tests.support.tiers import in_gate
from zaqar_redis import errors
from zaqar_redis.records import Attributes
from zaqar_redis.spark import columns
from zaqar_redis.spark.jobs import archive as job
from zaqar_redis.spark.jobs import running
from zaqar_redis.spark.jobs.archiving import compaction, delta, layout, lock, reading, tables
from zaqar_redis.spark.jobs.archiving.files import HadoopFolder
from zaqar_redis.spark.jobs.archiving.plan import ArchivePlanner
from zaqar_redis.spark.jobs.archiving.settings import ArchiveSettings
from zaqar_redis.spark.jobs.archiving.transaction_log import HEAD, TransactionLog


def test_archive_is_partitioned_by_project_queue_and_date(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.project = f"pro/j%20é ct-{store.project}"
    store.post(*range(30))
    store.post("old", queue="123", ttl=200_000, ago=100_000)
    report = archive(spark, tmp_path / "a", store, "q,123")
    assert archived(report) == 31
    yesterday = (datetime.now(UTC) - timedelta(seconds=100_000)).date()
    folders = {file.parent.relative_to(tmp_path / "a").parts for file in files(tmp_path / "a")}
    project = f"project={store.project.replace('%', '%25').replace('/', '%2F')}"
    assert (project, "queue=123", f"date={yesterday}") in folders
    assert {each[:2] for each in folders} == {(project, "queue=q"), (project, "queue=123")}
    (old,) = (tmp_path / "a" / project / "queue=123").rglob("*.parquet")
    found = pq.ParquetFile(old)
    assert found.schema_arrow.equals(columns.arrow_schema(layout.COLUMNS), check_metadata=False)
    assert found.metadata.row_group(0).column(0).compression == "ZSTD"
    (row,) = found.read().to_pylist()
    assert (row["project"], row["queue"], row["body"]) == (store.project, "123", b'"old"')
    assert row["id"] == store.ids("123")[row["rank"]]


def test_hive_partitions_are_found_by_other_readers(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post(*range(5))
    archive(spark, tmp_path, store)
    found = ds.dataset(tmp_path, format="parquet", partitioning="hive").to_table()
    assert set(found.column("queue").to_pylist()) == {"q"}
    assert set(found.column("project").to_pylist()) == {store.project}
    assert found.num_rows == spark.read.parquet(str(tmp_path)).count() == 5


def test_archive_reader_filters_with_types_of_the_data_source(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post(*range(5), queue="123")
    store.post(*range(7), queue="q")
    archive(spark, tmp_path, store, "123,q")
    opened = reading.ArchiveReader(spark, str(tmp_path))
    messages = opened.messages(store.project, ["123"])
    assert messages.drop("date").schema == layout.SCHEMA
    assert {row.queue for row in messages.collect()} == {"123"}
    assert opened.messages(store.project).count() == 12
    assert opened.messages("another").count() == 0
    assert opened.offsets(store.project)["q"]["offset"] == 8
    with pytest.raises(errors.BadConfiguration, match="is no archive"):
        reading.ArchiveReader(spark, str(tmp_path / "nothing"))


def test_each_run_continues_after_the_last_one(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post(*range(2500))
    assert archived(archive(spark, tmp_path, store, per_batch=1000)) == 2500
    assert archived(archive(spark, tmp_path, store)) == 0
    store.post(*range(5))
    store.post(*range(3), queue="later")
    report = archive(spark, tmp_path, store, "q,later")
    assert archived(report) == 8
    assert report.counts["messages archived"] == {"later": 3, "q": 5}
    assert ranks(tmp_path) == list(range(1, 2506))
    # Another selection of queues neither repeats nor forgets the others.
    store.post(1)
    assert archived(archive(spark, tmp_path, store, "later")) == 0
    assert archived(archive(spark, tmp_path, store, "q")) == 1


def test_messages_deleted_before_reading_are_counted(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post(*range(10))
    store.remove(4, 5)
    report = archive(spark, tmp_path, store)
    assert report.counts["ranks read"] == {"archived": 8, "deleted or expired before": 2}


@pytest.mark.parametrize("format", tables.FORMATS)
def test_batch_of_deleted_messages_is_empty(
    spark: SparkSession,
    store: SparkTestStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
) -> None:
    store.project = f"a/b%20é c-{store.project}"
    store.post(*range(10))
    cut = ArchivePlanner.cut

    def late(self: ArchivePlanner, *arguments: Any) -> Any:
        found = cut(self, *arguments)
        store.remove(*store.ids())
        return found

    with monkeypatch.context() as patched:
        patched.setattr(ArchivePlanner, "cut", late)
        report = archive(spark, tmp_path, store, format=format)
    assert report.counts["ranks read"] == {"archived": 0, "deleted or expired before": 10}
    store.post(*range(3))
    assert archived(archive(spark, tmp_path, store)) == 3
    assert reading.ArchiveReader(spark, str(tmp_path)).messages(store.project).count() == 3


def test_two_projects_share_an_archive(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post(*range(4))
    archive(spark, tmp_path, store)
    first, store.project = store.project, f"{store.project}-other"
    store.post(*range(6))
    assert archived(archive(spark, tmp_path, store)) == 6
    opened = reading.ArchiveReader(spark, str(tmp_path))
    assert opened.messages(first).count() == 4
    assert opened.messages(store.project).count() == 6


def test_small_files_are_compacted_in_order(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MANY", 2)
    store.post(*range(40))
    report = archive(spark, tmp_path, store, per_batch=10)
    assert report.details["compacted"] == {"files before": 4, "files after": 1}
    (file,) = files(tmp_path)
    assert pq.ParquetFile(file).read(["rank"]).column(0).to_pylist() == list(range(1, 41))
    store.post(*range(40))
    report = archive(spark, tmp_path, store, per_batch=10, compact=False)
    assert len(files(tmp_path)) == 5
    assert ranks(tmp_path) == list(range(1, 81))


def test_readers_skip_compacted_files(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MANY", 1)
    monkeypatch.setattr(
        HadoopFolder, "remove", lambda *_: None
    )  # as if it stopped before the removal
    store.post(*range(20))
    archive(spark, tmp_path, store, per_batch=10)
    assert duplicates(ranks(tmp_path))
    assert reading.ArchiveReader(spark, str(tmp_path)).messages(store.project).count() == 20


def test_recreated_queue_stops_the_job_without_go_on_after_loss(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post(*range(10))
    archive(spark, tmp_path, store)
    store.delete()
    with pytest.raises(running.JobRefused, match=r'"q" was deleted.*--go-on-after-loss'):
        archive(spark, tmp_path, store)
    store.post(*range(3))
    with pytest.raises(running.JobRefused, match="created again"):
        archive(spark, tmp_path, store)
    report = archive(spark, tmp_path, store, go_on_after_loss=True)
    assert archived(report) == 3
    assert "created again" in report.details["losses"][0]
    assert ranks(tmp_path) == sorted([*range(1, 11), *range(1, 4)])
    assert archive(spark, tmp_path, store).details["losses"] == []


def test_second_archiving_process_is_refused(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post(1)
    with (
        lock.held(HadoopFolder(spark, str(tmp_path))),
        pytest.raises(running.JobRefused, match="another process archives"),
    ):
        archive(spark, tmp_path, store)
    assert archived(archive(spark, tmp_path, store)) == 1


def test_lease_is_taken_over_from_a_dead_holder_only(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFolder(spark, str(tmp_path))
    with lock.leased(files, renew=0.1, dead=0.6) as held:
        with (
            pytest.raises(running.JobRefused, match=r"another process archives to .*: process \d+"),
            lock.leased(files, renew=0.1, dead=60),
        ):
            pytest.fail("two have it")
        held()
    files.write("_zaqar/lock", {"id": "dead", "count": 1, "who": "nobody"})
    with lock.leased(files, renew=5, dead=0.3) as held:
        held()  # nor is it renewed while another takes it
        files.write("_zaqar/lock", {"id": "other", "count": 1, "who": "another"})
        with pytest.raises(running.JobRefused, match="taken the archive over"):
            held()


@pytest.mark.nightly
def test_holder_never_mistakes_its_own_renewal_for_a_takeover(
    spark: SparkSession, tmp_path: Path
) -> None:
    with lock.leased(HadoopFolder(spark, str(tmp_path)), renew=0.001, dead=0.6) as held:
        for _ in range(300):
            held()


@pytest.mark.nightly
def test_archive_in_another_hadoop_file_system_is_complete(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    # Given a file system that is not the local one, where the lock is a lease
    hadoop: Any = spark._jsc
    hadoop.hadoopConfiguration().set("fs.viewfs.mounttable.lake.link./mnt", tmp_path.as_uri())
    target, source = "viewfs://lake/mnt/a", {"uri": store.uri, "project": store.project}
    store.post(*range(30))
    # When it archives and compacts there, then readers find all of it, and nobody holds the lock
    settings = ArchiveSettings(per_batch=3)
    report = job.archive(spark, target, source | {"subscribe": "q"}, settings)
    assert (archived(report), len(files(tmp_path / "a"))) == (30, 1)
    assert reading.ArchiveReader(spark, target).messages(store.project).count() == 30
    assert not (tmp_path / "a/_zaqar/lock").exists()


@pytest.mark.parametrize("format", in_gate(tables.FORMATS))
def test_archive_of_a_version_without_attributes_is_continued(
    spark: SparkSession,
    store: SparkTestStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
) -> None:
    # Given an archive whose files and table have no such column
    store.post("old")
    with monkeypatch.context() as patched:
        _forget_attributes(patched, format)
        archive(spark, tmp_path, store, format=format)
    # When it is continued, then readers find the attributes of new messages
    attributes: Attributes = {"kind": "ü", "n": 2**64 - 1, "price": 1e300, "photo": b"\0\xff"}
    store.post("new", attributes=attributes)
    archive(spark, tmp_path, store)
    messages = reading.ArchiveReader(spark, str(tmp_path)).messages(store.project)
    nothing: dict[str, Any] = {"string": None, "number": None, "binary": None}
    expected = {
        "kind": nothing | {"string": "ü"},
        "n": nothing | {"number": str(2**64 - 1)},
        "price": nothing | {"number": "1e+300"},
        "photo": nothing | {"binary": b"\0\xff"},
    }
    assert [row.attributes for row in messages.orderBy("rank").collect()] == [
        None,
        {name: Row(**kinds) for name, kinds in expected.items()},
    ]
    found = _table(tmp_path, format).sort_by("rank").column("attributes").to_pylist()
    assert found == [None, list(expected.items())]


def _table(target: Path, format: str) -> pa.Table:
    """Returns the rows that readers of the format find."""
    if format == "delta":
        return DeltaTable(target).to_pyarrow_table()
    return pa.concat_tables(
        [pq.ParquetFile(file).read() for file in files(target)], promote_options="default"
    )


def _forget_attributes(patched: pytest.MonkeyPatch, format: str) -> None:
    """Makes the job archive as an older version did."""
    names = layout.COLUMNS[:-1]
    schema = columns.schema_of(",".join(names))
    patched.setattr(layout, "COLUMNS", names)
    patched.setattr(layout, "SCHEMA", schema)
    if format == "delta":
        place = delta._SCHEMA.get_field_index("attributes")
        patched.setattr(delta, "_SCHEMA", delta._SCHEMA.remove(place))


@pytest.mark.parametrize(
    ("settings", "what"), [({"format": "delta"}, "--format: .* was begun with parquet")]
)
def test_settings_that_conflict_with_the_archive_are_refused(
    spark: SparkSession, tmp_path: Path, store: SparkTestStore, settings: dict[str, str], what: str
) -> None:
    TransactionLog(HadoopFolder(spark, str(tmp_path))).begin("parquet")
    store.post(1)
    with pytest.raises(errors.BadConfiguration, match=what):
        archive(spark, tmp_path, store, **settings)


def test_archive_of_a_format_that_is_gone_is_refused_by_its_name(
    spark: SparkSession, tmp_path: Path, store: SparkTestStore
) -> None:
    files = HadoopFolder(spark, str(tmp_path))
    header = {"format": "iceberg", "id": "a", "catalog": None, "table": "a.b", "version": 3}
    files.write(HEAD, header)
    store.post(1)
    with pytest.raises(errors.BadConfiguration, match="of the format iceberg, which gets no more"):
        archive(spark, tmp_path, store)


def test_missing_table_library_names_its_extra(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.post(1)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(errors.BadConfiguration, match=r"pip install '\.\[delta\]'"):
        archive(spark, tmp_path, store, format="delta")
    assert not any(tmp_path.iterdir())


def test_foreign_folder_is_refused(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post(1)
    (tmp_path / "letters").mkdir()
    with pytest.raises(running.JobRefused, match="letters"):
        archive(spark, tmp_path, store)


def test_invalid_target_and_missing_queue_are_named(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    with pytest.raises(errors.BadConfiguration, match='TARGET "nosuch://x/y"'):
        job.archive(spark, "nosuch://x/y", {"uri": store.uri, "subscribe": "q"}, ArchiveSettings())
    with pytest.raises(errors.BadConfiguration, match='no queue "q"'):
        archive(spark, tmp_path, store)


def test_archive_command_prints_its_report_as_json(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.post(*range(3))
    words = [str(tmp_path), "--storage", store.uri, "--project", store.project, "--no-progress"]
    assert running.main(job, [*words, "--json", "--queue", "q", "--max-per-batch", "2"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["counts"]["messages archived"] == {"q": 3}
    assert report["details"]["batches"]["read by this run"] == 2
    for wrong in (["--max-per-batch", "0"], ["--every", "x"], ["--format", "orc"], []):
        with pytest.raises(SystemExit):
            running.main(job, [*words, *wrong, *(["--queue", "q"] if wrong else [])])
    assert running.main(job, [*words, "--queue", "nosuch"]) == 1
    assert 'no queue "nosuch"' in capsys.readouterr().err


def test_files_are_independent_of_session_settings(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post(*range(3), ttl=9000, ago=3600)
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        archive(spark, tmp_path, store)
        assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "INT96"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    (file, *_) = files(tmp_path)
    created = pq.ParquetFile(file).read().column("created")
    assert created.type == pa.timestamp("us", tz="UTC")
    assert f"date={created[0].as_py().date()}" in file.parts
