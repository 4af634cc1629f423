# SPDX-License-Identifier: Apache-2.0
"""Many jobs, while what runs them fails: every job is done, and doubles are few."""

from __future__ import annotations

import contextlib
import functools
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import dramatiq
import psutil
import pytest
from zaqar_redis_client import Client, Unavailable

from tests.client import faults, frameworks
from tests.client.worker_process import environment_of
from tests.support import processes, servers

_JOBS, _CONCURRENCY, _PREFETCH = 20_000, 16, 16
_WORKERS = 3
#: dramatiq prefetches twice as many as it has threads.
_COMMAND = ["dramatiq", "tests.client.dramatiq_app", "--processes", "1", "--threads", "8"]

Start = Callable[[str, str, Path, str], processes.LoggedProcess]
Job = Callable[[Path, int], dict[str, object]]


def _left(client: Client) -> int:
    with contextlib.suppress(Unavailable):
        return int(client.queue("q").stats()["messages"]["total"])
    return _JOBS


def _falls(client: Client, below: int) -> bool:
    return _left(client) < below


class _Group(processes.LoggedProcess):
    """A command and its children, which signals reach, too."""

    def signal(self, number: int) -> None:
        children = psutil.Process(self.pid).children(recursive=True) if self.is_alive else []
        super().signal(number)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.send_signal(number)


def _own(url: str, project: str, folder: Path, name: str) -> _Group:
    options = {"concurrency": _CONCURRENCY, "prefetch": _PREFETCH, "ttl": 5}
    command = [*processes.PYTHON, "zaqar_redis_client.command", "tests.client.jobs:worker"]
    return _group(environment_of(url, project, **options), command, folder, name)


def _dramatiq(url: str, project: str, folder: Path, name: str) -> _Group:
    variables = frameworks.PATH | {"SERVICE": url, "PROJECT": project}
    return _group(variables, [*processes.PYTHON, *_COMMAND], folder, name)


def _group(variables: dict[str, str], command: list[str], folder: Path, name: str) -> _Group:
    words = ["env", *(f"{each}={value}" for each, value in variables.items()), *command]
    return _Group(f"worker {name}", lambda _: words, folder / f"{name}.log")


def _own_job(folder: Path, number: int) -> dict[str, object]:
    return {"task": "count", "args": [str(folder), number]}


def _dramatiq_job(folder: Path, number: int) -> dict[str, object]:
    job: dramatiq.Message[None] = dramatiq.Message("q", "count", (str(folder), number), {}, {})
    return dict(job.asdict())


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("start", "job"), [(_own, _own_job), (_dramatiq, _dramatiq_job)], ids=["worker", "dramatiq"]
)
def test_every_job_is_done_while_workers_service_and_redis_fail(
    start: Start, job: Job, project: str, tmp_path: Path
) -> None:
    counted = tmp_path / "counted"
    counted.touch()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(servers.redis_server(fsync="always"))
        running = stack.enter_context(servers.service(server.uri, workers=2))
        client = stack.enter_context(Client(running.url, project))
        queue = client.queue("q")
        queue.create(_min_claim_ttl=1)
        workers = [
            stack.enter_context(processes.started(start(running.url, project, tmp_path, str(n))))
            for n in range(_WORKERS)
        ]
        failures = [*faults.in_turn(running, server, workers)]
        for number, fail in enumerate(failures):
            jobs = range(_JOBS * number // len(failures), _JOBS * (number + 1) // len(failures))
            queue.post_many([job(tmp_path, each) for each in jobs])
            # Some jobs are done between two faults, and some wait.
            below = functools.partial(_falls, client, len(jobs) * 2 // 3)
            servers.wait_for(below, "some jobs", 60)
            fail(time.sleep)
        servers.wait_for(functools.partial(_falls, client, 1), "all jobs", 60)
        stats = queue.stats()
    lines = Counter(map(int, counted.read_text().split()))
    doubles = lines.total() - _JOBS
    print(f"{len(failures)} faults, {doubles} jobs done twice")
    assert lines.keys() == set(range(_JOBS))
    # No job is posted twice; each end of a lease can repeat what was held.
    assert stats["counters"]["posted"] == _JOBS
    assert doubles <= stats["counters"]["released"]
