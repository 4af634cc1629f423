# SPDX-License-Identifier: Apache-2.0
"""Migrates queue by queue: selects queues, moves each, and reports its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from pyspark.sql import SparkSession

from zaqar_redis import errors
from zaqar_redis.keyspace.client import CommandRefused
from zaqar_redis.spark.jobs import running
from zaqar_redis.spark.jobs.migrating.copy_task import (
    AlreadyMigrated,
    CopyEndpoints,
    CopyTask,
    CopyTaskFactory,
)
from zaqar_redis.spark.jobs.migrating.cross_store import CrossStoreMover
from zaqar_redis.spark.stores import StoreConfig, StoreConnections
from zaqar_redis.storage import pools
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.move.queue_move import QueueGone
from zaqar_redis.storage.pools import PooledDriver
from zaqar_redis.storage.pools.retry import Attempts, RetryPolicy

#: Names of queues that are read at once.
_PAGE = 100
#: Seconds between two checks whether another process still moves queues.
_POLL_SECONDS = 0.5
#: Seconds for which a queue under another move lock is retried: longer than a queue stays
#: frozen whose mover was killed.
_MOVE_LOCK_TIMEOUT_SECONDS = 15.0


class MigrationStatus(StrEnum):
    DONE = "done"
    ALREADY_THERE = "already there"
    GONE = "gone"
    FAILED = "failed"


@dataclass(frozen=True)
class MigrationSpec:
    """The target of queues: a pool of their store, or another store."""

    config: StoreConfig
    pool: str | None
    to: StoreConfig | None
    keep: bool


@dataclass(frozen=True)
class ResolvedScope:
    """The queues to migrate: one of these is given."""

    names: tuple[str, ...] | None
    pattern: str | None
    pool: str | None


@dataclass(frozen=True)
class MigrationOutcome:
    """The outcome for one queue."""

    queue: str
    status: MigrationStatus
    why: str = ""
    messages: int = 0
    #: messages that were copied while it was in use, and while it was frozen
    live: int = 0
    rest: int = 0
    seconds_frozen: float = 0.0
    ranges: int = 0

    def shown(self) -> dict[str, Any] | str:
        """Returns the entry of the report."""
        if self.status is not MigrationStatus.DONE:
            return f"{self.status}: {self.why}" if self.why else self.status.value
        return {
            "messages": self.messages,
            "seconds frozen": round(self.seconds_frozen, 2),
            "verified": f"all counts, and checksums of {self.ranges} ranges",
        }


class QueueMover(Protocol):
    """Moves queues to their target."""

    async def has_queue(self, project: str, queue: str) -> bool:
        """Returns whether the queue exists."""

    async def move(
        self, project: str, queue: str, new_copy_task: CopyTaskFactory
    ) -> tuple[int, CopyTask]:
        """Moves a queue; returns how many messages it had, and the task that copied it.

        Raises AlreadyMigrated, QueueGone, CannotMove, MoveLocked and StoreUnavailable.
        """


class PoolMover:
    """Moves queues to a pool of the same store."""

    def __init__(self, driver: PooledDriver, stores: StoreConnections, pool: str) -> None:
        self._driver = driver
        self._stores = stores
        self._pool = pool

    async def has_queue(self, project: str, queue: str) -> bool:
        try:
            return await self._driver.queues.get(project, queue) is not None
        except errors.MoveLocked:
            return True

    async def move(
        self, project: str, queue: str, new_copy_task: CopyTaskFactory
    ) -> tuple[int, CopyTask]:
        route = await self._driver.router.find(project, queue)
        if await route.driver.queues.get(project, queue) is None:
            raise QueueGone
        if route.name == self._pool:
            raise AlreadyMigrated
        copy_task = new_copy_task(
            CopyEndpoints(self._stores.uri_of(route.name), self._stores.uri_of(self._pool))
        )
        count = await self._driver.mover.move(
            project, queue, route.name, self._pool, copy=copy_task.live, verify=copy_task.verify
        )
        if not copy_task.verified:
            raise QueueGone
        return count, copy_task


async def migrate_queues(
    spark: SparkSession,
    stores: StoreConnections,
    spec: MigrationSpec,
    scope: ResolvedScope,
    wait: float,
) -> list[MigrationOutcome]:
    """Moves the queues one after the other.  Raises BadConfiguration, JobRefused."""
    project = spec.config.project

    def new_copy_task(endpoints: CopyEndpoints) -> CopyTask:
        return CopyTask(spark, stores, endpoints)

    async with contextlib.AsyncExitStack() as stack:
        driver = await stack.enter_async_context(_opened(spec.config))
        await _check_pools(driver, spec, scope)
        mover = await _create_mover(stack, stores, spec, driver)
        await _become_leader(stack, driver, wait)
        await driver.mover.settle_all()
        names = await _names(driver, stores, project, scope)
        if scope.names is not None:
            for name in names:
                if not await mover.has_queue(project, name):
                    raise errors.BadConfiguration(
                        f'--queue: there is no queue "{name}" in the project "{project}"'
                    )
        return [await _migrate_queue(project, name, mover, new_copy_task) for name in names]


@contextlib.asynccontextmanager
async def _opened(config: StoreConfig) -> AsyncIterator[PooledDriver]:
    driver = pools.create(config.uri, config.control_uri, {"timeout": config.timeout})
    await driver.start()
    try:
        yield driver
    finally:
        await driver.close()


async def _check_pools(driver: PooledDriver, spec: MigrationSpec, scope: ResolvedScope) -> None:
    pools = await driver.router.stores.pools()
    if scope.pool not in (None, DEFAULT_POOL, *pools):
        raise errors.BadConfiguration(f'--from-pool: there is no pool "{scope.pool}"')
    if spec.pool is None or spec.pool == DEFAULT_POOL:
        return
    if spec.pool not in pools:
        raise errors.BadConfiguration(f'--to-pool: there is no pool "{spec.pool}"')
    if pools[spec.pool].draining:
        raise errors.BadConfiguration(
            f'--to-pool: the pool "{spec.pool}" is draining and takes no queues; name another, or '
            f"end that by: zaqar-redis pool drain --undo {spec.pool}"
        )


async def _become_leader(
    stack: contextlib.AsyncExitStack, driver: PooledDriver, wait: float
) -> None:
    """Takes the mover's role until the end of *stack*.  Raises JobRefused after *wait* s."""
    end = time.monotonic() + wait
    while True:
        attempt = contextlib.AsyncExitStack()
        if await attempt.enter_async_context(driver.jobs.leadership()):
            stack.push_async_exit(attempt)
            return
        await attempt.aclose()
        if time.monotonic() > end:
            raise running.JobRefused(
                "another process moves queues now: a service that drains a pool or rebalances, "
                "or another migrate; wait for it, or stop it"
            )
        await asyncio.sleep(_POLL_SECONDS)


async def _names(
    driver: PooledDriver, stores: StoreConnections, project: str, scope: ResolvedScope
) -> list[str]:
    if scope.names is not None:
        return list(scope.names)
    if scope.pattern is not None:
        pattern = re.compile(scope.pattern)
        names = await asyncio.to_thread(stores.queues)
        names += await asyncio.to_thread(stores.queues, topics=True)
        return [name for name in names if pattern.fullmatch(name)]
    found: list[str] = []
    after, pool = "", scope.pool or DEFAULT_POOL
    while page := await driver.control.catalogue.queues_of(pool, after, _PAGE):
        found += [placed.queue for placed in page if placed.project == project]
        after = page[-1].marker
    return found


async def _migrate_queue(
    project: str, queue: str, mover: QueueMover, new_copy_task: CopyTaskFactory
) -> MigrationOutcome:
    attempts = Attempts(RetryPolicy(move_timeout=_MOVE_LOCK_TIMEOUT_SECONDS))
    while True:
        try:
            messages, copy_task = await mover.move(project, queue, new_copy_task)
        except AlreadyMigrated:
            return MigrationOutcome(queue, MigrationStatus.ALREADY_THERE)
        except QueueGone:
            return MigrationOutcome(queue, MigrationStatus.GONE)
        except errors.MoveLocked as error:
            try:
                pause = attempts.pause(error)
            except errors.MoveLocked:
                return MigrationOutcome(queue, MigrationStatus.FAILED, error.text)
            await asyncio.sleep(pause.seconds)
        except errors.Problem as error:
            return MigrationOutcome(queue, MigrationStatus.FAILED, error.text)
        except CommandRefused as error:
            return MigrationOutcome(queue, MigrationStatus.FAILED, f"the store refuses: {error}")
        else:
            return MigrationOutcome(
                queue,
                MigrationStatus.DONE,
                messages=messages,
                live=copy_task.live_count,
                rest=copy_task.rest_count,
                seconds_frozen=copy_task.seconds_frozen,
                ranges=copy_task.ranges,
            )


async def _create_mover(
    stack: contextlib.AsyncExitStack,
    stores: StoreConnections,
    spec: MigrationSpec,
    driver: PooledDriver,
) -> QueueMover:
    if spec.to is None:
        return PoolMover(driver, stores, spec.pool or DEFAULT_POOL)
    to_stores = stack.enter_context(StoreConnections(spec.to))
    try:
        to_stores.check()
    except errors.BadConfiguration as error:
        raise errors.BadConfiguration(f"--to-storage: {error}") from error
    target = await stack.enter_async_context(_opened(spec.to))
    if await driver.identity() == await target.identity():
        raise errors.BadConfiguration("--to-storage: it is the store that the queues are in")
    return CrossStoreMover((driver, stores), (target, to_stores), keep=spec.keep)
