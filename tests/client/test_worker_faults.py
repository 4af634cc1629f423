# SPDX-License-Identifier: Apache-2.0
"""Many jobs, while workers and services are killed: every job is done, and doubles are few."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import dramatiq
import pytest
from zaqar_redis_client import Client, Unavailable

from tests.client import frameworks
from tests.client.worker_process import worker_process
from tests.support import servers
from tests.support.servers import RedisServer

_JOBS, _CONCURRENCY, _PREFETCH = 20_000, 16, 16
_WORKERS = 3
#: Seconds that Redis stands still: longer than the leases of `dramatiq_app`.
_PAUSE = 4
#: dramatiq prefetches twice as many as it has threads.
_COMMAND = ["dramatiq", "tests.client.dramatiq_app", "--processes", "1", "--threads", "8"]

Start = Callable[[str, str, Path], contextlib.AbstractContextManager[object]]
Job = Callable[[Path, int], dict[str, object]]


def _left(client: Client) -> int:
    with contextlib.suppress(Unavailable):
        return int(client.queue("q").stats()["messages"]["total"])
    return _JOBS


def _falls(client: Client, below: int) -> bool:
    return _left(client) < below


def _own(url: str, project: str, folder: Path) -> contextlib.AbstractContextManager[object]:
    options = {"concurrency": _CONCURRENCY, "prefetch": _PREFETCH, "ttl": 5}
    return worker_process(url, project, folder / "log", **options)


def _dramatiq(url: str, project: str, folder: Path) -> contextlib.AbstractContextManager[object]:
    return frameworks.worker(_COMMAND, url, project, folder)


def _own_job(folder: Path, number: int) -> dict[str, object]:
    return {"task": "count", "args": [str(folder), number]}


def _dramatiq_job(folder: Path, number: int) -> dict[str, object]:
    job: dramatiq.Message[None] = dramatiq.Message("q", "count", (str(folder), number), {}, {})
    return dict(job.asdict())


def _fault(server: RedisServer, kills: int) -> None:
    """Kills Redis, or pauses it for longer than leases of dramatiq last, in turns."""
    if kills % 4 == 1:
        server.kill()
        server.start()
    elif kills % 4 == 3:
        server.pause()
        time.sleep(_PAUSE)
        server.resume()


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("start", "job", "redis_falls"),
    [(_own, _own_job, False), (_dramatiq, _dramatiq_job, True)],
    ids=["worker", "dramatiq"],
)
def test_every_job_is_done_while_workers_and_services_are_killed(
    start: Start, job: Job, redis_falls: bool, project: str, tmp_path: Path
) -> None:
    counted, kills = tmp_path / "counted", 0
    counted.touch()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(servers.redis_server(fsync="always"))
        running = stack.enter_context(servers.service(server.uri, workers=2))
        client = stack.enter_context(Client(running.url, project))
        client.queue("q").create(_min_claim_ttl=1)

        def worker() -> contextlib.ExitStack:
            own = stack.enter_context(contextlib.ExitStack())
            own.enter_context(start(running.url, project, tmp_path))
            return own

        workers = [worker() for _ in range(_WORKERS)]
        client.queue("q").post_many([job(tmp_path, n) for n in range(_JOBS)])
        while left := _left(client):
            # Some jobs are done between two kills; at the end leases of the dead have to end.
            with contextlib.suppress(TimeoutError):
                servers.wait_for(functools.partial(_falls, client, left - 500), "some jobs", 8)
            workers.pop(0).close()
            workers.append(worker())
            kills += 1
            for pid in running.workers()[: kills % 2]:
                os.kill(pid, signal.SIGKILL)
            if redis_falls:
                _fault(server, kills)
    lines = Counter(map(int, counted.read_text().split()))
    doubles = lines.total() - _JOBS
    print(f"{kills} kills, {doubles} jobs done twice")
    assert lines.keys() == set(range(_JOBS))
    assert kills > 3
    # A Redis that is away lets the leases of all workers end, not only those of the killed one.
    assert doubles <= kills * (_CONCURRENCY + _PREFETCH) * (_WORKERS if redis_falls else 1)
