# SPDX-License-Identifier: Apache-2.0
"""Workers of Celery on the service: prefork, results, remote control, and their ends."""

from __future__ import annotations

import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import chain, chord, group
from celery.exceptions import TaskRevokedError

from tests.client.celery_app import environment
from tests.client.clusters import Cluster
from tests.conventions.files import ROOT
from tests.support import processes, servers
from tests.support.backends import Backend

_SECONDS = 60


@pytest.fixture(scope="module")
def backend(redis_server: Backend) -> str:
    return f"redis+socket://{redis_server.uri.removeprefix('unix://')}"


@pytest.fixture(scope="module")
def cluster(
    running: servers.RunningService, backend: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """An application that has a worker, and keeps results in Redis."""
    cluster = Cluster.of(running, tmp_path_factory.mktemp("celery"), backend)
    with cluster.worker():
        yield cluster
    cluster.close()


def test_tasks_run_alone_and_in_groups_chains_and_chords(cluster: Cluster) -> None:
    add = cluster.task("add")
    many = group(add.s(number, number) for number in range(20))()
    chained = chain(add.s(1, 2), add.s(4))()
    summed = chord([add.s(number, 1) for number in range(5)], add.s())()
    assert chained.get(timeout=_SECONDS) == 7
    assert many.get(timeout=_SECONDS) == [2 * number for number in range(20)]
    assert summed.get(timeout=_SECONDS) == 15


def test_task_is_retried(cluster: Cluster) -> None:
    assert cluster.task("fail_twice").delay(0).get(timeout=_SECONDS) == 2


def test_worker_answers_commands(cluster: Cluster) -> None:
    inspect = cluster.app.control.inspect(timeout=_SECONDS, limit=1)
    assert inspect.ping() == {"one@tests": {"ok": "pong"}}
    assert "add" in inspect.registered()["one@tests"]


def test_revoked_task_does_not_run(cluster: Cluster) -> None:
    path = str(cluster.folder / "revoked")
    waiting = cluster.task("note").apply_async((path, 1), countdown=2)
    cluster.app.control.revoke(waiting.id, reply=True, timeout=_SECONDS, limit=1)
    with pytest.raises(TaskRevokedError):
        waiting.get(timeout=_SECONDS)
    assert not Path(path).exists()


def test_results_come_over_the_transport_itself(
    running: servers.RunningService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster.of(running, tmp_path, "rpc://")
    with cluster.worker():
        results = [cluster.task("add").delay(number, 1) for number in range(5)]
        assert [each.get(timeout=_SECONDS) for each in results] == [1, 2, 3, 4, 5]
        # Longer than Celery waits at a time: it must not take that for a lost connection.
        late = cluster.task("note").delay(str(tmp_path / "late"), 6, 1.2)
        assert late.get(timeout=_SECONDS) == 6
    assert "reconnect" not in caplog.text
    cluster.close()


def test_warm_shutdown_loses_nothing_and_repeats_at_most_the_task_of_each_process(
    running: servers.RunningService, backend: str, tmp_path: Path
) -> None:
    cluster = Cluster.of(running, tmp_path, backend)
    path = tmp_path / "done"
    path.touch()
    results = [cluster.task("note_late").delay(str(path), each, 0.02) for each in range(40)]
    with cluster.worker() as worker:
        servers.wait_for(lambda: len(path.read_text().split()) >= 4, "some tasks")
        assert worker.end(signal.SIGTERM) == 0
    done = len(path.read_text().split())
    with cluster.worker(name="two"):
        assert [each.get(timeout=_SECONDS) for each in results] == [*range(40)]
    assert done < 40
    counts = Counter(map(int, path.read_text().split()))
    assert counts.keys() == {*range(40)}
    # Celery does not always take results of a pool that ends: the same with its own transports.
    again = counts - Counter(range(40))
    assert again.total() <= 2, again
    cluster.close()


def test_tasks_of_a_killed_worker_are_done_by_another(
    running: servers.RunningService, backend: str, tmp_path: Path
) -> None:
    cluster = Cluster.of(running, tmp_path, backend, lease=2)
    path = tmp_path / "done"
    path.touch()
    results = [cluster.task("hold").delay(str(path), each) for each in range(5)]
    with cluster.worker() as worker:
        servers.wait_for(lambda: len(path.read_text().split()) == 2, "two tasks")
        worker.kill()
    Path(f"{path}.done").touch()
    with cluster.worker(name="two"):
        for each in results:
            each.get(timeout=_SECONDS)
    assert {*map(int, path.read_text().split())} == {*range(5)}
    cluster.close()


def test_examples_of_its_document_work_as_printed(
    running: servers.RunningService, project: str, tmp_path: Path
) -> None:
    text = (ROOT / "doc" / "celery.md").read_text()
    module, program = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (command,) = re.findall(r"^    celery (.* worker .*)$", text, re.MULTILINE)
    module = module.replace("127.0.0.1:8888/demo", f"127.0.0.1:{running.port}/{project}")
    (tmp_path / "tasks.py").write_text(module)
    log = tmp_path / "worker.log"
    words = [*processes.PYTHON, "celery", *command.split()]
    worker = servers.start_logged(words, log, environment(), tmp_path)
    with servers.stopping(worker):
        done = processes.run(
            [sys.executable, "-c", program], cwd=tmp_path, env=environment(), timeout=100
        )
        assert done.stdout == "the sum: 7\nin a second: 7\n", done.stderr + log.read_text()
        assert done.stderr == ""
