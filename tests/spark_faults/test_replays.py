# SPDX-License-Identifier: Apache-2.0
"""Finished batches are repeated, and queues change while no query runs."""

from __future__ import annotations

import pytest

from tests.spark_faults.conftest import MakeQuery
from tests.spark_faults.drivers import SparkDriver
from tests.support.spark_reads import SparkTestStore

#: Spark is slow to start, and machines are shared.
pytestmark = pytest.mark.timeout(400)


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
