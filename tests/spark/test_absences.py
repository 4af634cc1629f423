# SPDX-License-Identifier: Apache-2.0
"""A Redis that is killed and comes back costs a stream, a task or a writer nothing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from tests import servers
from tests.spark.support import Query, Store, columns, pickled, task, values
from tests.spark.writing import Context, StreamWrite, numbered, whole
from zaqar_redis import errors

BODY = StructType([StructField("body", BinaryType())])


@pytest.fixture
def server() -> Iterator[servers.RedisServer]:
    """A Redis that has all it has said yes to, whenever it dies."""
    with servers.redis_server(fsync="always") as started:
        yield started


@pytest.fixture
def lasting(server: servers.RedisServer) -> Iterator[Store]:
    made = Store(server.uri, "p")
    yield made
    made.close()


class Absence:
    """Redis is killed, and is back a little later."""

    def __init__(self, server: servers.RedisServer) -> None:
        server.signal(signal.SIGKILL)
        self._timer = threading.Timer(0.4, server.start)
        self._timer.start()

    def end(self) -> None:
        self._timer.join()


def test_a_task_goes_on(server: servers.RedisServer, lasting: Store) -> None:
    lasting.post(*range(1000))
    made = lasting.source(subscribe="q", fetchSize=100)
    reader = made.reader(columns(made))
    (partition,) = reader.partitions()
    found: list[int] = []
    absences = []
    for number, rows in enumerate(task(made, pickled(reader), columns(made), partition)):
        found += rows.column("rank").to_pylist()
        if number in (3, 6):
            absences.append(Absence(server))
    for absence in absences:
        absence.end()
    assert len(absences) == 2
    assert found == list(range(1, 1001))


@pytest.mark.parametrize(
    "options", [{"startingOffsets": "earliest"}, {"consume": "claim", "group": "g"}]
)
def test_a_stream_goes_on(
    server: servers.RedisServer, lasting: Store, options: dict[str, str]
) -> None:
    lasting.post(1)
    query = Query(lasting.source(subscribe="q", **options))
    assert values(query.trigger() or []) == [1]
    assert query.trigger() is None
    absence = Absence(server)
    assert query.trigger() is None
    absence.end()
    lasting.post(2)
    assert values(query.drain()) == [2]
    query.stop()


@pytest.mark.parametrize("delivery", ["ledger", "staged"])
def test_a_writer_goes_on(
    server: servers.RedisServer, lasting: Store, context: Context, delivery: str
) -> None:
    absences = []

    def rows() -> Iterator[pa.RecordBatch]:
        for first in range(0, 1000, 100):
            if first in (300, 700):
                absences.append(Absence(server))
            yield numbered(first, first + 100)

    made = lasting.source(queue="q", delivery=delivery, putSize=50)
    whole(StreamWrite(made, context, BODY), rows())
    for absence in absences:
        absence.end()
    assert lasting.bodies() == list(range(1000))
    assert lasting.last_rank() == 1000


def test_a_redis_that_stays_away_is_an_error_in_the_end(
    server: servers.RedisServer, lasting: Store
) -> None:
    lasting.post(1)
    options = {"subscribe": "q", "timeout": "200ms", "maxWait": "0s", "failOnDataLoss": False}
    query = Query(lasting.source(**options))
    query.trigger()
    server.signal(signal.SIGKILL)
    with pytest.raises(errors.StoreUnavailable):
        query.trigger()
    query.stop()
