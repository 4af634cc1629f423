# SPDX-License-Identifier: Apache-2.0
"""Stores are paused, die and come back, and queues move, while queries run."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from tests import servers
from tests.contract.stores import PooledStore, opened
from tests.spark.support import Store
from tests.spark_faults.conftest import MakeQuery
from tests.spark_faults.drivers import Driver, Query

#: Spark takes its time, and machines are shared.
pytestmark = pytest.mark.timeout(400)

T = TypeVar("T")

_MANY = 15_000
_BATCH: dict[str, object] = {"maxOffsetsPerTrigger": 500}


@pytest.fixture
def alone() -> Iterator[servers.RedisServer]:
    """A server that nobody else needs while it stands still."""
    with servers.redis_server() as server:
        yield server


def _wait_for_batches(query: Query, count: int) -> None:
    wanted = query.finished() + count
    servers.wait_for(lambda: query.finished() >= wanted, "batches to be done", 90)


@pytest.mark.parametrize("delivery", ["ledger", "staged"])
def test_a_store_that_stands_still_for_a_while_is_waited_for(
    shared: Driver,
    alone: servers.RedisServer,
    project: str,
    make_query: MakeQuery,
    delivery: str,
) -> None:
    store = Store(alone.uri, project)
    store.post(*range(_MANY))
    query = make_query(
        store.uri, read=_BATCH, write={"delivery": delivery, "putSize": 20}, timeout="2s"
    )
    ended = shared.waiting(query.name)
    shared.start(query)
    for pause in (3.0, 1.0):
        _wait_for_batches(query, 2)
        alone.signal(signal.SIGSTOP)
        time.sleep(pause)  # how long it stands still is what is tested: more and less than 2 s
        alone.signal(signal.SIGCONT)
    end = ended()
    assert end.error is None
    assert end.failures == 0
    assert sorted(store.bodies("copy")) == list(range(_MANY))
    assert store.last_rank("copy") == _MANY
    store.close()


class House:
    """The service's own store, which has no queues, and two pools."""

    def __init__(self, service: PooledStore, pools: list[servers.RedisServer]) -> None:
        self._service = service
        self._project = service.project
        self.pools = dict(zip(("p1", "p2"), pools, strict=True))

    def place(self, queue: str) -> str:
        found = self._service.run(
            self._service.driver.control.catalogue.locate(self._project, queue)
        )
        assert found.pool
        return found.pool

    def put(self, queue: str, pool: str) -> None:
        self._service.create(queue)
        if self.place(queue) != pool:
            self.move(queue)

    def move(self, queue: str) -> None:
        """To the other pool."""
        source = self.place(queue)
        target = "p2" if source == "p1" else "p1"
        mover = self._service.driver.mover
        self._service.run(mover.move(self._project, queue, source, target))
        assert self.place(queue) == target

    def at(self, queue: str) -> Store:
        """The store of a queue, where it is now."""
        return Store(self.pools[self.place(queue)].uri, self._project)


def _look(house: House, queue: str, act: Callable[[Store], T]) -> T:
    store = house.at(queue)
    try:
        return act(store)
    finally:
        store.close()


def _check(house: House, queue: str, expected: list[int]) -> None:
    assert _look(house, queue, lambda store: sorted(store.bodies(queue))) == expected
    assert _look(house, queue, lambda store: store.last_rank(queue)) == _MANY


@pytest.fixture
def home() -> Iterator[servers.RedisServer]:
    with servers.redis_server() as server:
        yield server


@pytest.fixture
def house(home: servers.RedisServer, project: str) -> Iterator[House]:
    with (
        servers.redis_server(fsync="always") as one,
        servers.redis_server(servers.VALKEY, fsync="always") as two,
        opened(f"pooled://{home.uri}|{one.uri}|{two.uri}", project) as service,
    ):
        assert isinstance(service, PooledStore)
        yield House(service, [one, two])


@pytest.mark.parametrize("lost", ["q", "copy"])
def test_a_pool_that_dies_fails_the_query_and_loses_nothing(
    shared: Driver, home: servers.RedisServer, house: House, make_query: MakeQuery, lost: str
) -> None:
    house.put("q", "p1")
    house.put("copy", "p2")
    _look(house, "q", lambda store: store.post(*range(_MANY)))
    query = make_query(home.uri, read=_BATCH, write={"putSize": 20}, timeout="300ms")
    ended = shared.waiting(query.name)
    shared.start(query)
    _wait_for_batches(query, 3)
    pool = house.pools[house.place(lost)]
    pool.signal(signal.SIGKILL)
    end = ended()
    assert end.error is not None
    assert f'The store of the queue "{lost}" of the project' in end.error
    assert "Connection refused" in end.error
    # The other pool is as it was.
    other = "copy" if lost == "q" else "q"
    found = _look(house, other, lambda store: store.bodies(other))
    assert found == list(range(len(found)))
    pool.start()
    assert shared.run(query).error is None
    _check(house, "copy", list(range(_MANY)))
    _check(house, "q", list(range(_MANY)))


@pytest.mark.parametrize("consume", ["browse", "claim"])
def test_queues_move_while_a_query_runs(
    shared: Driver, home: servers.RedisServer, house: House, make_query: MakeQuery, consume: str
) -> None:
    house.put("q", "p1")
    house.put("copy", "p2")
    _look(house, "q", lambda store: store.post(*range(_MANY)))
    read = _BATCH | {"consume": consume} | ({"group": "g"} if consume == "claim" else {})
    query = make_query(home.uri, read=read, write={"putSize": 20})
    ended = shared.waiting(query.name)
    shared.start(query)
    for queue in ("q", "copy", "copy", "q"):
        _wait_for_batches(query, 1)
        house.move(queue)
    assert query.finished() < _MANY // 500
    end = ended()
    assert end.error is None
    _check(house, "copy", list(range(_MANY)))
    _check(house, "q", [] if consume == "claim" else list(range(_MANY)))


def test_a_pool_that_stands_still_between_batches_is_waited_for(
    shared: Driver, home: servers.RedisServer, house: House, make_query: MakeQuery
) -> None:
    house.put("q", "p1")
    house.put("copy", "p2")
    _look(house, "q", lambda store: store.post(*range(100)))
    query = make_query(home.uri, timeout="2s", trigger="200 milliseconds")
    shared.start(query)
    _wait_for_batches(query, 1)
    house.pools["p2"].signal(signal.SIGSTOP)
    # This begins a batch, the first step of which is to make a writer.
    _look(house, "q", lambda store: store.post(*range(100, 200)))
    time.sleep(3.0)  # longer than the timeout of one answer, shorter than the patience
    house.pools["p2"].signal(signal.SIGCONT)
    _wait_for_batches(query, 1)
    shared.stop(query)
    assert _look(house, "copy", lambda store: store.bodies("copy")) == list(range(200))
