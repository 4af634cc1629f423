# SPDX-License-Identifier: Apache-2.0
"""Streams return every message once, whatever Spark calls, how often, in any process."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from tests.spark.conftest import Start
from tests.support.spark_reads import SimulatedQuery, SparkTestStore, batch, columns, values
from zaqar_redis.errors import BadConfiguration
from zaqar_redis.spark import offsets
from zaqar_redis.spark.reading.data_loss import DataLoss

EARLIEST = {"startingOffsets": "earliest"}


def key(store: SparkTestStore, queue: str = "q") -> str:
    return offsets.key(store.project, queue)


def counts(query: SimulatedQuery) -> dict[str, int]:
    """Runs the next batch; returns row counts by queue."""
    found: dict[str, int] = {}
    for row in query.trigger() or []:
        found[row["queue"]] = found.get(row["queue"], 0) + 1
    return found


def test_restarted_stream_continues_at_its_offset(store: SparkTestStore, start: Start) -> None:
    store.post(1, 2)
    query = start(**EARLIEST)
    assert values(query.trigger() or []) == [1, 2]
    store.post(3)
    assert values(query.trigger() or []) == [3]
    assert query.trigger() is None
    query.restart()
    assert query.trigger() is None
    store.post(4, 5)
    assert values(query.trigger() or []) == [4, 5]


def test_stream_starts_with_new_messages_by_default(store: SparkTestStore, start: Start) -> None:
    store.post("old")
    query = start()
    # The start is in the log, so that nothing is lost if it dies now.
    assert query.trigger() == []
    store.post("new")
    assert values(query.trigger() or []) == ["new"]


def test_first_offset_contains_the_starting_position(store: SparkTestStore, start: Start) -> None:
    store.post(1, 2)
    query = start(**EARLIEST)
    query.plan()
    epoch = store.watermarks().epoch
    assert query.end == {key(store): {"epoch": epoch, "from": 1, "offset": 3, "parts": 1}}
    query.read()
    query.finish()
    store.post(3)
    query.plan()
    assert query.end == {key(store): {"epoch": epoch, "offset": 4, "parts": 1}}


def test_initial_offset_may_advance_between_two_calls(store: SparkTestStore, start: Start) -> None:
    store.post("old")
    query = start(maxOffsetsPerTrigger=2)
    query.plan()
    # Spark calls it again to plan the batch, and it has advanced by now.
    store.post("new")
    assert query.begin(0)[key(store)]["offset"] == 3
    assert query.read() == []
    query.finish()
    assert values(query.trigger() or []) == ["new"]


def test_first_batch_from_latest_is_repeated(store: SparkTestStore, start: Start) -> None:
    store.post("old")
    query = start()
    begin = query.reader.initialOffset()
    store.post(1, 2, 3)
    end = query.reader.latestOffset(begin, ReadAllAvailable())
    query.offsets.append(json.dumps(end))
    assert values(query.read()) == [1, 2, 3]
    # Its process dies and more is posted: initialOffset is then beyond the batch's end.
    store.post(4)
    query.restart()
    assert query.begin(0)[key(store)]["offset"] == 6
    assert values(query.read()) == [1, 2, 3]
    query.finish()
    assert values(query.trigger() or []) == [4]


def test_unfinished_batch_is_repeated_from_the_log_alone(
    store: SparkTestStore, start: Start
) -> None:
    store.post(*range(5))
    query = start(**EARLIEST, maxOffsetsPerTrigger=2)
    query.trigger()
    query.plan()
    store.post(*range(5, 9))
    query.restart()
    # latestOffset was not called.
    assert values(query.read()) == [2, 3]
    query.finish()
    assert values(query.drain()) == [4, 5, 6, 7, 8]


def test_offset_text_is_stable_while_idle(store: SparkTestStore, start: Start) -> None:
    for queue in ("zz", "a", "m"):
        store.post(1, queue=queue)
    query = start(subscribe="m,zz,a", maxWait="0s", **EARLIEST)
    query.trigger()
    assert list(query.end) == sorted(query.end)
    assert {query.latest() for _ in range(3)} == {query.offsets[-1]}
    query.restart(store.source(subscribe="a,zz,m", maxWait="0s", **EARLIEST))
    assert query.latest() == query.offsets[-1]


def test_project_with_special_characters_is_read(store: SparkTestStore) -> None:
    odd = SparkTestStore(store.uri, f"{store.project}/ünïcode {{x}}")
    odd.post(1, queue="a.b")
    query = SimulatedQuery(odd.source(subscribe="a.b", **EARLIEST))
    assert values(query.trigger() or []) == [1]
    assert query.trigger() is None
    query.stop()
    odd.close()


@pytest.mark.parametrize(
    ("position", "expected"),
    [("2", [2, 3]), ("-2", [1, 2, 3]), ("-1", []), ('{"offset": 3}', [3]), ("4", [])],
)
def test_stream_starts_at_given_offsets(
    store: SparkTestStore, start: Start, position: str, expected: list[int]
) -> None:
    store.post(1, 2, 3)
    query = start(startingOffsets=f'{{"q": {position}}}')
    assert values(query.drain()) == expected


def test_stream_starts_at_a_timestamp(store: SparkTestStore, start: Start) -> None:
    store.post("old", ago=100)
    store.post("new")
    (created,) = (row["created"] for row in start(**EARLIEST).drain()[1:])
    query = start(startingTimestamp=round(created.timestamp() * 1000) - 50_000)
    assert values(query.drain()) == ["new"]


def test_stream_starts_at_a_timestamp_of_each_queue(store: SparkTestStore, start: Start) -> None:
    for queue in "abc":
        store.post(f"{queue} old", ago=100, queue=queue)
        store.post(f"{queue} new", queue=queue)
    (created,) = (row["created"] for row in start(subscribe="a", **EARLIEST).drain()[1:])
    middle = round(created.timestamp() * 1000) - 50_000
    at = json.dumps({"a": middle, "b": 0})
    query = start(subscribe="a,b,c", startingOffsetsByTimestamp=at, maxWait="0s")
    assert sorted(values(query.drain())) == ["a new", "b new", "b old"]  # latest, of the others
    rows = batch(store.source(subscribe="a,b,c", startingOffsetsByTimestamp=at))
    assert sorted(values(rows)) == ["a new", "b new", "b old", "c new", "c old"]
    with pytest.raises(BadConfiguration, match='"startingOffsetsByTimestamp": d is not among'):
        start(startingOffsetsByTimestamp='{"d": 1}').plan()


def test_checkpoint_precedes_starting_offsets(store: SparkTestStore, start: Start) -> None:
    store.post(1, 2)
    query = start(**EARLIEST)
    query.trigger()
    store.post(3)
    query.restart(store.source(subscribe="q", startingOffsets='{"q": 2}'))
    assert values(query.drain()) == [3]


def test_missing_subscribed_queue_is_an_error_at_start(start: Start) -> None:
    query = start(subscribe="nowhere")
    with pytest.raises(BadConfiguration, match='option "subscribe": there is no queue "nowhere"'):
        query.trigger()


def test_max_offsets_limits_a_batch(store: SparkTestStore, start: Start) -> None:
    store.post(*range(10))
    query = start(maxOffsetsPerTrigger=4, **EARLIEST)
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(4)
    assert [len(query.trigger() or []) for _ in range(4)] == [4, 4, 2, 0]


def test_limit_is_shared_in_proportion_to_lag(store: SparkTestStore, start: Start) -> None:
    store.post(*range(90), queue="long")
    store.post(*range(9), queue="short")
    store.post("x", queue="tiny")
    query = start(subscribe="long,short,tiny", maxOffsetsPerTrigger=20, **EARLIEST)
    assert counts(query) == {"long": 18, "short": 1, "tiny": 1}
    # A queue without lag takes no share.
    assert counts(query) == {"long": 18, "short": 2}


def test_every_lagging_queue_advances_under_a_small_limit(
    store: SparkTestStore, start: Start
) -> None:
    for queue in "abc":
        store.post(*range(3), queue=queue)
    query = start(subscribe="a,b,c", maxOffsetsPerTrigger=1, **EARLIEST)
    assert counts(query) == {"a": 1, "b": 1, "c": 1}
    assert len(query.drain()) == 6


def test_max_bytes_limits_a_batch(store: SparkTestStore, start: Start) -> None:
    store.post(*["x" * 940] * 10)
    query = start(maxBytesPerTrigger="3k", **EARLIEST)
    assert query.reader.getDefaultReadLimit() == ReadMaxBytes(3072)
    sizes = [len(rows) for _ in range(4) if (rows := query.trigger())]
    # About a thousand stored bytes each.
    assert sizes == [4, 4, 2]


def test_batch_has_a_message_despite_a_tiny_byte_limit(store: SparkTestStore, start: Start) -> None:
    store.post(1, 2)
    query = start(maxBytesPerTrigger=1, **EARLIEST)
    assert [len(query.trigger() or []) for _ in range(2)] == [1, 1]


def test_batch_waits_for_min_offsets(store: SparkTestStore, start: Start) -> None:
    query_options = EARLIEST | {"minOffsetsPerTrigger": 3, "maxTriggerDelay": "1h", "maxWait": "0s"}
    store.create()
    query = start(**query_options)
    assert query.trigger() == []
    store.post(1, 2)
    assert query.trigger() is None
    store.post(3)
    assert values(query.trigger() or []) == [1, 2, 3]


def test_batch_waits_at_most_max_wait(store: SparkTestStore, start: Start) -> None:
    store.create()
    query = start(minOffsetsPerTrigger=3, maxTriggerDelay="2s", maxWait="200ms", **EARLIEST)
    assert query.trigger() == []
    store.post(1)
    empty = 0
    while (rows := query.trigger()) is None:
        empty += 1
    assert values(rows) == [1]
    # Well before the slow poll of all queues, every five seconds.
    assert 1 <= empty <= 20


def test_available_now_ends_at_the_messages_of_its_start(
    store: SparkTestStore, start: Start
) -> None:
    store.post(*range(5))
    query = start(available_now=True, maxOffsetsPerTrigger=2, **EARLIEST)
    found = []
    while (rows := query.trigger()) is not None:
        found += values(rows)
        store.post("later")
    assert found == [0, 1, 2, 3, 4]
    query.restart()
    assert values(query.drain()) == ["later"] * 3


def test_available_now_ignores_min_offsets(store: SparkTestStore, start: Start) -> None:
    store.post(1)
    query = start(
        available_now=True,
        minOffsetsPerTrigger=100,
        maxWait="10s",
        maxTriggerDelay="1h",
        **EARLIEST,
    )
    assert values(query.drain()) == [1]


def test_new_queue_of_the_pattern_is_read_from_its_start(
    store: SparkTestStore, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zaqar_redis.spark.reading.selection._REDISCOVERY_SECONDS", 0.0)
    store.post("a1", queue="orders-a")
    query = start(subscribePattern="orders-.*", maxWait="0s", startingOffsets="latest")
    assert query.trigger() == []
    store.post("b1", "b2", queue="orders-b")
    store.post("no", queue="returns")
    # A new queue is read from its start, whatever startingOffsets says.
    assert values(query.trigger() or []) == ["b1", "b2"]
    assert query.end[key(store, "orders-b")]["from"] == 1
    query.restart()
    store.post("b3", queue="orders-b")
    assert values(query.drain()) == ["b3"]


def test_unfinished_batch_with_a_new_queue_is_repeated(
    store: SparkTestStore, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zaqar_redis.spark.reading.selection._REDISCOVERY_SECONDS", 0.0)
    store.post("a1", queue="a")
    query = start(subscribePattern="[ab]", maxWait="0s", **EARLIEST)
    query.trigger()
    store.post("b1", "b2", queue="b")
    query.plan()
    query.restart()
    assert values(query.read()) == ["b1", "b2"]


def test_pattern_may_match_no_queue_at_start(
    store: SparkTestStore, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zaqar_redis.spark.reading.selection._REDISCOVERY_SECONDS", 0.0)
    query = start(subscribePattern="later", maxWait="0s")
    assert query.trigger() == []
    store.post(1, queue="later")
    assert values(query.trigger() or []) == [1]


def test_progress_has_the_lag_behind_the_end_of_each_queue(
    store: SparkTestStore, start: Start
) -> None:
    store.post(*range(5))
    query = start(maxOffsetsPerTrigger=2, maxWait="0s", **EARLIEST)

    def reported() -> Any:
        (found,) = query.reader.reportLatestOffset().values()
        assert found.pop("epoch") == store.watermarks().epoch
        return found

    query.trigger()
    assert query.end[key(store)]["offset"] == 3
    assert reported() == {"offset": 6, "lag": 3, "gone": 0}
    store.remove(1, 2, 3, 4)  # of which two were read
    query.trigger()
    assert query.end[key(store)]["offset"] == 5
    assert reported() == {"offset": 6, "lag": 1, "gone": 0}
    store.remove(5)
    store.post(*range(7))
    query.restart()
    query.latest()
    assert reported() == {"offset": 13, "lag": 6, "gone": 0}


def test_progress_has_the_messages_that_are_gone_unread(
    store: SparkTestStore, start: Start
) -> None:
    store.post("read")
    query = start(maxWait="0s", maxOffsetsPerTrigger=1, **EARLIEST)
    query.trigger()
    store.post("expired", "expired", "expired", ttl=60, ago=100)
    store.post("new")
    store.queues.sweep(store.project, "q").run()
    store.remove(1)
    query.plan()
    (found,) = query.reader.reportLatestOffset().values()
    assert (found["lag"], found["gone"]) == (3, 2)


def test_repeated_batch_has_the_same_tasks(store: SparkTestStore, start: Start) -> None:
    store.post(*range(25_000))
    query = start(minPartitions=2, maxRecordsPerPartition=9_000, **EARLIEST)
    query.plan()
    ranges = [(each.start, each.end) for each in query.partitions()]
    assert ranges == [(1, 8334), (8334, 16667), (16667, 25001)]
    store.remove(1, 2, 3)
    # On another machine with other options: sinks identify tasks by number.
    query.restart(store.source(subscribe="q", minPartitions=7, **EARLIEST))
    assert [(each.start, each.end) for each in query.partitions()] == ranges


def test_offset_of_an_unsubscribed_queue_is_preserved(store: SparkTestStore, start: Start) -> None:
    for queue in "ab":
        store.post(f"{queue}1", queue=queue)
    query = start(subscribe="a,b", maxWait="0s", **EARLIEST)
    assert len(query.drain()) == 2
    for queue in "ab":
        store.post(f"{queue}2", queue=queue)
    query.restart(store.source(subscribe="a", maxWait="0s"))
    assert values(query.drain()) == ["a2"]
    store.delete("a")
    query.restart(store.source(subscribePattern="b|c", maxWait="0s"))
    assert values(query.drain()) == ["b2"]


def test_checkpoint_of_another_project_is_ignored(store: SparkTestStore, start: Start) -> None:
    store.post(1)
    query = start(maxWait="0s", **EARLIEST)
    query.drain()
    other = SparkTestStore(store.uri, f"{store.project}-other")
    other.post(2)
    query.restart(other.source(subscribe="q", maxWait="0s"))
    assert values(query.drain()) == [2]
    other.close()


@pytest.mark.parametrize(
    "position", ['{"offset": 9}', '{"epoch": "00112233aabbccdd", "offset": 1}']
)
def test_starting_offset_without_messages_is_an_error(
    store: SparkTestStore, start: Start, position: str
) -> None:
    store.post(1, 2)
    given = f'{{"q": {position}}}'
    with pytest.raises(DataLoss):
        start(startingOffsets=given).plan()
    expected = [] if "epoch" not in position else [1, 2]
    assert values(start(startingOffsets=given, failOnDataLoss=False).drain()) == expected


def test_expired_messages_are_read_only_on_request(store: SparkTestStore, start: Start) -> None:
    store.post("old", ttl=60, ago=100)
    store.post("new")
    assert values(start(**EARLIEST).drain()) == ["new"]
    assert values(start(includeExpired=True, **EARLIEST).drain()) == ["old", "new"]


@pytest.mark.parametrize("claiming", [{}, {"consume": "claim", "group": "g"}])
def test_two_batch_limits_are_an_error(store: SparkTestStore, claiming: dict[str, str]) -> None:
    data_source = store.source(
        subscribe="q", maxOffsetsPerTrigger=5, maxBytesPerTrigger="1k", **claiming
    )
    why = 'options "maxOffsetsPerTrigger" and "maxBytesPerTrigger" exclude each other'
    with pytest.raises(BadConfiguration, match=why):
        data_source.streamReader(columns(data_source))


def test_columns_option_projects_a_stream(store: SparkTestStore, start: Start) -> None:
    store.post(1)
    assert start(columns="rank,queue", **EARLIEST).drain() == [{"rank": 1, "queue": "q"}]
