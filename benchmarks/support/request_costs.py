# SPDX-License-Identifier: Apache-2.0
"""What requests cost a worker and its Redis, under wrk."""

from __future__ import annotations

from benchmarks.support.processes import cpu_seconds
from tests.support import servers
from tests.support.redis_cluster import RedisCluster
from zaqar_redis.benchmarks.load import WrkLoad
from zaqar_redis.benchmarks.service import BenchmarkFailed, MeasuredService

_CONNECTIONS = 32
#: Messages for each second of claims: more than one worker hands out.
_BACKLOG = 90_000
#: Of a round: µs of the worker, µs of Redis, requests a second.
Costs = tuple[float, float, float]
#: What they are called in tables.
COSTS = ("worker, CPU µs", "Redis, CPU µs", "done/s")


class CountedService:
    """A service of one worker over a store of its own."""

    def __init__(
        self,
        label: str,
        running: servers.RunningService,
        store: servers.RedisServer | RedisCluster,
        connections: int = _CONNECTIONS,
    ) -> None:
        self.label = label
        self._service = MeasuredService(running.url)
        self.close = self._service.close
        self.project = self._service.headers["X-Project-ID"]
        self._workers = running.workers()
        self._stores = store.pids if isinstance(store, RedisCluster) else (store.pid,)
        self._load = WrkLoad(connections)

    def post(self, seconds: int, count: int) -> Costs:
        queue = self._service.queue()
        costs = self._costs("post", f"/v2/queues/{queue}/messages", seconds, count)
        self._service.delete_queue(queue)
        return costs

    def post_to(self, queue: str, seconds: int) -> Costs:
        """Posts single messages to a queue that stays."""
        return self._costs("post", f"/v2/queues/{queue}/messages", seconds, 1)

    def claim(self, seconds: int, count: int = 10) -> Costs:
        """Claims *count* messages, at most ten, and deletes them by their ids: two requests."""
        queue = self._service.queue()
        self._service.fill(queue, _BACKLOG * seconds * count // 10)
        costs = self.claim_from(queue, seconds, count)
        self._service.delete_queue(queue)
        return costs

    def claim_from(self, queue: str, seconds: int, count: int = 10) -> Costs:
        """The same of a queue that stays, and has enough messages."""
        return self._costs("claim", f"/v2/queues/{queue}", seconds, count, "delete")

    def list(self, seconds: int) -> Costs:
        queue = self._service.queue()
        self._service.fill(queue, 1000)
        return self._costs("get", f"/v2/queues/{queue}/messages?limit=10&echo=true", seconds)

    def get(self, seconds: int) -> Costs:
        queue = self._service.queue()
        [message] = self._service.fill(queue, 1)
        return self._costs("get", f"/v2/queues/{queue}/messages/{message}", seconds)

    def path(self, path: str, seconds: int) -> Costs:
        return self._costs("get", path, seconds)

    def _costs(self, script: str, path: str, seconds: int, *arguments: object) -> Costs:
        before = self._used()
        url = self._service.url + path
        sample = self._load.run(script, url, self._service.headers, seconds, *arguments)
        if sample.dry or sample.errors:
            raise BenchmarkFailed(f"{script}: {sample.errors} errors, or nothing left to claim")
        used = [now - start for now, start in zip(self._used(), before, strict=True)]
        self._service.wait_until_idle()
        worker, redis = (each / sample.work * 1e6 for each in used)
        return worker, redis, sample.rate

    def _used(self) -> tuple[float, float]:
        """Returns the CPU seconds of the worker, and of all servers of the store."""
        return sum(map(cpu_seconds, self._workers)), sum(map(cpu_seconds, self._stores))
