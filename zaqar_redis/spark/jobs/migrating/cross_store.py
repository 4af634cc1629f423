# SPDX-License-Identifier: Apache-2.0
"""Moves or copies queues between two stores that share no catalogue.

The move locks alone hold the state of the move.  A process that finds a sealed queue finishes
its move, if the target has the copy.  From any other state the move begins anew: the lock of a
frozen queue expires, and a partial copy, whose lock has a token of `IMPORT_PREFIX`, is discarded.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import Callable

from zaqar_redis import errors, rules
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.keyspace.uris import redact_password
from zaqar_redis.records import IMPORT_PREFIX, LockKind, MoveLock
from zaqar_redis.spark.jobs.migrating.queue_copy import QueueCopy
from zaqar_redis.spark.stores import StoreConnections
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.control import Catalogue
from zaqar_redis.storage.move.queue_move import QueueGone, QueueMove, transfer_of
from zaqar_redis.storage.pools import PooledDriver
from zaqar_redis.storage.pools.pool_stores import Route
from zaqar_redis.storage.redis.bulk import queue_counts
from zaqar_redis.storage.redis.bulk.queue_counts import QueueCounts


class AlreadyMigrated(Exception):
    """The queue is in the target already."""


class CrossStoreMover:
    def __init__(
        self,
        source: tuple[PooledDriver, StoreConnections],
        target: tuple[PooledDriver, StoreConnections],
        *,
        keep: bool,
        advance: Callable[[int], None],
    ) -> None:
        """With *keep*, queues stay in the source as well: a copy.

        *advance* is called with numbers of copied messages.
        """
        self._source, self._from = source
        self._target, self._to = target
        self._keep = keep
        self._advance = advance

    async def has_queue(self, project: str, queue: str) -> bool:
        """Returns whether the queue exists, in source or target."""
        try:
            in_source = await self._source.queues.get(project, queue) is not None
        except errors.MoveLocked:
            return True
        return in_source or await self._has(project, queue)

    async def move(self, project: str, queue: str) -> tuple[int, QueueCopy]:
        source = await self._source.router.find(project, queue)
        lock = await transfer_of(source.driver, source.name, queue).move_lock(project, queue)
        if lock is not None and lock.kind is LockKind.GONE:
            await self._resume(project, queue, source, lock.token)
            raise AlreadyMigrated
        closed = lock is not None and lock.kind is LockKind.CLOSED
        found = None if closed else await source.driver.queues.get(project, queue)
        await self._check(project, queue, source, found is not None)
        if found is None:
            raise QueueGone
        flavor = str(found.metadata.get("_flavor") or "")
        target = await self._target.router.find(project, queue, make=True, flavor=flavor)
        if await source.driver.identity() == await target.driver.identity():
            raise errors.CannotMove(queue=queue, why="that store has it already: it is the same")
        source_uri, target_uri = self._from.uri_of(source.name), self._to.uri_of(target.name)
        copy = QueueCopy(self._from, source_uri, target_uri, self._advance)
        move = self._queue_move(project, queue, source, target, secrets.token_hex(16))
        return await move.run(copy.live, copy.verify, keep=self._keep), copy

    async def _has(self, project: str, queue: str) -> bool:
        """Returns whether the target has a queue of this name."""
        try:
            return await self._target.queues.get(project, queue) is not None
        except errors.MoveLocked:
            return False  # a partial copy

    async def _check(self, project: str, queue: str, source: Route[Driver], exists: bool) -> None:
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
            why="the target has an earlier copy of it, complete as it was then (last rank and "
            f"messages: source {mine.size}, target {theirs.size}); "
            f"{'keep that one, or ' if self._keep else ''}delete it by: "
            f"{self._deletion(project, queue)}; then run this command again",
        )

    def _deletion(self, project: str, queue: str) -> str:
        kind, _, name = rules.described(queue).partition(" ")
        uri = redact_password(self._to.config.uri)
        return shlex.join(
            ("zaqar-redis", kind, "delete", name, "--storage", uri, "--project", project)
        )

    async def _resume(self, project: str, queue: str, source: Route[Driver], token: str) -> None:
        """Finishes a sealed move.

        Raises CannotMove when the target does not have the queue, and MoveLocked when it lost
        the queue meanwhile: then the queue is in use in the source.
        """
        target = await self._target.router.find(project, queue)
        into = transfer_of(target.driver, target.name, queue)
        lock = await into.move_lock(project, queue)
        is_import = lock is not None and lock.is_import
        if is_import and lock != MoveLock(LockKind.INTO, IMPORT_PREFIX + token):
            raise errors.CannotMove(queue=queue, why=self._taken_over(source.name))
        if not is_import and not await self._has_copy(project, queue, source, target):
            raise errors.CannotMove(queue=queue, why=self._lost(project, queue, source.name))
        if not await self._queue_move(project, queue, source, target, token).settle():
            raise errors.MoveLocked

    def _taken_over(self, pool: str) -> str:
        target = redact_password(self._to.config.uri)
        return (
            f"{self._sealed(pool)}, and another import or restore has taken its copy in {target} "
            f"over; finish that, or discard it by: zaqar-redis check --repair --storage {target}; "
            "then run this command again"
        )

    def _lost(self, project: str, queue: str, pool: str) -> str:
        lock = keys.of_queue(project, queue).move_lock.decode()
        return (
            f"{self._sealed(pool)}, and {redact_password(self._to.config.uri)} does not have all "
            "of it; if it was moved to another store than the target, give that store; if it "
            "has been in use in no other store, unlock it where it is, by Redis' command "
            f"DEL '{lock}', and run this command again"
        )

    def _sealed(self, pool: str) -> str:
        return f"an interrupted move has locked it in {redact_password(self._from.uri_of(pool))}"

    def _queue_move(
        self,
        project: str,
        queue: str,
        source: Route[Driver],
        target: Route[Driver],
        token: str,
    ) -> QueueMove:
        return QueueMove(
            project,
            queue,
            transfer_of(source.driver, source.name, queue),
            transfer_of(target.driver, target.name, queue),
            _Catalogues(
                self._source.control.catalogue,
                self._target.control.catalogue,
                project,
                queue,
                source.name,
            ),
            token=token,
            import_prefix=IMPORT_PREFIX,
        )

    async def _has_copy(
        self, project: str, queue: str, source: Route[Driver], target: Route[Driver]
    ) -> bool:
        """Returns whether the target has the sealed queue, which may have been used since.

        One that was restored from an archive has the epoch, too, but may be older.
        """
        mine, theirs = await self._counts(project, queue, source, target)
        return mine.epoch is not None and mine.epoch == theirs.epoch and mine.rank <= theirs.rank

    async def _counts(
        self, project: str, queue: str, source: Route[Driver], target: Route[Driver]
    ) -> tuple[QueueCounts, QueueCounts]:
        return await asyncio.gather(
            asyncio.to_thread(_counts, self._from, source.name, project, queue),
            asyncio.to_thread(_counts, self._to, target.name, project, queue),
        )


def _counts(stores: StoreConnections, pool: str, project: str, queue: str) -> QueueCounts:
    return queue_counts.count_queue(stores.client(stores.uri_of(pool)), project, queue)


class _Catalogues(ComposedVerbs):
    """The catalogues of both installations: a `MoveRecord`."""

    def __init__(
        self, source: Catalogue, target: Catalogue, project: str, queue: str, pool: str
    ) -> None:
        """*pool*: that of the queue in the source."""
        self._source = source
        self._target = target
        self._key = (project, queue)
        self._pool = pool

    @verb
    def commit(self) -> Steps[bool]:
        """Does nothing: the target's catalogue has had the queue since the copy began."""
        return True
        yield

    @verb
    def withdraw(self) -> Steps[bool]:
        """Does nothing: nobody else finds this move."""
        return True
        yield

    @verb
    def end(self) -> Steps[None]:
        yield self._source.deleted(*self._key)
        yield self._source.release(*self._key, self._pool)

    @verb
    def undo(self, imported: bool) -> Steps[None]:
        if imported:
            yield self._target.deleted(*self._key)
