# SPDX-License-Identifier: Apache-2.0
"""The recipes of doc/recipes.md do as they promise; that of the browser is in tests/realtime."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from zaqar_redis_client import Client, Queue

from tests.client import frameworks, recipes
from tests.support import processes, servers


@pytest.fixture
def folder(running: servers.RunningService, project: str, tmp_path: Path) -> Path:
    address = running.url.removeprefix("http://")
    names = ("thumbs.py", "failed.py", "tenants.py", "crowd.py", "pipeline.py")
    recipes.write(tmp_path, *names, address=address, project=f'"{project}"')
    return tmp_path


@contextlib.contextmanager
def _worker(folder: Path, words: str) -> Iterator[Path]:
    """Runs the worker; yields its log."""
    _, place = recipes.command(words)
    command = [sys.executable, "-m", "zaqar_redis_client.command", place]
    log = folder / "worker.log"
    with servers.stopping(servers.start_logged(command, log, frameworks.PATH, folder)):
        yield log


def _python(folder: Path, *words: str) -> str:
    environment = os.environ | frameworks.PATH
    done = processes.run([sys.executable, *words], cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _zaqar_redis(running: servers.RunningService, project: str, words: str) -> str:
    """Runs a command of the page; returns what it prints."""
    recipes.command(f"zaqar-redis {words} --project demo")
    options = [*shlex.split(words), "--project", project, "--url", running.url]
    done = processes.run([*processes.ZAQAR_REDIS, *options])
    assert done.returncode == 0, done.stderr
    return done.stdout


def _lines(log: Path, *beginnings: str) -> list[str]:
    return [line for line in log.read_text().splitlines() if line.startswith(beginnings)]


def test_job_that_fails_four_times_is_a_dead_letter_with_its_reason(
    folder: Path, running: servers.RunningService, project: str
) -> None:
    with _worker(folder, "zaqar-redis-worker thumbs:worker") as log:
        for path in ("thumbs.py", "no-such-file"):
            post = f"import thumbs; thumbs.thumbnail.post_blocking({path!r})".replace("'", '"')
            recipes.command(f"python -c '{post}'")
            _python(folder, "-c", post)
        servers.wait_for(lambda: bool(_lines(log, "thumbs.py: ")), "the job that succeeds")
        with Client(running.url, project) as client:
            dead = client.queue("thumbnails-failed")
            servers.wait_for(lambda: any(dead.messages()), "the dead letter", 90)
    assert _python(folder, "failed.py").startswith("['no-such-file'] FileNotFoundError: ")
    words = ["queue", "redrive", "--project", project, "thumbnails-failed", "--url", running.url]
    done = processes.run([*processes.ZAQAR_REDIS, *words])
    assert done.returncode == 0, done.stderr
    with Client(running.url, project) as client:
        assert _total(client.queue("thumbnails")) == 1


def test_small_tenants_are_served_while_a_big_one_waits(folder: Path) -> None:
    tenants = ("busy ", "quiet ", "gold ")
    with _worker(folder, "zaqar-redis-worker tenants:worker") as log:
        servers.wait_for(lambda: "works for reports" in log.read_text(), "the worker")
        _python(folder, *recipes.command("python crowd.py")[1:])
        servers.wait_for(lambda: len(_lines(log, *tenants)) == 210, "all reports", 90)
    done = _lines(log, *tenants)
    last = max(done.index("quiet 4"), done.index("gold 4"))
    # What busy had done before they came is not known here; behind that it has a turn for each.
    first = min(done.index("quiet 0"), done.index("gold 0"))
    assert last - first < 40


def test_pipeline_that_is_killed_again_and_again_invoices_each_order_once(
    folder: Path, running: servers.RunningService, project: str
) -> None:
    with Client(running.url, project) as client:
        orders, invoices = client.queue("new-orders"), client.queue("invoices")
        orders.create()
        invoices.create()
        orders.post_many([{"number": n, "price": n % 7, "pieces": 2} for n in range(500)])
        order = '{"number": 4711, "price": 20, "pieces": 3}'
        _zaqar_redis(running, project, f"message post new-orders '{order}'")
        kills = 0
        while _total(orders):
            goal = _total(invoices) + 80
            process = subprocess.Popen(
                [sys.executable, "pipeline.py"], cwd=folder, env=os.environ | frameworks.PATH
            )
            try:
                # What killed ones have left comes back when their leases end.
                servers.wait_for(partial(_is_done, orders, invoices, goal), "some invoices", 90)
            finally:
                process.kill()
                process.wait()
            kills += 1
        found = sorted((each.body["order"], each.body["total"]) for each in invoices.messages())
    assert kills > 3
    assert found == [*((n, n % 7 * 2) for n in range(500)), (4711, 60)]
    shown = _zaqar_redis(running, project, "message list invoices")
    assert shown.count('{"order": 4711, "total": 60}') == 1


def _is_done(orders: Queue, invoices: Queue, goal: int) -> bool:
    return _total(invoices) >= goal or not _total(orders)


def _total(queue: Queue) -> int:
    return int(queue.stats()["messages"]["total"])


def test_celery_moves_from_redis_and_does_each_task_once(
    running: servers.RunningService, project: str, tmp_path: Path
) -> None:
    log, packed = tmp_path / "worker.log", tmp_path / "packed"
    environment = os.environ | frameworks.PATH
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    with servers.redis_server() as server, server.client() as redis:
        ours = {"redis": f"127.0.0.1:{server.open_port()}"}
        recipes.write(tmp_path, "shop.py", "orders.py", **ours)
        ours["address"] = running.url.removeprefix("http://")

        def words(line: str) -> list[str]:
            recipes.command(line)
            line = line.replace("/demo ", f"/{project} ")
            for name, other in ours.items():
                line = line.replace(recipes.PRINTED[name], other)
            return ["env", *line.split()]

        def worker(line: str) -> contextlib.AbstractContextManager[None]:
            return servers.stopping(servers.start_logged(words(line), log, environment, tmp_path))

        def produce(line: str, last: int) -> None:
            done = processes.run(words(line), cwd=tmp_path, env=environment)
            assert done.stdout == f"the last one: {last}\n", done.stderr

        def is_empty() -> bool:
            recipes.command("redis-cli llen celery")
            recipes.command("redis-cli hlen unacked")
            return (redis.llen("celery"), redis.hlen("unacked")) == (0, 0)

        old, new = "redis://127.0.0.1:6379/0", "zaqar-redis://127.0.0.1:8888/demo"
        with worker(f"BROKER={new} celery --app shop worker --hostname new@%h"):
            with worker(f"BROKER={old} celery --app shop worker --hostname old@%h"):
                produce(f"BROKER={old} python orders.py 1 100", 100)
                produce(f"BROKER={new} python orders.py 101 200", 200)
                servers.wait_for(is_empty, "no task in Redis")
            servers.wait_for(lambda: len(packed.read_text().split()) >= 200, "all tasks")
    assert sorted(map(int, packed.read_text().split())) == [*range(1, 201)]
