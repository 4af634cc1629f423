# SPDX-License-Identifier: Apache-2.0
"""A worker that tests run in a process, and functions that a worker runs in one.

The environment names the service, the project and a folder: see `tests.client.worker_process`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from zaqar_redis_client import Retry, Worker

_ENVIRONMENT = os.environ.get

worker = Worker(
    _ENVIRONMENT("JOBS_URL", ""),
    _ENVIRONMENT("JOBS_PROJECT", ""),
    concurrency=int(_ENVIRONMENT("JOBS_CONCURRENCY", "1")),
    prefetch=int(_ENVIRONMENT("JOBS_PREFETCH", "3")),
    ttl=int(_ENVIRONMENT("JOBS_TTL", "60")),
)
worker.queue("q", _min_claim_ttl=1)
#: It has no tasks.
idle = Worker()


@worker.task("q")
async def hold(folder: str, number: int) -> None:
    """Ends when the folder has a file `free`."""
    Path(folder, f"begun-{number}").touch()  # noqa: ASYNC240  # a moment
    while not os.path.exists(f"{folder}/free"):  # noqa: ASYNC110, ASYNC240  # of another process
        await asyncio.sleep(0.02)
    Path(folder, f"done-{number}").touch()  # noqa: ASYNC240  # a moment


@worker.task("q")
async def count(folder: str, number: int) -> None:
    process_append(f"{folder}/counted", f"{number}\n")


def process_append(path: str, text: str) -> None:
    with Path(path).open("a") as file:
        file.write(text)


def process_pid() -> int:
    return os.getpid()


def process_sleep() -> None:
    time.sleep(1000)


def process_dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def process_fails() -> None:
    raise ValueError("of the process")


async def process_awaits_and_fails() -> None:
    await asyncio.sleep(0)
    raise ValueError("after a while")


class _LaterError(Retry):
    def __init__(self, minutes: int) -> None:
        super().__init__(f"in {minutes} minutes", delay=60 * minutes)


def process_later(minutes: int) -> None:
    raise _LaterError(minutes)


def process_hold(path: str) -> None:
    Path(path).write_text(f"{os.getpid()}\n")
    time.sleep(1000)


worker.task("q", processes=True)(process_append)
worker.task("q", processes=True)(process_hold)


async def process_awaits(path: str) -> object:
    await asyncio.sleep(0)
    process_append(path, "awaited\n")
    return object()  # that nobody waits for


def process_sums(*numbers: int) -> tuple[int, ...]:
    return (sum(numbers), len(numbers))
