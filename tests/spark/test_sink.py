# SPDX-License-Identifier: Apache-2.0
"""Writes of rows as messages: valid rows, their queues, and exactly-once delivery."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from tests.spark.writing import (
    BatchWrite,
    CrashingClients,
    FakeTaskContext,
    StreamWrite,
    TaskFailed,
    WriterDied,
    failing,
    numbered,
    rows,
    schema_of,
    write_all,
)
from tests.support.spark_reads import BatchRead, SparkTestStore, batch, columns
from zaqar_redis import clock, errors
from zaqar_redis.check_records import Finding
from zaqar_redis.errors import BadConfiguration
from zaqar_redis.records import Attributes
from zaqar_redis.spark.writing.rows import BadRow
from zaqar_redis.storage import pools
from zaqar_redis.storage.redis.bulk.ledger import RedisLedger

BODY = StructType([StructField("body", BinaryType())])
#: Options of batches and streams for exactly-once writes.
DELIVERIES = ["ledger", "staged"]


def post(store: SparkTestStore, given: Any, **options: object) -> None:
    """Writes one record batch in one task."""
    write_all(BatchWrite(store.source(**options), schema_of(given)), [given])


@pytest.mark.parametrize("delivery", ["ledger", "staged", "none"])
def test_scheduled_rows_are_delivered_at_their_time(store: SparkTestStore, delivery: str) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=300)
    post(store, rows("1", "2", deliver_at=[at, None]), queue="q", delivery=delivery)
    later, now = batch(store.source(subscribe="q", columns="created,ttl,delay"))
    assert at <= later["created"] + timedelta(seconds=later["delay"]) < at + timedelta(seconds=1)
    assert (later["ttl"] - later["delay"], now["delay"]) == (3600, 0)


@pytest.mark.parametrize("delivery", ["ledger", "staged", "none"])
def test_full_queue_refuses_the_rows_and_drops_old_messages_where_it_says_so(
    store: SparkTestStore, delivery: str
) -> None:
    store.create(_max_messages=3)
    post(store, numbered(0, 2), queue="q", delivery=delivery)
    with pytest.raises(BadRow, match="at most 3 messages"):
        post(store, numbered(2, 4), queue="q", delivery=delivery)
    assert store.bodies() == [0, 1]
    store.create("r", _max_messages=3, _overflow="drop_oldest")
    post(store, numbered(0, 2), queue="r", delivery=delivery)
    post(store, numbered(2, 4), queue="r", delivery=delivery)
    assert store.bodies("r") == [1, 2, 3]


@pytest.mark.parametrize("delivery", ["ledger", "staged", "none"])
def test_rows_become_messages_in_order(store: SparkTestStore, delivery: str) -> None:
    write = BatchWrite(store.source(queue="q", delivery=delivery), BODY)
    write_all(write, [numbered(0, 5), numbered(5, 2005)], [], [numbered(2005, 2010)])
    assert store.bodies() == list(range(2010))
    assert store.last_rank() == 2010


def _found(store: SparkTestStore) -> list[Finding]:
    """Returns the findings of a check of the queue "q", in a service with another queue."""

    async def check() -> list[Finding]:
        driver = pools.create(store.uri, store.uri, {})
        await driver.start()
        try:
            await driver.queues.create(store.project, "other", {})
            steps = [step async for step in driver.checker.check(False)]
        finally:
            await driver.close()
        return [
            finding
            for step in steps
            if (step.project, step.queue) == (store.project, "q")
            for finding in step.findings
        ]

    return asyncio.run(check())


def test_queue_created_by_a_writer_is_in_the_catalogue(store: SparkTestStore) -> None:
    write_all(BatchWrite(store.source(queue="q"), BODY), [numbered(0, 3)])
    assert store.bodies() == [0, 1, 2]
    assert _found(store) == []


def test_row_columns_set_message_attributes(store: SparkTestStore) -> None:
    # Delays need a queue with a default delay.
    store.create(_default_message_delay=7, _default_message_ttl=900)
    given = rows('{"n": 1}', "[2]", ttl=[120, None], delay=[30, None])
    post(store, given, queue="q", clientId="a-client")
    first, second = batch(store.source(subscribe="q", columns="body,ttl,delay,client_id"))
    assert (first["body"], first["ttl"], first["delay"]) == (b'{"n": 1}', 120, 30)
    assert (second["body"], second["ttl"], second["delay"]) == (b"[2]", 900, 7)
    assert first["client_id"] == second["client_id"]


def test_ttl_option_precedes_the_queue_default(store: SparkTestStore) -> None:
    store.create(_default_message_ttl=900)
    post(store, rows("1", "2", ttl=[None, 60]), queue="q", ttl=300)
    assert [row["ttl"] for row in batch(store.source(subscribe="q"))] == [300, 60]


def test_default_ttl_is_an_hour(store: SparkTestStore) -> None:
    post(store, rows("1"), queue="q")
    assert [row["ttl"] for row in batch(store.source(subscribe="q"))] == [3600]


def test_string_bodies_are_accepted(store: SparkTestStore) -> None:
    given = pa.RecordBatch.from_pydict({"body": ['"é"', "null"]})
    post(store, given, queue="q")
    assert store.bodies() == ["é", None]


def test_attributes_are_written_as_they_were_read(store: SparkTestStore) -> None:
    attributes: Attributes = {
        "kind": "ü",
        "n": 2**64 - 1,
        "price": 1e300,
        "one": 1.0,
        "photo": b"\0\xff",
    }
    store.post(1, attributes=attributes)
    store.post(2)
    selected = BatchRead(store.source(subscribe="q", columns="body,attributes")).table()
    (given,) = selected.combine_chunks().to_batches()
    post(store, given, queue="copy")
    records = [
        BatchRead(store.source(subscribe=queue, columns="attributes,body")).rows()
        for queue in ("q", "copy")
    ]
    assert records[0] == records[1]
    assert dict(records[1][0]["attributes"])["one"]["number"] == "1.0"


def test_fields_have_columns_that_are_written_as_they_were_read(store: SparkTestStore) -> None:
    fields: Attributes = {"_group": "a", "_priority": 0, "_content_type": "a/b"}
    store.post("AP8=", attributes={**fields, "_body_encoding": "base64", "kind": "x"})
    store.post(2)
    store.post(3, attributes={"_group": 5, "_priority": 2**40, "_content_type": b"older release"})
    names = "body,group,priority,content_type,body_encoding"
    read = batch(store.source(subscribe="q", columns=names))
    nothing = dict.fromkeys(names.split(",")[1:])
    assert [dict(row) for row in read] == [
        dict(zip(names.split(","), (b'"AP8="', "a", 0, "a/b", "base64"), strict=True)),
        {"body": b"2"} | nothing,
        {"body": b"3"} | nothing,
    ]
    (given,) = (
        BatchRead(store.source(subscribe="q", columns=names)).table().combine_chunks().to_batches()
    )
    post(store, given, queue="copy")
    assert batch(store.source(subscribe="copy", columns=names)) == read


def test_field_of_a_column_precedes_that_of_the_attributes(store: SparkTestStore) -> None:
    kind = pa.map_(pa.string(), pa.string())
    both = [[("_group", "of attributes"), ("kind", "x")]] * 2
    given = pa.RecordBatch.from_arrays(
        [pa.array([b"1", b"2"]), pa.array(both, kind), pa.array(["of column", None])],
        ["body", "attributes", "group"],
    )
    post(store, given, queue="q")
    read = batch(store.source(subscribe="q", columns="group,attributes"))
    assert [row["group"] for row in read] == ["of column", "of attributes"]
    assert [dict(row["attributes"])["kind"]["string"] for row in read] == ["x", "x"]


def test_attributes_may_be_a_map_of_strings(store: SparkTestStore) -> None:
    kind = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))
    values = [[("kind", "order"), ("n", "1")], [], None]
    given = pa.RecordBatch.from_arrays(
        [pa.array([b"1", b"2", b"3"]), pa.array(values, kind)], ["body", "attributes"]
    )
    post(store, given, queue="q")
    nothing = {"string": None, "number": None, "binary": None}
    found = batch(store.source(subscribe="q", columns="attributes"))
    assert [row["attributes"] for row in found] == [
        [("kind", nothing | {"string": "order"}), ("n", nothing | {"string": "1"})],
        None,
        None,
    ]


def test_queue_column_routes_each_row(store: SparkTestStore) -> None:
    given = rows("1", "2", "3", "4", queue=["a", "b", "a", "a"])
    post(store, given, delivery="staged", putSize=2)
    assert (store.bodies("a"), store.bodies("b")) == ([1, 3, 4], [2])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"body": None}, 'the column "body" is null'),
        ({"body": "{"}, 'the column "body" is not JSON'),
        ({"body": ""}, 'the column "body" is not JSON'),
        ({"body": "NaN"}, 'the column "body" is not JSON'),
        ({"body": b'"\xff"'}, 'the column "body" is not JSON'),
        ({"body": "1 2"}, 'the column "body" is not JSON'),
        ({"body": '"\\ud800"'}, ".* is half of a surrogate pair, and no character"),
        (
            {"body": '"' + "x" * 99 + '"'},
            'the column "body" has 101 bytes; at most 100 .* "maxMessageSize"',
        ),
        ({"ttl": 59}, 'the column "ttl" is 59; it must be 60 to 2147483647'),
        ({"ttl": -1}, 'the column "ttl" is -1'),
        ({"delay": -1}, 'the column "delay" is -1; it must be 0 to 900'),
        ({"delay": 901}, 'the column "delay" is 901'),
        ({"deliver_at": datetime.max.replace(tzinfo=UTC)}, 'the column "deliver_at" is more than'),
        (
            {"deliver_at": datetime(2026, 1, 1, tzinfo=UTC), "delay": 1},
            'give the column "delay" or "deliver_at", not both',
        ),
        ({"queue": None}, 'the column "queue" has None, which is no name'),
        ({"queue": "a b"}, "the column \"queue\" has 'a b', which is no name"),
        ({"attributes": {"a b": {"string": ""}}}, "\"attributes\": the name 'a b' must have"),
        ({"attributes": {f"a{n}": {"string": ""} for n in range(11)}}, '"attributes" has 11 names'),
        ({"attributes": {"a": None}}, "\"attributes\": 'a' must have one of string, number"),
        ({"attributes": {"a": {}}}, "\"attributes\": 'a' must have one of"),
        ({"attributes": {"a": {"string": "", "binary": b""}}}, "\"attributes\": 'a' must have one"),
        (
            {"attributes": {"a": {"number": "1 2"}}},
            "\"attributes\": 'a' has '1 2', which is no num",
        ),
        ({"attributes": {"a": {"number": "nan"}}}, "\"attributes\": 'a' has 'nan', which is no"),
        ({"attributes": {"a": {"number": str(2**64)}}}, '"attributes": a must be a number of 64'),
        ({"group": ""}, '"group" must be 1 to 128 bytes'),
        ({"priority": 32}, '"priority" must be an integer from 0 to 31'),
        ({"content_type": "a"}, '"content_type" must be a media type'),
        ({"content_type": "a/b"}, '"body" must be a string: it has a "content_type"'),
        ({"body_encoding": "base64"}, '"body_encoding" needs a "content_type"'),
        (
            {"body": '"?"', "content_type": "a/b", "body_encoding": "base64"},
            '"body" must be base64',
        ),
        (
            {"attributes": {"_content_type": {"string": "a/b"}}},
            '"body" must be a string: it has a "content_type"',
        ),
        (
            {"attributes": {"a": {"string": "x" * 100}}},
            'the column "body" has 110 bytes with its attributes; at most 100',
        ),
    ],
)
def test_invalid_row_is_named(store: SparkTestStore, given: dict[str, Any], why: str) -> None:
    good = {"body": "1", "ttl": 60, "delay": None, "queue": "q", "attributes": None}
    good |= dict.fromkeys(("deliver_at", "group", "priority", "content_type", "body_encoding"))
    bad = good | given
    others = {name: [good[name], bad[name]] for name in good if name != "body"}
    with pytest.raises(BadRow, match=f"^row 2 of its task: {why}"):
        post(store, rows("1", bad["body"], **others), maxMessageSize=100)


def test_body_that_is_nested_too_deeply_is_named(store: SparkTestStore) -> None:
    with pytest.raises(BadRow, match='row 1 of its task: the column "body" is nested too deeply'):
        post(store, rows("[" * 2000 + "]" * 2000), queue="q")


@pytest.mark.parametrize(
    ("fields", "options", "why"),
    [
        ([], {"queue": "q"}, 'there must be a column "body"'),
        (["body"], {}, 'either with the option "queue" or with a column "queue"'),
        (["body", "queue"], {"queue": "q"}, 'either with the option "queue" or with a column'),
        (["body", "boddy"], {"queue": "q"}, 'unknown column "boddy"; what can be written is body'),
    ],
)
def test_invalid_columns_are_refused_at_once(
    store: SparkTestStore, fields: list[str], options: dict[str, str], why: str
) -> None:
    schema = StructType([StructField(name, StringType()) for name in fields])
    for make in (store.source(**options).writer, store.source(**options).streamWriter):
        with pytest.raises(BadConfiguration, match=why):
            make(schema, False)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("body", IntegerType()),
        ("ttl", DoubleType()),
        ("queue", BinaryType()),
        ("attributes", StringType()),
    ],
)
def test_columns_of_wrong_type_are_refused_at_once(
    store: SparkTestStore, name: str, kind: Any
) -> None:
    others = [StructField("body", BinaryType())] if name != "body" else []
    schema = StructType([*others, StructField(name, kind)])
    with pytest.raises(BadConfiguration, match=f'the column "{name}" is [A-Z]+; what can be'):
        store.source(queue="q").writer(schema, overwrite=False)


def test_overwrite_is_refused(store: SparkTestStore) -> None:
    for make in (store.source(queue="q").writer, store.source(queue="q").streamWriter):
        with pytest.raises(BadConfiguration, match="a queue can be appended to only: mode append"):
            make(BODY, True)


def _pieces(chooser: random.Random) -> list[Any]:
    """Returns the same 2500 rows in record batches of random sizes."""
    bounds = sorted({0, 2500, *chooser.sample(range(1, 2500), chooser.randint(0, 30))})
    return [numbered(*pair) for pair in pairwise(bounds)]


def test_chunks_are_independent_of_record_batches(store: SparkTestStore) -> None:
    options = {"queue": "q", "delivery": "ledger", "writeId": "load", "putSize": 300}
    chooser = random.Random(5)
    for number in range(10):
        write = BatchWrite(store.source(**options), BODY)
        written = write.task(0, _pieces(chooser))
        assert (written.rows, written.skipped) == (2500, 2500 if number else 0)
    assert store.bodies() == list(range(2500))
    assert store.last_rank() == 2500


def test_large_bodies_give_small_chunks(store: SparkTestStore) -> None:
    body = '"' + "x" * 1_500_000 + '"'
    options = {"delivery": "ledger", "writeId": "load", "maxMessageSize": "2m"}
    write_all(BatchWrite(store.source(queue="q", **options), BODY), [rows(*[body] * 5)])
    assert store.last_rank() == 5
    # Two of them fill a request to Redis: the last chunk was the third, and then the end was
    # recorded.
    last = RedisLedger(store.client, clock.store).last(store.project, "q", "load:0").run()
    assert last == (0, 3)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_failed_task_is_retried_without_duplicates(store: SparkTestStore, delivery: str) -> None:
    write = BatchWrite(store.source(queue="q", delivery=delivery, putSize=10), BODY)
    with pytest.raises(TaskFailed):
        write.task(0, failing([numbered(0, 57)]))
    write.task(1, [numbered(100, 130)])
    write.task(0, [numbered(0, 100)], attempt=1)
    write.commit()
    assert sorted(store.bodies()) == list(range(130))
    assert store.last_rank() == 130


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_repeated_stream_batch_is_written_once(store: SparkTestStore, delivery: str) -> None:
    data_source = store.source(queue="q", delivery=delivery, putSize=10)
    for number in range(3):
        for _ in range(2):  # its end was not logged
            pieces = [numbered(100 * number, 100 * number + 50)]
            others = [numbered(100 * number + 50, 100 * number + 100)]
            write_all(StreamWrite(data_source, BODY, number), pieces, others)
    assert sorted(store.bodies()) == list(range(300))
    assert store.last_rank() == 300


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_repeated_batch_does_not_restore_consumed_messages(
    store: SparkTestStore, delivery: str
) -> None:
    data_source = store.source(queue="q", delivery=delivery)
    write_all(StreamWrite(data_source, BODY), [numbered(0, 5)])
    store.messages.pop(store.project, "q", 3).run()
    write_all(StreamWrite(data_source, BODY), [numbered(0, 5)])
    assert store.bodies() == [3, 4]


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_ledger_completes_a_crashed_task_in_any_queue(
    store: SparkTestStore, crashing_clients: CrashingClients, behind: bool
) -> None:
    given = rows(*map(str, range(60)), queue=["a", "b", "b", "c"] * 15)
    data_source = store.source(delivery="ledger", putSize=7)
    deaths = 0
    for number in range(40):
        crashing_clients.left, crashing_clients.behind = number, behind
        try:
            StreamWrite(data_source, schema_of(given), number).task(0, [given])
        except WriterDied:
            deaths += 1
        crashing_clients.left = -1
        write_all(StreamWrite(data_source, schema_of(given), number), [given])
    assert deaths > 20
    for queue, own in (("a", [0]), ("b", [1, 2]), ("c", [3])):
        assert store.bodies(queue) == [each for each in range(60) if each % 4 in own] * 40
        assert store.last_rank(queue) == len(own) * 15 * 40


def test_ledgers_of_queries_are_separate(store: SparkTestStore, context: FakeTaskContext) -> None:
    data_source = store.source(queue="q")
    write_all(StreamWrite(data_source, BODY), [numbered(0, 2)])
    context.query = "another"
    write_all(StreamWrite(data_source, BODY), [numbered(2, 4)])
    assert store.bodies() == [0, 1, 2, 3]


def test_ledger_refuses_other_rows_for_the_same_chunk(store: SparkTestStore) -> None:
    data_source = store.source(queue="q", delivery="ledger")
    write_all(StreamWrite(data_source, BODY), [numbered(0, 5)])
    with pytest.raises(BadRow, match="use the option delivery=staged"):
        write_all(StreamWrite(data_source, BODY), [numbered(1, 5)])
    assert store.bodies() == list(range(5))


@pytest.mark.parametrize("order", ["dacb", "bacd", "abdc", "badc"])
@pytest.mark.parametrize("died", [False, True])
def test_ledger_refuses_the_same_rows_in_another_order(
    store: SparkTestStore, order: str, died: bool
) -> None:
    options = {"queue": "q", "delivery": "ledger", "writeId": "load", "putSize": 10}
    blocks = {name: numbered(10 * place, 10 * place + 10) for place, name in enumerate("abcd")}
    first = [blocks[name] for name in "abcd"]
    write = BatchWrite(store.source(**options), BODY)
    if died:
        with pytest.raises(TaskFailed):
            write.task(0, failing([*first[:3], numbered(30, 35)]))
    else:
        write_all(write, first)
    there = store.bodies()
    with pytest.raises(BadRow, match="differ from those of the first try"):
        write_all(BatchWrite(store.source(**options), BODY), [blocks[name] for name in order])
    # The written part may have grown by rows in the original order.
    assert store.bodies()[: len(there)] == there
    assert len(set(store.bodies())) == len(store.bodies())


@pytest.mark.parametrize("rows_first", [20, 15, 1])
def test_ledger_refuses_more_rows_than_the_finished_task_had(
    store: SparkTestStore, rows_first: int
) -> None:
    options = {"queue": "q", "delivery": "ledger", "writeId": "load", "putSize": 10}
    write_all(BatchWrite(store.source(**options), BODY), [numbered(0, rows_first)])
    with pytest.raises(BadRow, match="differ from those of the first try"):
        write_all(BatchWrite(store.source(**options), BODY), [numbered(0, 40)])
    assert store.bodies() == list(range(rows_first))


def test_ledger_reports_a_changed_number_of_tasks(store: SparkTestStore) -> None:
    options = {"queue": "q", "delivery": "ledger", "writeId": "load", "putSize": 10}
    write = BatchWrite(store.source(**options), BODY)
    with pytest.raises(TaskFailed):
        write.task(0, failing([numbered(0, 20)]))
    write.task(1, [numbered(20, 40)])
    with pytest.raises(BadRow, match="came from more than 1 tasks the first time"):
        write_all(BatchWrite(store.source(**options), BODY), [numbered(0, 40)])


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_repeated_write_id_writes_only_missing_rows(store: SparkTestStore, delivery: str) -> None:
    options = {"queue": "q", "delivery": delivery, "writeId": "load-1", "putSize": 10}
    write = BatchWrite(store.source(**options), BODY)
    with pytest.raises(TaskFailed):
        write.task(0, failing([numbered(0, 35)]))
    for _ in range(2):
        write_all(BatchWrite(store.source(**options), BODY), [numbered(0, 50)])
    assert store.bodies() == list(range(50))
    write_all(BatchWrite(store.source(**options | {"writeId": "load-2"}), BODY), [numbered(0, 1)])
    assert store.last_rank() == 51


def test_write_without_write_id_writes_again(store: SparkTestStore) -> None:
    for _ in range(2):
        write_all(BatchWrite(store.source(queue="q", delivery="ledger"), BODY), [numbered(0, 2)])
    assert store.bodies() == [0, 1, 0, 1]


def test_delivery_none_writes_duplicates(store: SparkTestStore) -> None:
    data_source = store.source(queue="q", delivery="none")
    for _ in range(2):
        write_all(StreamWrite(data_source, BODY), [numbered(0, 2)])
    assert store.bodies() == [0, 1, 0, 1]


@pytest.mark.parametrize("delivery", ["ledger", "staged", "none"])
def test_target_queue_with_encryption_is_refused(store: SparkTestStore, delivery: str) -> None:
    store.create(_enable_encrypt_messages=True)
    with pytest.raises(BadRow, match='"q" wants bodies encrypted, which only the service can do'):
        post(store, rows("1"), queue="q", delivery=delivery)
    assert store.bodies() == []


@pytest.mark.parametrize("delivery", ["ledger", "staged", "none"])
def test_max_message_size_of_the_queue_applies_to_each_message(
    store: SparkTestStore, delivery: str
) -> None:
    store.create(_max_messages_post_size=20)
    post(store, numbered(0, 100), queue="q", delivery=delivery)
    assert store.last_rank() == 100
    with pytest.raises(errors.BadRequest, match="at most 20 bytes"):
        post(store, rows("1", '"' + "x" * 20 + '"'), queue="q", delivery=delivery)
    assert store.last_rank() == 100


def test_spark_release_without_task_context_is_refused(
    store: SparkTestStore, context: FakeTaskContext
) -> None:
    context.query = None
    write = StreamWrite(store.source(queue="q"), BODY)
    with pytest.raises(RuntimeError, match=r"sql\.streaming\.queryId .* not supported"):
        write.task(0, [numbered(0, 1)])


def test_read_rows_can_be_written(store: SparkTestStore) -> None:
    store.post(*range(5))
    data_source = store.source(subscribe="q", columns="body")
    read = BatchRead(data_source).table().to_batches()
    write_all(BatchWrite(store.source(queue="copy"), columns(data_source)), read)
    assert store.bodies("copy") == store.bodies()
