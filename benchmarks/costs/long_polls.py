# SPDX-License-Identifier: Apache-2.0
"""What long polls cost: each until a message ends it, and while nothing comes."""

from __future__ import annotations

import asyncio
import contextlib
import json

from benchmarks.support.figures import Figures
from benchmarks.support.processes import cpu_seconds, resident_bytes
from benchmarks.support.rounds import print_progress
from tests.support import servers
from zaqar_redis.benchmarks.client import HttpConnection
from zaqar_redis.benchmarks.service import BenchmarkFailed, MeasuredService, message

#: Seconds until all long polls wait.
_BEGINNING = 2
#: Long polls that begin, and are ended, at a time.
_AT_ONCE = 100
_POST = json.dumps({"messages": [message()]}).encode()


def measure(
    figures: Figures, runner: asyncio.Runner, rounds: int, polls: int, waiting: float
) -> None:
    """*waiting*: seconds for which long polls wait before messages come."""
    parts = ("post of 1, and the long poll that it ends", "long poll that waits, each second")
    whose = ("worker, CPU µs", "Redis, CPU µs")
    kept = [[figures.figure(part, what, "µs") for what in whose] for part in parts]
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(servers.redis_server())
        running = stack.enter_context(servers.service(store.uri))
        client = MeasuredService(running.url)
        stack.callback(client.close)
        [worker] = running.workers()
        processes = (worker, store.pid)
        memory = figures.figure(parts[1], "memory of the worker", "bytes")
        for number in range(rounds + 1):
            *found, grown = runner.run(_round(client, processes, polls, waiting))
            if not number:  # to warm up; later ones use the same memory again
                memory.append(grown)
            else:
                for values, costs in zip(kept, found, strict=True):
                    for each, cost in zip(values, costs, strict=True):
                        each.append(cost)
                print_progress(f"long polls: round {number} of {rounds}, {found[0][0]:.0f} µs")


async def _round(
    client: MeasuredService, processes: tuple[int, ...], polls: int, waiting: float
) -> tuple[list[float], list[float], float]:
    """Returns µs of each process: for each long poll that ends, and for one that waits a second;
    and the memory that one takes of the worker, the first of the processes."""
    queues = [f"long-poll-{number}" for number in range(polls)]
    claiming = [client.connection() for _ in queues]
    posting = [client.connection() for _ in range(_AT_ONCE)]
    try:
        start, before = [cpu_seconds(each) for each in processes], resident_bytes(processes[0])
        claims = [
            asyncio.create_task(_claim(connection, queue))
            for connection, queue in zip(claiming, queues, strict=True)
        ]
        await asyncio.sleep(_BEGINNING)
        taken = (resident_bytes(processes[0]) - before) / polls
        begun = [cpu_seconds(each) for each in processes]
        await asyncio.sleep(waiting)
        waited = [cpu_seconds(each) for each in processes]
        for at in range(0, polls, _AT_ONCE):
            pairs = zip(posting, queues[at : at + _AT_ONCE], strict=False)
            await asyncio.gather(*(_post(connection, queue) for connection, queue in pairs))
        await asyncio.gather(*claims)
        ended = [cpu_seconds(each) for each in processes]
    finally:
        for connection in (*claiming, *posting):
            connection.close()
    steps = list(zip(start, begun, waited, ended, strict=True))
    acts = [(began - first + last - quiet) / polls * 1e6 for first, began, quiet, last in steps]
    idle = [(quiet - began) / polls / waiting * 1e6 for _, began, quiet, _ in steps]
    return acts, idle, taken


async def _claim(connection: HttpConnection, queue: str) -> None:
    path = f"/v2/queues/{queue}/claims?limit=1&wait=30"
    await _expect(connection, path, b'{"ttl":43200,"grace":60}')


async def _post(connection: HttpConnection, queue: str) -> None:
    await _expect(connection, f"/v2/queues/{queue}/messages", _POST)


async def _expect(connection: HttpConnection, path: str, body: bytes) -> None:
    status, answer = await connection.request("POST", path, body)
    if status != 201:
        raise BenchmarkFailed(f"POST {path} answered {status}: {answer[:200]!r}")
