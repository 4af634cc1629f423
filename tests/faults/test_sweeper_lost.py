# SPDX-License-Identifier: Apache-2.0
"""A sweeper is killed in its round: the next one does the remaining work."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import redis

from tests.support import servers
from tests.support.stores import findings, opened
from zaqar_redis.keyspace import keys

_QUEUES = 200
_COMMAND = (sys.executable, "-m", "tests.faults.sweeping")


def _left(client: redis.Redis) -> int:
    """Counts the queues whose message still takes up memory."""
    of_queues = (keys.of_queue("p", f"q{number}") for number in range(_QUEUES))
    return int(client.exists(*[of_queue.bodies for of_queue in of_queues]))


def test_work_of_a_killed_sweeper_is_done_in_the_next_round() -> None:
    with servers.redis_server() as server, server.client() as client:
        with opened(server.uri, "p") as store:
            store.clock.now = round((time.time() - 3600) * 1000)
            for number in range(_QUEUES):
                store.post("expired", queue=f"q{number}", ttl=60)
        assert _left(client) == _QUEUES
        killed = subprocess.run([*_COMMAND, server.uri, "50"], timeout=100)
        assert killed.returncode == -signal.SIGKILL
        left = _left(client)
        assert 0 < left < _QUEUES
        client.delete(keys.SWEEPER)  # as its expiry does a minute later
        done = subprocess.run([*_COMMAND, server.uri], capture_output=True, text=True, timeout=100)
        assert done.stdout == f"{left}\n", done.stderr
        assert _left(client) == 0
        assert client.keys("zr:due:*") == []
        with opened(server.uri, "p") as store:
            assert findings(store) == []
