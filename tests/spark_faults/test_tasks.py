# SPDX-License-Identifier: Apache-2.0
"""Tasks are killed in mid-batch, batches are repeated, and queues change meanwhile.

In one file, so that all of these share a driver: it takes ten seconds of CPU to start.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable

import pytest

from tests.spark_faults.conftest import MakeQuery
from tests.spark_faults.drivers import CopyQuery, QueryOutcome, SparkDriver
from tests.support import servers
from tests.support.spark_reads import SparkTestStore
from zaqar_redis.keyspace import envelope

#: Spark is slow to start, and machines are shared.
pytestmark = pytest.mark.timeout(400)

#: Gives two tasks: fewer than 10 000 messages each would give one.
_MANY = 20_000
_ONE_TASK = 6_000
#: Messages per request: so few that a task takes some seconds.
_SLOW = 5


def _written_chunks(store: SparkTestStore, delivery: str) -> int:
    """Returns the number of chunks that a batch has written."""
    if delivery == "staged":
        return int(store.command("HLEN", store.key("stages", "copy")))
    return store.last_rank("copy") // _SLOW


def _pause_in_mid_batch(
    shared_driver: SparkDriver, store: SparkTestStore, query: CopyQuery, total: int
) -> Callable[[], QueryOutcome]:
    """Starts the query, and pauses its tasks when a part of a batch is written."""
    delivery = query.write["delivery"]
    ended = shared_driver.expect_end(query.name)
    shared_driver.start(query)
    trips = total // _SLOW
    servers.wait_for(
        lambda: _written_chunks(store, delivery) > trips // 20, "a batch to begin", 240
    )
    # Its store stops at once: to find its tasks may take longer than all of the batch.
    for node in store.client.nodes():
        node.command("CLIENT", "PAUSE", 60_000, "WRITE")
    shared_driver.signal_workers(signal.SIGSTOP)
    for node in store.client.nodes():
        node.command("CLIENT", "UNPAUSE")
    assert 0 < _written_chunks(store, delivery) < trips
    return ended


def _check_each_once(store: SparkTestStore, expected: Iterable[int], queue: str = "copy") -> None:
    """Checks that the queue has each value, and never had duplicates."""
    found = sorted(store.bodies(queue))
    assert found == sorted(expected)
    assert store.last_rank(queue) == len(found)


@pytest.mark.parametrize(
    ("consume", "delivery"), [("browse", "ledger"), ("browse", "staged"), ("claim", "ledger")]
)
def test_tasks_killed_in_mid_batch_are_retried_without_duplicates(
    shared_driver: SparkDriver,
    store: SparkTestStore,
    make_query: MakeQuery,
    consume: str,
    delivery: str,
) -> None:
    store.post(*range(_MANY))
    read: dict[str, object] = {"consume": consume}
    if consume == "claim":
        read["group"] = "g"
    query = make_query(store.uri, read=read, write={"delivery": delivery, "putSize": _SLOW})
    ended = _pause_in_mid_batch(shared_driver, store, query, _MANY)
    shared_driver.signal_workers(signal.SIGKILL)
    end = ended()
    assert end.error is None
    assert end.failures > 0
    _check_each_once(store, range(_MANY))
    if consume == "claim":
        assert store.bodies() == []
        assert store.leases() == {}


def _expire(store: SparkTestStore, first: int, end: int) -> None:
    """Lets the messages of these ranks expire, as if posted long ago."""
    ranks = [b"%d" % rank for rank in range(first, end)]
    over = round(time.time() * 1000) - 1000
    found = store.command("HMGET", store.key("bodies"), *ranks)
    fields: list[bytes] = []
    scores: list[bytes] = []
    for rank, each in zip(ranks, found, strict=True):
        front = envelope.front(over - 60_000, over, 60, 0)
        fields += [rank, front + each[len(front) :]]
        scores += [b"%d" % over, rank]
    store.command("HSET", store.key("bodies"), *fields)
    store.command("ZADD", store.key("expiry"), *scores)
    store.command("HSET", store.key("queue"), "due", over)


@pytest.mark.parametrize("expired", [100, 5900])
def test_ledger_refuses_a_retried_batch_with_expired_messages(
    shared_driver: SparkDriver, store: SparkTestStore, make_query: MakeQuery, expired: int
) -> None:
    store.post(*range(_ONE_TASK))
    query = make_query(store.uri, write={"delivery": "ledger", "putSize": _SLOW})
    ended = _pause_in_mid_batch(shared_driver, store, query, _ONE_TASK)
    _expire(store, 1, 1 + expired)
    shared_driver.signal_workers(signal.SIGKILL)
    end = ended()
    assert end.error is not None
    assert 'rows for the queue "copy" differ from those of the first try' in end.error
    assert "delivery=staged" in end.error
    # The written part stays, and nothing was added.
    _check_each_once(store, range(store.last_rank("copy")))
    assert store.last_rank("copy") < _ONE_TASK


def test_staged_accepts_a_retried_batch_with_expired_messages(
    shared_driver: SparkDriver, store: SparkTestStore, make_query: MakeQuery
) -> None:
    store.post(*range(_ONE_TASK))
    query = make_query(store.uri, write={"delivery": "staged", "putSize": _SLOW})
    ended = _pause_in_mid_batch(shared_driver, store, query, _ONE_TASK)
    _expire(store, 1, 101)
    shared_driver.signal_workers(signal.SIGKILL)
    end = ended()
    assert end.error is None
    assert end.failures > 0
    _check_each_once(store, range(100, _ONE_TASK))


def test_messages_that_expire_while_read_are_not_an_error(
    shared_driver: SparkDriver, store: SparkTestStore, make_query: MakeQuery
) -> None:
    store.post(*range(_ONE_TASK))
    query = make_query(
        store.uri,
        read={"fetchSize": 50},
        write={"delivery": "ledger", "putSize": _SLOW},
    )
    ended = _pause_in_mid_batch(shared_driver, store, query, _ONE_TASK)
    _expire(store, 1, 101)
    _expire(store, 5001, 5901)
    shared_driver.signal_workers(signal.SIGCONT)
    end = ended()
    assert end.error is None
    assert end.failures == 0
    found = store.bodies("copy")
    # Messages that were read before they expired are copied.
    assert {*range(5000), *range(5900, _ONE_TASK)} <= set(found)
    _check_each_once(store, set(found))


@pytest.mark.parametrize("delivery", ["ledger", "staged"])
def test_repeated_finished_batch_writes_no_duplicates(
    shared_driver: SparkDriver, store: SparkTestStore, make_query: MakeQuery, delivery: str
) -> None:
    store.post(*range(2500))
    query = make_query(store.uri, read={"maxOffsetsPerTrigger": 1000}, write={"delivery": delivery})
    assert shared_driver.run(query).error is None
    assert query.forget_last() == 2
    store.post(*range(2500, 2600))
    assert shared_driver.run(query).error is None
    assert query.finished() == 4
    assert store.bodies("copy") == list(range(2600))
    assert store.last_rank("copy") == 2600


def test_repeated_first_batch_starts_at_the_same_offset(
    shared_driver: SparkDriver, store: SparkTestStore, make_query: MakeQuery
) -> None:
    store.post(*range(10))
    query = make_query(store.uri, read={"startingOffsets": "latest"})
    assert shared_driver.run(query).error is None
    # "latest" has advanced since.
    store.post(*range(10, 30))
    assert query.forget_last() == 0
    assert shared_driver.run(query).error is None
    store.post(30)
    assert shared_driver.run(query).error is None
    assert store.bodies("copy") == list(range(10, 31))
    assert store.last_rank("copy") == 21


def test_repeated_first_batch_with_consumed_messages_is_refused(
    shared_driver: SparkDriver, store: SparkTestStore, make_query: MakeQuery
) -> None:
    store.post(*range(2500))
    query = make_query(store.uri, read={"maxOffsetsPerTrigger": 5000})
    assert shared_driver.run(query).error is None
    assert query.forget_last() == 0
    store.post(*range(2500, 3000))
    # Others consume the oldest meanwhile: the queue starts at a later rank now, and the
    # batch is incomplete.
    store.remove(*range(1, 501))
    end = shared_driver.run(query)
    assert end.error is not None
    assert "delivery=staged" in end.error
    assert store.bodies("copy") == list(range(2500))
    assert store.last_rank("copy") == 2500


def _recreate(store: SparkTestStore) -> tuple[str, str]:
    """Deletes and recreates the queue; returns the old and the new epoch."""
    old = store.watermarks().epoch
    store.delete()
    store.post(*range(100, 150))
    return old, store.watermarks().epoch


def test_recreated_queue_is_reported_as_data_loss(
    shared_driver: SparkDriver, store: SparkTestStore, make_query: MakeQuery
) -> None:
    store.post(*range(100))
    query = make_query(store.uri)
    assert shared_driver.run(query).error is None
    old, new = _recreate(store)
    for _ in range(2):  # repeatedly: the new epoch is not in the checkpoint
        end = shared_driver.run(query)
        assert end.error is not None
        assert f'the queue "q" was deleted and created again: its epoch was {old} and is {new}' in (
            end.error
        )
        assert "failOnDataLoss" in end.error
    assert store.bodies("copy") == list(range(100))


def test_recreated_queue_is_read_from_its_start_without_fail_on_data_loss(
    shared_driver: SparkDriver, store: SparkTestStore, make_query: MakeQuery
) -> None:
    store.post(*range(100))
    query = make_query(store.uri, read={"failOnDataLoss": False})
    assert shared_driver.run(query).error is None
    _recreate(store)
    assert shared_driver.run(query).error is None
    store.post(150)
    assert shared_driver.run(query).error is None
    assert store.bodies("copy") == list(range(151))
    assert store.last_rank("copy") == 151


def test_messages_of_expired_claims_are_claimed_by_a_stream(
    shared_driver: SparkDriver, store: SparkTestStore, make_query: MakeQuery
) -> None:
    store.post(*range(100))
    # All of them: no other message triggers a claim.
    store.claim(100)
    store.expire_claims()
    query = make_query(store.uri, read={"consume": "claim", "group": "g"})
    assert shared_driver.run(query).error is None
    assert sorted(store.bodies("copy")) == list(range(100))
    assert store.bodies() == []
    assert store.leases() == {}
