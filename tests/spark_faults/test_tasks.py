# SPDX-License-Identifier: Apache-2.0
"""Tasks die in mid-batch, and messages expire under them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable

import pytest

from tests import servers
from tests.spark.support import Store
from tests.spark_faults.conftest import MakeQuery
from tests.spark_faults.drivers import Driver, End, Query
from zaqar_redis.keyspace import envelope

#: Spark takes its time, and machines are shared.
pytestmark = pytest.mark.timeout(400)

#: Two tasks; a task for fewer than 10 000 would be one.
_MANY = 20_000
_ONE_TASK = 6_000
#: Messages in a trip: so few that a task takes some seconds.
_SLOW = 5


def _is_written(store: Store, delivery: str) -> int:
    """Trips that a batch has made into the queue."""
    if delivery == "staged":
        return int(store.command("HLEN", store.key("stages", "copy")))
    return store.last_rank("copy") // _SLOW


def _stopped_in_the_middle(
    shared: Driver, store: Store, query: Query, total: int
) -> Callable[[], End]:
    """Start the query, and let its tasks stand still when some of a batch is written."""
    delivery = query.write["delivery"]
    ended = shared.waiting(query.name)
    shared.start(query)
    trips = total // _SLOW
    servers.wait_for(lambda: _is_written(store, delivery) > trips // 20, "a batch to begin", 90)
    shared.signal_workers(signal.SIGSTOP)
    assert 0 < _is_written(store, delivery) < trips
    return ended


def _all_once(store: Store, expected: Iterable[int], queue: str = "copy") -> None:
    """Every one is there, and none was ever there twice."""
    found = sorted(store.bodies(queue))
    assert found == sorted(expected)
    assert store.last_rank(queue) == len(found)


@pytest.mark.parametrize(
    ("consume", "delivery"), [("browse", "ledger"), ("browse", "staged"), ("claim", "ledger")]
)
def test_tasks_that_are_killed_in_mid_batch_are_done_again(
    shared: Driver, store: Store, make_query: MakeQuery, consume: str, delivery: str
) -> None:
    store.post(*range(_MANY))
    read: dict[str, object] = {"consume": consume}
    if consume == "claim":
        read["group"] = "g"
    query = make_query(store.uri, read=read, write={"delivery": delivery, "putSize": _SLOW})
    ended = _stopped_in_the_middle(shared, store, query, _MANY)
    shared.signal_workers(signal.SIGKILL)
    end = ended()
    assert end.error is None
    assert end.failures > 0
    _all_once(store, range(_MANY))
    if consume == "claim":
        assert store.bodies() == []
        assert store.leases() == {}


def _expire(store: Store, first: int, end: int) -> None:
    """Let the time of these ranks be over, as if they had been posted long ago."""
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


@pytest.mark.parametrize("expired", [100, 5900])
def test_a_ledger_refuses_a_batch_of_which_messages_have_expired(
    shared: Driver, store: Store, make_query: MakeQuery, expired: int
) -> None:
    store.post(*range(_ONE_TASK))
    query = make_query(store.uri, write={"delivery": "ledger", "putSize": _SLOW})
    ended = _stopped_in_the_middle(shared, store, query, _ONE_TASK)
    _expire(store, 1, 1 + expired)
    shared.signal_workers(signal.SIGKILL)
    end = ended()
    assert end.error is not None
    assert 'rows for the queue "copy" come again, and are others than' in end.error
    assert "delivery=staged" in end.error
    # What was written stays, and nothing came in after it.
    _all_once(store, range(store.last_rank("copy")))
    assert store.last_rank("copy") < _ONE_TASK


def test_staged_takes_a_batch_of_which_messages_have_expired(
    shared: Driver, store: Store, make_query: MakeQuery
) -> None:
    store.post(*range(_ONE_TASK))
    query = make_query(store.uri, write={"delivery": "staged", "putSize": _SLOW})
    ended = _stopped_in_the_middle(shared, store, query, _ONE_TASK)
    _expire(store, 1, 101)
    shared.signal_workers(signal.SIGKILL)
    end = ended()
    assert end.error is None
    assert end.failures > 0
    _all_once(store, range(100, _ONE_TASK))


def test_messages_that_expire_while_they_are_read_are_no_error(
    shared: Driver, store: Store, make_query: MakeQuery
) -> None:
    store.post(*range(_ONE_TASK))
    query = make_query(
        store.uri,
        read={"fetchSize": 50},
        write={"delivery": "ledger", "putSize": _SLOW},
    )
    ended = _stopped_in_the_middle(shared, store, query, _ONE_TASK)
    _expire(store, 1, 101)
    _expire(store, 5001, 5901)
    shared.signal_workers(signal.SIGCONT)
    end = ended()
    assert end.error is None
    assert end.failures == 0
    found = store.bodies("copy")
    # Those that were read before their time was over are there.
    assert {*range(5000), *range(5900, _ONE_TASK)} <= set(found)
    _all_once(store, set(found))
