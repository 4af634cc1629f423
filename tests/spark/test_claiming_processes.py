# SPDX-License-Identifier: Apache-2.0
"""A claiming stream that is killed: another takes over its group, and what it had."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.support import Query, Store, values
from zaqar_redis.spark.holding import GroupTaken

#: A stream that plans a batch, tells its offset, and then works on it for ever.
_STREAM = """
import json, sys, time
from tests.spark.support import Query, source
from zaqar_redis.spark import holding

holding._LEASE = 1.0
query = Query(source(**json.loads(sys.argv[1])))
query.plan()
print(query.offsets[-1], flush=True)
time.sleep(600)
"""
#: What imports of tests go by.
_ROOT = Path(__file__).parents[2]


def test_a_killed_stream_is_followed_by_another(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zaqar_redis.spark.holding._LEASE", 1.0)
    monkeypatch.setattr("zaqar_redis.spark.holding._WAIT", 0.3)
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
        second = Query(store.source(**options))
        with pytest.raises(GroupTaken, match='another stream reads in the group "g"'):
            second.plan()
        first.send_signal(signal.SIGKILL)
    monkeypatch.setattr("zaqar_redis.spark.holding._WAIT", 10.0)
    # From the checkpoint of the first: its batch is in the log, and not finished.
    second.offsets = [logged]
    assert values(second.read()) == [0, 1, 2, 3]
    second.finish()
    assert values(second.drain()) == list(range(4, 10))
    assert store.bodies() == []
    assert store.leases() == {}
    second.stop()
