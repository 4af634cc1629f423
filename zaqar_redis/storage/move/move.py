# SPDX-License-Identifier: Apache-2.0
"""The mover: moves queues from pool to pool while they are in use.

A move is recorded in the control store from beginning to end, and each of its
steps may be repeated.  A mover that finds an earlier record settles it first: a move
whose queue was sealed is finished, any other is undone.  So a mover may die
anywhere, and two movers may run at once; at every moment the queue is complete in
the one store that the catalogue names.
"""

from __future__ import annotations

import asyncio
import logging
import secrets

from zaqar_redis import errors
from zaqar_redis.records import Move
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.move.copy import (
    CopyLive,
    VerifyCopy,
    copy_frozen,
    copy_messages,
    skip_verification,
)
from zaqar_redis.storage.pools.router import Router
from zaqar_redis.storage.transfer import Transfer

LOG = logging.getLogger(__name__)


class Mover:
    def __init__(self, router: Router) -> None:
        self._router = router
        self._catalogue = router.control.catalogue
        self._copy_live: CopyLive = copy_messages

    async def move(
        self,
        project: str,
        queue: str,
        source: str,
        target: str,
        *,
        copy: CopyLive | None = None,
        verify: VerifyCopy = skip_verification,
    ) -> int:
        """Moves one queue; returns how many messages it had, 0 when it was deleted.

        *copy* does the long part, while the queue is in use; *verify* is called before the
        queue is sealed.

        Raises QueueNotInPool when it is not in *source*, NoSuchPool when *target* takes no
        queues, CannotMove when a store cannot move queues, the target has a queue of this
        name, or a write is being staged in it, and MoveLocked when another mover
        interfered.
        """
        if target != DEFAULT_POOL and target not in await self._router.pools():
            raise errors.NoSuchPool(name=target)
        outgoing, incoming = await self._transfer(source), await self._transfer(target)
        move = Move(token=secrets.token_hex(16), source=source, target=target)
        earlier = await self._catalogue.begin(project, queue, move)
        if earlier is not None:
            await self.settle(project, queue, earlier)
            if await self._catalogue.begin(project, queue, move) is not None:
                raise errors.MoveLocked
        try:
            return await self._run_move(project, queue, move, outgoing, incoming, copy, verify)
        except (Exception, asyncio.CancelledError):
            await self._undo_unless_sealed(project, queue, move)
            raise

    async def settle(self, project: str, queue: str, move: Move) -> None:
        """Finishes or undoes a move whose mover is gone, or is to be stopped."""
        outgoing = await self._transfer(move.source)
        if move.committed or await outgoing.move_lock(project, queue) == f"gone:{move.token}":
            await self._finish(project, queue, move)
        else:
            await self._undo(project, queue, move)

    async def settle_all(self) -> int:
        """Settles every move on record; returns how many could not be settled."""
        left = 0
        for placed, move in await self._catalogue.moves():
            try:
                await self.settle(placed.project, placed.queue, move)
            except (errors.Unavailable, errors.CannotMove):
                left += 1  # a store is unavailable; moves of the others can still be settled
        return left

    async def _run_move(
        self,
        project: str,
        queue: str,
        move: Move,
        outgoing: Transfer,
        incoming: Transfer,
        copy: CopyLive | None,
        verify: VerifyCopy,
    ) -> int:
        token = move.token
        if not await incoming.begin_import(project, queue, token):
            raise errors.CannotMove(queue=queue, why=f'"{move.target}" has a queue of this name')
        copied_rank = await (copy or self._copy_live)(project, queue, token, outgoing, incoming)
        if not await outgoing.freeze(project, queue, token):
            await self._queue_deleted(project, queue, move, incoming)
            return 0
        count = await copy_frozen(project, queue, copied_rank, (outgoing, token), (incoming, token))
        await verify(project, queue, copied_rank)
        if not await outgoing.seal(project, queue, token):
            raise errors.MoveLocked
        await self._finish(project, queue, move)
        return count

    async def _finish(self, project: str, queue: str, move: Move) -> None:
        """Finishes a sealed move, which cannot be undone."""
        outgoing, incoming = await self._transfer(move.source), await self._transfer(move.target)
        await self._catalogue.commit(project, queue, move)
        await incoming.commit_import(project, queue, move.token)
        await outgoing.tombstone(project, queue, move.token)
        await self._catalogue.end(project, queue, move.token)

    async def _undo(self, project: str, queue: str, move: Move) -> None:
        outgoing, incoming = await self._transfer(move.source), await self._transfer(move.target)
        await outgoing.unlock(project, queue, f"out:{move.token}")
        await incoming.abort_import(project, queue, move.token)
        await self._catalogue.end(project, queue, move.token)

    async def _undo_unless_sealed(self, project: str, queue: str, move: Move) -> None:
        """Undoes the move unless it is sealed; if a store is unavailable, the record stays."""
        try:
            await self.settle(project, queue, move)
        except errors.Unavailable:
            LOG.warning(
                "the move of %s was interrupted and stays on record",
                queue,
                extra={"action": "move_interrupted"},
            )

    async def _queue_deleted(
        self, project: str, queue: str, move: Move, incoming: Transfer
    ) -> None:
        """Ends the move of a deleted queue, of which only the catalogue entry is left."""
        await self._undo(project, queue, move)
        outgoing = await self._transfer(move.source)
        await self._catalogue.deleted(project, queue)
        if await outgoing.lock_missing(project, queue):
            await self._catalogue.release(project, queue, move.source)

    async def _transfer(self, name: str) -> Transfer:
        transfer = (await self._router.store(name)).driver.transfer
        if transfer is None:
            raise errors.CannotMove(
                queue="", why=f'the store of "{name}" has no way to move queues'
            )
        return transfer
