# SPDX-License-Identifier: Apache-2.0
"""Streams, tasks and writers survive a Redis that is killed and restarted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from tests.spark.writing import StreamWrite, numbered, write_all
from tests.support import fixtures, servers
from tests.support.spark_reads import SimulatedQuery, SparkTestStore, columns, pickled, task, values
from zaqar_redis import errors

BODY = StructType([StructField("body", BinaryType())])


#: A Redis that loses no acknowledged write when killed.
server = fixtures.redis("function", fsync="always")


@pytest.fixture
def durable_store(server: servers.RedisServer) -> Iterator[SparkTestStore]:
    test_store = SparkTestStore(server.uri, "p")
    yield test_store
    test_store.close()


class RedisOutage:
    """Kills Redis, and restarts it a little later."""

    def __init__(self, server: servers.RedisServer) -> None:
        server.signal(signal.SIGKILL)
        self._timer = threading.Timer(0.4, server.start)
        self._timer.start()

    def end(self) -> None:
        self._timer.join()


def test_read_task_survives_redis_restart(
    server: servers.RedisServer, durable_store: SparkTestStore
) -> None:
    durable_store.post(*range(1000))
    data_source = durable_store.source(subscribe="q", fetchSize=100)
    reader = data_source.reader(columns(data_source))
    (partition,) = reader.partitions()
    found: list[int] = []
    absences = []
    for number, rows in enumerate(
        task(data_source, pickled(reader), columns(data_source), partition)
    ):
        found += rows.column("rank").to_pylist()
        if number in (3, 6):
            absences.append(RedisOutage(server))
    for absence in absences:
        absence.end()
    assert len(absences) == 2
    assert found == list(range(1, 1001))


@pytest.mark.parametrize(
    "options", [{"startingOffsets": "earliest"}, {"consume": "claim", "group": "g"}]
)
def test_stream_survives_redis_restart(
    server: servers.RedisServer, durable_store: SparkTestStore, options: dict[str, str]
) -> None:
    durable_store.post(1)
    query = SimulatedQuery(durable_store.source(subscribe="q", **options))
    assert values(query.trigger() or []) == [1]
    assert query.trigger() is None
    absence = RedisOutage(server)
    assert query.trigger() is None
    absence.end()
    durable_store.post(2)
    assert values(query.drain()) == [2]
    query.stop()


@pytest.mark.parametrize("delivery", ["ledger", "staged"])
def test_write_survives_redis_restart(
    server: servers.RedisServer, durable_store: SparkTestStore, delivery: str
) -> None:
    absences = []

    def rows() -> Iterator[pa.RecordBatch]:
        for first in range(0, 1000, 100):
            if first in (300, 700):
                absences.append(RedisOutage(server))
            yield numbered(first, first + 100)

    data_source = durable_store.source(queue="q", delivery=delivery, putSize=50)
    write_all(StreamWrite(data_source, BODY), rows())
    for absence in absences:
        absence.end()
    assert durable_store.bodies() == list(range(1000))
    assert durable_store.last_rank() == 1000


def test_redis_outage_beyond_timeout_is_an_error(
    server: servers.RedisServer, durable_store: SparkTestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is tried again for a second, but a busy Redis has all of the timeout to answer.
    monkeypatch.setattr("zaqar_redis.spark.stores._RETRY_TIMEOUTS", 0.1)
    durable_store.post(1)
    options = {"subscribe": "q", "timeout": "10s", "maxWait": "0s", "failOnDataLoss": False}
    query = SimulatedQuery(durable_store.source(**options))
    query.trigger()
    server.signal(signal.SIGKILL)
    with pytest.raises(errors.StoreUnavailable):
        query.trigger()
    query.stop()
