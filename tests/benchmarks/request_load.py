# SPDX-License-Identifier: Apache-2.0
"""Load of clients whose every request differs; those of wrk are all the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from tests.benchmarks.rounds import sample
from zaqar_redis.bench.load import LoadSample
from zaqar_redis.bench.mixed import KeepAliveConnection
from zaqar_redis.bench.service import MeasuredService

#: Clients at a time.
_CLIENTS = 32
#: Timeout of one request.
_TIMEOUT = 20.0

#: Sends one request; returns whether it succeeded.
RequestSender = Callable[[], Awaitable[bool]]


class HttpReader:
    """A sender of GET requests over one connection."""

    def __init__(self, service: MeasuredService, path: Callable[[], str]) -> None:
        lines = [f"{name}: {value}\r\n" for name, value in service.headers.items()]
        self._rest = f" HTTP/1.1\r\nHost: bench\r\n{''.join(lines)}\r\n"
        self._path = path
        self._connection = KeepAliveConnection(service.host, service.port)

    async def __call__(self) -> bool:
        try:
            async with asyncio.timeout(_TIMEOUT):
                request = f"GET {self._path()}{self._rest}".encode()
                status, _ = await self._connection.request(request)
        except (OSError, TimeoutError):
            self.close()
            return False
        return status == 200

    def close(self) -> None:
        self._connection.close()


async def load_service(
    service: MeasuredService, path: Callable[[], str], seconds: int
) -> LoadSample:
    """Runs clients that read one path after another of a service."""
    readers = [HttpReader(service, path) for _ in range(_CLIENTS)]
    used, start = time.process_time(), time.monotonic()
    try:
        delays, errors = await _run_clients(readers, seconds)
    finally:
        for reader in readers:
            reader.close()
    passed = time.monotonic() - start
    generator = (time.process_time() - used) / passed
    return sample(delays, errors, passed, generator=generator)


async def load_driver(send: RequestSender, seconds: int) -> LoadSample:
    """Runs clients that call a driver in this process, which is the measured one."""
    start = time.monotonic()
    delays, errors = await _run_clients([send] * _CLIENTS, seconds)
    return sample(delays, errors, time.monotonic() - start)


async def _run_clients(
    senders: list[RequestSender] | list[HttpReader], seconds: int
) -> tuple[list[int], int]:
    """Returns the nanoseconds of each successful request, and the number of failed ones."""
    end = time.monotonic_ns() + seconds * 10**9
    delays: list[int] = []
    errors = 0

    async def client(send: RequestSender) -> None:
        nonlocal errors
        now = time.monotonic_ns()
        while now < end:
            good, before = await send(), now
            now = time.monotonic_ns()
            if good:
                delays.append(now - before)
            else:
                errors += 1
                await asyncio.sleep(0)  # an immediate failure must not starve other clients

    await asyncio.gather(*map(client, senders))
    return delays, errors
