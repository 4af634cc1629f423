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
from collections.abc import AsyncIterator

from zaqar_redis import errors
from zaqar_redis.records import Move, Placed, Pool
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.driver import Transfer
from zaqar_redis.storage.pooled.places import Places, choose

LOG = logging.getLogger(__name__)

#: Queues whose names are read at once.
_PAGE = 100
#: The role of the one process that moves queues, and the seconds it has it for: longer
#: than a queue of some million messages takes.
_ROLE, _LEAD = "mover", 120.0


class Mover:
    def __init__(self, places: Places) -> None:
        self._places = places
        self._catalogue = places.control.catalogue

    async def move(self, project: str, queue: str, source: str, target: str) -> int:
        """Move one queue; how many messages it had, 0 when it was gone.

        Raises NotThere when it does not live in *source*, NoSuchPool when *target*
        takes no queues, CannotMove when a store has no way to move queues or has one
        of this name, and Gated when another mover was in the way.
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
            return await self._moved(project, queue, move, here, there)
        except Exception:
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
        """Settle every move on record; how many there were."""
        moves = await self._catalogue.moves()
        for placed, move in moves:
            await self.settle(placed.project, placed.queue, move)
        return len(moves)

    async def tend(self) -> int:
        """Go on with every pool that is draining, and with moves whose mover is gone.

        One process at a time does; how many queues it moved.
        """
        control = self._places.control
        if not await control.lead(_ROLE, _LEAD):
            return 0
        await self.settle_all()
        moved = 0
        for pool in (await control.pools.list()).items:
            if not pool.draining:
                continue
            async for _, outcome in self.drain(pool.name):
                if isinstance(outcome, int):
                    moved += 1
                if not await control.lead(_ROLE, _LEAD):
                    return moved
        return moved

    async def drain(self, pool: str) -> AsyncIterator[tuple[Placed, int | errors.Problem]]:
        """Move every queue of a pool to others of its flavor, or home.

        Yields each with how many messages it had, or with what keeps it where it is.
        """
        after = ""
        while page := await self._catalogue.queues_of(pool, after, _PAGE):
            for placed in page:
                yield placed, await self._drained(placed)
            after = page[-1].marker

    async def _drained(self, placed: Placed) -> int | errors.Problem:
        try:
            target = await self._target(placed)
            return await self.move(placed.project, placed.queue, placed.pool, target)
        except (errors.CannotMove, errors.NoSuchPool, errors.NotThere, errors.Unavailable) as why:
            LOG.warning(
                "%s stays in %s: %s",
                placed.queue,
                placed.pool,
                why.text,
                extra={"action": "move_failed"},
            )
            return why

    async def _target(self, placed: Placed) -> str:
        driver = (await self._places.place(placed.pool)).driver
        known = await driver.queues.get(placed.project, placed.queue)
        flavor = (known.metadata.get("_flavor") if known else "") or ""
        pools = [pool for pool in (await self._places.pools()).values() if pool.name != placed.pool]
        pool: Pool | None = choose(pools, flavor)
        if pool is None and flavor:
            raise errors.CannotMove(
                queue=placed.queue, why=f'the flavor "{flavor}" has no other pool that takes queues'
            )
        return pool.name if pool else DEFAULT

    async def _moved(
        self, project: str, queue: str, move: Move, here: Transfer, there: Transfer
    ) -> int:
        token = move.token
        if not await there.stage(project, queue, token):
            raise errors.CannotMove(queue=queue, why=f'"{move.target}" has a queue of this name')
        staged = await self._copy_live(project, queue, token, here, there)
        if not await here.freeze(project, queue, token):
            await self._gone(project, queue, move, there)
            return 0
        count = await self._copy_frozen(project, queue, token, staged, here, there)
        if not await here.seal(project, queue, token):
            raise errors.Gated
        await self._finish(project, queue, move)
        return count

    async def _copy_live(
        self, project: str, queue: str, token: str, here: Transfer, there: Transfer
    ) -> int:
        """The rank up to which messages were copied."""
        after = 0
        portion = await here.live(project, queue, after)
        while portion.following is not None:
            after = int(portion.following)
            # The next is read while this one is written: two stores at work.
            _, portion = await asyncio.gather(
                there.take_in(project, queue, token, portion), here.live(project, queue, after)
            )
        # The last page is short: it comes with the rest, when the queue is frozen.
        return after

    async def _copy_frozen(
        self, project: str, queue: str, token: str, staged: int, here: Transfer, there: Transfer
    ) -> int:
        """How many messages there were."""
        count = 0
        portion = await here.frozen(project, queue, token, staged, "")
        while portion.following is not None:
            count += len(portion.items) // 6 if portion.kind == "index" else 0
            _, portion = await asyncio.gather(
                there.take_in(project, queue, token, portion),
                here.frozen(project, queue, token, staged, portion.following),
            )
        await there.take_in(project, queue, token, portion)
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
