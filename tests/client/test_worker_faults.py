# SPDX-License-Identifier: Apache-2.0
"""Many jobs, while workers and services are killed: every job is done, and doubles are few."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from zaqar_redis_client import Client, Unavailable

from tests.client.worker_process import worker_process
from tests.support import servers
from tests.support.servers import RedisServer

_JOBS, _CONCURRENCY, _PREFETCH = 20_000, 16, 16
_WORKERS = 3


def _left(client: Client) -> int:
    with contextlib.suppress(Unavailable):
        return int(client.queue("q").stats()["messages"]["total"])
    return _JOBS


def _falls(client: Client, below: int) -> bool:
    return _left(client) < below


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_every_job_is_done_while_workers_and_services_are_killed(
    server: RedisServer, project: str, tmp_path: Path
) -> None:
    counted, log, kills = tmp_path / "counted", tmp_path / "log", 0
    counted.touch()
    options = {"concurrency": _CONCURRENCY, "prefetch": _PREFETCH, "ttl": 5}
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(servers.service(server.uri, workers=2))
        client = stack.enter_context(Client(running.url, project))

        def worker() -> contextlib.ExitStack:
            own = stack.enter_context(contextlib.ExitStack())
            process = own.enter_context(worker_process(running.url, project, log, **options))
            own.callback(process.kill)
            return own

        workers = [worker() for _ in range(_WORKERS)]
        bodies = [{"task": "count", "args": [str(tmp_path), n]} for n in range(_JOBS)]
        client.queue("q").post_many(bodies)
        while left := _left(client):
            # Some jobs are done between two kills; at the end leases of the dead have to end.
            with contextlib.suppress(TimeoutError):
                servers.wait_for(functools.partial(_falls, client, left - 500), "some jobs", 8)
            workers.pop(0).close()
            workers.append(worker())
            kills += 1
            for pid in running.workers()[: kills % 2]:
                os.kill(pid, signal.SIGKILL)
    lines = Counter(map(int, counted.read_text().split()))
    doubles = lines.total() - _JOBS
    print(f"{kills} kills, {doubles} jobs done twice")
    assert lines.keys() == set(range(_JOBS))
    assert kills > 3
    assert doubles <= kills * (_CONCURRENCY + _PREFETCH)
