# SPDX-License-Identifier: Apache-2.0
"""Queues move under load while movers and pools die: nothing is lost or duplicated."""

from __future__ import annotations

import contextlib
import functools
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults import load
from tests.support import servers
from tests.support.command_line import CommandLine
from tests.support.tiers import in_gate

_OPTIONS: dict[str, dict[str, object]] = load.OPTIONS | {"DEFAULT": {"admin_mode": True}}


class PooledCluster:
    """A service with two workers, its default pool, and two other pools."""

    def __init__(
        self,
        service: servers.RunningService,
        default_pool: servers.RedisServer,
        pools: list[servers.RedisServer],
    ) -> None:
        self.service = service
        self.default_pool = default_pool
        self.pools = pools

    def ask(self, method: str, path: str, document: object | None = None) -> httpx.Response:
        url = f"{self.service.url}/v2{path}"
        headers = load.headers("operator")
        answer = httpx.request(method, url, json=document, headers=headers, timeout=60)
        assert answer.status_code < 400, answer.text
        return answer

    def is_empty(self, pool: str) -> bool:
        return bool(self.ask("GET", f"/pools/{pool}?detailed=true").json()["queues"] == 0)

    def check(self) -> None:
        """Asserts that there is no damage, and that a repair removes all leftovers."""
        assert [found for found in self._checked() if found["kind"] == "damage"] == []
        self._checked("--repair")
        assert self._checked() == []

    def _checked(self, *options: str) -> list[dict[str, Any]]:
        shell = CommandLine(["--storage", self.default_pool.uri])
        found: list[dict[str, Any]] = shell.shown("check", *options)
        return found

    @contextlib.contextmanager
    def mover(self, project: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """A mover that ends between two moves unless a test kills it: no queue stays locked."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "benchmarks.chaos.mover"),
                    *(self.default_pool.uri, project, "busy"),
                ],
                stdout=output,
            )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()


@pytest.fixture
def cluster() -> Iterator[PooledCluster]:
    with (
        servers.redis_server(fsync="always") as default_pool,
        servers.redis_server(fsync="always") as one,
        servers.redis_server(servers.VALKEY, fsync="always") as two,
        servers.service(default_pool.uri, workers=2, options=_OPTIONS) as service,
    ):
        cluster = PooledCluster(service, default_pool, [one, two])
        for name, store in (("one", one), ("two", two)):
            cluster.ask("PUT", f"/pools/{name}", {"uri": store.uri, "weight": 1})
        yield cluster


def _lines(log: Path, failed: bool) -> int:
    lines = log.read_text().splitlines() if log.exists() else []
    return sum(line.startswith("again") == failed for line in lines)


def _wait_for_moves(log: Path, count: int, failed: bool = False) -> None:
    """Waits until the mover has finished, or failed at, *count* more moves."""
    wanted = _lines(log, failed) + count
    servers.wait_for(lambda: _lines(log, failed) >= wanted, f"{count} moves")


@pytest.mark.nightly
def test_queue_moves_back_and_forth_under_load(
    cluster: PooledCluster, project: str, tmp_path: Path
) -> None:
    log = tmp_path / "moves"
    with load.QueueLoad(cluster.service, project) as clients:
        clients.wait_for_more()
        with cluster.mover(project, log):
            _wait_for_moves(log, 20)
            clients.wait_for_more()
    clients.check()
    assert set(clients.statuses) <= {201, 204, 503}
    assert clients.statuses[503] < sum(clients.statuses.values()) / 4
    assert clients.broken == 0


@pytest.mark.parametrize("kills", in_gate([3, 8]))
def test_killed_movers_lose_and_duplicate_nothing(
    cluster: PooledCluster, project: str, tmp_path: Path, kills: int
) -> None:
    log = tmp_path / "moves"
    with load.QueueLoad(cluster.service, project) as clients:
        clients.wait_for_more()
        for round_ in range(kills):
            with cluster.mover(project, log) as mover:
                _wait_for_moves(log, 1)
                # Each time at another point of the move.
                servers.wait_for(_after(round_ * 7), "the next to be under way")
                mover.send_signal(signal.SIGKILL)
        with cluster.mover(project, log):
            _wait_for_moves(log, 2)
            clients.wait_for_more()
    clients.check()
    assert set(clients.statuses) <= {201, 204, 503}
    cluster.check()


@pytest.mark.nightly
def test_pool_killed_during_a_move_loses_and_duplicates_nothing(
    cluster: PooledCluster, project: str, tmp_path: Path
) -> None:
    log = tmp_path / "moves"
    with load.QueueLoad(cluster.service, project) as clients, cluster.mover(project, log):
        for store in (*cluster.pools, cluster.default_pool):
            clients.wait_for_more()
            _wait_for_moves(log, 1)
            store.signal(signal.SIGKILL)
            _wait_for_moves(log, 5, failed=True)
            store.start()
        clients.wait_for_more()
        _wait_for_moves(log, 2)
    clients.check()
    cluster.check()


@pytest.mark.nightly
def test_a_pool_is_drained_under_load(cluster: PooledCluster, project: str) -> None:
    with load.QueueLoad(cluster.service, project) as clients:
        clients.wait_for_more()
        for name in ("one", "two", "one"):
            other = "two" if name == "one" else "one"
            cluster.ask("PATCH", f"/pools/{other}", {"draining": False})
            cluster.ask("PATCH", f"/pools/{name}", {"draining": True})
            servers.wait_for(functools.partial(cluster.is_empty, name), f"{name} to be empty")
            clients.wait_for_more()
    clients.check()
    cluster.ask("DELETE", "/pools/one")
    clients.check()
    cluster.check()


def _after(calls: int) -> Callable[[], bool]:
    """Returns a condition that holds after so many calls."""
    left = iter(range(calls, -1, -1))

    def holds() -> bool:
        return next(left) == 0

    return holds
