# SPDX-License-Identifier: Apache-2.0
"""Workload of producers and consumers together: latency of messages from post to claim.

Half of the connections post single messages that carry the time; the other half
claim ten and delete them.  The number of messages in flight is bounded, so that
the figure is the service's own latency and not the length of a growing backlog.
"""

from __future__ import annotations

import asyncio
import re
import time

import uvloop

from zaqar_redis.benchmarks.client import HttpConnection
from zaqar_redis.benchmarks.load import LoadSample
from zaqar_redis.benchmarks.service import BenchmarkFailed, MeasuredService

#: Messages posted and not yet claimed, at most.
WINDOW = 256
#: Seconds until a consumer whose claim was empty claims again.
_PAUSE = 0.002

_IDS = re.compile(rb'"id" *: *"([^"]+)"')
_TIMES = re.compile(rb'"at" *: *(\d+)')


class MixedRound:
    """One round against one queue."""

    def __init__(self, service: MeasuredService, queue: str, seconds: float) -> None:
        self._service = service
        self._base = f"/v2/queues/{queue}"
        self._end = time.monotonic() + seconds
        self._in_flight = 0
        self.delays: list[int] = []
        self.errors = 0

    async def run(self, connections: int) -> None:
        pairs = max(1, connections // 2)
        parts = [self._produce() for _ in range(pairs)] + [self._consume() for _ in range(pairs)]
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part)

    async def _produce(self) -> None:
        connection = self._service.connection()
        try:
            while time.monotonic() < self._end:
                if self._in_flight >= WINDOW:
                    await asyncio.sleep(_PAUSE)
                    continue
                self._in_flight += 1
                body = b'{"messages":[{"body":{"at":%d,"note":"%s"}}]}'
                data = body % (time.monotonic_ns(), b"x" * 110)
                status, _ = await self._request(connection, "POST", "/messages", data)
                if status != 201:
                    self._in_flight -= 1
                    await self._failed()
        finally:
            connection.close()

    async def _consume(self) -> None:
        connection = self._service.connection()
        try:
            while time.monotonic() < self._end:
                status, body = await self._request(connection, "POST", "/claims?limit=10", b"{}")
                if status == 201:
                    await self._finish(connection, body)
                elif status == 204:
                    await asyncio.sleep(_PAUSE)
                else:
                    await self._failed()
        finally:
            connection.close()

    async def _finish(self, connection: HttpConnection, body: bytes) -> None:
        now = time.monotonic_ns()
        posted = [int(moment) for moment in _TIMES.findall(body)]
        self.delays += [now - moment for moment in posted]
        self._in_flight -= len(posted)
        ids = b",".join(_IDS.findall(body)).decode()
        status, _ = await self._request(connection, "DELETE", f"/messages?ids={ids}")
        if status != 204:
            await self._failed()

    async def _failed(self) -> None:
        self.errors += 1
        await asyncio.sleep(_PAUSE)

    async def _request(
        self, connection: HttpConnection, method: str, path: str, body: bytes = b""
    ) -> tuple[int, bytes]:
        try:
            return await connection.request(method, self._base + path, body)
        except OSError:
            return 0, b""


def measure(service: MeasuredService, queue: str, seconds: float, connections: int) -> LoadSample:
    """Runs a round.  Raises BenchmarkFailed when no message was claimed."""
    used, start = time.process_time(), time.monotonic()

    async def main() -> MixedRound:
        run = MixedRound(service, queue, seconds)
        await run.run(connections)
        return run

    run = uvloop.run(main())
    passed = time.monotonic() - start
    if not run.delays:
        raise BenchmarkFailed(f"{service.url}: no message was claimed within {seconds} s")
    delays = sorted(run.delays)
    return LoadSample(
        rate=len(delays) / passed,
        p50=delays[len(delays) // 2] / 1e6,
        p99=delays[len(delays) * 99 // 100] / 1e6,
        generator=(time.process_time() - used) / passed,
        errors=run.errors,
        work=len(delays),
    )
