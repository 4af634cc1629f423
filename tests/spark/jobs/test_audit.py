# SPDX-License-Identifier: Apache-2.0
"""The job ``audit``: its findings, and legitimate changes that are none."""

from __future__ import annotations

import csv
import json
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs.archives import archive, files
from tests.support.spark_reads import SparkTestStore
from tests.support.tiers import in_gate
from zaqar_redis import errors
from zaqar_redis.spark.jobs import audit as job
from zaqar_redis.spark.jobs import running
from zaqar_redis.spark.jobs.archiving import tables
from zaqar_redis.spark.jobs.report import JobReport


def audit(
    spark: SparkSession,
    target: Path,
    store: SparkTestStore,
    listing: Path | None = None,
    **source: str,
) -> JobReport:
    options = {"uri": store.uri, "project": store.project, **source}
    report = job.audit(spark, str(target), options, str(listing) if listing else None)
    _sums(report)
    return report


def _sums(report: JobReport) -> None:
    """Checks that the totals of a report agree."""
    counts: dict[str, Any] = dict(report.counts)
    queues = report.details["queues"].values()
    rows, archived, live = counts.values()
    assert sum(each["rows in the archive"] for each in queues) == sum(rows.values())
    assert rows["messages"] == sum(archived.values())
    assert sum(each["live"] for each in queues) == sum(live.values())
    for each in queues:
        both = each["both"] + each["changed"]
        assert each["archived"] == both + each["expired"] + each["deleted"]
        assert each["live"] == both + each["newer"] + each["missing"]


def _rewritten(file: Path, table: pa.Table) -> None:
    (file.parent / f".{file.name}.crc").unlink()
    pq.write_table(table, file)


@pytest.mark.parametrize("format", in_gate(tables.FORMATS))
def test_audit_accepts_later_posts_and_deletions(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path, format: str
) -> None:
    store.post(*range(20))
    store.post(*range(3), queue="r", attributes={"kind": "order", "n": 1})
    archive(spark, tmp_path, store, "q,r", format=format)
    store.remove(3, 4)
    store.post(*range(5))
    store.post(*range(9), queue="never archived")
    report = audit(spark, tmp_path, store)
    assert report.good
    queue = report.details["queues"]["q"]
    assert (queue["both"], queue["deleted"], queue["newer"]) == (18, 2, 5)
    assert queue["epochs"] == [store.watermarks().epoch]
    assert set(report.details["queues"]) == {"q", "r"}


def test_audit_separates_expired_from_deleted_messages(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.post(*range(3), ttl=600)
    store.post(*range(4), ttl=6000)
    archive(spark, tmp_path, store)
    store.remove(*range(1, 8))
    later = SimpleNamespace(monotonic=time.monotonic, time=lambda: time.time() + 3000)
    monkeypatch.setattr(job, "time", later)
    queue = audit(spark, tmp_path, store).details["queues"]["q"]
    assert (queue["expired"], queue["deleted"]) == (3, 4)


def test_audit_accepts_deleted_and_recreated_queues(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post(*range(4))
    store.post(*range(6), queue="r")
    archive(spark, tmp_path, store, "q,r")
    store.delete()
    store.delete("r")
    store.post(*range(2), queue="r")
    report = audit(spark, tmp_path, store)
    assert report.good
    assert report.details["queues"]["q"]["deleted"] == 4
    assert report.details["queues"]["r"]["newer"] == 2


def test_audit_lists_missing_duplicate_and_changed_messages(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    # Given an archive of three queues, each with another fault
    target = tmp_path / "a"
    for queue in ("missing", "double", "changed"):
        store.post(*range(10), queue=queue, attributes={"kind": "order"})
    archive(spark, target, store, "missing,double,changed")
    by_queue = {file.parts[-3].partition("=")[2]: file for file in files(target)}
    found = {queue: pq.ParquetFile(file).read() for queue, file in by_queue.items()}
    _rewritten(by_queue["missing"], found["missing"].slice(2))
    shutil.copy(by_queue["double"], by_queue["double"].with_name("copy.parquet"))
    bodies = pa.array([b'"x"', *found["changed"].column("body").to_pylist()[1:]], pa.binary())
    place = found["changed"].schema.get_field_index("body")
    changed = found["changed"].set_column(place, "body", bodies)
    attributes = changed.column("attributes").to_pylist()
    attributes[1] = [("kind", {"number": "1"})]
    place, kind = changed.num_columns - 1, changed.column("attributes").type
    changed = changed.set_column(place, "attributes", pa.array(attributes, kind))
    _rewritten(by_queue["changed"], changed)
    # When it is audited, then each fault is listed with its message id
    listing = tmp_path / "found.csv"
    report = audit(spark, target, store, listing)
    assert not report.good
    queues = report.details["queues"]
    assert queues["missing"]["missing"] == 2
    assert queues["double"]["rows in the archive"] == 20
    assert queues["changed"]["changed"] == 2
    with listing.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["finding"], row["rank"]) for row in rows if row["queue"] == "missing"] == [
        ("missing", "1"),
        ("missing", "2"),
    ]
    assert rows[0] == {
        "finding": "changed",
        "queue": "changed",
        "epoch": store.watermarks("changed").epoch,
        "rank": "1",
        "id": store.ids("changed")[1],
    }
    assert len(rows) == report.details["listed"]["findings"] == 14
    lines = tmp_path / "found.jsonl"
    report = audit(spark, target, store, lines, subscribe="missing")
    assert [json.loads(line)["rank"] for line in lines.read_text().splitlines()] == [1, 2]
    assert audit(spark, target, store, subscribePattern="nothing.*").good


def test_invalid_audit_arguments_are_named(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post(1)
    archive(spark, tmp_path / "a", store)
    with pytest.raises(errors.BadConfiguration, match=r'--queue: .* "other" .* never archived'):
        audit(spark, tmp_path / "a", store, subscribe="other")
    with pytest.raises(errors.BadConfiguration, match=r"\.csv or \.jsonl"):
        audit(spark, tmp_path / "a", store, tmp_path / "x.txt")
    with pytest.raises(errors.BadConfiguration, match="--list: "):
        audit(spark, tmp_path / "a", store, tmp_path / "no" / "x.csv")
    with pytest.raises(errors.BadConfiguration, match="is no archive"):
        audit(spark, tmp_path / "b", store)
    with pytest.raises(errors.BadConfiguration, match=rf'"other"; it has .* of: {store.project}$'):
        job.audit(spark, str(tmp_path / "a"), {"uri": store.uri, "project": "other"})


@pytest.mark.nightly
def test_audit_exit_code_reports_findings(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.post(*range(3))
    archive(spark, tmp_path, store)
    words = [str(tmp_path), "--storage", store.uri, "--project", store.project, "--no-progress"]
    assert running.main(job, [*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["good"] is True
    (file,) = files(tmp_path)
    shutil.copy(file, file.with_name("copy.parquet"))
    assert running.main(job, [*words, "--queue", "q"]) == 1
    assert "doubles: 3" in capsys.readouterr().out
