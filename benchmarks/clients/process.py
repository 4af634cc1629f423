# SPDX-License-Identifier: Apache-2.0
"""A client in a process of its own: ``… process.py CLIENT AT-A-TIME``, then acts on its input.

An act is a line ``send MOST SECONDS``, or ``take …``; the answer is a line with how many messages
that were, and the seconds that it took.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any

from benchmarks.clients.queues import CLIENTS, QueueClient, Sender

_TEXT = "x" * 120


class JobPoster:
    """Posts jobs with the function of a module of `jobs`: in threads, when it blocks."""

    def __init__(self, module: str) -> None:
        self._jobs = import_module(f"benchmarks.clients.jobs.{module}")
        self._post: Callable[..., Any] = self._jobs.post

    async def open(self, address: str, queue: str, together: int) -> None:
        self._threads = ThreadPoolExecutor(together)

    async def send(self, bodies: Sequence[Any]) -> None:
        if iscoroutinefunction(self._post):
            await asyncio.gather(*(self._post(**body) for body in bodies))
        elif len(bodies) == 1:
            self._post(**bodies[0])
        else:
            list(self._threads.map(lambda body: self._post(**body), bodies))

    async def close(self) -> None:
        if hasattr(self._jobs, "close"):
            await self._jobs.close()


async def _do(client: Sender, act: str, most: int, seconds: float, together: int) -> int:
    done, until = 0, time.perf_counter() + seconds
    if act == "take":
        assert isinstance(client, QueueClient)
        while done < most and time.perf_counter() < until:
            done += await client.take(min(together, most - done))
        return done
    while done < most and time.perf_counter() < until:
        await client.send(
            [{"order": number, "text": _TEXT} for number in range(done, done + together)]
        )
        done += together
    return done


async def main(name: str, together: int) -> None:
    client: Sender = CLIENTS[name]() if name in CLIENTS else JobPoster(name)
    await client.open(os.environ["BENCHMARK_ADDRESS"], os.environ["BENCHMARK_QUEUE"], together)
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        act, most, seconds = line.split()
        begin = time.perf_counter()
        done = await _do(client, act, int(most), float(seconds), together)
        print(done, time.perf_counter() - begin, flush=True)
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
