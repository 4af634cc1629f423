# SPDX-License-Identifier: Apache-2.0
"""A killed claiming stream: another takes over its group and its claims."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.spark_reads import SimulatedQuery, SparkTestStore, values
from zaqar_redis.spark.reading.group_lease import GroupTaken

#: A stream that plans a batch, prints its offset, and then never finishes it.
_STREAM = """
import json, sys, time
from tests.support.spark_reads import SimulatedQuery, source

query = SimulatedQuery(source(**json.loads(sys.argv[1])))
query.plan()
print(query.offsets[-1], flush=True)
time.sleep(600)
"""
#: The root for imports of tests.
_ROOT = Path(__file__).parents[2]


def test_next_stream_takes_over_the_group_of_a_killed_one(
    store: SparkTestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zaqar_redis.spark.reading.group_lease._ACQUIRE_TIMEOUT_SECONDS", 0.3)
    store.post(*range(10))
    options = {"subscribe": "q", "consume": "claim", "group": "g", "maxWait": "0s"}
    options |= {"uri": store.uri, "project": store.project, "maxOffsetsPerTrigger": "4"}
    first = subprocess.Popen(
        [sys.executable, "-c", _STREAM, json.dumps(options)],
        stdout=subprocess.PIPE,
        cwd=_ROOT,
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
    )
    with first:
        assert first.stdout
        logged = first.stdout.readline().decode().strip()
        second = SimulatedQuery(store.source(**options))
        with pytest.raises(GroupTaken, match='another stream reads in the group "g"'):
            second.plan()
        first.send_signal(signal.SIGKILL)
    # The next stream waits for the lease: not for the 10 s that it lasts.
    (role,) = store.keys(f"zr:{{control}}:role:*{store.project}*")
    assert 0 < store.command("PTTL", role) <= 10_000
    store.command("PEXPIRE", role, 500)
    monkeypatch.setattr("zaqar_redis.spark.reading.group_lease._ACQUIRE_TIMEOUT_SECONDS", 60.0)
    # From the first one's checkpoint, with its batch logged but not finished.
    second.offsets = [logged]
    assert values(second.read()) == [0, 1, 2, 3]
    second.finish()
    assert values(second.drain()) == list(range(4, 10))
    assert store.bodies() == []
    assert store.leases() == {}
    second.stop()
