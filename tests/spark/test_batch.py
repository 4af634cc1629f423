# SPDX-License-Identifier: Apache-2.0
"""Batch reads return each selected message once, in the requested number of tasks."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringContains,
)
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from tests.support.spark_reads import BatchRead, SparkTestStore, batch, columns, values
from tests.support.stores import CLIENT
from zaqar_redis.errors import BadConfiguration
from zaqar_redis.spark.reading.data_loss import DataLoss
from zaqar_redis.spark.reading.partitions import RangePartition


def read(store: SparkTestStore, **options: object) -> list[Any]:
    return values(batch(store.source(**{"subscribe": "q"} | options)))


def test_message_columns_have_all_values(store: SparkTestStore) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    store.post({"n": 1}, ttl=3000, delay=0)
    store.claim(1)
    (row,) = batch(store.source(subscribe="q"))
    created, expires = row.pop("created"), row.pop("expires")
    assert before <= created <= datetime.now(UTC)
    assert expires - created == timedelta(seconds=3000)
    assert row.pop("claim_expires") > datetime.now(UTC) + timedelta(seconds=500)
    (lease,) = store.leases()
    assert row == {
        "project": store.project,
        "queue": "q",
        "kind": "queue",
        "pool": "default",
        "id": store.ids()[1],
        "rank": 1,
        "epoch": store.watermarks().epoch,
        "body": b'{"n": 1}',
        "ttl": 3000,
        "delay": 0,
        "client_id": CLIENT,
        "claim_id": lease,
        "claim_count": 1,
        "dead_letter_from": None,
        "encrypted": False,
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, range(1, 11)),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, range(1, 11)),
        ({"startingOffsets": '{"q": 4}'}, range(4, 11)),
        ({"startingOffsets": '{"q": -2}', "endingOffsets": '{"q": -1}'}, range(1, 11)),
        ({"startingOffsets": '{"q": -1}'}, ()),
        ({"endingOffsets": '{"q": 4}'}, range(1, 4)),
        ({"endingOffsets": '{"q": -2}'}, ()),
        ({"startingOffsets": '{"q": 3}', "endingOffsets": '{"q": 5}'}, (3, 4)),
        ({"startingOffsets": '{"q": 5}', "endingOffsets": '{"q": 5}'}, ()),
        ({"startingOffsets": '{"q": 7}', "endingOffsets": '{"q": 2}'}, ()),
        ({"startingOffsets": '{"q": 11}'}, ()),
        ({"endingOffsets": '{"q": 99}'}, range(1, 11)),
        ({"startingOffsets": "{}", "endingOffsets": "{}"}, range(1, 11)),
    ],
)
def test_batch_reads_between_its_offsets(
    store: SparkTestStore, options: dict[str, str], expected: Any
) -> None:
    store.post(*range(1, 11))
    assert read(store, **options) == list(expected)


def test_offsets_are_accepted_in_checkpoint_form(store: SparkTestStore) -> None:
    store.post(*range(1, 11))
    own, other = f'{{"{store.project}/q": {{"offset": 4}}}}', '{"another/q": 4}'
    assert read(store, startingOffsets=own) == list(range(4, 11))
    with pytest.raises(BadConfiguration, match='"startingOffsets": another/q is not among'):
        read(store, startingOffsets=other)


def test_offsets_are_accepted_with_an_epoch(store: SparkTestStore) -> None:
    store.post(1, 2, 3)
    epoch = store.watermarks().epoch
    at = json.dumps({"q": {"epoch": epoch, "offset": 2}})
    assert read(store, startingOffsets=at) == [2, 3]
    assert read(store, endingOffsets=at) == [1]


def test_offset_of_another_epoch_is_data_loss(store: SparkTestStore) -> None:
    store.post(1, 2, 3)
    old = store.watermarks().epoch
    at = json.dumps({"q": {"epoch": old, "offset": 2}})
    store.delete()
    store.post(4, 5)
    with pytest.raises(DataLoss, match='"failOnDataLoss"') as caught:
        read(store, startingOffsets=at)
    assert {"q", old, store.watermarks().epoch} <= set(
        str(caught.value).replace('"', " ").split()
    ) | {word.rstrip(";,") for word in str(caught.value).split()}
    assert read(store, startingOffsets=at, failOnDataLoss=False) == [4, 5]
    with pytest.raises(BadConfiguration, match=f'option "endingOffsets": .* not in {old}'):
        read(store, endingOffsets=at)


def test_batch_that_starts_at_the_latest_message_is_an_error(store: SparkTestStore) -> None:
    store.post(1)
    why = 'option "startingOffsets": a batch has nothing behind the latest message'
    with pytest.raises(BadConfiguration, match=why):
        read(store, startingOffsets="latest")


def test_starting_offset_beyond_the_end_is_an_error_that_names_the_option(
    store: SparkTestStore,
) -> None:
    store.post(1, 2, 3)
    why = '^option "startingOffsets": the queue "q" ends at rank 4, before 5; give another rank, or'
    with pytest.raises(DataLoss, match=why):
        read(store, startingOffsets='{"q": 5}')
    assert read(store, startingOffsets='{"q": 5}', failOnDataLoss=False) == []


def test_batch_reads_between_its_timestamps(store: SparkTestStore) -> None:
    now = round(time.time() * 1000)
    for age in (500, 400, 300, 200, 100):
        store.post(age, ago=age)
    assert read(store, startingTimestamp=now - 350_000) == [300, 200, 100]
    assert read(store, endingTimestamp=now - 150_000) == [500, 400, 300, 200]
    since, until = now - 450_000, now - 150_000
    assert read(store, startingTimestamp=since, endingTimestamp=until) == [400, 300, 200]
    assert read(store, startingTimestamp=now + 60_000) == []
    assert read(store, endingTimestamp=0) == []


def test_subscribe_reads_several_queues(store: SparkTestStore) -> None:
    for queue in ("a", "b", "c"):
        store.post(f"{queue}1", f"{queue}2", queue=queue)
    assert sorted(read(store, subscribe="c, a,c")) == ["a1", "a2", "c1", "c2"]
    at = '{"a": 2, "b": -1}'
    assert sorted(read(store, subscribe="a,b,c", startingOffsets=at)) == ["a2", "c1", "c2"]


def test_subscribe_pattern_reads_matching_queues(store: SparkTestStore) -> None:
    for queue in ("orders", "orders-old", "returns"):
        store.post(queue, queue=queue)

    def found(pattern: str) -> list[Any]:
        return sorted(values(batch(store.source(subscribePattern=pattern))))

    assert found("orders") == ["orders"]
    assert found("orders.*") == ["orders", "orders-old"]
    assert found(".*") == ["orders", "orders-old", "returns"]
    assert found("nothing") == []


def test_batch_reads_its_project_only(store: SparkTestStore) -> None:
    store.post("mine")
    other = SparkTestStore(store.uri, f"{store.project}-other")
    other.post("theirs")
    assert read(store) == ["mine"]
    assert read(store, project=other.project) == ["theirs"]
    assert values(batch(store.source(subscribePattern=".*"))) == ["mine"]
    other.close()


def test_missing_subscribed_queue_is_an_error(store: SparkTestStore) -> None:
    store.post(1)
    with pytest.raises(BadConfiguration) as caught:
        read(store, subscribe="q,qq")
    expected = f'option "subscribe": there is no queue "qq" in the project "{store.project}"'
    assert str(caught.value) == expected


def test_empty_queue_gives_no_rows(store: SparkTestStore) -> None:
    store.create()
    assert read(store) == []


def _check_complete(batch_read: BatchRead, queues: dict[str, int]) -> None:
    """Checks that every message is read once, in order within its queue."""
    found: dict[str, list[int]] = {}
    for row in batch_read.rows():
        found.setdefault(row["queue"], []).append(row["rank"])
    assert {queue: sorted(ranks) for queue, ranks in found.items()} == {
        queue: list(range(1, count + 1)) for queue, count in queues.items()
    }


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ({"minPartitions": 1}, 1),
        ({"minPartitions": 2}, 2),
        # Tasks have at least 10 000 ranks.
        ({"minPartitions": 9}, 3),
        ({"minPartitions": 1, "maxRecordsPerPartition": 12_000}, 3),
        ({"minPartitions": 2, "maxRecordsPerPartition": 1_000}, 31),
    ],
)
def test_queue_is_split_into_tasks(
    store: SparkTestStore, options: dict[str, int], tasks: int
) -> None:
    store.post(*range(31_000))
    batch_read = BatchRead(store.source(subscribe="q", **options))
    assert len(batch_read.partitions) == tasks
    sizes = [each.end - each.start for each in batch_read.partitions]
    assert max(sizes) - min(sizes) <= 1
    _check_complete(batch_read, {"q": 31_000})


def test_tasks_have_equal_message_counts_despite_gaps(store: SparkTestStore) -> None:
    store.post(*range(40_000))
    # The first half is almost empty.
    store.command("ZREMRANGEBYSCORE", store.key("messages"), 11, 19_990)
    store.command("HDEL", store.key("bodies"), *range(11, 19_991))
    batch_read = BatchRead(store.source(subscribe="q", minPartitions=2))
    first, second = batch_read.partitions
    assert first.end > 25_000
    ranks = [row["rank"] for row in batch_read.rows()]
    assert ranks == [*range(1, 11), *range(19_991, 40_001)]
    assert (first.start, second.end) == (1, 40_001)


def test_long_queues_get_more_tasks(store: SparkTestStore) -> None:
    store.post(*range(45_000), queue="long")
    store.post(*range(12_000), queue="short")
    batch_read = BatchRead(store.source(subscribe="long,short", minPartitions=4))
    queues = [each.queue for each in batch_read.partitions]
    assert (queues.count("long"), queues.count("short")) == (4, 1)
    _check_complete(batch_read, {"long": 45_000, "short": 12_000})


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_record_batches_have_the_fetch_size(store: SparkTestStore, size: int) -> None:
    store.post(*range(20))
    batch_read = BatchRead(store.source(subscribe="q", fetchSize=size))
    batches = batch_read.table().to_batches()
    assert {each.num_rows for each in batches[:-1]} <= {size}
    assert values(batch_read.rows()) == list(range(20))


@pytest.mark.parametrize("gone", [(1, 2), (9, 10), (4, 5, 6), (1, 3, 5, 7, 9), tuple(range(2, 10))])
def test_deleted_messages_give_no_rows(store: SparkTestStore, gone: tuple[int, ...]) -> None:
    store.post(*range(1, 11))
    store.remove(*gone)
    left = [each for each in range(1, 11) if each not in gone]
    assert read(store, fetchSize=2) == left
    assert read(store, startingOffsets='{"q": 3}', fetchSize=3) == [
        each for each in left if each >= 3
    ]


def test_expired_messages_are_read_only_on_request(store: SparkTestStore) -> None:
    store.post("old", ttl=60, ago=100)
    store.post("new")
    assert read(store) == ["new"]
    assert read(store, includeExpired=True) == ["old", "new"]


def test_claimed_messages_are_read_unless_excluded(store: SparkTestStore) -> None:
    store.post("held", "free")
    store.claim(1)
    assert read(store) == ["held", "free"]
    assert read(store, includeClaimed=False) == ["free"]


def test_delayed_messages_are_read_unless_excluded(store: SparkTestStore) -> None:
    store.post("late", delay=300)
    store.post("now", delay=0)
    assert read(store) == ["late", "now"]
    assert read(store, includeDelayed=False) == ["now"]
    store.claim(1)
    assert read(store, includeDelayed=False, includeClaimed=False) == []


def test_purged_queue_continues_its_ranks(store: SparkTestStore) -> None:
    store.post(1, 2)
    store.queues.purge(store.project, "q").run()
    store.post(3)
    assert [row["rank"] for row in batch(store.source(subscribe="q"))] == [3]


def test_queue_recreated_after_planning_is_data_loss(store: SparkTestStore) -> None:
    store.post(1, 2)
    batch_read, tolerant = (
        BatchRead(store.source(subscribe="q", failOnDataLoss=fail)) for fail in (True, False)
    )
    store.delete()
    for planned in (batch_read, tolerant):
        planned.partitions = planned.partitions[:]
    with pytest.raises(DataLoss, match='the queue "q" was deleted: '):
        batch_read.table()
    store.post(3)
    with pytest.raises(DataLoss, match='the queue "q" was deleted and created again: '):
        batch_read.table()
    assert tolerant.rows() == []


def test_columns_option_projects(store: SparkTestStore) -> None:
    store.post("hello")
    data_source = store.source(subscribe="q", columns="rank, body")
    assert columns(data_source).names == ["rank", "body"]
    assert batch(data_source) == [{"rank": 1, "body": b'"hello"'}]


def test_schema_projects(store: SparkTestStore) -> None:
    store.post("hello")
    schema = StructType([StructField("queue", StringType()), StructField("rank", LongType())])
    batch_read = BatchRead(store.source(subscribe="q"), schema)
    assert batch_read.rows() == [{"queue": "q", "rank": 1}]


def test_invalid_schema_is_refused_at_once(store: SparkTestStore) -> None:
    store.create()
    schema = StructType([StructField("rank", IntegerType())])
    with pytest.raises(BadConfiguration, match='column "rank" is of type bigint, not int'):
        BatchRead(store.source(subscribe="q"), schema)


def _pushed(store: SparkTestStore, *filters: Filter) -> BatchRead:
    data_source = store.source(subscribePattern="[ab]", pushdown=True, columns="queue,rank,body")
    return BatchRead(data_source, filters=filters)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (EqualTo(("queue",), "a"), "a1 a2 a3"),
        (EqualTo(("queue",), "c"), ""),
        (In(("queue",), ("b", "c")), "b1 b2 b3"),
        (EqualTo(("rank",), 2), "a2 b2"),
        (GreaterThan(("rank",), 2), "a3 b3"),
        (GreaterThanOrEqual(("rank",), 2), "a2 a3 b2 b3"),
        (LessThan(("rank",), 2), "a1 b1"),
        (LessThanOrEqual(("rank",), 2), "a1 a2 b1 b2"),
        (LessThan(("rank",), -5), ""),
        (GreaterThan(("rank",), 2**62), ""),
    ],
)
def test_queue_and_rank_filters_limit_the_fetched_messages(
    store: SparkTestStore, given: Filter, expected: str
) -> None:
    for queue in "ab":
        store.post(*[f"{queue}{number}" for number in (1, 2, 3)], queue=queue)
    batch_read = _pushed(store, given)
    assert batch_read.remaining_filters == []
    assert sorted(values(batch_read.rows())) == expected.split()


def test_pushed_filters_are_combined(store: SparkTestStore) -> None:
    for queue in "ab":
        store.post(*[f"{queue}{number}" for number in range(1, 8)], queue=queue)
    filters = (
        In(("queue",), ("b", "c")),
        GreaterThan(("rank",), 2),
        LessThanOrEqual(("rank",), 5),
        GreaterThanOrEqual(("rank",), 1),
        In(("queue",), ("a", "b")),
    )
    batch_read = _pushed(store, *filters)
    assert values(batch_read.rows()) == ["b3", "b4", "b5"]
    assert all(isinstance(each, RangePartition) for each in batch_read.partitions)
    assert _pushed(store, EqualTo(("queue",), "a"), EqualTo(("queue",), "b")).rows() == []


def test_other_filters_are_left_to_spark(store: SparkTestStore) -> None:
    store.post("a1", "a2", queue="a")
    others: list[Filter] = [
        StringContains(("queue",), "a"),
        EqualTo(("project",), "x"),
        GreaterThan(("ttl",), 5),
        EqualTo(("queue", "x"), "a"),
    ]
    batch_read = _pushed(store, *others, EqualTo(("rank",), 2))
    assert batch_read.remaining_filters == others
    assert values(batch_read.rows()) == ["a2"]


def test_reader_accepts_filters_only_with_pushdown(store: SparkTestStore) -> None:
    store.create()
    data_source = store.source(subscribe="q")
    # Spark refuses such a reader while its own option is off.
    taking = type(data_source.reader(columns(data_source))).pushFilters
    assert taking is DataSourceReader.pushFilters
