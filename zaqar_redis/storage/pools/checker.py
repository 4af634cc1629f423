# SPDX-License-Identifier: Apache-2.0
"""Checks every store, and that the catalogue and the stores agree about queues."""

from __future__ import annotations

from collections.abc import AsyncIterator

from zaqar_redis import errors
from zaqar_redis.check_records import CheckResult, Finding
from zaqar_redis.records import LockKind
from zaqar_redis.storage.contract import Driver, ProgressCallback, no_progress
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.move.mover import Mover
from zaqar_redis.storage.pools.pool_stores import Route, exists
from zaqar_redis.storage.pools.rebalance import Rebalancer
from zaqar_redis.storage.pools.router import ServiceRouter

#: Queues whose names are read at once.
_PAGE = 100


class PooledChecker:
    def __init__(self, router: ServiceRouter, jobs: Rebalancer, mover: Mover) -> None:
        self._router = router
        self._jobs = jobs
        self._mover = mover
        self._catalogue = router.control.catalogue

    async def check(
        self, repair: bool, on_progress: ProgressCallback = no_progress
    ) -> AsyncIterator[CheckResult]:
        """Checks all stores; one that is unavailable is a finding.

        Raises StoreUnavailable when the control store is unavailable.
        """
        async with self._jobs.leadership() as leads:
            if leads:  # else another process moves queues, and moves on record are its own
                async for checked in self._moves(repair):
                    yield checked
            names = [DEFAULT_POOL, *await self._router.stores.pools()]
            catalogued = len(names) > 1 or bool(
                await self._catalogue.queues_of(DEFAULT_POOL, "", 1)
            )
            async for checked in self._router.control.check(names, repair):
                yield checked
            for name in names:
                try:
                    store = await self._router.stores.get(name)
                    async for checked in self._store(store, repair, catalogued, on_progress):
                        yield checked
                except errors.Unavailable as why:
                    finding = Finding(what=why.text, damage=False, unread=True)
                    yield CheckResult(store=name, findings=(finding,))

    async def _moves(self, repair: bool) -> AsyncIterator[CheckResult]:
        if repair:
            await self._mover.settle_all()
        for placed, move in await self._catalogue.moves():
            what = f"its move to {move.target} was never finished"
            finding = Finding(what=what, damage=False)
            yield CheckResult(placed.project, placed.queue, placed.pool, findings=(finding,))

    async def _store(
        self,
        store: Route[Driver],
        repair: bool,
        catalogued: bool,
        on_progress: ProgressCallback,
    ) -> AsyncIterator[CheckResult]:
        """Checks one store.

        Queues of one that is not *catalogued*, e.g. another service's pool, need no entry.
        """
        checker = store.driver.checker
        if checker is None:
            return
        async for checked in checker.check(repair, on_progress):
            found = checked
            if checked.queue and (checked.exists or checked.move_lock):
                finding = await self._misplaced(store, checked, repair, catalogued)
                found = checked.with_(*([finding] if finding else []))
            yield found.with_(store=store.name)
        after, absent, present = "", 0, False
        while page := await self._catalogue.queues_of(store.name, after, _PAGE):
            for placed in page:
                if await exists(store.driver, placed.project, placed.queue):
                    present = True
                    continue
                located = await self._catalogue.locate(placed.project, placed.queue)
                if located.deleted or located.pool != store.name:
                    continue
                absent += 1
                # A request that failed after the choice of a pool leaves such an entry.
                if repair:
                    await self._catalogue.deleted(placed.project, placed.queue)
                what = "it has a catalogue entry, but does not exist in its pool"
                finding = Finding(what, damage=False, mended=repair)
                yield CheckResult(placed.project, placed.queue, store.name, findings=(finding,))
            after = page[-1].marker
        # A single entry may be left by such a request.
        if absent > 1 and not present:
            what = (
                f"none of its {absent} queues exists: the store has lost its data, "
                "or its URI is that of another store"
            )
            yield CheckResult(store=store.name, findings=(Finding(what, mended=repair),))

    async def _misplaced(
        self, store: Route[Driver], checked: CheckResult, repair: bool, catalogued: bool
    ) -> Finding | None:
        """Returns a finding when the catalogue does not name the store that has the queue."""
        project, queue = checked.project, checked.queue
        located = await self._catalogue.locate(project, queue)
        transfer = store.driver.transfer
        if located.move is not None or transfer is None:
            return None
        lock = await transfer.move_lock(project, queue)  # it may have moved on meanwhile
        if lock is not None and lock.is_import:
            if repair:  # if the import goes on all the same, it fails, and must be run again
                await transfer.abort_import(project, queue, lock.token)
            what = "its import or restore was not finished"
            return Finding(what=what, damage=False, mended=repair)
        if not catalogued:
            return None
        if lock is None:
            return await self._unlocked(store, checked, located.pool, repair)
        if lock.kind is LockKind.INTO and located.pool != store.name:
            if repair:
                await transfer.abort_import(project, queue, lock.token)
            return Finding(
                what="an unfinished copy of it was left in this store", damage=False, mended=repair
            )
        if lock.kind is LockKind.GONE and located.pool not in (None, store.name):
            if repair:
                await transfer.tombstone(project, queue, lock.token)
            return Finding(
                what="it moved to another pool, but was not removed from this one",
                damage=False,
                mended=repair,
            )
        return None

    async def _unlocked(
        self, store: Route[Driver], checked: CheckResult, pool: str | None, repair: bool
    ) -> Finding | None:
        """Returns a finding about a queue that the catalogue says is in *pool*."""
        if not await exists(store.driver, checked.project, checked.queue):
            return None
        if pool is None:
            return await self._uncatalogued(store, checked, repair)
        if pool != store.name:
            return Finding(what=f"it is in this store, but the catalogue names {pool}")
        return None

    async def _uncatalogued(
        self, store: Route[Driver], checked: CheckResult, repair: bool
    ) -> Finding | None:
        """Returns a finding about a queue without a catalogue entry.

        In the default pool it may be older than the catalogue; in others it is not found.
        """
        repaired = False
        if repair:
            version = (await self._router.control.pools.list()).version
            pool = await self._catalogue.assign(checked.project, checked.queue, store.name, version)
            repaired = pool == store.name
        return Finding(
            what="it is not in the catalogue", damage=store.name != DEFAULT_POOL, mended=repaired
        )
