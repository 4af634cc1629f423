# SPDX-License-Identifier: Apache-2.0
"""The data source in a real Spark session."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from tests.spark import reference
from tests.support import servers
from tests.support.spark_reads import SparkTestStore, columns, values
from tests.support.tiers import in_gate
from zaqar_redis.records import Attributes
from zaqar_redis.spark.columns import schema_of


def read(spark: SparkSession, store: SparkTestStore, **options: object) -> DataFrame:
    reader = _with(spark.read.format("zaqar"), store, {"subscribe": "q"} | options)
    return cast(DataFrame, reader.load())


def stream(spark: SparkSession, store: SparkTestStore, **options: object) -> DataFrame:
    given = {"subscribe": "q", "startingOffsets": "earliest"} | options
    if options.get("consume") == "claim":
        del given["startingOffsets"]
    return cast(DataFrame, _with(spark.readStream.format("zaqar"), store, given).load())


def _with(builder: Any, store: SparkTestStore, options: dict[str, object]) -> Any:
    texts = {name: str(value) for name, value in options.items()}
    return builder.options(uri=store.uri, project=store.project, **texts)


def copy(frame: DataFrame, store: SparkTestStore, checkpoint: Path, **options: object) -> list[int]:
    """Runs an availableNow stream into the queue "copy"; returns row counts by batch."""
    writer = _with(frame.select("body").writeStream.format("zaqar"), store, options)
    query = (
        writer.option("queue", "copy")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress]


def test_spark_finds_the_format_and_reads_a_queue(
    spark: SparkSession, store: SparkTestStore
) -> None:
    store.post(*[{"n": number} for number in range(1000)])
    frame = read(spark, store, minPartitions=2)
    assert frame.schema == columns(store.source(subscribe="q"))
    numbers = frame.selectExpr(
        "rank", "variant_get(parse_json(cast(body as string)), '$.n', 'int') AS n"
    )
    assert [tuple(row) for row in numbers.orderBy("rank").collect()] == [
        (number + 1, number) for number in range(1000)
    ]
    assert frame.where("created <= current_timestamp() AND expires > created").count() == 1000


def test_first_query_of_the_document_survives_json_that_spark_refuses(
    spark: SparkSession, store: SparkTestStore, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies = ['{"a":1,"a":2}', '{"a":3}', "1e400", "1" * 41]
    frame = spark.createDataFrame([(body,) for body in bodies], "body STRING").coalesce(1)
    _with(frame.write.format("zaqar").mode("append"), store, {"queue": "orders"}).save()
    with _setting(spark, "spark.sql.python.filterPushdown.enabled", "false"):  # the query sets it
        exec(reference.printed("try_parse_json", store.uri, store.project), {})
    shown = [line.split("|")[-2].strip() for line in capsys.readouterr().out.splitlines()[3:-2]]
    assert shown == ["NULL", '{"a":3}', '"Infinity"', "1.111111111111111E40"]
    with _setting(spark, "spark.sql.variant.allowDuplicateKeys", "true"):
        both = read(spark, store, subscribe="orders").limit(1)
        (row,) = both.selectExpr("to_json(parse_json(cast(body AS string))) AS body").collect()
    assert row["body"] == '{"a":2}'


def test_exact_bodies_are_read_and_written_as_documented(
    spark: SparkSession, store: SparkTestStore, capsys: pytest.CaptureFixture[str]
) -> None:
    octets, text = bytes(range(256)), 'a"\\\r\n\0\U0001f600'
    encoded: Attributes = {"_content_type": "a/b", "_body_encoding": "base64", "_group": "g"}
    store.post(base64.b64encode(octets).decode(), queue="photos", attributes=encoded)
    store.post(text, queue="photos", attributes={"_content_type": "text/plain"})
    store.post({"n": 1}, queue="photos")
    scope: dict[str, Any] = {"spark": spark}
    exec(reference.printed("content_type", store.uri, store.project), scope)
    rows = scope["photos"].orderBy("rank").collect()
    assert [bytes(row["exact"]) for row in rows] == [octets, text.encode(), b'{"n": 1}']
    assert [row["group"] for row in rows] == ["g", None, None]
    names = "body,group,priority,content_type,body_encoding,attributes"
    again = [
        sorted(map(str, read(spark, store, subscribe=queue, columns=names).collect()))
        for queue in ("photos", "copies")
    ]
    assert again[0] == again[1]


def test_schema_projects(spark: SparkSession, store: SparkTestStore) -> None:
    store.post("a", "b")
    reader = spark.read.format("zaqar").schema("rank BIGINT, id STRING")
    frame = _with(reader, store, {"subscribe": "q"}).load()
    assert frame.columns == ["rank", "id"]
    assert {row["rank"]: row["id"] for row in frame.collect()} == store.ids()
    assert read(spark, store, columns="body").schema == schema_of("body")


def test_temporary_view_of_the_document_reads_a_queue(
    spark: SparkSession, store: SparkTestStore
) -> None:
    store.post(1, 2, queue="orders")
    create, select, _ = reference.printed("TEMPORARY VIEW", store.uri, store.project).split(";")
    spark.sql(create)
    try:
        (row,) = spark.sql(select).collect()
        assert (row["queue"], row["messages"]) == ("orders", 2)
    finally:
        spark.catalog.dropTempView("orders")


def test_table_is_refused_with_what_to_do_instead(
    spark: SparkSession, store: SparkTestStore
) -> None:
    options = f"OPTIONS (uri '{store.uri}', project '{store.project}', subscribe 'q')"
    why = "use CREATE TEMPORARY VIEW … USING zaqar OPTIONS (…) instead of CREATE TABLE"
    _refused(spark, lambda: spark.sql(f"CREATE TABLE refused USING zaqar {options}"), why)
    # Of a table with columns of its own the source sees nothing before it is read.
    spark.sql(f"CREATE TABLE with_columns (id STRING) USING zaqar {options}")
    try:
        _refused(spark, lambda: spark.sql("SELECT id FROM with_columns").collect(), why)
    finally:
        spark.sql("DROP TABLE with_columns")


def test_table_is_not_written_to_the_store_of_the_environment(
    spark: SparkSession, store: SparkTestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAQAR_REDIS_URI", store.uri)
    options = f"OPTIONS (uri 'redis://127.0.0.1:1', project '{store.project}')"
    why = 'and to write, df.write.format("zaqar").options(…)'
    row = "SELECT '1' AS body, 'q' AS queue"
    create = f"CREATE TABLE selected USING zaqar {options} AS {row}"
    _refused(spark, lambda: spark.sql(create), why)
    spark.sql(f"CREATE TABLE inserted (body STRING, queue STRING) USING zaqar {options}")
    try:
        _refused(spark, lambda: spark.sql(f"INSERT INTO inserted {row}"), why)
    finally:
        spark.sql("DROP TABLE inserted")
        spark.sql("DROP TABLE IF EXISTS selected")


def test_stream_of_the_document_appends_each_batch_to_a_delta_table_once(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path
) -> None:
    code = reference.printed("foreachBatch(append)", store.uri, store.project)
    code = code.replace('"lake/', f'"{tmp_path}/lake/')
    commits = tmp_path / "lake" / "checkpoints" / "orders" / "commits"

    def run() -> list[int]:
        names: dict[str, Any] = {"spark": spark}
        exec(code, names)
        try:
            names["query"].processAllAvailable()
        finally:
            names["query"].stop()
        table = DeltaTable(tmp_path / "lake" / "orders").to_pyarrow_table()
        return sorted(table["rank"].to_pylist())

    store.post(1, 2, queue="orders")
    assert run() == [1, 2]
    # As if it had died before Spark logged the end of the batch.
    last = max(int(file.name) for file in commits.glob("[0-9]*"))
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink()
    store.post(3, queue="orders")
    assert run() == [1, 2, 3]


def test_empty_queue_gives_an_empty_table(spark: SparkSession, store: SparkTestStore) -> None:
    store.create()
    assert read(spark, store).collect() == []


@contextmanager
def _setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def test_filters_are_pushed_down_where_spark_does(
    spark: SparkSession, store: SparkTestStore
) -> None:
    for queue in ("a", "b"):
        store.post(*range(20), queue=queue)
    condition = "queue = 'a' AND rank > 5 AND rank <= 15 AND ttl > 60"

    def found(**options: object) -> tuple[list[Any], int]:
        frame = read(spark, store, subscribe="a,b", **options).where(condition)
        rows = frame.orderBy("rank").collect()
        return values(row.asDict() for row in rows), frame.rdd.getNumPartitions()

    assert found() == (list(range(5, 15)), 2)
    with pytest.raises(Exception, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        found(pushdown=True)
    with _setting(spark, "spark.sql.python.filterPushdown.enabled", "true"):
        # The other queue is not read at all.
        assert found() == found(pushdown=True) == (list(range(5, 15)), 1)
        assert found(pushdown=False) == (list(range(5, 15)), 2)
        assert read(spark, store, subscribe="a,b").where("queue = 'c'").collect() == []
        assert read(spark, store, subscribe="a,b").count() == 40


def test_data_frame_is_written_once_per_write_id(
    spark: SparkSession, store: SparkTestStore
) -> None:
    frame = spark.range(3000).selectExpr("to_json(struct(id)) AS body").repartition(2)
    for _ in range(2):
        writer = _with(frame.write.format("zaqar").mode("append"), store, {})
        writer.options(queue="q", delivery="ledger", writeId="load").save()
    assert sorted(row["id"] for row in store.bodies()) == list(range(3000))
    assert store.last_rank() == 3000


@pytest.mark.parametrize("delivery", in_gate(["ledger", "staged"]))
def test_stream_copies_each_message_once(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path, delivery: str
) -> None:
    store.post(*range(2500))
    frame = stream(spark, store, maxOffsetsPerTrigger=1000)
    assert copy(frame, store, tmp_path, delivery=delivery) == [1000, 1000, 500]
    assert store.bodies("copy") == list(range(2500))
    # As if it had died before it logged the last batch: Spark repeats the batch.
    (tmp_path / "commits" / "2").unlink()
    (tmp_path / "commits" / ".2.crc").unlink()
    store.post(2500)
    assert copy(frame, store, tmp_path, delivery=delivery) == [500, 1]
    assert store.bodies("copy") == list(range(2501))
    assert store.last_rank("copy") == 2501


def test_claiming_stream_empties_a_queue_and_a_listener_gets_its_lag(
    spark: SparkSession, store: SparkTestStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.post(*range(2500))
    names: dict[str, Any] = {"spark": spark}
    exec(reference.printed("LagListener", store.uri, store.project), names)
    lines: list[str] = []

    def lags() -> list[str]:
        lines.extend(capsys.readouterr().out.splitlines())
        return [line.rpartition(" ")[2] for line in lines if "lags by" in line]

    frame = stream(spark, store, consume="claim", group="g", maxOffsetsPerTrigger=1000)
    try:
        copy(frame, store, tmp_path)
        servers.wait_for(lambda: lags() == ["1500", "500", "0"], "the reports on the lag")
    finally:
        spark.streams.removeListener(names["listener"])
    assert store.bodies("copy") == list(range(2500))
    assert store.bodies() == []
    assert store.leases() == {}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"subscribbe": "q"}, 'unknown option "subscribbe"; did you mean "subscribe"?'),
        ({"queue": "q"}, 'the option "queue" is none of a batch read'),
        ({"columns": "bodi"}, 'there is no column "bodi", only project, queue'),
        ({"subscribe": "nowhere"}, 'option "subscribe": there is no queue "nowhere"'),
        ({"fetchSize": "0"}, 'option "fetchSize": it must be a whole number, 1 to 5000'),
        ({"uri": "memory://"}, 'option "uri": memory:// is within one process'),
    ],
)
def test_invalid_options_are_reported_before_any_task(
    spark: SparkSession, store: SparkTestStore, options: dict[str, str], why: str
) -> None:
    store.post(1)
    given = {"uri": store.uri, "project": store.project, "subscribe": "q"} | options
    _refused(spark, lambda: spark.read.format("zaqar").options(**given).load().collect(), why)


@pytest.mark.parametrize(
    ("column", "mode", "why"),
    [
        ("id AS bodi", "append", 'unknown column "bodi"; what can be written is body BINARY'),
        (
            "to_json(struct(id)) AS body",
            "overwrite",
            "a queue can be appended to only: mode append",
        ),
    ],
)
def test_unwritable_column_and_overwrite_are_refused(
    spark: SparkSession, store: SparkTestStore, column: str, mode: str, why: str
) -> None:
    frame = spark.range(3).selectExpr(column)
    _refused(spark, _with(frame.write.format("zaqar").mode(mode), store, {"queue": "q"}).save, why)


def test_invalid_row_is_reported(spark: SparkSession, store: SparkTestStore) -> None:
    frame = spark.createDataFrame([("no json",)], "body STRING").coalesce(1)
    writer = _with(frame.write.format("zaqar").mode("append"), store, {"queue": "q"})
    with pytest.raises(Exception, match=r'row 1 of its task: the column "body" is not JSON'):
        writer.save()


def _refused(spark: SparkSession, act: Callable[[], object], why: str) -> None:
    tracker = spark.sparkContext.statusTracker()
    before = tracker.getJobIdsForGroup(None)
    with pytest.raises(Exception) as caught:  # noqa: PT011  # Spark raises several types
        act()
    assert why in str(caught.value)
    assert tracker.getJobIdsForGroup(None) == before
