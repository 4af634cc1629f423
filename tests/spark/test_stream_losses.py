# SPDX-License-Identifier: Apache-2.0
"""Streams report the loss of unread messages, and continue if failOnDataLoss is false."""

from __future__ import annotations

import pytest

from tests.spark.conftest import Start
from tests.support.spark_reads import SimulatedQuery, SparkTestStore, values
from zaqar_redis.keyspace import keys
from zaqar_redis.spark.reading.data_loss import DataLoss

HINT = 'set the option "failOnDataLoss" to false to continue without them'
OPTIONS = {"startingOffsets": "earliest", "maxWait": "0s"}


@pytest.fixture(params=[False, True], ids=["same process", "restarted"])
def restarted(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


class QueueDump:
    """A snapshot of all keys of a queue."""

    def __init__(self, store: SparkTestStore, queue: str = "q") -> None:
        self._store = store
        known = keys.of_queue(store.project, queue)
        names = [
            getattr(known, slot)
            for slot in keys.QueueKeys.__slots__
            if slot not in ("feed", "live")
        ]
        self._dumps = {name: store.command("DUMP", name) for name in names}

    def restore(self) -> None:
        for name, dump in self._dumps.items():
            self._store.command("DEL", name)
            if dump is not None:
                self._store.command("RESTORE", name, 0, dump)


@pytest.fixture
def queries(store: SparkTestStore, start: Start) -> tuple[SimulatedQuery, SimulatedQuery]:
    """Two streams that have read 1, 2 and 3; the second one tolerates data loss."""
    store.post(1, 2, 3)
    pair = start(**OPTIONS), start(failOnDataLoss=False, **OPTIONS)
    for query in pair:
        assert values(query.drain()) == [1, 2, 3]
    return pair


def fails(query: SimulatedQuery, restarted: bool) -> str:
    """Returns the error of latestOffset; it logs nothing and fails again."""
    before = list(query.offsets)
    if restarted:
        query.restart()
    texts = set()
    for _ in range(2):
        with pytest.raises(DataLoss) as caught:
            query.plan()
        texts.add(str(caught.value))
    assert query.offsets == before
    (text,) = texts
    assert text.endswith(HINT)
    return text


def goes_on(query: SimulatedQuery, restarted: bool) -> list[object]:
    if restarted:
        query.restart()
    return values(query.drain())


def test_deleted_queue_is_data_loss(
    store: SparkTestStore, queries: tuple[SimulatedQuery, SimulatedQuery], restarted: bool
) -> None:
    epoch = store.watermarks().epoch
    store.delete()
    text = fails(queries[0], restarted)
    assert f'the queue "q" was deleted: its epoch was {epoch}; what was behind rank 4' in text
    assert goes_on(queries[1], restarted) == []
    store.post(4)
    assert goes_on(queries[1], restarted) == [4]


def test_recreated_queue_is_data_loss(
    store: SparkTestStore, queries: tuple[SimulatedQuery, SimulatedQuery], restarted: bool
) -> None:
    old = store.watermarks().epoch
    store.delete()
    store.post(*range(10, 15))
    text = fails(queries[0], restarted)
    assert f"its epoch was {old} and is {store.watermarks().epoch}; what was behind rank 4" in text
    assert goes_on(queries[1], restarted) == list(range(10, 15))
    store.post(15)
    assert goes_on(queries[1], restarted) == [15]


def test_batch_of_recreated_queue_is_repeated(
    store: SparkTestStore, queries: tuple[SimulatedQuery, SimulatedQuery]
) -> None:
    _, query = queries
    store.delete()
    store.post(*range(10, 15))
    assert query.plan()
    query.restart()
    assert values(query.read()) == list(range(10, 15))


def test_lost_writes_are_data_loss(
    store: SparkTestStore, queries: tuple[SimulatedQuery, SimulatedQuery], restarted: bool
) -> None:
    copy = QueueDump(store)
    store.post(4, 5)
    for query in queries:
        assert goes_on(query, False) == [4, 5]
    copy.restore()
    text = fails(queries[0], restarted)
    assert 'the queue "q" has lost messages' in text
    assert f"up to rank 6 and ends at 4, in the same epoch {store.watermarks().epoch}" in text
    assert goes_on(queries[1], restarted) == []
    store.post("4b", "5b", "6b")
    assert goes_on(queries[1], restarted) == ["4b", "5b", "6b"]


def test_queue_recreated_during_a_batch_is_data_loss(
    store: SparkTestStore, queries: tuple[SimulatedQuery, SimulatedQuery], restarted: bool
) -> None:
    store.post(4)
    strict, tolerant = queries
    for query in queries:
        assert query.plan()
    store.delete()
    store.post(5)
    for query in queries:
        if restarted:
            query.restart()
    with pytest.raises(DataLoss, match="deleted and created again"):
        strict.read()
    assert tolerant.read() == []
    tolerant.finish()
    assert values(tolerant.drain()) == [5]


def test_purged_messages_are_not_data_loss(
    store: SparkTestStore, queries: tuple[SimulatedQuery, SimulatedQuery], restarted: bool
) -> None:
    store.post(4, 5)
    store.queues.purge(store.project, "q").run()
    store.post(6)
    for query in queries:
        assert goes_on(query, restarted) == [6]


def test_expired_messages_are_not_data_loss(
    store: SparkTestStore, queries: tuple[SimulatedQuery, SimulatedQuery], restarted: bool
) -> None:
    store.post(4, ttl=60, ago=100)
    store.post(5)
    store.queues.sweep(store.project, "q").run()
    for query in queries:
        assert goes_on(query, restarted) == [5]


def test_consumed_messages_are_not_data_loss(
    store: SparkTestStore, queries: tuple[SimulatedQuery, SimulatedQuery], restarted: bool
) -> None:
    store.post(4, 5)
    store.messages.pop(store.project, "q", 4).run()
    for query in queries:
        assert goes_on(query, restarted) == [5]


def test_queue_recreated_before_the_first_batch_is_data_loss(
    store: SparkTestStore, start: Start
) -> None:
    store.post(1)
    query = start(**OPTIONS)
    begin = query.reader.initialOffset()
    store.delete()
    store.post(2)
    with pytest.raises(DataLoss, match="deleted and created again"):
        query.reader.latestOffset(begin, query.reader.getDefaultReadLimit())
