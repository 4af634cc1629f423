# SPDX-License-Identifier: Apache-2.0
"""Jobs of Celery while its workers, the service and Redis are killed and paused in turn."""

from __future__ import annotations

import itertools
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from zaqar_redis_client import Client

from tests.client import faults
from tests.client.clusters import Cluster
from tests.support import servers

_JOBS = 20_000
#: Seconds of a lease, and between two faults.
_LEASE, _BETWEEN = 4, 4.0


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_every_job_is_done_while_workers_service_and_redis_fail(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    path = tmp_path / "done"
    path.touch()
    project = f"project-{uuid.uuid4()}"
    with (
        servers.redis_server(fsync="always") as redis,
        servers.service(redis.uri, workers=2) as service,
    ):
        cluster = Cluster.of(service, tmp_path, "cache+memory://", project=project, lease=_LEASE)
        with cluster.worker() as one, cluster.worker(name="two") as two:
            producer = threading.Thread(target=_publish, args=(cluster, str(path)))
            producer.start()
            failures = itertools.cycle(faults.in_turn(service, redis, [one, two]))
            stopped = threading.Event()
            while len(_done(path)) < _JOBS:
                stopped.wait(_BETWEEN)
                next(failures)(stopped.wait)
            producer.join()
            assert one.end(signal.SIGTERM) == 0
            assert two.end(signal.SIGTERM) == 0
        with Client(service.url, project) as client:
            stats = client.queue("celery").stats()
        cluster.close()
    done = _done(path)
    doubles = done.total() - len(done)
    record_property("jobs done twice", doubles)
    print(f"{len(done)} jobs, {doubles} of them done again")
    assert {*done} == {*range(_JOBS)}
    # No publication is repeated without its key; each end of a lease can repeat what was held.
    assert stats["counters"]["posted"] == _JOBS
    assert doubles <= stats["counters"]["released"]


def _publish(cluster: Cluster, path: str) -> None:
    policy = {"max_retries": 1000, "interval_start": 0.2, "interval_max": 1}
    for number in range(_JOBS):
        cluster.task("note_late").apply_async((path, number), retry=True, retry_policy=policy)


def _done(path: Path) -> Counter[int]:
    return Counter(map(int, path.read_text().split()))
