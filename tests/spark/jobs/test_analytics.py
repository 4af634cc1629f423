# SPDX-License-Identifier: Apache-2.0
"""The job ``analytics``: consistent tables, and a report that agrees with them."""

from __future__ import annotations

import html
import json
import re
import sys
import time
import uuid
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import commands
from tests.spark.jobs.archives import archive
from tests.support import processes
from tests.support.backends import Backend
from tests.support.spark_reads import SparkTestStore
from zaqar_redis import errors
from zaqar_redis.cli import profile_file
from zaqar_redis.spark.jobs import analytics as job
from zaqar_redis.spark.jobs import running
from zaqar_redis.spark.jobs.analysing import tables, windows
from zaqar_redis.spark.jobs.report import JobReport

#: The first test starts Spark and runs all queries: a minute on a busy machine.
pytestmark = pytest.mark.timeout(300)

TABLES = ("queues", "throughput", "backlog", "ages", "claims", "dead_letters")
HOUR = 3600
#: Seconds before its end in which a claim counts as expiring soon: more than the job takes.
SOON = 360
#: Of the store; no report shows the password.
USER, PASSWORD = "analyst", "not-to-be-shown"


def analyse(spark: SparkSession, store: SparkTestStore, target: Path, **given: Any) -> JobReport:
    source = {"uri": store.uri, "project": store.project, "subscribePattern": ".*"}
    return job.analytics(spark, str(target), source, **given)


def table(target: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(target / name).to_pylist()
    return rows


def added_up(report: JobReport, target: Path) -> int:
    """Returns the number of messages; checks that all tables agree on it."""
    total = sum(commands.parts(report).values())
    for name in ("queues", "throughput", "backlog"):
        assert sum(row["messages"] for row in table(target, name)) == total
    for what in ("age", "delay", "ttl left"):
        bars = [row["messages"] for row in table(target, "ages") if row["what"] == what]
        assert sum(bars) == total
    sizes = [sum(row["bytes"] for row in table(target, name)) for name in ("queues", "throughput")]
    assert sizes == [report.details["bytes"]] * 2
    return total


def die(store: SparkTestStore) -> None:
    """Makes three of five messages dead letters, beside a message that is none."""
    store.create("mortal", _max_claim_count=1, _dead_letter_queue="dead")
    store.post(*range(5), queue="mortal")
    claim = store.claim(3, queue="mortal").claim_id
    assert claim
    store.claims.delete(store.project, "mortal", claim).run()
    store.claim(3, queue="mortal")
    store.post("no letter", queue="dead")


def fill(store: SparkTestStore) -> None:
    """Posts two hours of orders, some claimed, some deleted, and mail with delays."""
    for ago in range(120, 0, -10):
        store.post(*range(5), ago=ago * 60, ttl=24 * HOUR)
    store.remove(1, 2, 3)
    store.claim(4, ttl=2 * SOON)
    store.claim(3, ttl=SOON - 60)
    store.create("mail", _default_message_delay=5)
    store.post("a", "bb", queue="mail", delay=900)
    store.post("ccc", queue="mail", delay=0)


@dataclass(frozen=True)
class Analysed:
    """The analytics of `fill`, of `die` and of an empty queue, in windows of ten minutes."""

    target: Path
    report: JobReport
    project: str
    #: seconds from the first message to the end
    seconds: float

    def rows(self, name: str, queue: str = "q") -> list[dict[str, Any]]:
        return [row for row in table(self.target, name) if row["queue"] == queue]


@pytest.fixture(scope="module")
def analysed(
    spark: SparkSession, redis_server: Backend, tmp_path_factory: pytest.TempPathFactory
) -> Analysed:
    store = SparkTestStore(redis_server.uri, f"<b>&{uuid.uuid4()}")
    began = time.monotonic()
    fill(store)
    die(store)
    store.create("empty")
    target = tmp_path_factory.mktemp("analysed")
    for node in store.client.nodes():
        node.command("ACL", "SETUSER", USER, "on", f">{PASSWORD}", "~*", "&*", "+@all")
    uri = store.uri.replace("://", f"://{USER}:{PASSWORD}@", 1)
    source = {"uri": uri, "project": store.project, "subscribePattern": ".*"}
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tables, "SOON_SECONDS", SOON)
            report = job.analytics(spark, str(target), source, window="10 minutes")
    finally:
        for node in store.client.nodes():
            node.command("ACL", "DELUSER", USER)
        store.close()
    return Analysed(target, report, store.project, time.monotonic() - began)


def test_every_table_counts_every_message(analysed: Analysed) -> None:
    report = analysed.report
    assert added_up(report, analysed.target) == 66
    assert report.counts["queues"] == 5
    read = {"q": 57, "mail": 3, "empty": 0, "mortal": 2, "dead": 4}
    assert report.counts["messages read"] == read
    assert report.counts["messages by claims"] == {"claimed now": 9, "not claimed": 57}
    bytes_of_bodies = 57 + len('"a"') + len('"bb"') + len('"ccc"') + 5 + len('"no letter"')
    assert report.details["bytes"] == bytes_of_bodies
    assert report.details["window"] == "10 minutes"


def test_throughput_is_grouped_by_posting_time(analysed: Analysed) -> None:
    rows = analysed.rows("throughput")
    assert [row["messages"] for row in rows] == [2] + [5] * 11
    assert all(row["end"] - row["begin"] == timedelta(minutes=10) for row in rows)
    assert all(row["begin"].minute % 10 == row["begin"].second == 0 for row in rows)
    assert rows[1]["messages_per_second"] == pytest.approx(5 / 600)
    assert rows[1]["bytes_per_second"] == pytest.approx(5 / 600)


def test_backlog_separates_posted_from_remaining_messages(analysed: Analysed) -> None:
    rows = analysed.rows("backlog")
    assert [row["posted_until_then"] for row in rows] == list(range(5, 61, 5))
    assert [row["left_of_them"] for row in rows] == [2, *range(7, 58, 5)]
    assert {row["gone_of_them"] for row in rows} == {3}


def test_queues_table_has_ages_and_current_store_counts(analysed: Analysed) -> None:
    rows = {row["queue"]: row for row in table(analysed.target, "queues")}
    assert rows["q"]["age_p50"] == pytest.approx(60 * 60, abs=601 + analysed.seconds)
    assert rows["q"]["age_max"] == pytest.approx(120 * 60, abs=1 + analysed.seconds)
    assert [rows["q"][f"{name}_now"] for name in ("total", "claimed", "delayed")] == [57, 7, 0]
    assert [rows["mail"][f"{name}_now"] for name in ("total", "claimed", "delayed")] == [3, 0, 2]
    assert rows["q"]["oldest_age_now"] == pytest.approx(120 * 60, abs=1 + analysed.seconds)
    assert (rows["empty"]["messages"], rows["empty"]["total_now"]) == (0, 0)
    assert rows["empty"]["age_p50"] is rows["empty"]["oldest_age_now"] is None


def test_ages_are_in_histograms_by_duration(analysed: Analysed) -> None:
    bars = {
        (row["queue"], row["what"], row["from_seconds"], row["to_seconds"]): row["messages"]
        for row in table(analysed.target, "ages")
    }
    assert bars["mail", "delay", 600, 1800] == 2
    assert bars["mail", "delay", 0, 1] == 1
    assert bars["mail", "ttl left", 1800, HOUR] == 3
    assert bars["q", "age", HOUR, 2 * HOUR] == 30
    assert bars["q", "ttl left", 12 * HOUR, 24 * HOUR] == 57


def test_claims_are_grouped_by_claim_count(analysed: Analysed) -> None:
    rows = analysed.rows("claims")
    found = {
        row["claim_count"]: (row["messages"], row["claimed_now"], row["lapsing_soon"])
        for row in rows
    }
    assert found == {0: (50, 0, 0), 1: (7, 7, 3)}


def test_dead_letters_are_grouped_by_origin(analysed: Analysed) -> None:
    (row,) = table(analysed.target, "dead_letters")
    assert (row["queue"], row["dead_letter_from"], row["messages"]) == ("dead", "mortal", 3)
    assert analysed.report.details["dead letters"] == 3
    assert "mortal → dead" in (analysed.target / "report.html").read_text()


@pytest.mark.nightly
def test_archive_gives_the_tables_of_live_queues(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    fill(store)
    store.post("numeric", queue="123")
    archive(spark, tmp_path / "lake", store, "q,mail,123")
    store.remove(9)
    report = analyse(
        spark, store, tmp_path / "out", archive=str(tmp_path / "lake"), window="10 minutes"
    )
    assert added_up(report, tmp_path / "out") == 61
    assert report.counts["messages read"] == {"q": 57, "mail": 3, "123": 1}
    assert table(tmp_path / "out", "claims") == []
    assert "messages by claims" not in report.counts
    source = {"project": store.project, "subscribe": "mail"}
    one = job.analytics(spark, str(tmp_path / "one"), source, archive=str(tmp_path / "lake"))
    assert one.counts["messages read"] == {"mail": 3}
    with pytest.raises(errors.BadConfiguration, match=r'"nothing" .* was never archived in'):
        job.analytics(
            spark,
            str(tmp_path / "none"),
            {"project": store.project, "subscribe": "nothing"},
            archive=str(tmp_path / "lake"),
        )


def test_summary_has_the_start_of_spark_beside_the_time_of_the_job() -> None:
    report = JobReport(job="archive", counts={}, seconds=16.84)
    assert report.as_text() == "archive: done in 16.8 s"
    started = replace(report, spark_seconds=6.21)
    assert started.as_text() == "archive: done in 16.8 s; Spark started in 6.2 s"


def test_html_report_is_self_contained(analysed: Analysed) -> None:
    text = (analysed.target / "report.html").read_text()
    assert f"<title>Queues of the project {html.escape(analysed.project)}</title>" in text
    assert "<script" not in text
    links = re.findall(r'(?:src|href)="([^"#][^"]*)"|url\((?!#)([^)]+)\)', text)
    assert links == []
    assert "td { white-space: nowrap; }" in text  # dates are not broken
    plots = re.findall(r"<svg.*?</svg>", text, re.S)
    assert len(plots) == 8  # one of dead letters
    for plot in plots:
        assert ElementTree.fromstring(plot).tag.endswith("svg")
    for message in (
        "messages per 10 minutes",
        "time of posting, UTC",
        "how often a message was claimed",
    ):
        assert message in text
    assert "how long it took from posting to delivery" in text


def test_report_hides_passwords_and_escapes_names(analysed: Analysed) -> None:
    text = (analysed.target / "report.html").read_text()
    assert PASSWORD not in text + analysed.report.as_json()
    assert "<b>&" not in text
    assert "&lt;b&gt;&amp;" in text


@pytest.mark.nightly
def test_too_many_windows_are_widened(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post("old", ago=40 * 86_400, ttl=90 * 86_400)
    store.post("new")
    report = analyse(spark, store, tmp_path, window="1 minute")
    assert report.details["window"].startswith("30 minutes (widened: of 1 minute there would")
    assert "widened from 1 minute" in (tmp_path / "report.html").read_text()
    assert added_up(report, tmp_path) == 2


@pytest.mark.parametrize("wanted", [1, 7, 60, 3600])
@pytest.mark.parametrize("span", [0.0, 59.5, 86_400.0, 1e8, 1e12])
def test_widened_window_respects_the_minimum_and_the_limit(wanted: int, span: float) -> None:
    length = windows.widen(wanted, span)
    assert length >= wanted
    assert span / length + 1 <= windows.MAX_WINDOWS
    if span / wanted < windows.MAX_WINDOWS / 2:
        assert length == wanted


@pytest.mark.nightly
def test_second_run_replaces_only_its_own_report(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.post(1, 2)
    analyse(spark, store, tmp_path / "out")
    store.post(3)
    assert added_up(analyse(spark, store, tmp_path / "out"), tmp_path / "out") == 3
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("private")
    with pytest.raises(errors.BadConfiguration, match="was not created by this job"):
        analyse(spark, store, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["diary.txt"]


@pytest.mark.nightly
def test_empty_queue_has_a_report(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    store.create()
    report = analyse(spark, store, tmp_path)
    assert report.counts["messages read"] == {"q": 0}
    text = (tmp_path / "report.html").read_text()
    assert "<h2>Queues</h2>" in text
    assert "By the queue they came from" not in text


def test_missing_matplotlib_names_the_extra(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.post(1)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(errors.BadConfiguration, match=re.escape("pip install '.[report]'")):
        analyse(spark, store, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "one of --queue, --pattern and --archive must be given"),
        (["--queue", "nothing"], 'there is no queue "nothing"'),
        (["--queue", "q", "--window", "soon"], '--window "soon"'),
        (["--queue", "q", "--window", "0 minutes"], "--window"),
        (["--pattern", "("], "regular expression"),
        (["--archive", "/nowhere/lake"], "is no archive"),
    ],
)
def test_invalid_analytics_arguments_are_reported(
    spark: SparkSession,
    store: SparkTestStore,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    store.post(1)
    where = ["--no-progress", "--storage", store.uri, "--project", store.project]
    assert running.main(job, [*words, *where, str(tmp_path / "out")]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.nightly
def test_analytics_command_uses_a_profile_and_prints_json(
    store: SparkTestStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with profile_file.locked_for_update() as profiles:
        profiles.profiles["mine"] = profile_file.Profile(uri=store.uri)
    command = [
        *(*processes.ZAQAR_REDIS, "pipeline", "analytics"),
        *("--profile", "mine", "--project", store.project, "--pattern", "q|mail"),
        *("--master", "local[2]", "--no-progress", "--json", str(tmp_path / "out")),
        *commands.IN_TURN,
    ]
    done = processes.run(command, timeout=commands.TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert sum(report["counts"]["messages read"].values()) == 60
    assert report["details"]["messages"] == 60
    assert report["spark_seconds"] > 0
    assert datetime.fromisoformat(report["details"]["as of"]) <= datetime.now(UTC)
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir()) == sorted(
        TABLES
    )
