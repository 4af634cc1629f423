# SPDX-License-Identifier: Apache-2.0
"""Batches that were finished are done again, and queues change while nobody reads them."""

from __future__ import annotations

import pytest

from tests.spark.support import Store
from tests.spark_faults.conftest import MakeQuery
from tests.spark_faults.drivers import Driver

#: Spark takes its time, and machines are shared.
pytestmark = pytest.mark.timeout(400)


@pytest.mark.parametrize("delivery", ["ledger", "staged"])
def test_a_finished_batch_that_is_done_again_doubles_nothing(
    shared: Driver, store: Store, make_query: MakeQuery, delivery: str
) -> None:
    store.post(*range(2500))
    query = make_query(store.uri, read={"maxOffsetsPerTrigger": 1000}, write={"delivery": delivery})
    assert shared.run(query).error is None
    assert query.forget_last() == 2
    store.post(*range(2500, 2600))
    assert shared.run(query).error is None
    assert query.finished() == 4
    assert store.bodies("copy") == list(range(2600))
    assert store.last_rank("copy") == 2600


def test_a_first_batch_that_is_done_again_begins_where_it_began(
    shared: Driver, store: Store, make_query: MakeQuery
) -> None:
    store.post(*range(10))
    query = make_query(store.uri, read={"startingOffsets": "latest"})
    assert shared.run(query).error is None
    # Where "latest" is now, is not where it was.
    store.post(*range(10, 30))
    assert query.forget_last() == 0
    assert shared.run(query).error is None
    store.post(30)
    assert shared.run(query).error is None
    assert store.bodies("copy") == list(range(10, 31))
    assert store.last_rank("copy") == 21


def test_a_first_batch_with_messages_in_it_is_the_same_again(
    shared: Driver, store: Store, make_query: MakeQuery
) -> None:
    store.post(*range(2500))
    query = make_query(store.uri, read={"maxOffsetsPerTrigger": 5000})
    assert shared.run(query).error is None
    assert query.forget_last() == 0
    store.post(*range(2500, 3000))
    # The oldest are consumed by others meanwhile: the queue begins elsewhere now, and
    # what is left of the batch is not what it was.
    store.remove(*range(1, 501))
    end = shared.run(query)
    assert end.error is not None
    assert "delivery=staged" in end.error
    assert store.bodies("copy") == list(range(2500))
    assert store.last_rank("copy") == 2500


def _made_again(store: Store) -> tuple[str, str]:
    """Delete the queue, make another of its name; the epochs of both."""
    old = store.top().epoch
    store.delete()
    store.post(*range(100, 150))
    return old, store.top().epoch


def test_a_queue_that_was_made_again_is_told(
    shared: Driver, store: Store, make_query: MakeQuery
) -> None:
    store.post(*range(100))
    query = make_query(store.uri)
    assert shared.run(query).error is None
    old, new = _made_again(store)
    for _ in range(2):  # again and again: nothing of it is in the checkpoint
        end = shared.run(query)
        assert end.error is not None
        assert f'the queue "q" was deleted and made again: its epoch was {old} and is {new}' in (
            end.error
        )
        assert "failOnDataLoss" in end.error
    assert store.bodies("copy") == list(range(100))


def test_a_queue_that_was_made_again_is_read_from_its_beginning_if_one_wants(
    shared: Driver, store: Store, make_query: MakeQuery
) -> None:
    store.post(*range(100))
    query = make_query(store.uri, read={"failOnDataLoss": False})
    assert shared.run(query).error is None
    _made_again(store)
    assert shared.run(query).error is None
    store.post(150)
    assert shared.run(query).error is None
    assert store.bodies("copy") == list(range(151))
    assert store.last_rank("copy") == 151
