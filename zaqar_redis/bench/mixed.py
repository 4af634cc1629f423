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
from typing import cast

import uvloop

from zaqar_redis.bench.load import LoadSample
from zaqar_redis.bench.service import BenchmarkFailed, MeasuredService

#: Messages posted and not yet claimed, at most.
WINDOW = 256
#: Seconds until a consumer whose claim was empty claims again.
_PAUSE = 0.002
#: Timeout of one request.
_TIMEOUT = 20.0

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_IDS = re.compile(rb'"id" *: *"([^"]+)"')
_TIMES = re.compile(rb'"at" *: *(\d+)')


class _HttpProtocol(asyncio.Protocol):
    """The HTTP client side of a connection, one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.reusable = True
        self._data = b""
        self._response: asyncio.Future[tuple[int, bytes]] | None = None

    def send(self, data: bytes) -> asyncio.Future[tuple[int, bytes]]:
        if self.transport is None:
            raise ConnectionResetError
        self._data = b""
        self._response = asyncio.get_running_loop().create_future()
        self.transport.write(data)
        return self._response

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport, self.reusable = None, False
        if self._response and not self._response.done():
            self._response.set_exception(exc or ConnectionResetError())

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, found, body = self._data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not found or len(body) < (int(length[1]) if length else 0):
            return
        if _CLOSES.search(head):
            self.reusable = False
        if self._response and not self._response.done():
            self._response.set_result((int(head[9:12]), body))


class KeepAliveConnection:
    """A minimal HTTP/1.1 client, so as not to be the bottleneck; reconnects when needed."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._protocol: _HttpProtocol | None = None

    async def request(self, data: bytes) -> tuple[int, bytes]:
        """Returns status and body.  Raises OSError when the connection breaks."""
        if self._protocol is None or not self._protocol.reusable:
            self.close()
            loop = asyncio.get_running_loop()
            _, self._protocol = await loop.create_connection(_HttpProtocol, *self._address)
        return await self._protocol.send(data)

    def close(self) -> None:
        if self._protocol and self._protocol.transport:
            self._protocol.transport.close()
        self._protocol = None


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
        connection = self._connection()
        try:
            while time.monotonic() < self._end:
                if self._in_flight >= WINDOW:
                    await asyncio.sleep(_PAUSE)
                    continue
                self._in_flight += 1
                body = b'{"messages":[{"body":{"at":%d,"note":"%s"}}]}'
                data = body % (time.monotonic_ns(), b"x" * 110)
                status, _ = await self._request(connection, b"POST", "/messages", data)
                if status != 201:
                    self._in_flight -= 1
                    await self._failed()
        finally:
            connection.close()

    async def _consume(self) -> None:
        connection = self._connection()
        try:
            while time.monotonic() < self._end:
                status, body = await self._request(connection, b"POST", "/claims?limit=10", b"{}")
                if status == 201:
                    await self._finish(connection, body)
                elif status == 204:
                    await asyncio.sleep(_PAUSE)
                else:
                    await self._failed()
        finally:
            connection.close()

    async def _finish(self, connection: KeepAliveConnection, body: bytes) -> None:
        now = time.monotonic_ns()
        posted = [int(moment) for moment in _TIMES.findall(body)]
        self.delays += [now - moment for moment in posted]
        self._in_flight -= len(posted)
        ids = b",".join(_IDS.findall(body)).decode()
        status, _ = await self._request(connection, b"DELETE", f"/messages?ids={ids}", b"")
        if status != 204:
            await self._failed()

    async def _failed(self) -> None:
        self.errors += 1
        await asyncio.sleep(_PAUSE)

    def _connection(self) -> KeepAliveConnection:
        return KeepAliveConnection(self._service.host, self._service.port)

    async def _request(
        self, connection: KeepAliveConnection, method: bytes, path: str, body: bytes
    ) -> tuple[int, bytes]:
        lines = [f"{name}: {value}\r\n" for name, value in self._service.headers.items()]
        if body:
            lines.append(f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n")
        head = f" {self._base}{path} HTTP/1.1\r\nHost: bench\r\n{''.join(lines)}\r\n"
        try:
            async with asyncio.timeout(_TIMEOUT):
                return await connection.request(method + head.encode() + body)
        except (OSError, TimeoutError):
            connection.close()
            return 0, b""


def measure(service: MeasuredService, queue: str, seconds: int, connections: int) -> LoadSample:
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
