# SPDX-License-Identifier: Apache-2.0
"""Moves queues from pool to pool while they are in use.

A move is on record in the control store from beginning to end, and each of its
steps may be repeated.  Whoever finds an earlier record settles it first: a move
whose queue was sealed is finished, any other is undone.  So a mover may die
anywhere, and two movers may meet; at every moment the queue is whole in the one
store that the catalogue names.
"""

from __future__ import annotations

import asyncio
import logging
import secrets

from zaqar_redis import errors
from zaqar_redis.records import Move
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.pooled.copying import CopyLive, Verify, copy_frozen, copy_live, trust
from zaqar_redis.storage.pooled.places import Places
from zaqar_redis.storage.transfer import Transfer

LOG = logging.getLogger(__name__)


class Mover:
    def __init__(self, places: Places) -> None:
        self._places = places
        self._catalogue = places.control.catalogue
        self._copy_live: CopyLive = copy_live

    async def move(
        self,
        project: str,
        queue: str,
        source: str,
        target: str,
        *,
        copy: CopyLive | None = None,
        verify: Verify = trust,
    ) -> int:
        """Move one queue; how many messages it had, 0 when it was gone.

        *copy* does the long part, while the queue is in use; *verify* is asked before the
        queue is sealed.

        Raises NotThere when it does not live in *source*, NoSuchPool when *target*
        takes no queues, CannotMove when a store has no way to move queues or has one
        of this name, or a write is being staged in it, and Gated when another mover
        was in the way.
        """
        if target != DEFAULT and target not in await self._places.pools():
            raise errors.NoSuchPool(name=target)
        here, there = await self._transfer(source), await self._transfer(target)
        move = Move(token=secrets.token_hex(16), source=source, target=target)
        earlier = await self._catalogue.begin(project, queue, move)
        if earlier is not None:
            await self.settle(project, queue, earlier)
            if await self._catalogue.begin(project, queue, move) is not None:
                raise errors.Gated
        try:
            return await self._moved(project, queue, move, here, there, copy, verify)
        except (Exception, asyncio.CancelledError):
            await self._undone(project, queue, move)
            raise

    async def settle(self, project: str, queue: str, move: Move) -> None:
        """Finish or undo a move whose mover is gone, or shall be stopped."""
        here = await self._transfer(move.source)
        if move.committed or await here.gate(project, queue) == f"gone:{move.token}":
            await self._finish(project, queue, move)
        else:
            await self._undo(project, queue, move)

    async def settle_all(self) -> int:
        """Settle every move on record; how many of them could not be."""
        left = 0
        for placed, move in await self._catalogue.moves():
            try:
                await self.settle(placed.project, placed.queue, move)
            except (errors.Unavailable, errors.CannotMove):
                left += 1  # a store is away; the others' moves can be settled all the same
        return left

    async def _moved(
        self,
        project: str,
        queue: str,
        move: Move,
        here: Transfer,
        there: Transfer,
        copy: CopyLive | None,
        verify: Verify,
    ) -> int:
        token = move.token
        if not await there.stage(project, queue, token):
            raise errors.CannotMove(queue=queue, why=f'"{move.target}" has a queue of this name')
        staged = await (copy or self._copy_live)(project, queue, token, here, there)
        if not await here.freeze(project, queue, token):
            await self._gone(project, queue, move, there)
            return 0
        count = await copy_frozen(project, queue, staged, (here, token), (there, token))
        await verify(project, queue, staged)
        if not await here.seal(project, queue, token):
            raise errors.Gated
        await self._finish(project, queue, move)
        return count

    async def _finish(self, project: str, queue: str, move: Move) -> None:
        """From the seal on there is only one way: forward."""
        here, there = await self._transfer(move.source), await self._transfer(move.target)
        await self._catalogue.commit(project, queue, move)
        await there.welcome(project, queue, move.token)
        await here.retire(project, queue, move.token)
        await self._catalogue.end(project, queue, move.token)

    async def _undo(self, project: str, queue: str, move: Move) -> None:
        here, there = await self._transfer(move.source), await self._transfer(move.target)
        await here.open(project, queue, f"out:{move.token}")
        await there.discard(project, queue, move.token)
        await self._catalogue.end(project, queue, move.token)

    async def _undone(self, project: str, queue: str, move: Move) -> None:
        """Undo unless the seal is set; if a store is away, the record stays for later."""
        try:
            await self.settle(project, queue, move)
        except errors.Unavailable:
            LOG.warning(
                "the move of %s stays on record", queue, extra={"action": "move_interrupted"}
            )

    async def _gone(self, project: str, queue: str, move: Move, there: Transfer) -> None:
        """The queue was deleted: its place in the catalogue is all that is left."""
        await self._undo(project, queue, move)
        here = await self._transfer(move.source)
        await self._catalogue.deleted(project, queue)
        if await here.close(project, queue):
            await self._catalogue.release(project, queue, move.source)

    async def _transfer(self, name: str) -> Transfer:
        transfer = (await self._places.place(name)).driver.transfer
        if transfer is None:
            raise errors.CannotMove(
                queue="", why=f'the store of "{name}" has no way to move queues'
            )
        return transfer
