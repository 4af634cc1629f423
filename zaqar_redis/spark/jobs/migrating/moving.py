# SPDX-License-Identifier: Apache-2.0
"""Queue by queue: which there are, where each goes, and what became of it."""

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
from zaqar_redis.keyspace.client import Refused
from zaqar_redis.spark.jobs import running
from zaqar_redis.spark.jobs.migrating.between import Between
from zaqar_redis.spark.jobs.migrating.way import AlreadyThere, Ends, Gone, Way, Ways
from zaqar_redis.spark.stores import Stores, Where
from zaqar_redis.storage import pooled
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.pooled import PooledDriver

#: Names of queues that are read at once.
_PAGE = 100
#: Seconds between looks whether another process still moves queues.
_LOOK = 0.5
#: Seconds for which a queue is tried again that somebody else has shut: longer than one
#: stays frozen whose mover was killed.
_PATIENCE = 15.0


class Fate(StrEnum):
    DONE = "done"
    THERE = "already there"
    GONE = "gone"
    FAILED = "failed"


@dataclass(frozen=True)
class Goal:
    """Where queues go: to a pool of their store, or to another store."""

    at: Where
    pool: str | None
    to: Where | None
    keep: bool


@dataclass(frozen=True)
class Which:
    """The queues that are meant: one of these is given."""

    names: tuple[str, ...] | None
    pattern: str | None
    pool: str | None


@dataclass(frozen=True)
class Outcome:
    """What became of a queue."""

    queue: str
    fate: Fate
    why: str = ""
    messages: int = 0
    #: messages that were read while it was in use, and while it was frozen
    live: int = 0
    rest: int = 0
    seconds_frozen: float = 0.0
    ranges: int = 0

    def shown(self) -> dict[str, Any] | str:
        """For the report."""
        if self.fate is not Fate.DONE:
            return f"{self.fate}: {self.why}" if self.why else self.fate.value
        return {
            "messages": self.messages,
            "seconds frozen": round(self.seconds_frozen, 2),
            "verified": f"all counts, and checksums of {self.ranges} ranges",
        }


class Taker(Protocol):
    """Takes queues to where they shall be."""

    async def knows(self, project: str, queue: str) -> bool:
        """Whether there is such a queue."""

    async def take(self, project: str, queue: str, ways: Ways) -> tuple[int, Way]:
        """How many messages the queue had, and how they got over.

        Raises AlreadyThere, Gone, CannotMove, Gated and StoreUnavailable.
        """


class Within:
    """To a pool of the same store."""

    def __init__(self, driver: PooledDriver, stores: Stores, pool: str) -> None:
        self._driver = driver
        self._stores = stores
        self._pool = pool

    async def knows(self, project: str, queue: str) -> bool:
        try:
            return await self._driver.queues.get(project, queue) is not None
        except errors.Gated:
            return True

    async def take(self, project: str, queue: str, ways: Ways) -> tuple[int, Way]:
        here = await self._driver.places.find(project, queue)
        if await here.driver.queues.get(project, queue) is None:
            raise Gone
        if here.name == self._pool:
            raise AlreadyThere
        way = ways(Ends(self._stores.uri_of(here.name), self._stores.uri_of(self._pool)))
        count = await self._driver.mover.move(
            project, queue, here.name, self._pool, copy=way.live, verify=way.verify
        )
        if not way.verified:
            raise Gone
        return count, way


async def all_of(
    spark: SparkSession, stores: Stores, goal: Goal, which: Which, wait: float
) -> list[Outcome]:
    """Move what is meant, one queue after the other.  Raises BadConfiguration, Refused."""
    project = goal.at.project

    def ways(ends: Ends) -> Way:
        return Way(spark, stores, ends)

    async with contextlib.AsyncExitStack() as stack:
        driver = await stack.enter_async_context(_opened(goal.at))
        await _check_pools(driver, goal, which)
        taker = await _taker(stack, stores, goal, driver)
        await _lead(stack, driver, wait)
        await driver.mover.settle_all()
        names = await _names(driver, stores, project, which)
        if which.names is not None:
            for name in names:
                if not await taker.knows(project, name):
                    raise errors.BadConfiguration(
                        f'--queue: there is no queue "{name}" in the project "{project}"'
                    )
        return [await _outcome(project, name, taker, ways) for name in names]


@contextlib.asynccontextmanager
async def _opened(at: Where) -> AsyncIterator[PooledDriver]:
    driver = pooled.create(at.uri, at.control_uri, {"timeout": at.timeout})
    await driver.start()
    try:
        yield driver
    finally:
        await driver.close()


async def _check_pools(driver: PooledDriver, goal: Goal, which: Which) -> None:
    pools = await driver.places.pools()
    if which.pool not in (None, DEFAULT, *pools):
        raise errors.BadConfiguration(f'--from-pool: there is no pool "{which.pool}"')
    if goal.pool is None or goal.pool == DEFAULT:
        return
    if goal.pool not in pools or pools[goal.pool].draining:
        raise errors.BadConfiguration(
            f'--to-pool: there is no pool "{goal.pool}" that takes queues'
        )


async def _lead(stack: contextlib.AsyncExitStack, driver: PooledDriver, wait: float) -> None:
    """Until the end of *stack* no other process moves queues.  Raises Refused."""
    end = time.monotonic() + wait
    while True:
        attempt = contextlib.AsyncExitStack()
        if await attempt.enter_async_context(driver.jobs.leading()):
            stack.push_async_exit(attempt)
            return
        await attempt.aclose()
        if time.monotonic() > end:
            raise running.Refused(
                "another process moves queues now: a service that drains a pool or rebalances, "
                "or another migrate; wait for it, or stop it"
            )
        await asyncio.sleep(_LOOK)


async def _names(driver: PooledDriver, stores: Stores, project: str, which: Which) -> list[str]:
    if which.names is not None:
        return list(which.names)
    if which.pattern is not None:
        pattern = re.compile(which.pattern)
        names = await asyncio.to_thread(stores.queues)
        return [name for name in names if pattern.fullmatch(name)]
    found: list[str] = []
    after, pool = "", which.pool or DEFAULT
    while page := await driver.control.catalogue.queues_of(pool, after, _PAGE):
        found += [placed.queue for placed in page if placed.project == project]
        after = page[-1].marker
    return found


async def _outcome(project: str, queue: str, taker: Taker, ways: Ways) -> Outcome:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            messages, way = await taker.take(project, queue, ways)
        except AlreadyThere:
            return Outcome(queue, Fate.THERE)
        except Gone:
            return Outcome(queue, Fate.GONE)
        except errors.Gated as error:
            if time.monotonic() > end:
                return Outcome(queue, Fate.FAILED, error.text)
            await asyncio.sleep(_LOOK)
        except errors.Problem as error:
            return Outcome(queue, Fate.FAILED, error.text)
        except Refused as error:
            return Outcome(queue, Fate.FAILED, f"the store refuses: {error}")
        else:
            return Outcome(
                queue,
                Fate.DONE,
                messages=messages,
                live=way.live_count,
                rest=way.rest_count,
                seconds_frozen=way.seconds_frozen,
                ranges=way.ranges,
            )


async def _taker(
    stack: contextlib.AsyncExitStack, stores: Stores, goal: Goal, driver: PooledDriver
) -> Taker:
    if goal.to is None:
        return Within(driver, stores, goal.pool or DEFAULT)
    to_stores = stack.enter_context(Stores(goal.to))
    try:
        to_stores.check()
    except errors.BadConfiguration as error:
        raise errors.BadConfiguration(f"--to-storage: {error}") from error
    target = await stack.enter_async_context(_opened(goal.to))
    if await driver.identity() == await target.identity():
        raise errors.BadConfiguration("--to-storage: it is the store that the queues are in")
    return Between((driver, stores), (target, to_stores), keep=goal.keep)
