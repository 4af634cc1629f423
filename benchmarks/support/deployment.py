# SPDX-License-Identifier: Apache-2.0
"""The servers of a benchmark, which stop with it however it ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.support import servers
from zaqar_redis.benchmarks import service as bench
from zaqar_redis.pool_records import Pool
from zaqar_redis.storage import pools

T = TypeVar("T")

#: Concurrent calls of `run_for_each`.
_BATCH = 200


def service(
    stack: contextlib.ExitStack, store: servers.RedisServer, **options: object
) -> tuple[bench.MeasuredService, int]:
    """Starts a service of one worker; returns a client of it, and the worker's pid."""
    running = stack.enter_context(servers.service(store.uri, options={"DEFAULT": options}))
    ours = bench.MeasuredService(running.url)
    stack.callback(ours.close)
    [worker] = running.workers()
    return ours, worker


class PooledDeployment:
    """A default store, pools, and a pooled driver over them in this process."""

    def __init__(
        self, stack: contextlib.ExitStack, runner: asyncio.Runner, pool_count: int
    ) -> None:
        self._runner = runner
        names = ["default", *(f"pool-{number}" for number in range(1, pool_count + 1))]
        self.pools = {name: stack.enter_context(servers.redis_server()) for name in names}
        self.default_store = self.pools.pop("default")
        self.driver = pools.create(self.default_store.uri, self.default_store.uri, {})
        stack.callback(lambda: self.run(self.driver.close()))
        self.run(self.driver.start())
        for name in self.pools:
            self.put(name)

    def put(self, name: str, *, accepts_queues: bool = True) -> None:
        """Creates or changes a pool; one that accepts no queues is draining."""
        uri = self.pools[name].uri
        pool = Pool(name=name, uri=uri, weight=100, draining=not accepts_queues)
        self.run(self.driver.control.pools.put(pool, canonical=uri))
        self.driver.router.invalidate(None)

    def run(self, awaitable: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await awaitable

        return self._runner.run(awaited())

    def run_for_each(self, one: Callable[[int], Awaitable[object]], count: int) -> None:
        """Awaits *one* for each number up to *count*, many at a time."""

        async def all_of_them() -> None:
            for start in range(0, count, _BATCH):
                numbers = range(start, min(start + _BATCH, count))
                await asyncio.gather(*map(one, numbers))

        self.run(all_of_them())
