# SPDX-License-Identifier: Apache-2.0
"""What a process does beside requests: it sweeps, moves queues, marks stores, and measures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from zaqar_redis import errors, runner
from zaqar_redis.api.composition import Services
from zaqar_redis.service.queue_metrics import QueueMetrics
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.pools import PooledDriver
from zaqar_redis.storage.pools.formats import is_new, use_formats
from zaqar_redis.storage.pools.rebalance import Rebalancer

LOG = logging.getLogger(__name__)

#: Seconds between checks for pools to drain, unless a notification comes before.
_MOVER_INTERVAL = 5.0


class BackgroundTasks:
    def __init__(self, services: Services, forget: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """*forget*: forgets who was admitted, again and again."""
        self._services = services
        self._forget = forget
        self._queue_metrics: QueueMetrics | None = None
        if services.settings.metrics is not None:
            self._queue_metrics = QueueMetrics(services.driver, services.settings.metrics)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(each, name=name) for name, each in self._all()]

    async def close(self) -> None:
        await runner.cancel(*self._tasks)
        if self._services.schedules is not None:
            await self._services.schedules.resign()

    def _all(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        services = self._services
        yield "admissions", self._forget()
        yield "sweeper", _sweep(services.driver, services.settings.sweep_interval)
        if services.pooled is not None:
            yield "mover", _move(services.pooled.jobs)
        if services.schedules is not None and not services.parts.for_command:
            yield "schedules", services.schedules.run()
        yield "marks", _mark_stores(services.driver)
        if self._queue_metrics is not None:
            yield "queue metrics", self._queue_metrics.run(services.parts.reads_queue_metrics)


async def _move(jobs: Rebalancer) -> None:
    while True:
        await jobs.wait(_MOVER_INTERVAL)
        try:
            moved = await jobs.run_pending()
        except errors.Unavailable:
            continue
        except Exception:  # the service goes on, and the next round tries again
            LOG.exception("the mover failed", extra={"action": "move_failed"})
            continue
        if moved:
            LOG.info("moved %d queues", moved, extra={"action": "moved"})


async def _sweep(driver: Driver, interval: float) -> None:
    """*interval*: seconds between two rounds."""
    while driver.sweeper:
        await asyncio.sleep(interval)
        try:
            settled = await driver.sweeper.sweep(interval)
        except errors.Unavailable:
            continue
        except Exception:  # e.g. a user without the right to a command: the service goes on
            LOG.exception("the sweeper failed", extra={"action": "sweep_failed"})
            continue
        if settled:
            LOG.info("swept %d", settled, extra={"action": "swept"})


async def _mark_stores(driver: Driver) -> None:
    """Marks the service's own store as the installation's, and all stores with their format, as
    soon as they answer."""
    while True:
        try:
            new = await is_new(driver)
            if isinstance(driver, PooledDriver) and not await driver.adoption.mark_default():
                LOG.error(
                    "the store of this service, which was unavailable at the start, belongs to "
                    "another installation: stop the service before it creates queues there",
                    extra={"action": "store_owned"},
                )
            await use_formats(driver, is_new=new)
            return
        except errors.FormatTooNew as error:
            why = errors.reason(error)
            LOG.error("stop the service: %s", why, extra={"action": "format_too_new"})
            return
        except errors.Unavailable:
            await asyncio.sleep(_MOVER_INTERVAL)
        except Exception:  # e.g. a user without the right to write: the service goes on
            LOG.exception("cannot mark the store", extra={"action": "mark_failed"})
            return
