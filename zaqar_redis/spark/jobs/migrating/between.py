# SPDX-License-Identifier: Apache-2.0
"""Moves or copies queues between two stores that know nothing of each other.

No catalogue has both, so the gates alone say how far it is: ``into:import-<token>`` at
the target, which nobody opens but `Transfer.welcome`, and at the source ``out:<token>``
while the queue is frozen, and ``gone:<token>`` from the moment on from which only the
copy counts.  Whoever finds the last one goes on: opens the copy, and clears the source.
What else is found is begun anew: a frozen queue opens by itself, and half a copy is
thrown away.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets

from zaqar_redis import errors
from zaqar_redis.spark.jobs.migrating.way import AlreadyThere, Ends, Gone, Way, Ways
from zaqar_redis.spark.stores import Stores
from zaqar_redis.storage.drivers.redis import copies
from zaqar_redis.storage.drivers.redis.copies import Counts
from zaqar_redis.storage.pooled import PooledDriver
from zaqar_redis.storage.pooled.copying import copy_frozen
from zaqar_redis.storage.pooled.places import Place
from zaqar_redis.storage.transfer import IMPORT, Transfer


class Between:
    def __init__(
        self,
        source: tuple[PooledDriver, Stores],
        target: tuple[PooledDriver, Stores],
        *,
        keep: bool,
    ) -> None:
        """With *keep*, queues stay in the source as well."""
        self._source, self._from = source
        self._target, self._to = target
        self._keep = keep

    async def knows(self, project: str, queue: str) -> bool:
        """Whether there is such a queue, at either side."""
        try:
            there = await self._source.queues.get(project, queue) is not None
        except errors.Gated:
            return True
        return there or await self._has(project, queue)

    async def take(self, project: str, queue: str, ways: Ways) -> tuple[int, Way]:
        """How many messages the queue had, and how they got over.

        Raises AlreadyThere, Gone, CannotMove, Gated and StoreUnavailable.
        """
        here = await self._source.places.find(project, queue)
        out = _transfer(here, queue)
        kind, _, token = (await out.gate(project, queue)).partition(":")
        if kind == "gone":
            await self._go_on(project, queue, here, token)
            raise AlreadyThere
        found = None if kind == "closed" else await here.driver.queues.get(project, queue)
        await self._check(project, queue, here, found is not None)
        if found is None:
            raise Gone
        flavor = str(found.metadata.get("_flavor") or "")
        there = await self._target.places.find(project, queue, make=True, flavor=flavor)
        if await here.driver.identity() == await there.driver.identity():
            raise errors.CannotMove(queue=queue, why="that store has it already: it is the same")
        way = ways(Ends(self._from.uri_of(here.name), self._to.uri_of(there.name)))
        token = secrets.token_hex(16)
        into = _transfer(there, queue)
        if not await into.stage(project, queue, IMPORT + token):
            raise errors.CannotMove(queue=queue, why="the target has a queue of this name")
        try:
            count = await self._copied(project, queue, token, out, into, way)
        except (Exception, asyncio.CancelledError):
            await self._undo(project, queue, token, out, into)
            raise
        if not self._keep:
            await self._finish(project, queue, here, into, token)
        return count, way

    async def _has(self, project: str, queue: str) -> bool:
        """Whether the target has a queue of this name."""
        try:
            return await self._target.queues.get(project, queue) is not None
        except errors.Gated:
            return False  # half a copy

    async def _check(self, project: str, queue: str, here: Place, exists: bool) -> None:
        """Raises AlreadyThere, and CannotMove when the target has another one."""
        if not await self._has(project, queue):
            return
        if not exists:
            raise AlreadyThere
        there = await self._target.places.find(project, queue)
        mine, theirs = await self._counts(project, queue, here, there)
        if mine.epoch != theirs.epoch:
            raise errors.CannotMove(queue=queue, why="the target has a queue of this name")
        if self._keep and mine.size == theirs.size:
            raise AlreadyThere
        raise errors.CannotMove(
            queue=queue,
            why="the target has a copy of it, which was made before; delete that one first (last "
            f"rank and messages: here {mine.size}, there {theirs.size})",
        )

    async def _copied(
        self, project: str, queue: str, token: str, out: Transfer, into: Transfer, way: Way
    ) -> int:
        coming = IMPORT + token
        staged = await way.live(project, queue, coming, out, into)
        if not await out.freeze(project, queue, token):
            raise Gone
        count = await copy_frozen(project, queue, staged, (out, token), (into, coming))
        await way.verify(project, queue, staged)
        if self._keep:
            await into.welcome(project, queue, coming)
            await out.open(project, queue, f"out:{token}")
        elif not await out.seal(project, queue, token):
            raise errors.Gated
        return count

    async def _undo(
        self, project: str, queue: str, token: str, out: Transfer, into: Transfer
    ) -> None:
        """Unless it was sealed; a store that is away now is tidied when it is tried again."""
        with contextlib.suppress(errors.Unavailable):
            if await out.gate(project, queue) == f"gone:{token}":
                return
            await out.open(project, queue, f"out:{token}")
            if await into.gate(project, queue) == f"into:{IMPORT}{token}":
                await into.discard(project, queue, IMPORT + token)
                await self._target.control.catalogue.deleted(project, queue)

    async def _go_on(self, project: str, queue: str, here: Place, token: str) -> None:
        """Finish a move that was sealed.  Raises CannotMove when it went to another store."""
        there = await self._target.places.find(project, queue)
        into = _transfer(there, queue)
        gate = await into.gate(project, queue)
        whole = not gate and await self._epochs_match(project, queue, here, there)
        if gate != f"into:{IMPORT}{token}" and not whole:
            raise errors.CannotMove(
                queue=queue, why="it has moved to another store than this one; name that one"
            )
        await self._finish(project, queue, here, into, token)

    async def _finish(
        self, project: str, queue: str, here: Place, into: Transfer, token: str
    ) -> None:
        await into.welcome(project, queue, IMPORT + token)
        await _transfer(here, queue).retire(project, queue, token)
        catalogue = self._source.control.catalogue
        await catalogue.deleted(project, queue)
        await catalogue.release(project, queue, here.name)

    async def _epochs_match(self, project: str, queue: str, here: Place, there: Place) -> bool:
        mine, theirs = await self._counts(project, queue, here, there)
        return mine.epoch is not None and mine.epoch == theirs.epoch

    async def _counts(
        self, project: str, queue: str, here: Place, there: Place
    ) -> tuple[Counts, Counts]:
        return await asyncio.gather(
            asyncio.to_thread(_counts, self._from, here.name, project, queue),
            asyncio.to_thread(_counts, self._to, there.name, project, queue),
        )


def _counts(stores: Stores, pool: str, project: str, queue: str) -> Counts:
    return copies.counts(stores.client(stores.uri_of(pool)), project, queue)


def _transfer(place: Place, queue: str) -> Transfer:
    """Raises CannotMove."""
    if place.driver.transfer is None:
        raise errors.CannotMove(
            queue=queue, why=f'the store of "{place.name}" has no way to move queues'
        )
    return place.driver.transfer
