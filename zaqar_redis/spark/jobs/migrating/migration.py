# SPDX-License-Identifier: Apache-2.0
"""The driver of migrate: selects queues, and distributes their moves over tasks."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from dataclasses import dataclass

from pyspark.sql import SparkSession

from zaqar_redis import errors
from zaqar_redis.spark.jobs import running
from zaqar_redis.spark.jobs.migrating import moving
from zaqar_redis.spark.jobs.migrating.moving import MigrationOutcome, MigrationSpec
from zaqar_redis.spark.stores import StoreConnections
from zaqar_redis.spark.task_progress import PROGRESS_PROPERTY
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.pools import PooledDriver

#: Names of queues that are read at once.
_PAGE = 100
#: Tasks for each core: the last of them are short although some queues are large.
_TASKS_PER_CORE = 8
#: Seconds between two checks whether another process still moves queues.
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class ResolvedScope:
    """The queues to migrate: one of these is given."""

    names: tuple[str, ...] | None
    pattern: str | None
    pool: str | None


async def migrate_queues(
    spark: SparkSession,
    stores: StoreConnections,
    spec: MigrationSpec,
    scope: ResolvedScope,
    wait: float,
) -> list[MigrationOutcome]:
    """Moves the queues.  Raises BadConfiguration, JobRefused, and what Spark raises."""
    project = spec.config.project
    # Other threads do not have the property of this one.
    progress_address = spark.sparkContext.getLocalProperty(PROGRESS_PROPERTY)
    async with contextlib.AsyncExitStack() as stack:
        driver = await stack.enter_async_context(moving.opened(spec.config))
        await _check_pools(driver, spec, scope)
        mover = await stack.enter_async_context(
            moving.mover_to(spec, driver, stores, lambda messages: None)
        )
        await _become_leader(stack, driver, wait)
        await driver.mover.settle_all()
        names = await _names(driver, stores, project, scope)
        if scope.names is not None:
            for name in names:
                if not await mover.has_queue(project, name):
                    raise errors.BadConfiguration(
                        f'--queue: there is no queue "{name}" in the project "{project}"'
                    )
        return await asyncio.to_thread(_run_tasks, spark, spec, names, progress_address)


def _run_tasks(
    spark: SparkSession, spec: MigrationSpec, names: list[str], progress_address: str | None
) -> list[MigrationOutcome]:
    context = spark.sparkContext
    if progress_address is not None:
        context.setLocalProperty(PROGRESS_PROPERTY, progress_address)
    number = min(len(names), _TASKS_PER_CORE * context.defaultParallelism)
    # Not a DataFrame: running our Python on one would need pandas.
    slices = context.parallelize(names, max(number, 1))
    return slices.mapPartitions(lambda queues: moving.move_queues(spec, queues)).collect()


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
