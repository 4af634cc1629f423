# SPDX-License-Identifier: Apache-2.0
"""Load of clients whose every request differs; those of wrk are all the same."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence

from benchmarks.support.rounds import sample
from zaqar_redis.benchmarks.client import HttpConnection
from zaqar_redis.benchmarks.load import LoadSample
from zaqar_redis.benchmarks.service import MeasuredService

#: Clients at a time.
_CLIENTS = 32

#: Sends one request; returns whether it succeeded.
RequestSender = Callable[[], Awaitable[bool]]


async def load_service(
    service: MeasuredService, path: Callable[[], str], seconds: float
) -> LoadSample:
    """Runs clients that read one path after another of a service."""

    def sender(connection: HttpConnection) -> RequestSender:
        async def send() -> bool:
            try:
                status, _ = await connection.request("GET", path())
            except OSError:
                return False
            return status == 200

        return send

    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(contextlib.closing(service.connection())) for _ in range(_CLIENTS)
        ]
        used, start = time.process_time(), time.monotonic()
        delays, errors = await _run_clients(list(map(sender, connections)), seconds)
        passed = time.monotonic() - start
        generator = (time.process_time() - used) / passed
        return sample(delays, errors, passed, generator=generator)


async def load_driver(send: RequestSender, seconds: float) -> LoadSample:
    """Runs clients that call a driver in this process, which is the measured one."""
    start = time.monotonic()
    delays, errors = await _run_clients([send] * _CLIENTS, seconds)
    return sample(delays, errors, time.monotonic() - start)


async def _run_clients(senders: Sequence[RequestSender], seconds: float) -> tuple[list[int], int]:
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
