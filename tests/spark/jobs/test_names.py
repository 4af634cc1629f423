# SPDX-License-Identifier: Apache-2.0
"""Every name that a queue or a project may have goes through an archive and back."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.spark.jobs import commands
from tests.spark.jobs.archives import archive, archived, files
from tests.support.backends import Backend
from tests.support.spark_reads import SparkTestStore
from zaqar_redis import errors
from zaqar_redis.spark.jobs import audit, replay
from zaqar_redis.spark.jobs.analysing.inputs import archive_input
from zaqar_redis.spark.jobs.archiving import layout, reading, tables
from zaqar_redis.spark.jobs.replaying.settings import ReplaySettings
from zaqar_redis.spark.jobs.running import JobRefused

NULL = "__HIVE_DEFAULT_PARTITION__"
_QUEUES = (
    *(NULL, NULL.lower(), "null", "123", "1e5", "2026-01-01"),
    *("a.b", "..", "_a", "-", "A", "a", "q" * 64),
)
_PROJECTS = (
    *(NULL, NULL.lower(), "a=b", "queue=x", "%41", "%5F_HIVE", "%", "a/b", "../..", ".", "A", "a"),
    *("123", "a}b", "{a,b}", "[a-z]*?", "a\\b", "a b", "é\xa0ÿ", "\"'#:;<>|&+$~!@()^`,"),
)
#: Makes the store of a project whose queues are deleted after the test.
Make = Callable[[str], SparkTestStore]


@pytest.fixture
def make(redis_server: Backend) -> Iterator[Make]:
    made: list[SparkTestStore] = []

    def begin(project: str) -> SparkTestStore:
        made.append(SparkTestStore(redis_server.uri, project))
        return made[-1]

    yield begin
    for each in made:
        for queue in (*_QUEUES, "q"):
            each.delete(queue)
        each.close()


def listed_elsewhere(format: str, target: Path, spark: SparkSession) -> Counter[tuple[str, str]]:
    """Returns by project and queue how many messages readers of the format find."""
    if format == tables.DELTA:
        table = DeltaTable(str(target)).to_pyarrow_dataset().to_table(["project", "queue"])
        rows = table.to_pylist()
    else:
        reader = spark.read.schema(layout.WITH_DATE).parquet(str(target))
        rows = [row.asDict() for row in reader.select("project", "queue").collect()]
    return Counter((row["project"], row["queue"]) for row in rows)


@pytest.mark.nightly
@pytest.mark.parametrize("format", tables.FORMATS)
def test_queue_of_any_name_goes_through_all_jobs(
    spark: SparkSession, make: Make, tmp_path: Path, format: str
) -> None:
    store = make(NULL)
    numbers = {queue: number for number, queue in enumerate(_QUEUES, 1)}
    for queue, number in numbers.items():
        store.post(*range(number), queue=queue)
    report = archive(spark, tmp_path, store, ",".join(_QUEUES), format=format)
    assert report.counts["messages archived"] == numbers
    _check(spark, store, tmp_path, numbers)
    expected = {(NULL, queue): number for queue, number in numbers.items()}
    assert listed_elsewhere(format, tmp_path, spark) == expected


@pytest.mark.nightly
@pytest.mark.parametrize("format", tables.FORMATS)
def test_project_of_any_name_is_archived_and_read(
    spark: SparkSession, make: Make, tmp_path: Path, format: str
) -> None:
    for number, project in enumerate(_PROJECTS, 1):
        store = make(project)
        store.post(*range(number))
        assert archived(archive(spark, tmp_path, store, format=format)) == number
    archive_reader = reading.ArchiveReader(spark, str(tmp_path))
    for number, project in enumerate(_PROJECTS, 1):
        found, wrong = archive_reader.messages_as_found(project)
        assert (project, found.count(), wrong) == (project, number, {})
        rows = archive_reader.messages(project, ["q"]).collect()
        assert [row.project for row in rows] == [project] * number
    expected = {(project, "q"): number for number, project in enumerate(_PROJECTS, 1)}
    assert listed_elsewhere(format, tmp_path, spark) == expected


def _check(
    spark: SparkSession, store: SparkTestStore, target: Path, numbers: dict[str, int]
) -> None:
    """Checks what audit, analytics and a replay find in the archive of a project."""
    where = {"uri": store.uri, "project": store.project}
    audited = audit.audit(spark, str(target), where)
    assert audited.good
    assert {name: row["both"] for name, row in audited.details["queues"].items()} == numbers
    found = archive_input(spark, str(target), {"project": store.project}).messages
    assert {row.queue: row["count"] for row in found.groupBy("queue").count().collect()} == numbers
    copy = f"copy-{uuid.uuid4().hex[:8]}"
    replayed = replay.replay(spark, str(target), where, ReplaySettings(target=copy))
    assert commands.parts(replayed)["written"] == sum(numbers.values())
    store.delete(copy)


@pytest.mark.nightly
def test_archive_with_the_folder_of_null_is_continued(
    spark: SparkSession, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As versions before have written it."""
    store = make(NULL)
    store.post(*range(3), queue=NULL)
    with monkeypatch.context() as patched:
        patched.setattr(layout, "_not_null", str)
        archive(spark, tmp_path, store, NULL)
    store.post(*range(2), queue=NULL)
    archive(spark, tmp_path, store, NULL)
    assert {file.parts[-3] for file in files(tmp_path)} == {f"queue={NULL}", f"queue=%5F{NULL[1:]}"}
    _check(spark, store, tmp_path, {NULL: 5})


@pytest.mark.parametrize("project", ["p" * 256, "=" * 82])
def test_project_whose_name_no_folder_can_have_is_refused_before_anything_is_written(
    spark: SparkSession, make: Make, tmp_path: Path, project: str
) -> None:
    store = make(project)
    store.post(1)
    with pytest.raises(JobRefused, match=f'the project "{project}" .* object store'):
        archive(spark, tmp_path, store)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [tmp_path / "_zaqar/lock"]
    with pytest.raises(errors.BadConfiguration, match="is no archive of queues"):
        reading.ArchiveReader(spark, str(tmp_path))


@pytest.mark.parametrize("project", ["p" * 244, "=" * 81])
def test_longest_name_of_a_project_is_archived(
    spark: SparkSession, make: Make, tmp_path: Path, project: str
) -> None:
    store = make(project)
    store.post(1)
    assert archived(archive(spark, tmp_path, store)) == 1
    assert reading.ArchiveReader(spark, str(tmp_path)).messages(project).count() == 1
