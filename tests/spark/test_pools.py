# SPDX-License-Identifier: Apache-2.0
"""Queues in several stores: found wherever they are, while they move too."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from tests.contract.conftest import BACKENDS
from tests.contract.stores import PooledStore, opened
from tests.spark.support import Batch, Query, Store, batch, columns, pickled, task, values
from tests.spark.writing import Context, StreamWrite, Write, numbered, whole
from zaqar_redis import errors
from zaqar_redis.storage.control import DEFAULT

BODY = StructType([StructField("body", BinaryType())])


class Pools:
    """Two pools, and a mover of queues."""

    def __init__(self, service: PooledStore, home: Store) -> None:
        self._service = service
        #: the options go by it
        self.home = home

    def place(self, queue: str = "q") -> str | None:
        found = self._service.driver.control.catalogue.locate(self.home.project, queue)
        return self._service.run(found).pool

    def put(self, queue: str, pool: str) -> None:
        """Make a queue in a pool."""
        self._service.create(queue)
        if self.place(queue) != pool:
            self.move(queue)
        assert self.place(queue) == pool

    def move(self, queue: str = "q") -> None:
        """To the other pool."""
        source = self.place(queue) or DEFAULT
        target = "p2" if source == "p1" else "p1"
        mover = self._service.driver.mover
        self._service.run(mover.move(self.home.project, queue, source, target))
        assert self.place(queue) == target

    def lose(self, queue: str) -> None:
        """Let the catalogue name a pool that nobody knows."""
        catalogue = self._service.driver.control.catalogue
        self._service.run(catalogue.put(self.home.project, queue, "gone"))

    def bodies(self, queue: str = "q") -> list[Any]:
        return sorted(values(batch(self.home.source(subscribe=queue))))

    def post(self, *bodies: Any, queue: str = "q", context: Context) -> None:
        given = pa.RecordBatch.from_pydict({"body": [str(body).encode() for body in bodies]})
        whole(Write(self.home.source(queue=queue), context, BODY), [given])


@pytest.fixture(scope="module")
def pooled_uri() -> Iterator[str]:
    with BACKENDS["pooled"]() as uri:
        yield uri


@pytest.fixture
def pools(pooled_uri: str, project: str) -> Iterator[Pools]:
    home = Store(pooled_uri.removeprefix("pooled://").partition("|")[0], project)
    with opened(pooled_uri, project) as service:
        assert isinstance(service, PooledStore)
        yield Pools(service, home)
    home.close()


def test_a_new_queue_gets_a_place(pools: Pools, context: Context) -> None:
    for delivery in ("none", "ledger", "staged"):
        queue = f"new-{delivery}"
        made = pools.home.source(queue=queue, delivery=delivery)
        whole(Write(made, context, BODY), [numbered(0, 3)])
        assert pools.place(queue) in ("p1", "p2")
        assert pools.bodies(queue) == [0, 1, 2]


def test_queues_of_all_pools_are_read(pools: Pools, context: Context) -> None:
    for queue, pool in (("a", "p1"), ("b", "p1"), ("c", "p2")):
        pools.put(queue, pool)
        pools.post(f'"{queue}"', queue=queue, context=context)
    made = Batch(pools.home.source(subscribePattern="."))
    found = {(row["queue"], row["pool"]) for row in made.rows()}
    assert found == {("a", "p1"), ("b", "p1"), ("c", "p2")}
    # The first tasks touch every store.
    assert [each.place.pool for each in made.partitions[:2]] in (["p1", "p2"], ["p2", "p1"])


def test_a_queue_moves_between_planning_and_reading(pools: Pools, context: Context) -> None:
    pools.put("q", "p1")
    pools.post(*range(100), context=context)
    made = Batch(pools.home.source(subscribe="q"))
    pools.move()
    rows = made.rows()
    assert values(rows) == list(range(100))
    assert {row["pool"] for row in rows} == {"p2"}


def test_a_queue_moves_while_it_is_read(pools: Pools, context: Context) -> None:
    pools.put("q", "p1")
    pools.post(*range(1000), context=context)
    made = pools.home.source(subscribe="q", fetchSize=100)
    reader = made.reader(columns(made))
    (partition,) = reader.partitions()
    batches = task(made, pickled(reader), columns(made), pickled(partition))
    found = []
    for number, rows in enumerate(batches):
        if number in (2, 6):
            pools.move()
        found += rows.column("rank").to_pylist()
    assert found == list(range(1, 1001))


def test_a_queue_moves_under_a_stream(pools: Pools, context: Context) -> None:
    pools.put("q", "p1")
    pools.post(*range(10), context=context)
    options = {"subscribe": "q", "startingOffsets": "earliest", "maxWait": "0s"}
    query = Query(pools.home.source(**options))
    assert values(query.trigger() or []) == list(range(10))
    pools.move()
    # Where it is says nothing of what is in it.
    assert query.trigger() is None
    pools.post(*range(10, 20), context=context)
    query.plan()
    pools.move()
    query.restart()
    assert values(query.read()) == list(range(10, 20))
    query.stop()


def test_a_queue_moves_under_a_claiming_stream(pools: Pools, context: Context) -> None:
    pools.put("q", "p1")
    pools.post(*range(10), context=context)
    options = {"subscribe": "q", "consume": "claim", "group": "g", "maxWait": "0s"}
    query = Query(pools.home.source(maxOffsetsPerTrigger=4, **options))
    query.plan()
    pools.move()
    assert values(query.read()) == [0, 1, 2, 3]
    query.finish()
    pools.move()
    assert values(query.drain()) == list(range(4, 10))
    assert pools.bodies() == []
    query.stop()


@pytest.mark.parametrize("delivery", ["ledger", "none"])
def test_a_queue_moves_while_it_is_written(pools: Pools, context: Context, delivery: str) -> None:
    pools.put("q", "p1")
    made = pools.home.source(queue="q", delivery=delivery, putSize=50)

    def moving() -> Iterator[pa.RecordBatch]:
        for first in range(0, 1000, 100):
            if first in (300, 700):
                pools.move()
            yield numbered(first, first + 100)

    whole(StreamWrite(made, context, BODY), moving())
    assert pools.bodies() == list(range(1000))
    if delivery == "ledger":  # which has moved with the queue
        whole(StreamWrite(made, context, BODY), [numbered(0, 1000)])
        assert pools.bodies() == list(range(1000))


def test_a_writer_waits_at_the_gate(pools: Pools, context: Context) -> None:
    pools.put("q", "p1")
    made = pools.home.source(queue="q", delivery="ledger", putSize=20)
    write = StreamWrite(made, context, BODY)
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


def test_a_pool_that_is_away_is_an_error_and_no_loss(
    pools: Pools, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zaqar_redis.spark.stores._BELIEVED", 0.0)
    options = {"subscribe": "q", "startingOffsets": "earliest", "timeout": "100ms"}
    pools.put("q", "p1")
    pools.post(1, context=context)
    query = Query(pools.home.source(failOnDataLoss=False, **options))
    query.trigger()
    pools.lose("q")
    with pytest.raises(errors.StoreUnavailable):
        query.plan()
    query.stop()
