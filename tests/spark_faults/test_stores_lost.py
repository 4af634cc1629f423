# SPDX-License-Identifier: Apache-2.0
"""Stores are paused, die and come back, and queues move, while queries run."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from tests.spark_faults.conftest import MakeQuery
from tests.spark_faults.drivers import TIMEOUT_SECONDS, CopyQuery, SparkDriver
from tests.support import servers
from tests.support.spark_reads import SparkTestStore
from tests.support.stores import PooledContractStore, opened

#: Spark is slow to start, and machines are shared.
pytestmark = pytest.mark.timeout(400)

T = TypeVar("T")

_MANY = 10_000
_BATCH: dict[str, object] = {"maxOffsetsPerTrigger": 500}


@pytest.fixture
def own_server() -> Iterator[servers.RedisServer]:
    """A Redis of the test's own, which it may pause."""
    with servers.redis_server() as server:
        yield server


def _wait_for_batches(query: CopyQuery, count: int) -> None:
    _wait_until_finished(query, query.finished() + count)


def _wait_until_finished(query: CopyQuery, batches: int) -> None:
    servers.wait_for(lambda: query.finished() >= batches, "batches to be done", TIMEOUT_SECONDS)


@pytest.mark.parametrize("delivery", ["ledger", "staged"])
def test_query_waits_for_a_paused_store(
    shared_driver: SparkDriver,
    own_server: servers.RedisServer,
    project: str,
    make_query: MakeQuery,
    delivery: str,
) -> None:
    store = SparkTestStore(own_server.uri, project)
    store.post(*range(_MANY))
    query = make_query(
        store.uri, read=_BATCH, write={"delivery": delivery, "putSize": 20}, timeout="3s"
    )
    ended = shared_driver.expect_end(query.name)
    shared_driver.start(query)
    for pause in (3.5, 1.0):
        _wait_for_batches(query, 2)
        own_server.signal(signal.SIGSTOP)
        time.sleep(pause)  # the subject of the test: a pause longer and one shorter than 3 s
        own_server.signal(signal.SIGCONT)
    end = ended()
    assert end.error is None
    assert end.failures == 0
    assert sorted(store.bodies("copy")) == list(range(_MANY))
    assert store.last_rank("copy") == _MANY
    store.close()


class TwoPoolCluster:
    """A control store without queues, and two pools."""

    def __init__(self, service: PooledContractStore, pools: list[servers.RedisServer]) -> None:
        self._service = service
        self._project = service.project
        self.pools = dict(zip(("p1", "p2"), pools, strict=True))

    def pool_of(self, queue: str) -> str:
        found = self._service.run(
            self._service.driver.control.catalogue.locate(self._project, queue)
        )
        assert found.pool
        return found.pool

    def put(self, queue: str, pool: str) -> None:
        self._service.create(queue)
        if self.pool_of(queue) != pool:
            self.move(queue)

    def move(self, queue: str) -> None:
        """Moves a queue to the other pool."""
        source = self.pool_of(queue)
        target = "p2" if source == "p1" else "p1"
        mover = self._service.driver.mover
        self._service.run(mover.move(self._project, queue, source, target))
        assert self.pool_of(queue) == target

    def store_of(self, queue: str) -> SparkTestStore:
        """Returns the current store of a queue."""
        return SparkTestStore(self.pools[self.pool_of(queue)].uri, self._project)


def _with_store(cluster: TwoPoolCluster, queue: str, act: Callable[[SparkTestStore], T]) -> T:
    store = cluster.store_of(queue)
    try:
        return act(store)
    finally:
        store.close()


def _check(cluster: TwoPoolCluster, queue: str, expected: list[int]) -> None:
    assert _with_store(cluster, queue, lambda store: sorted(store.bodies(queue))) == expected
    assert _with_store(cluster, queue, lambda store: store.last_rank(queue)) == _MANY


@pytest.fixture
def control_server() -> Iterator[servers.RedisServer]:
    with servers.redis_server() as server:
        yield server


@pytest.fixture
def cluster(control_server: servers.RedisServer, project: str) -> Iterator[TwoPoolCluster]:
    with (
        servers.redis_server(fsync="always") as one,
        servers.redis_server(servers.VALKEY, fsync="always") as two,
        opened(f"pooled://{control_server.uri}|{one.uri}|{two.uri}", project) as service,
    ):
        assert isinstance(service, PooledContractStore)
        yield TwoPoolCluster(service, [one, two])


@pytest.mark.parametrize("lost", ["q", "copy"])
def test_killed_pool_fails_the_query_without_loss(
    shared_driver: SparkDriver,
    control_server: servers.RedisServer,
    cluster: TwoPoolCluster,
    make_query: MakeQuery,
    lost: str,
) -> None:
    cluster.put("q", "p1")
    cluster.put("copy", "p2")
    _with_store(cluster, "q", lambda store: store.post(*range(_MANY)))
    query = make_query(control_server.uri, read=_BATCH, write={"putSize": 20}, timeout="700ms")
    ended = shared_driver.expect_end(query.name)
    shared_driver.start(query)
    _wait_for_batches(query, 3)
    pool = cluster.pools[cluster.pool_of(lost)]
    pool.signal(signal.SIGKILL)
    end = ended()
    assert end.error is not None
    assert f'The store of the queue "{lost}" of the project' in end.error
    assert "Connection refused" in end.error
    # The other pool is unaffected.
    other = "copy" if lost == "q" else "q"
    found = _with_store(cluster, other, lambda store: store.bodies(other))
    assert found == list(range(len(found)))
    pool.start()
    assert shared_driver.run(query).error is None
    _check(cluster, "copy", list(range(_MANY)))
    _check(cluster, "q", list(range(_MANY)))


@pytest.mark.parametrize("consume", ["browse", "claim"])
def test_queues_moved_during_a_query_are_copied_completely(
    shared_driver: SparkDriver,
    control_server: servers.RedisServer,
    cluster: TwoPoolCluster,
    make_query: MakeQuery,
    consume: str,
) -> None:
    cluster.put("q", "p1")
    cluster.put("copy", "p2")
    _with_store(cluster, "q", lambda store: store.post(*range(_MANY)))
    read = _BATCH | {"consume": consume} | ({"group": "g"} if consume == "claim" else {})
    query = make_query(control_server.uri, read=read, write={"putSize": 20})
    ended = shared_driver.expect_end(query.name)
    shared_driver.start(query)
    for queue in ("q", "copy", "copy", "q"):
        _wait_for_batches(query, 1)
        cluster.move(queue)
    assert query.finished() < _MANY // 500
    end = ended()
    assert end.error is None
    _check(cluster, "copy", list(range(_MANY)))
    _check(cluster, "q", [] if consume == "claim" else list(range(_MANY)))


def test_query_waits_for_a_pool_paused_between_batches(
    shared_driver: SparkDriver,
    control_server: servers.RedisServer,
    cluster: TwoPoolCluster,
    make_query: MakeQuery,
) -> None:
    cluster.put("q", "p1")
    cluster.put("copy", "p2")
    _with_store(cluster, "q", lambda store: store.post(*range(100)))
    query = make_query(control_server.uri, timeout="3s", trigger="200 milliseconds")
    shared_driver.start(query)
    _wait_until_finished(query, 1)
    cluster.pools["p2"].signal(signal.SIGSTOP)
    # This starts a batch, whose first step creates a writer.
    _with_store(cluster, "q", lambda store: store.post(*range(100, 200)))
    time.sleep(3.5)  # longer than the timeout of one reply, shorter than that of retries
    cluster.pools["p2"].signal(signal.SIGCONT)
    _wait_until_finished(query, 2)
    shared_driver.stop(query)
    assert _with_store(cluster, "copy", lambda store: store.bodies("copy")) == list(range(200))
