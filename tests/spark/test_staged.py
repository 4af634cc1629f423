# SPDX-License-Identifier: Apache-2.0
"""Staged rows are committed once and in order, wherever the driver crashes."""

from __future__ import annotations

import contextlib

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from tests.spark.writing import (
    BatchWrite,
    CrashingClients,
    StreamWrite,
    TaskFailed,
    WriterDied,
    failing,
    numbered,
    rows,
    schema_of,
    write_all,
)
from tests.support.spark_reads import SparkTestStore, batch, values
from zaqar_redis.spark.writing.publishing import StagedChunksLost

BODY = StructType([StructField("body", BinaryType())])
STAGED = {"queue": "q", "delivery": "staged", "putSize": 10}


def test_staged_rows_are_invisible_before_commit(store: SparkTestStore) -> None:
    store.create()
    write = BatchWrite(store.source(**STAGED), BODY)
    write.task(1, [numbered(30, 60)])
    write.task(0, [numbered(0, 30)])
    assert store.bodies() == []
    write.commit()
    # In the order of tasks, not of their completion.
    assert store.bodies() == list(range(60))
    assert store.command("EXISTS", store.key("stages")) == 0


def test_rows_of_failed_attempts_are_never_visible(store: SparkTestStore) -> None:
    write = BatchWrite(store.source(**STAGED), BODY)
    with pytest.raises(TaskFailed):
        write.task(0, failing([numbered(900, 937)]))
    write.task(0, [numbered(0, 20)], attempt=1)
    write.commit()
    assert store.bodies() == list(range(20))
    assert store.command("EXISTS", store.key("stages")) == 0


def test_retried_task_may_stage_other_rows(store: SparkTestStore) -> None:
    data_source = store.source(**STAGED)
    write_all(StreamWrite(data_source, BODY, 0), [numbered(0, 20)])
    write_all(StreamWrite(data_source, BODY, 0), [numbered(5, 77)])
    write_all(StreamWrite(data_source, BODY, 1), [numbered(20, 30)])
    assert store.bodies() == list(range(30))


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_commit_survives_a_driver_crash_at_any_call(
    store: SparkTestStore, crashing_clients: CrashingClients, behind: bool
) -> None:
    calls = 0
    while True:
        queue = f"q{calls}"
        data_source = store.source(**STAGED | {"queue": queue})
        first = StreamWrite(data_source, BODY, 0)
        first.task(0, [numbered(0, 25)])
        first.task(1, [numbered(25, 40)])
        crashing_clients.left, crashing_clients.behind = calls, behind
        try:
            first.commit()
        except WriterDied:
            died = True
        else:
            died = False
        crashing_clients.left = -1
        # Repeats the write with other attempts of the same tasks.
        write_all(StreamWrite(data_source, BODY, 0), [numbered(0, 25)], [numbered(25, 40)])
        assert store.bodies(queue) == list(range(40))
        assert store.last_rank(queue) == 40
        write_all(StreamWrite(data_source, BODY, 1), [numbered(40, 41)])
        assert store.bodies(queue) == list(range(41))
        assert store.command("EXISTS", store.key("stages", queue)) == 0
        if not died:
            break
        calls += 1
    # At least the begin, five chunks, and the end.
    assert calls > 7


def test_commit_of_several_queues_is_completed_after_a_crash(
    store: SparkTestStore, crashing_clients: CrashingClients
) -> None:
    given = rows(*map(str, range(60)), queue=["a", "b", "c"] * 20)
    data_source = store.source(delivery="staged", putSize=7)
    for calls in range(0, 60, 5):
        first = StreamWrite(data_source, schema_of(given), calls)
        first.task(0, [given])
        crashing_clients.left = calls
        with contextlib.suppress(WriterDied):
            first.commit()
        crashing_clients.left = -1
        write_all(StreamWrite(data_source, schema_of(given), calls), [given])
    for number, queue in enumerate("abc"):
        assert store.bodies(queue) == list(range(number, 60, 3)) * 12


def test_commit_with_lost_staged_chunks_fails(store: SparkTestStore) -> None:
    store.create()
    write = BatchWrite(store.source(**STAGED), BODY)
    write.task(0, [numbered(0, 25)])
    store.command("DEL", store.key("stages"))
    with pytest.raises(StagedChunksLost, match='3 chunks staged for the queue "q" are gone'):
        write.commit()
    assert store.bodies() == []


def test_staged_chunks_are_deleted_with_their_queue(store: SparkTestStore) -> None:
    store.post("old")
    write = BatchWrite(store.source(**STAGED), BODY)
    write.task(0, [numbered(0, 25)])
    store.delete()
    with pytest.raises(StagedChunksLost, match="deleted meanwhile"):
        write.commit()


def test_batch_without_rows_writes_nothing(store: SparkTestStore) -> None:
    write_all(StreamWrite(store.source(**STAGED), BODY), [], [])
    write_all(BatchWrite(store.source(**STAGED), BODY), [])
    assert store.command("EXISTS", store.key("queue")) == 0


def test_staged_messages_are_posted_at_commit_time(store: SparkTestStore) -> None:
    write = BatchWrite(store.source(**STAGED), BODY)
    write.task(0, [numbered(0, 2)])
    store.post("between")
    write.commit()
    found = batch(store.source(subscribe="q"))
    assert values(found) == ["between", 0, 1]
    times = [row["created"] for row in found]
    assert times == sorted(times)
