# SPDX-License-Identifier: Apache-2.0
"""The servers of a benchmark: its own, and gone with it however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from tests import servers
from zaqar_redis.bench import service as bench
from zaqar_redis.records import Pool
from zaqar_redis.storage import pooled

T = TypeVar("T")

#: Things made at a time.
_BATCH = 200


def redis_server(stack: contextlib.ExitStack) -> servers.RedisServer:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="zr-"))
    server = servers.RedisServer(Path(folder))
    stack.callback(server.stop)  # first: it may be interrupted while it starts
    server.start()
    return server


def service(
    stack: contextlib.ExitStack, store: servers.RedisServer, **options: object
) -> tuple[bench.Service, int]:
    """A service of one worker, and the pid of that."""
    running = stack.enter_context(servers.service(store.uri, options={"DEFAULT": options}))
    ours = bench.Service(running.url)
    stack.callback(ours.close)
    [worker] = running.workers()
    return ours, worker


class House:
    """A home store, pools, and a pooled driver of this process over them."""

    def __init__(self, stack: contextlib.ExitStack, runner: asyncio.Runner, pools: int) -> None:
        self._runner = runner
        self.home = redis_server(stack)
        self.pools = {f"pool-{number}": redis_server(stack) for number in range(1, pools + 1)}
        self.driver = pooled.create(self.home.uri, self.home.uri, {})
        stack.callback(lambda: self.run(self.driver.close()))
        self.run(self.driver.start())
        for name in self.pools:
            self.put(name)

    def put(self, name: str, *, takes: bool = True) -> None:
        """Make or change a pool; one that takes no queues is draining."""
        uri = self.pools[name].uri
        pool = Pool(name=name, uri=uri, weight=100, draining=not takes)
        self.run(self.driver.control.pools.put(pool, canonical=uri))
        self.driver.places.hear(None)

    def run(self, awaitable: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await awaitable

        return self._runner.run(awaited())

    def make(self, one: Callable[[int], Awaitable[object]], count: int) -> None:
        """Do *one* for each number, many at a time."""

        async def all_of_them() -> None:
            for start in range(0, count, _BATCH):
                numbers = range(start, min(start + _BATCH, count))
                await asyncio.gather(*map(one, numbers))

        self.run(all_of_them())
