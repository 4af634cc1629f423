# SPDX-License-Identifier: Apache-2.0
"""Checks every store, and that catalogue and stores agree on where queues live."""

from __future__ import annotations

from collections.abc import AsyncIterator

from zaqar_redis import errors
from zaqar_redis.records import Checked, Finding
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.pooled.jobs import Jobs
from zaqar_redis.storage.pooled.mover import Mover
from zaqar_redis.storage.pooled.places import Place, Places
from zaqar_redis.storage.transfer import IMPORT

#: Queues whose names are read at once.
_PAGE = 100


class Checker:
    def __init__(self, places: Places, jobs: Jobs, mover: Mover) -> None:
        self._places = places
        self._jobs = jobs
        self._mover = mover
        self._catalogue = places.control.catalogue

    async def check(self, repair: bool) -> AsyncIterator[Checked]:
        """Raises StoreUnavailable when the control store is away; of others it is a finding."""
        async with self._jobs.leading() as leads:
            if leads:  # else there is a mover, and moves on record are its own
                async for checked in self._moves(repair):
                    yield checked
            names = [DEFAULT, *await self._places.pools()]
            catalogued = len(names) > 1 or bool(await self._catalogue.queues_of(DEFAULT, "", 1))
            async for checked in self._places.control.check(names, repair):
                yield checked
            for name in names:
                try:
                    place = await self._places.place(name)
                    async for checked in self._store(place, repair, catalogued):
                        yield checked
                except errors.Unavailable as why:
                    yield Checked(store=name, findings=(Finding(what=why.text),))

    async def _moves(self, repair: bool) -> AsyncIterator[Checked]:
        if repair:
            await self._mover.settle_all()
        for placed, move in await self._catalogue.moves():
            what = f"its move to {move.target} was never ended"
            finding = Finding(what=what, damage=False)
            yield Checked(placed.project, placed.queue, placed.pool, findings=(finding,))

    async def _store(self, place: Place, repair: bool, catalogued: bool) -> AsyncIterator[Checked]:
        """Without a catalogue, e.g. in another service's pool, queues live where they are."""
        checker = place.driver.checker
        if checker is None:
            return
        async for checked in checker.check(repair):
            found = checked
            if checked.queue and (checked.there or checked.gate):
                finding = await self._misplaced(place, checked, repair, catalogued)
                found = checked.with_(*([finding] if finding else []))
            yield found.with_(store=place.name)
        after, absent, present = "", 0, False
        while page := await self._catalogue.queues_of(place.name, after, _PAGE):
            for placed in page:
                if await self._is_there(place, placed.project, placed.queue):
                    present = True
                    continue
                located = await self._catalogue.locate(placed.project, placed.queue)
                if located.deleted or located.pool != place.name:
                    continue
                absent += 1
                # A request that failed behind the choice of a pool leaves that behind.
                if repair:
                    await self._catalogue.deleted(placed.project, placed.queue)
                what = "it has a place in the catalogue, but is not there"
                finding = Finding(what, damage=False, mended=repair)
                yield Checked(placed.project, placed.queue, place.name, findings=(finding,))
            after = page[-1].marker
        # A single one may be that of such a request.
        if absent > 1 and not present:
            what = (
                f"none of its {absent} queues is there: the store has lost its data, "
                "or its URI is another's"
            )
            yield Checked(store=place.name, findings=(Finding(what, mended=repair),))

    async def _misplaced(
        self, place: Place, checked: Checked, repair: bool, catalogued: bool
    ) -> Finding | None:
        """Whether the catalogue names another store than the one the queue was found in."""
        project, queue = checked.project, checked.queue
        located = await self._catalogue.locate(project, queue)
        transfer = place.driver.transfer
        if located.move is not None or transfer is None:
            return None
        gate = await transfer.gate(project, queue)  # it may have moved on meanwhile
        kind, _, token = gate.partition(":")
        if token.startswith(IMPORT):
            if repair:  # should it go on all the same, it fails, and has to be run again
                await transfer.discard(project, queue, token)
            what = "its import from stock Zaqar was not ended"
            return Finding(what=what, damage=False, mended=repair)
        if not catalogued:
            return None
        if kind == "into" and located.pool != place.name:
            if repair:
                await transfer.discard(project, queue, token)
            return Finding(what="half a copy of it was left here", damage=False, mended=repair)
        if kind == "gone" and located.pool not in (None, place.name):
            if repair:
                await transfer.retire(project, queue, token)
            return Finding(what="it moved away and was left here", damage=False, mended=repair)
        if kind or not await self._is_there(place, project, queue):
            return None
        if located.pool is None:
            return await self._uncatalogued(place, checked, repair)
        if located.pool != place.name:
            return Finding(what=f"it is here, but the catalogue says {located.pool}")
        return None

    async def _uncatalogued(self, place: Place, checked: Checked, repair: bool) -> Finding | None:
        """At home a queue may be older than the catalogue; in a pool nobody finds it."""
        mended = False
        if repair:
            version = (await self._places.control.pools.list()).version
            pool = await self._catalogue.assign(checked.project, checked.queue, place.name, version)
            mended = pool == place.name
        return Finding(
            what="it is not in the catalogue", damage=place.name != DEFAULT, mended=mended
        )

    async def _is_there(self, place: Place, project: str, queue: str) -> bool:
        try:
            return await place.driver.queues.get(project, queue) is not None
        except errors.Gated:
            return True
