# SPDX-License-Identifier: Apache-2.0
"""Queues in several pools: found in their current pool, also while they move."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from tests.contract.conftest import BACKENDS
from tests.spark.writing import BatchWrite, StreamWrite, numbered, write_all
from tests.support.spark_reads import (
    BatchRead,
    SimulatedQuery,
    SparkTestStore,
    batch,
    columns,
    pickled,
    task,
    values,
)
from tests.support.stores import PooledContractStore, opened
from zaqar_redis import errors
from zaqar_redis.storage.control import DEFAULT_POOL

BODY = StructType([StructField("body", BinaryType())])


class PoolsWithMover:
    """Two pools, and a mover between them."""

    def __init__(self, service: PooledContractStore, control_store: SparkTestStore) -> None:
        self._service = service
        #: the store of the data source's options
        self.control_store = control_store

    def location(self, queue: str = "q") -> str | None:
        found = self._service.driver.control.catalogue.locate(self.control_store.project, queue)
        return self._service.run(found).pool

    def put(self, queue: str, pool: str) -> None:
        """Creates a queue in a pool."""
        self._service.create(queue)
        if self.location(queue) != pool:
            self.move(queue)
        assert self.location(queue) == pool

    def move(self, queue: str = "q") -> None:
        """Moves a queue to the other pool."""
        source = self.location(queue) or DEFAULT_POOL
        target = "p2" if source == "p1" else "p1"
        mover = self._service.driver.mover
        self._service.run(mover.move(self.control_store.project, queue, source, target))
        assert self.location(queue) == target

    def assign_unknown_pool(self, queue: str) -> None:
        """Lets the catalogue name a pool that does not exist."""
        catalogue = self._service.driver.control.catalogue
        self._service.run(catalogue.put(self.control_store.project, queue, "gone"))

    def bodies(self, queue: str = "q") -> list[Any]:
        return sorted(values(batch(self.control_store.source(subscribe=queue))))

    def post(self, *bodies: Any, queue: str = "q") -> None:
        given = pa.RecordBatch.from_pydict({"body": [str(body).encode() for body in bodies]})
        write_all(BatchWrite(self.control_store.source(queue=queue), BODY), [given])


@pytest.fixture(scope="module")
def pooled_uri() -> Iterator[str]:
    with BACKENDS["pooled"]() as uri:
        yield uri


@pytest.fixture
def pools(pooled_uri: str, project: str) -> Iterator[PoolsWithMover]:
    control_store = SparkTestStore(pooled_uri.removeprefix("pooled://").partition("|")[0], project)
    with opened(pooled_uri, project) as service:
        assert isinstance(service, PooledContractStore)
        yield PoolsWithMover(service, control_store)
    control_store.close()


def test_new_queue_is_assigned_a_pool(pools: PoolsWithMover) -> None:
    for delivery in ("none", "ledger", "staged"):
        queue = f"new-{delivery}"
        data_source = pools.control_store.source(queue=queue, delivery=delivery)
        write_all(BatchWrite(data_source, BODY), [numbered(0, 3)])
        assert pools.location(queue) in ("p1", "p2")
        assert pools.bodies(queue) == [0, 1, 2]


def test_queues_of_all_pools_are_read(pools: PoolsWithMover) -> None:
    for queue, pool in (("a", "p1"), ("b", "p1"), ("c", "p2")):
        pools.put(queue, pool)
        pools.post(f'"{queue}"', queue=queue)
    batch_read = BatchRead(pools.control_store.source(subscribePattern="."))
    found = {(row["queue"], row["pool"]) for row in batch_read.rows()}
    assert found == {("a", "p1"), ("b", "p1"), ("c", "p2")}
    # The first tasks read from every store.
    assert [each.location.pool for each in batch_read.partitions[:2]] in (
        ["p1", "p2"],
        ["p2", "p1"],
    )


def test_queue_moved_between_planning_and_reading_is_read(pools: PoolsWithMover) -> None:
    pools.put("q", "p1")
    pools.post(*range(100))
    batch_read = BatchRead(pools.control_store.source(subscribe="q"))
    pools.move()
    rows = batch_read.rows()
    assert values(rows) == list(range(100))
    assert {row["pool"] for row in rows} == {"p2"}


def test_queue_moved_while_read_is_read_completely(pools: PoolsWithMover) -> None:
    pools.put("q", "p1")
    pools.post(*range(1000))
    data_source = pools.control_store.source(subscribe="q", fetchSize=100)
    reader = data_source.reader(columns(data_source))
    (partition,) = reader.partitions()
    batches = task(data_source, pickled(reader), columns(data_source), pickled(partition))
    found = []
    for number, rows in enumerate(batches):
        if number in (2, 6):
            pools.move()
        found += rows.column("rank").to_pylist()
    assert found == list(range(1, 1001))


def test_stream_continues_after_its_queue_moves(pools: PoolsWithMover) -> None:
    pools.put("q", "p1")
    pools.post(*range(10))
    options = {"subscribe": "q", "startingOffsets": "earliest", "maxWait": "0s"}
    query = SimulatedQuery(pools.control_store.source(**options))
    assert values(query.trigger() or []) == list(range(10))
    pools.move()
    # Its pool does not affect its offsets.
    assert query.trigger() is None
    pools.post(*range(10, 20))
    query.plan()
    pools.move()
    query.restart()
    assert values(query.read()) == list(range(10, 20))
    query.stop()


def test_claiming_stream_continues_after_its_queue_moves(pools: PoolsWithMover) -> None:
    pools.put("q", "p1")
    pools.post(*range(10))
    options = {"subscribe": "q", "consume": "claim", "group": "g", "maxWait": "0s"}
    query = SimulatedQuery(pools.control_store.source(maxOffsetsPerTrigger=4, **options))
    query.plan()
    pools.move()
    assert values(query.read()) == [0, 1, 2, 3]
    query.finish()
    pools.move()
    assert values(query.drain()) == list(range(4, 10))
    assert pools.bodies() == []
    query.stop()


@pytest.mark.parametrize("delivery", ["ledger", "none"])
def test_queue_moved_while_written_gets_every_row_once(
    pools: PoolsWithMover, delivery: str
) -> None:
    pools.put("q", "p1")
    data_source = pools.control_store.source(queue="q", delivery=delivery, putSize=50)

    def moving() -> Iterator[pa.RecordBatch]:
        for first in range(0, 1000, 100):
            if first in (300, 700):
                pools.move()
            yield numbered(first, first + 100)

    write_all(StreamWrite(data_source, BODY), moving())
    assert pools.bodies() == list(range(1000))
    if delivery == "ledger":  # the ledger moved with the queue
        write_all(StreamWrite(data_source, BODY), [numbered(0, 1000)])
        assert pools.bodies() == list(range(1000))


def test_write_waits_for_the_move_lock(pools: PoolsWithMover) -> None:
    pools.put("q", "p1")
    data_source = pools.control_store.source(queue="q", delivery="ledger", putSize=20)
    write = StreamWrite(data_source, BODY)
    stop = threading.Event()

    def endless() -> Iterator[pa.RecordBatch]:
        for number in itertools.count():
            if stop.is_set():
                return
            yield numbered(20 * number, 20 * number + 20)

    written: list[int] = []
    thread = threading.Thread(target=lambda: written.append(write.task(0, endless()).rows))
    thread.start()
    for _ in range(3):
        pools.move()
    stop.set()
    thread.join()
    assert pools.bodies() == list(range(written[0]))
    assert written[0] > 0


def test_unreachable_pool_is_an_error_and_not_data_loss(
    pools: PoolsWithMover, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zaqar_redis.spark.stores._LOCATION_TTL_SECONDS", 0.0)
    # The pool is looked for again for 0.3 s, but busy ones have their 10 s to answer.
    monkeypatch.setattr("zaqar_redis.spark.stores._RETRY_TIMEOUTS", 0.03)
    options = {"subscribe": "q", "startingOffsets": "earliest"}
    pools.put("q", "p1")
    pools.post(1)
    query = SimulatedQuery(pools.control_store.source(failOnDataLoss=False, **options))
    query.trigger()
    pools.assign_unknown_pool("q")
    with pytest.raises(errors.StoreUnavailable):
        query.plan()
    query.stop()
