# SPDX-License-Identifier: Apache-2.0
"""Work on many queues: emptying pools, and spreading queues by weight.

One process at a time does it.  What is to be done is on record in the control store,
so that another goes on where one was stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from zaqar_redis import errors
from zaqar_redis.records import Job, Placed
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.pooled import shares
from zaqar_redis.storage.pooled.mover import Mover
from zaqar_redis.storage.pooled.places import Places

LOG = logging.getLogger(__name__)

#: Queues whose names are read at once.
_PAGE = 100
#: The role of the process that moves queues, and the seconds it has it for; it is
#: renewed four times in that time.
_ROLE, _LEAD = "mover", 20.0
#: Queues that could not move whose reasons are kept.
_REASONS = 10
#: Queues in a round that may stay because a store is away: each costs a timeout.
_AWAY = 10
#: The job of spreading queues.
REBALANCE = "rebalance"

#: A queue, and how many messages it had when it moved, or why it stays.
Outcome = tuple[Placed, int | errors.Problem]
#: The store that a queue should move to; None: it is where it should be.
Where = Callable[[Placed], Awaitable[str | None]]

#: Whether the operator has not thought better of it.
Wanted = Callable[[], Awaitable[bool]]


def drain_of(pool: str) -> str:
    """The job of emptying a pool."""
    return f"drain:{pool}"


class Jobs:
    def __init__(self, places: Places, mover: Mover) -> None:
        self._places = places
        self._mover = mover
        self._control = places.control

    async def wait(self, seconds: float) -> None:
        """Until so much time has passed, or pools have changed."""
        changed = self._places.changed
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await changed.wait()
        changed.clear()

    async def tend(self) -> int:
        """Go on with what is to be moved, and with moves whose mover is gone.

        How many queues moved.
        """
        async with self.leading() as leads:
            if not leads:
                return 0
            await self._mover.settle_all()
            moved = 0
            for pool in (await self._control.pools.list()).items:
                if pool.draining:
                    moved += await self._round(
                        drain_of(pool.name), self.drain(pool.name), draining=pool.name
                    )
            spread = await self._control.jobs.get(REBALANCE)
            if spread is not None and spread.running:
                moved += await self._round(REBALANCE, self.rebalance())
            return moved

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[bool]:
        """Whether it is this process that moves queues now; no other one will, meanwhile."""
        renewing = None
        leads = True  # who is cancelled while it asks may have been given the role
        try:
            leads = await self._control.lead(_ROLE, _LEAD)
            if leads:
                renewing = asyncio.create_task(self._renew())
            yield leads
        finally:
            if renewing is not None:
                renewing.cancel()
            if leads:
                await self._resign()

    async def _resign(self) -> None:
        """Whoever is cancelled meanwhile waits for it: it may take more than one trip."""
        resigning = asyncio.ensure_future(self._control.resign(_ROLE))
        with contextlib.suppress(errors.Unavailable):
            try:
                await asyncio.shield(resigning)
            except asyncio.CancelledError:
                await asyncio.wait([resigning])
                raise

    async def drain(self, pool: str) -> AsyncIterator[Outcome]:
        """Move every queue of a pool to others of its flavor, or home."""

        async def wanted() -> bool:
            known = await self._control.pools.get(pool)
            return known is not None and known.draining

        async for placed in self._queues_of(pool, wanted):
            outcome = await self._moved(placed, self._elsewhere)
            if outcome is not None:
                yield placed, outcome

    async def rebalance(self) -> AsyncIterator[Outcome]:
        """Move queues until each pool has its share by weight of those of its flavor.

        A queue in a pool of another flavor than its own moves first.  Home counts as
        a pool without a flavor, of weight 0: it gives its queues to those that have one.
        """
        for name in (DEFAULT, *await self._places.pools()):
            async for placed in self._queues_of(name, self._spreads):
                outcome = await self._moved(placed, self._of_its_flavor)
                if outcome is not None:
                    yield placed, outcome
        pools = (await self._places.pools()).values()
        for surplus, wanting in shares.transfers(pools, await self.counts()):
            for name, left in surplus.items():
                async for placed_outcome in self._given_away(name, left, wanting):
                    yield placed_outcome

    async def counts(self) -> dict[str, int]:
        """How many queues live in each store, by name."""
        names = [DEFAULT, *await self._places.pools()]
        counts = await asyncio.gather(*map(self._control.catalogue.count, names))
        return dict(zip(names, counts, strict=True))

    async def _given_away(
        self, pool: str, left: int, wanting: dict[str, int]
    ) -> AsyncIterator[Outcome]:
        """Move so many queues of a pool to where the most are wanting."""
        async for placed in self._queues_of(pool, self._spreads):
            if left == 0:
                return
            target = max(wanting, key=wanting.__getitem__)
            outcome = await self._moved(placed, _to(target))
            if isinstance(outcome, int):
                left -= 1
                wanting[target] -= 1
            if outcome is not None:
                yield placed, outcome

    async def _round(
        self, name: str, outcomes: AsyncIterator[Outcome], draining: str | None = None
    ) -> int:
        """Do a round of a job and note how it went; how many queues moved."""
        moved = stayed = away = 0
        why: list[str] = []
        async for placed, outcome in outcomes:
            if isinstance(outcome, int):
                moved += 1
                continue
            stayed += 1
            if len(why) < _REASONS:
                why.append(f"{placed.project}/{placed.queue}: {outcome.text}")
            away += isinstance(outcome, errors.Unavailable)
            if away == _AWAY:
                if draining is not None:  # all the others stay as well
                    stayed = await self._control.catalogue.count(draining)
                break
        job = Job(running=draining is not None, stayed=stayed, why=tuple(why))
        before = await self._control.jobs.get(name)
        if job != before:
            await self._control.jobs.put(name, job)
            for reason in why:
                LOG.warning("%s: %s", name, reason, extra={"action": "move_failed"})
        return moved

    async def _queues_of(self, pool: str, wanted: Wanted) -> AsyncIterator[Placed]:
        after = ""
        while page := await self._control.catalogue.queues_of(pool, after, _PAGE):
            for placed in page:
                if not await wanted():
                    return
                yield placed
            after = page[-1].marker

    async def _spreads(self) -> bool:
        job = await self._control.jobs.get(REBALANCE)
        return job is not None and job.running

    async def _moved(self, placed: Placed, where: Where) -> int | errors.Problem | None:
        try:
            target = await where(placed)
            if target is None:
                return None
            return await self._mover.move(placed.project, placed.queue, placed.pool, target)
        except (errors.CannotMove, errors.NoSuchPool, errors.NotThere, errors.Unavailable) as why:
            return why

    async def _elsewhere(self, placed: Placed) -> str:
        flavor = await self._flavor(placed) or ""
        pools = [pool for pool in (await self._places.pools()).values() if pool.name != placed.pool]
        pool = await self._places.chosen(pools, flavor)
        if pool is None and flavor:
            raise errors.CannotMove(
                queue=placed.queue, why=f'the flavor "{flavor}" has no other pool that takes queues'
            )
        return pool.name if pool else DEFAULT

    async def _of_its_flavor(self, placed: Placed) -> str | None:
        flavor = await self._flavor(placed)
        pools = await self._places.pools()
        here = pools[placed.pool].flavor if placed.pool != DEFAULT else ""
        if flavor is None or flavor == here:
            return None
        pool = await self._places.chosen(pools.values(), flavor)
        return pool.name if pool else None

    async def _flavor(self, placed: Placed) -> str | None:
        """Empty: it has none; None: there is no such queue."""
        driver = (await self._places.place(placed.pool)).driver
        queue = await driver.queues.get(placed.project, placed.queue)
        return (queue.metadata.get("_flavor") or "") if queue else None

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_LEAD / 4)
            # If it is lost, two movers meet: that is slow, and does no harm.
            with contextlib.suppress(errors.Unavailable):
                await self._control.lead(_ROLE, _LEAD)


def _to(target: str) -> Where:
    async def where(placed: Placed) -> str:
        return target

    return where
