# SPDX-License-Identifier: Apache-2.0
"""The tasks of migrate: each moves some queues, one after the other, as the service does."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from zaqar_redis import errors
from zaqar_redis.keyspace.client import CommandRefused
from zaqar_redis.runner import Runner
from zaqar_redis.spark.jobs.migrating.cross_store import AlreadyMigrated, CrossStoreMover
from zaqar_redis.spark.jobs.migrating.queue_copy import QueueCopy
from zaqar_redis.spark.stores import StoreConfig, StoreConnections
from zaqar_redis.spark.task_progress import report_progress
from zaqar_redis.storage import pools
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.move.queue_move import QueueGone
from zaqar_redis.storage.pools import PooledDriver
from zaqar_redis.storage.pools.retry import Attempts, RetryPolicy

#: A queue under another move lock is tried again for longer than a queue stays frozen whose mover
#: was killed.  At a store that is away for longer than a restart each queue fails by itself.
_RETRY = RetryPolicy(move_timeout=15.0, outage_timeout=3.0)


class MigrationStatus(StrEnum):
    DONE = "done"
    ALREADY_THERE = "already there"
    GONE = "gone"
    FAILED = "failed"


@dataclass(frozen=True)
class MigrationSpec:
    """The target of queues: a pool of their store, or another store.  Serialized to tasks."""

    config: StoreConfig
    pool: str | None
    to: StoreConfig | None
    keep: bool


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

    def shown(self) -> dict[str, Any] | str:
        """Returns the entry of the report."""
        if self.status is not MigrationStatus.DONE:
            return f"{self.status}: {self.why}" if self.why else self.status.value
        return {"messages": self.messages, "seconds frozen": round(self.seconds_frozen, 2)}


class QueueMover(Protocol):
    """Moves queues to their target."""

    async def has_queue(self, project: str, queue: str) -> bool:
        """Returns whether the queue exists."""

    async def move(self, project: str, queue: str) -> tuple[int, QueueCopy]:
        """Moves a queue; returns how many messages it had, and its copy.

        Raises AlreadyMigrated, QueueGone, CannotMove, MoveLocked and StoreUnavailable.
        """


class _PoolMover:
    """Moves queues to a pool of the same store."""

    def __init__(
        self,
        driver: PooledDriver,
        stores: StoreConnections,
        pool: str,
        advance: Callable[[int], None],
    ) -> None:
        self._driver = driver
        self._stores = stores
        self._pool = pool
        self._advance = advance

    async def has_queue(self, project: str, queue: str) -> bool:
        try:
            return await self._driver.queues.get(project, queue) is not None
        except errors.MoveLocked:
            return True

    async def move(self, project: str, queue: str) -> tuple[int, QueueCopy]:
        located = await self._driver.control.catalogue.locate(project, queue)
        if located.move is not None:  # a killed attempt at this task left it
            await self._driver.mover.settle(project, queue, located.move)
        route = await self._driver.router.find(project, queue)
        if await route.driver.queues.get(project, queue) is None:
            raise QueueGone
        if route.name == self._pool:
            raise AlreadyMigrated
        uri_of = self._stores.uri_of
        copy = QueueCopy(self._stores, uri_of(route.name), uri_of(self._pool), self._advance)
        count = await self._driver.mover.move(
            project, queue, route.name, self._pool, copy=copy.live, verify=copy.verify
        )
        if not copy.verified:
            raise QueueGone
        return count, copy


def move_queues(spec: MigrationSpec, queues: Iterable[str]) -> list[MigrationOutcome]:
    """Moves the queues of one task."""
    with _hangup_interrupts(), Runner() as runner:
        return runner.run(_move_queues, spec, list(queues))


@contextlib.contextmanager
def _hangup_interrupts() -> Iterator[None]:
    """Turns SIGHUP, by which Spark stops its workers, into SIGINT: a move is settled then."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGHUP, lambda *_: None)  # Spark sends several
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGHUP, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


async def _move_queues(spec: MigrationSpec, queues: list[str]) -> list[MigrationOutcome]:
    if not queues:
        return []
    done: list[MigrationOutcome] = []
    try:
        with StoreConnections(spec.config) as stores, report_progress() as advance:
            async with (
                opened(spec.config) as driver,
                mover_to(spec, driver, stores, advance) as mover,
            ):
                for queue in queues:
                    outcome = await _move(spec.config.project, queue, mover)
                    done.append(outcome)
    except (errors.Problem, errors.BadConfiguration, CommandRefused) as error:
        # A store is away: other tasks, which have theirs, go on.
        left = queues[len(done) :]
        done += [MigrationOutcome(queue, MigrationStatus.FAILED, str(error)) for queue in left]
    return done


@contextlib.asynccontextmanager
async def opened(config: StoreConfig) -> AsyncIterator[PooledDriver]:
    driver = pools.create(config.uri, config.control_uri, {"timeout": config.timeout})
    await driver.start()
    try:
        yield driver
    finally:
        await driver.close()


@contextlib.asynccontextmanager
async def mover_to(
    spec: MigrationSpec,
    driver: PooledDriver,
    stores: StoreConnections,
    advance: Callable[[int], None],
) -> AsyncIterator[QueueMover]:
    """Yields what moves queues to the target.  Raises BadConfiguration when that is unusable."""
    if spec.to is None:
        yield _PoolMover(driver, stores, spec.pool or DEFAULT_POOL, advance)
        return
    with StoreConnections(spec.to) as to_stores:
        try:
            to_stores.check()
        except errors.BadConfiguration as error:
            raise errors.BadConfiguration(f"--to-storage: {error}") from error
        async with opened(spec.to) as target:
            if await driver.identity() == await target.identity():
                raise errors.BadConfiguration(
                    "--to-storage: it is the store that the queues are in"
                )
            yield CrossStoreMover(
                (driver, stores), (target, to_stores), keep=spec.keep, advance=advance
            )


async def _move(project: str, queue: str, mover: QueueMover) -> MigrationOutcome:
    attempts: Attempts | None = None  # a copy may take longer than they do
    while True:
        try:
            messages, copy = await mover.move(project, queue)
        except AlreadyMigrated:
            return MigrationOutcome(queue, MigrationStatus.ALREADY_THERE)
        except QueueGone:
            return MigrationOutcome(queue, MigrationStatus.GONE)
        except errors.Unavailable as error:
            # A move that was sealed is finished by the next try: until then the queue is locked.
            attempts = attempts or Attempts(_RETRY)
            try:
                pause = attempts.pause(error)
            except errors.Unavailable:
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
                live=copy.live_count,
                rest=copy.rest_count,
                seconds_frozen=copy.seconds_frozen,
            )
