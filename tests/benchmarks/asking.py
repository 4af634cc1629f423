# SPDX-License-Identifier: Apache-2.0
"""Clients that ask one thing after another, each another one: wrk asks the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from tests.benchmarks.rounds import sample
from zaqar_redis.bench.load import Sample
from zaqar_redis.bench.mixed import Connection
from zaqar_redis.bench.service import Service

#: Clients at a time.
_CLIENTS = 32
#: Seconds for one answer.
_TIMEOUT = 20.0

#: Asks once; whether the answer was good.
Ask = Callable[[], Awaitable[bool]]


class Reader:
    """GET over one connection."""

    def __init__(self, service: Service, path: Callable[[], str]) -> None:
        lines = [f"{name}: {value}\r\n" for name, value in service.headers.items()]
        self._rest = f" HTTP/1.1\r\nHost: bench\r\n{''.join(lines)}\r\n"
        self._path = path
        self._connection = Connection(service.host, service.port)

    async def __call__(self) -> bool:
        try:
            async with asyncio.timeout(_TIMEOUT):
                asked = f"GET {self._path()}{self._rest}".encode()
                status, _ = await self._connection.request(asked)
        except (OSError, TimeoutError):
            self.close()
            return False
        return status == 200

    def close(self) -> None:
        self._connection.close()


async def of_service(service: Service, path: Callable[[], str], seconds: int) -> Sample:
    """Let clients read one path after another of a service."""
    readers = [Reader(service, path) for _ in range(_CLIENTS)]
    used, start = time.process_time(), time.monotonic()
    try:
        delays, errors = await _asked(readers, seconds)
    finally:
        for reader in readers:
            reader.close()
    passed = time.monotonic() - start
    generator = (time.process_time() - used) / passed
    return sample(delays, errors, passed, generator=generator)


async def of_driver(ask: Ask, seconds: int) -> Sample:
    """Let clients ask something of a driver in this process, which is what is measured."""
    start = time.monotonic()
    delays, errors = await _asked([ask] * _CLIENTS, seconds)
    return sample(delays, errors, time.monotonic() - start)


async def _asked(asks: list[Ask] | list[Reader], seconds: int) -> tuple[list[int], int]:
    """Nanoseconds that each good answer took, and how many were not good."""
    end = time.monotonic_ns() + seconds * 10**9
    delays: list[int] = []
    errors = 0

    async def client(ask: Ask) -> None:
        nonlocal errors
        now = time.monotonic_ns()
        while now < end:
            good, before = await ask(), now
            now = time.monotonic_ns()
            if good:
                delays.append(now - before)
            else:
                errors += 1
                await asyncio.sleep(0)  # a refusal without waiting must not keep the others out

    await asyncio.gather(*map(client, asks))
    return delays, errors
