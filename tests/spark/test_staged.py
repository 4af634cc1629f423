# SPDX-License-Identifier: Apache-2.0
"""What tasks put aside is published once, in order, wherever the driver dies."""

from __future__ import annotations

import contextlib

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from tests.spark.support import Store, batch, values
from tests.spark.writing import (
    Broken,
    Context,
    Died,
    Dying,
    StreamWrite,
    Write,
    breaking,
    numbered,
    rows,
    schema_of,
    whole,
)
from zaqar_redis.spark.publishing import StageLost

BODY = StructType([StructField("body", BinaryType())])
STAGED = {"queue": "q", "delivery": "staged", "putSize": 10}


def test_nothing_is_seen_before_all_tasks_are_done(store: Store, context: Context) -> None:
    store.create()
    write = Write(store.source(**STAGED), context, BODY)
    write.task(1, [numbered(30, 60)])
    write.task(0, [numbered(0, 30)])
    assert store.bodies() == []
    write.commit()
    # In the order of tasks, whichever was done first.
    assert store.bodies() == list(range(60))
    assert store.command("EXISTS", store.key("stages")) == 0


def test_what_tries_that_lost_put_aside_is_never_seen(store: Store, context: Context) -> None:
    write = Write(store.source(**STAGED), context, BODY)
    with pytest.raises(Broken):
        write.task(0, breaking([numbered(900, 937)]))
    write.task(0, [numbered(0, 20)], attempt=1)
    write.commit()
    assert store.bodies() == list(range(20))
    assert store.command("EXISTS", store.key("stages")) == 0


def test_rows_may_differ_from_try_to_try(store: Store, context: Context) -> None:
    made = store.source(**STAGED)
    whole(StreamWrite(made, context, BODY, 0), [numbered(0, 20)])
    whole(StreamWrite(made, context, BODY, 0), [numbered(5, 77)])
    whole(StreamWrite(made, context, BODY, 1), [numbered(20, 30)])
    assert store.bodies() == list(range(30))


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_the_driver_dies_at_any_call_of_a_commit(
    store: Store, context: Context, dying: Dying, behind: bool
) -> None:
    calls = 0
    while True:
        queue = f"q{calls}"
        made = store.source(**STAGED | {"queue": queue})
        first = StreamWrite(made, context, BODY, 0)
        first.task(0, [numbered(0, 25)])
        first.task(1, [numbered(25, 40)])
        dying.left, dying.behind = calls, behind
        try:
            first.commit()
        except Died:
            died = True
        else:
            died = False
        dying.left = -1
        # All over again, with other tries of the same tasks.
        whole(StreamWrite(made, context, BODY, 0), [numbered(0, 25)], [numbered(25, 40)])
        assert store.bodies(queue) == list(range(40))
        assert store.last_rank(queue) == 40
        whole(StreamWrite(made, context, BODY, 1), [numbered(40, 41)])
        assert store.bodies(queue) == list(range(41))
        assert store.command("EXISTS", store.key("stages", queue)) == 0
        if not died:
            break
        calls += 1
    # To begin, five chunks, and the end, at the least.
    assert calls > 7


def test_a_commit_of_several_queues_is_finished(
    store: Store, context: Context, dying: Dying
) -> None:
    given = rows(*map(str, range(60)), queue=["a", "b", "c"] * 20)
    made = store.source(delivery="staged", putSize=7)
    for calls in range(0, 60, 5):
        first = StreamWrite(made, context, schema_of(given), calls)
        first.task(0, [given])
        dying.left = calls
        with contextlib.suppress(Died):
            first.commit()
        dying.left = -1
        whole(StreamWrite(made, context, schema_of(given), calls), [given])
    for number, queue in enumerate("abc"):
        assert store.bodies(queue) == list(range(number, 60, 3)) * 12


def test_stages_that_are_lost_are_told(store: Store, context: Context) -> None:
    store.create()
    write = Write(store.source(**STAGED), context, BODY)
    write.task(0, [numbered(0, 25)])
    store.command("DEL", store.key("stages"))
    with pytest.raises(StageLost, match='put aside for the queue "q", 3 chunks are gone'):
        write.commit()
    assert store.bodies() == []


def test_stages_go_with_a_deleted_queue(store: Store, context: Context) -> None:
    store.post("old")
    write = Write(store.source(**STAGED), context, BODY)
    write.task(0, [numbered(0, 25)])
    store.delete()
    with pytest.raises(StageLost, match="deleted meanwhile"):
        write.commit()


def test_a_batch_without_rows_is_nothing(store: Store, context: Context) -> None:
    whole(StreamWrite(store.source(**STAGED), context, BODY), [], [])
    whole(Write(store.source(**STAGED), context, BODY), [])
    assert store.command("EXISTS", store.key("queue")) == 0


def test_what_is_published_is_posted_then(store: Store, context: Context) -> None:
    write = Write(store.source(**STAGED), context, BODY)
    write.task(0, [numbered(0, 2)])
    store.post("between")
    write.commit()
    found = batch(store.source(subscribe="q"))
    assert values(found) == ["between", 0, 1]
    times = [row["created"] for row in found]
    assert times == sorted(times)
