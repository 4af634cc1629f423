# SPDX-License-Identifier: Apache-2.0
"""The mover: moves queues from pool to pool while they are in use.

A move is recorded in the control store from beginning to end.  A mover that finds an
earlier record settles it first, so two movers may run at once; at every moment the queue is
complete in the one store that the catalogue names.  The record decides: a move is either
committed or withdrawn, and its mover may find that it is withdrawn.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable

from zaqar_redis import errors
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, Verb, verb
from zaqar_redis.pool_records import Move
from zaqar_redis.storage.control import DEFAULT_POOL, Catalogue
from zaqar_redis.storage.move.copy import CopyLive, VerifyCopy, copy_messages
from zaqar_redis.storage.move.queue_move import QueueGone, QueueMove, transfer_of
from zaqar_redis.storage.pools.router import ServiceRouter
from zaqar_redis.storage.transfer import Transfer


class CatalogueRecord(ComposedVerbs):
    """The record of a move in the catalogue: a `MoveRecord`."""

    def __init__(self, catalogue: Catalogue, project: str, queue: str, move: Move) -> None:
        self._catalogue = catalogue
        self._key = (project, queue)
        self._move = move

    def commit(self) -> Awaitable[bool]:
        return self._catalogue.commit(*self._key, self._move)

    def withdraw(self) -> Awaitable[bool]:
        return self._catalogue.withdraw(*self._key, self._move.token)

    @verb
    def end(self) -> Steps[None]:
        yield self._catalogue.end(*self._key, self._move.token)

    def undo(self, imported: bool) -> Verb[None]:
        return self.end()


class Mover(ComposedVerbs):
    def __init__(self, router: ServiceRouter) -> None:
        self._router = router
        self._catalogue = router.control.catalogue

    @verb
    def move(
        self,
        project: str,
        queue: str,
        source: str,
        target: str,
        *,
        copy: CopyLive = copy_messages,
        verify: VerifyCopy | None = None,
    ) -> Steps[int]:
        """Moves one queue; returns how many messages it had, 0 when it was deleted.

        *copy* does the long part, while the queue is in use; *verify* is called before the
        queue is sealed.

        Raises QueueNotInPool when it is not in *source*, NoSuchPool when *target* takes no
        queues, CannotMove when a store cannot move queues, the target has a queue of this
        name, or a write is being staged in it, and MoveLocked when another mover
        interfered.
        """
        if target != DEFAULT_POOL and not (
            yield self._router.stores.has(lambda pool: pool.name == target)
        ):
            raise errors.NoSuchPool(name=target)
        move = Move(token=secrets.token_hex(16), source=source, target=target)
        queue_move = yield from self._queue_move(project, queue, move)
        try:
            earlier = yield self._catalogue.begin(project, queue, move)
            if earlier is not None:
                yield self.settle(project, queue, earlier)
                if (yield self._catalogue.begin(project, queue, move)) is not None:
                    raise errors.MoveLocked
        except (asyncio.CancelledError, KeyboardInterrupt):
            yield from queue_move.settle_if_possible()  # it may have begun
            raise
        try:
            count: int = yield queue_move.run(copy, verify)
        except QueueGone:
            yield from self._forget_deleted(project, queue, source)
            return 0
        return count

    @verb
    def settle(self, project: str, queue: str, move: Move) -> Steps[None]:
        """Finishes or undoes a move whose mover is gone, or is to be stopped."""
        queue_move = yield from self._queue_move(project, queue, move)
        yield queue_move.settle(committed=move.committed)

    @verb
    def settle_all(self) -> Steps[int]:
        """Settles every move on record; returns how many could not be settled."""
        left = 0
        for placed, move in (yield self._catalogue.moves()):
            try:
                yield self.settle(placed.project, placed.queue, move)
            except (errors.Unavailable, errors.CannotMove):
                left += 1  # a store is unavailable; moves of the others can still be settled
        return left

    def _queue_move(self, project: str, queue: str, move: Move) -> Steps[QueueMove]:
        source = yield from self._transfer(move.source)
        target = yield from self._transfer(move.target)
        record = CatalogueRecord(self._catalogue, project, queue, move)
        return QueueMove(
            project,
            queue,
            source,
            target,
            record,
            token=move.token,
            target_name=f'"{move.target}"',
        )

    def _forget_deleted(self, project: str, queue: str, pool: str) -> Steps[None]:
        """Removes the catalogue entry of a queue that does not exist any more."""
        source = yield from self._transfer(pool)
        yield self._catalogue.deleted(project, queue)
        if (yield source.lock_missing(project, queue)):
            yield self._catalogue.release(project, queue, pool)

    def _transfer(self, name: str) -> Steps[Transfer]:
        route = yield self._router.stores.get(name)
        return transfer_of(route.driver, name)
