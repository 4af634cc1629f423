# SPDX-License-Identifier: Apache-2.0
"""Drivers are killed while queries run; others continue from their checkpoints."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.spark_faults.conftest import MakeQuery
from tests.spark_faults.drivers import TIMEOUT_SECONDS, CopyQuery, SparkDriver, driver
from tests.support import servers
from tests.support.spark_reads import SparkTestStore

_MANY = 7_500
#: Small enough that some batches finish before the kill, and some remain.
_BATCH = 1_500


def _queries(store: SparkTestStore, make_query: MakeQuery) -> list[CopyQuery]:
    read: dict[str, object] = {"maxOffsetsPerTrigger": _BATCH}
    claim = {"subscribe": "claimed", "consume": "claim", "group": "g"}
    return [
        make_query(store.uri, "ledger", read=read, write={"delivery": "ledger"}),
        make_query(store.uri, "staged", read=read, write={"delivery": "staged"}),
        make_query(store.uri, "claims", read=read | claim, write={"delivery": "ledger"}),
    ]


def _wait_for_more(running: SparkDriver, queries: list[CopyQuery]) -> None:
    """Waits until each query has finished a batch since its start, or ended."""
    before = {query.name: query.finished() for query in queries}

    def moved() -> bool:
        return all(
            query.finished() > before[query.name] or running.has_ended(query.name)
            for query in queries
        )

    servers.wait_for(moved, "batches to be done", TIMEOUT_SECONDS)


@pytest.mark.timeout(600)
def test_killed_drivers_cause_no_loss_and_no_duplicates(
    store: SparkTestStore, make_query: MakeQuery, tmp_path: Path
) -> None:
    for queue in ("q", "claimed"):
        store.post(*range(_MANY), queue=queue)
    queries = _queries(store, make_query)
    log = tmp_path / "log"
    with driver("local[2]", log) as running:
        for query in queries:
            running.start(query)
        _wait_for_more(running, queries)
        # At a random point of each query.
        time.sleep(random.random())
        running.kill()
    store.expire_roles()
    with driver("local[2]", log) as running:
        ended = [running.expect_end(query.name) for query in queries]
        for query in queries:
            running.start(query)
        assert [end().error for end in ended] == [None] * len(queries)
        # Messages claimed but not yet in the checkpoint at a kill are claimed again.
        store.expire_claims("claimed")
        assert running.run(queries[-1]).error is None
    for query in queries:
        queue = query.write["queue"]
        assert sorted(store.bodies(queue)) == list(range(_MANY))
        assert store.last_rank(queue) == _MANY
    assert store.bodies("claimed") == []
    assert store.leases("claimed") == {}
    assert store.command("HLEN", store.key("stages", "staged")) == 0
