# SPDX-License-Identifier: Apache-2.0
"""What a worker does, at a terminal: needs the extra `worker`."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator
from time import monotonic

from rich.console import Console, Group
from rich.live import Live
from rich.logging import RichHandler
from rich.table import Table

from zaqar_redis_client.consuming import Consumer
from zaqar_redis_client.worker import Worker

_OUTCOMES = ("done", "failed", "retried", "lost")
#: Seconds between two pictures, and of which a rate is the mean.
_PERIOD, _RATE_OVER = 0.5, 10
#: Jobs that are listed: as many as a small terminal has room for; the longest first.
_LISTED = 12


class View:
    """Makes pictures of a worker, in a thread, so it copies first what the worker changes."""

    def __init__(self, worker: Worker, consumer: Consumer) -> None:
        self._worker = worker
        self._consumer = consumer
        self._done: deque[tuple[float, int]] = deque(maxlen=int(_RATE_OVER / _PERIOD))

    def picture(self) -> Group:
        consumer, now, running = self._consumer, monotonic(), list(self._consumer.running)
        tasks = Table("task", "queue", "running", *_OUTCOMES)
        for task in self._worker.tasks.values():
            counts = [consumer.counts[task.name, outcome] for outcome in _OUTCOMES]
            runs = sum(each.task == task.name for each in running)
            tasks.add_row(task.name, task.queue, *map(str, [runs, *counts]))
        jobs = Table("job", "message", "seconds")
        longest = sorted(running, key=lambda each: each.since)
        for each in longest[:_LISTED]:
            jobs.add_row(each.task, each.message_id, f"{now - each.since:.1f}")
        slots = f"{len(longest)} of {self._worker.concurrency} slots"
        return Group(tasks, f"{self._rate(now):.1f} jobs/s done, {slots}", jobs)

    def _rate(self, now: float) -> float:
        done = sum(self._consumer.counts[name, "done"] for name in self._worker.tasks)
        self._done.append((now, done))
        since, before = self._done[0]
        return (done - before) / (now - since) if now > since else 0.0


@contextlib.asynccontextmanager
async def showing(worker: Worker, consumer: Consumer) -> AsyncIterator[None]:
    """Shows it until the end of the block; what is logged stays above."""
    console = Console()
    logging.basicConfig(
        level=logging.INFO,
        format="%(message)s",
        handlers=[RichHandler(console=console)],
        force=True,
    )
    picture = View(worker, consumer).picture
    with Live(get_renderable=picture, console=console, refresh_per_second=1 / _PERIOD):
        yield
