# SPDX-License-Identifier: Apache-2.0
"""Drivers are killed while queries run, and others go on from their checkpoints."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests import servers
from tests.spark.support import Store
from tests.spark_faults.conftest import MakeQuery
from tests.spark_faults.drivers import PATIENCE, Driver, Query, driver

_MANY = 20_000
#: Some batches are done between two deaths, and some are left.
_BATCH = 2_000
_DEATHS = 2


def _queries(store: Store, make_query: MakeQuery) -> list[Query]:
    read: dict[str, object] = {"maxOffsetsPerTrigger": _BATCH}
    claim = {"subscribe": "claimed", "consume": "claim", "group": "g"}
    return [
        make_query(store.uri, "ledger", read=read, write={"delivery": "ledger"}),
        make_query(store.uri, "staged", read=read, write={"delivery": "staged"}),
        make_query(store.uri, "claims", read=read | claim, write={"delivery": "ledger"}),
    ]


def _wait_for_more(running: Driver, queries: list[Query]) -> None:
    """Until each of them has finished a batch, or all, since it was started."""
    before = {query.name: query.finished() for query in queries}

    def moved() -> bool:
        return all(
            query.finished() > before[query.name] or running.has_ended(query.name)
            for query in queries
        )

    servers.wait_for(moved, "batches to be done", PATIENCE)


def _lapse(store: Store, queue: str) -> None:
    """Let the claims of a stream that died end, as if their time had passed."""
    over = round(time.time() * 1000) - 1000
    for claim in store.leases(queue):
        store.command("ZADD", store.key("leases", queue), over, claim)
    for rank in store.command("ZRANGE", store.key("claimed", queue), 0, -1):
        store.command("ZADD", store.key("claimed", queue), over, rank)


@pytest.mark.timeout(600)
def test_drivers_that_are_killed_lose_and_double_nothing(
    store: Store, make_query: MakeQuery, tmp_path: Path
) -> None:
    for queue in ("q", "claimed"):
        store.post(*range(_MANY), queue=queue)
    queries = _queries(store, make_query)
    log = tmp_path / "log"
    for _ in range(_DEATHS):
        with driver("local[2]", log) as running:
            for query in queries:
                running.start(query)
            _wait_for_more(running, queries)
            # Wherever each of them is just then.
            time.sleep(random.random())
            running.kill()
    with driver("local[2]", log) as running:
        ended = [running.waiting(query.name) for query in queries]
        for query in queries:
            running.start(query)
        assert [end().error for end in ended] == [None] * len(queries)
        # What was claimed and not yet in the checkpoint at a death comes back.
        _lapse(store, "claimed")
        assert running.run(queries[-1]).error is None
    for query in queries:
        queue = query.write["queue"]
        assert sorted(store.bodies(queue)) == list(range(_MANY))
        assert store.last_rank(queue) == _MANY
    assert store.bodies("claimed") == []
    assert store.leases("claimed") == {}
    assert store.command("HLEN", store.key("stages", "staged")) == 0


def test_messages_of_a_claim_that_has_ended_are_there_to_be_claimed(
    shared: Driver, store: Store, make_query: MakeQuery
) -> None:
    store.post(*range(100))
    # All of them: nothing else makes anybody look.
    store.claim(100)
    _lapse(store, "q")
    query = make_query(store.uri, read={"consume": "claim", "group": "g"})
    assert shared.run(query).error is None
    assert sorted(store.bodies("copy")) == list(range(100))
    assert store.bodies() == []
    assert store.leases() == {}
