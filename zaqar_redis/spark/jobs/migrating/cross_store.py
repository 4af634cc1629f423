# SPDX-License-Identifier: Apache-2.0
"""Moves or copies queues between two stores that share no catalogue.

The move locks alone hold the state of the move: ``into:import-<token>`` at the target, which
only `Transfer.commit_import` releases, and at the source ``out:<token>`` while the queue is
frozen, and ``gone:<token>`` once the move is sealed and only the copy counts.  A process that
finds the last one finishes the move: commits the import, and clears the source.  From any
other state the move begins anew: the lock of a frozen queue expires, and a partial copy is
discarded.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets

from zaqar_redis import errors
from zaqar_redis.spark.jobs.migrating.copy_task import (
    AlreadyMigrated,
    CopyEndpoints,
    CopyTask,
    CopyTaskFactory,
    QueueGone,
)
from zaqar_redis.spark.stores import StoreConnections
from zaqar_redis.storage.move.copy import copy_frozen
from zaqar_redis.storage.pools import PooledDriver
from zaqar_redis.storage.pools.router import Route
from zaqar_redis.storage.redis.bulk import queue_counts
from zaqar_redis.storage.redis.bulk.queue_counts import QueueCounts
from zaqar_redis.storage.transfer import IMPORT_PREFIX, Transfer


class CrossStoreMover:
    def __init__(
        self,
        source: tuple[PooledDriver, StoreConnections],
        target: tuple[PooledDriver, StoreConnections],
        *,
        keep: bool,
    ) -> None:
        """With *keep*, queues stay in the source as well: a copy."""
        self._source, self._from = source
        self._target, self._to = target
        self._keep = keep

    async def has_queue(self, project: str, queue: str) -> bool:
        """Returns whether the queue exists, in source or target."""
        try:
            in_source = await self._source.queues.get(project, queue) is not None
        except errors.MoveLocked:
            return True
        return in_source or await self._has(project, queue)

    async def move(
        self, project: str, queue: str, new_copy_task: CopyTaskFactory
    ) -> tuple[int, CopyTask]:
        """Moves a queue; returns how many messages it had, and the task that copied it.

        Raises AlreadyMigrated, QueueGone, CannotMove, MoveLocked and StoreUnavailable.
        """
        source = await self._source.router.find(project, queue)
        out = _transfer(source, queue)
        kind, _, token = (await out.move_lock(project, queue)).partition(":")
        if kind == "gone":
            await self._resume(project, queue, source, token)
            raise AlreadyMigrated
        found = None if kind == "closed" else await source.driver.queues.get(project, queue)
        await self._check(project, queue, source, found is not None)
        if found is None:
            raise QueueGone
        flavor = str(found.metadata.get("_flavor") or "")
        target = await self._target.router.find(project, queue, make=True, flavor=flavor)
        if await source.driver.identity() == await target.driver.identity():
            raise errors.CannotMove(queue=queue, why="that store has it already: it is the same")
        copy_task = new_copy_task(
            CopyEndpoints(self._from.uri_of(source.name), self._to.uri_of(target.name))
        )
        token = secrets.token_hex(16)
        into = _transfer(target, queue)
        if not await into.begin_import(project, queue, IMPORT_PREFIX + token):
            raise errors.CannotMove(queue=queue, why="the target has a queue of this name")
        try:
            count = await self._copied(project, queue, token, out, into, copy_task)
        except (Exception, asyncio.CancelledError):
            await self._roll_back(project, queue, token, out, into)
            raise
        if not self._keep:
            await self._finish(project, queue, source, into, token)
        return count, copy_task

    async def _has(self, project: str, queue: str) -> bool:
        """Returns whether the target has a queue of this name."""
        try:
            return await self._target.queues.get(project, queue) is not None
        except errors.MoveLocked:
            return False  # a partial copy

    async def _check(self, project: str, queue: str, source: Route, exists: bool) -> None:
        """Raises AlreadyMigrated, and CannotMove when the target has another queue."""
        if not await self._has(project, queue):
            return
        if not exists:
            raise AlreadyMigrated
        target = await self._target.router.find(project, queue)
        mine, theirs = await self._counts(project, queue, source, target)
        if mine.epoch != theirs.epoch:
            raise errors.CannotMove(queue=queue, why="the target has a queue of this name")
        if self._keep and mine.size == theirs.size:
            raise AlreadyMigrated
        raise errors.CannotMove(
            queue=queue,
            why="the target has an earlier copy of it; delete that one first (last rank and "
            f"messages: source {mine.size}, target {theirs.size})",
        )

    async def _copied(
        self,
        project: str,
        queue: str,
        token: str,
        out: Transfer,
        into: Transfer,
        copy_task: CopyTask,
    ) -> int:
        coming = IMPORT_PREFIX + token
        copied_rank = await copy_task.live(project, queue, coming, out, into)
        if not await out.freeze(project, queue, token):
            raise QueueGone
        count = await copy_frozen(project, queue, copied_rank, (out, token), (into, coming))
        await copy_task.verify(project, queue, copied_rank)
        if self._keep:
            await into.commit_import(project, queue, coming)
            await out.unlock(project, queue, f"out:{token}")
        elif not await out.seal(project, queue, token):
            raise errors.MoveLocked
        return count

    async def _roll_back(
        self, project: str, queue: str, token: str, out: Transfer, into: Transfer
    ) -> None:
        """Undoes an unsealed move; the next try cleans up a store that is unreachable now."""
        with contextlib.suppress(errors.Unavailable):
            if await out.move_lock(project, queue) == f"gone:{token}":
                return
            await out.unlock(project, queue, f"out:{token}")
            if await into.move_lock(project, queue) == f"into:{IMPORT_PREFIX}{token}":
                await into.abort_import(project, queue, IMPORT_PREFIX + token)
                await self._target.control.catalogue.deleted(project, queue)

    async def _resume(self, project: str, queue: str, source: Route, token: str) -> None:
        """Finishes a sealed move.  Raises CannotMove when it went to another store."""
        target = await self._target.router.find(project, queue)
        into = _transfer(target, queue)
        move_lock = await into.move_lock(project, queue)
        committed = not move_lock and await self._epochs_match(project, queue, source, target)
        if move_lock != f"into:{IMPORT_PREFIX}{token}" and not committed:
            raise errors.CannotMove(
                queue=queue, why="it was moved to another store than the target; give that store"
            )
        await self._finish(project, queue, source, into, token)

    async def _finish(
        self, project: str, queue: str, source: Route, into: Transfer, token: str
    ) -> None:
        await into.commit_import(project, queue, IMPORT_PREFIX + token)
        await _transfer(source, queue).tombstone(project, queue, token)
        catalogue = self._source.control.catalogue
        await catalogue.deleted(project, queue)
        await catalogue.release(project, queue, source.name)

    async def _epochs_match(self, project: str, queue: str, source: Route, target: Route) -> bool:
        mine, theirs = await self._counts(project, queue, source, target)
        return mine.epoch is not None and mine.epoch == theirs.epoch

    async def _counts(
        self, project: str, queue: str, source: Route, target: Route
    ) -> tuple[QueueCounts, QueueCounts]:
        return await asyncio.gather(
            asyncio.to_thread(_counts, self._from, source.name, project, queue),
            asyncio.to_thread(_counts, self._to, target.name, project, queue),
        )


def _counts(stores: StoreConnections, pool: str, project: str, queue: str) -> QueueCounts:
    return queue_counts.count_queue(stores.client(stores.uri_of(pool)), project, queue)


def _transfer(route: Route, queue: str) -> Transfer:
    """Returns the transfer verbs of a store.  Raises CannotMove when it has none."""
    if route.driver.transfer is None:
        raise errors.CannotMove(queue=queue, why=f'the store of "{route.name}" cannot move queues')
    return route.driver.transfer
