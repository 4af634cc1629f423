# SPDX-License-Identifier: Apache-2.0
"""Jobs that move many queues: draining pools, and rebalancing queues by weight.

One process at a time runs them.  The jobs are recorded in the control store, so that
another process goes on where one was stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping

from zaqar_redis import errors
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.pool_records import CatalogueEntry, Job, Pool
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.move.mover import Mover
from zaqar_redis.storage.pools.router import ServiceRouter

LOG = logging.getLogger(__name__)

#: Queues whose names are read at once.
_PAGE = 100
#: The role of the process that moves queues, and the seconds of its lease, which is
#: renewed four times in that time.
_ROLE, _LEASE_SECONDS = "mover", 20.0
#: Most queues that could not move whose reasons are stored.
_MAX_REASONS = 10
#: Most queues in a round that may fail because a store is unavailable: each costs a timeout.
_MAX_UNAVAILABLE = 10
#: The job that rebalances queues.
REBALANCE_JOB = "rebalance"

#: A queue, and how many messages it had when it moved, or why it could not move.
MoveOutcome = tuple[CatalogueEntry, int | errors.Problem]
#: Chooses the store that a queue should move to; None: it should stay.
TargetChooser = Callable[[CatalogueEntry], Awaitable[str | None]]

#: Tells whether the operator has not cancelled the job.
StillWanted = Callable[[], Awaitable[bool]]


def drain_job(pool: str) -> str:
    """Returns the name of the job that drains a pool."""
    return f"drain:{pool}"


class Rebalancer:
    def __init__(self, router: ServiceRouter, mover: Mover) -> None:
        self._router = router
        self._mover = mover
        self._control = router.control
        #: set when pools have changed, or may have
        self._pools_changed = asyncio.Event()
        router.move_listeners.append(self._on_change)
        metrics.MOVES_RUNNING.set(0)

    async def wait(self, seconds: float) -> None:
        """Waits until *seconds* have passed, or pools have changed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._pools_changed.wait()
        self._pools_changed.clear()

    def _on_change(self, queue: tuple[str, str] | None) -> None:
        if queue is None:
            self._pools_changed.set()

    async def run_pending(self) -> int:
        """Runs a round of every requested job, after moves whose mover is gone.

        Returns how many queues moved.
        """
        async with self.leadership() as leads:
            if not leads:
                return 0
            await self._mover.settle_all()
            moved = 0
            for pool in (await self._control.pools.list()).items:
                if pool.draining:
                    moved += await self._round(
                        drain_job(pool.name), self.drain(pool.name), draining=pool.name
                    )
            job = await self._control.jobs.get(REBALANCE_JOB)
            if job is not None and job.running:
                moved += await self._round(REBALANCE_JOB, self.rebalance())
            return moved

    @contextlib.asynccontextmanager
    async def leadership(self) -> AsyncIterator[bool]:
        """Yields whether this process may move queues; no other one does meanwhile."""
        renewing = None
        leads = True  # a process that is cancelled while it asks may have got the role
        try:
            leads = await self._control.lead(_ROLE, _LEASE_SECONDS)
            if leads:
                renewing = asyncio.create_task(self._renew())
            yield leads
        finally:
            if renewing is not None:
                renewing.cancel()
            if leads:
                await self._resign()

    async def _resign(self) -> None:
        """Gives the role up, even when cancelled meanwhile: it may take several round trips."""
        resigning = asyncio.ensure_future(self._control.resign(_ROLE))
        with contextlib.suppress(errors.Unavailable):
            try:
                await asyncio.shield(resigning)
            except asyncio.CancelledError:
                await asyncio.wait([resigning])
                raise

    async def drain(self, pool: str) -> AsyncIterator[MoveOutcome]:
        """Moves every queue of a pool to others of its flavor, or to the default pool."""

        async def wanted() -> bool:
            known = await self._control.pools.get(pool)
            return known is not None and known.draining

        async for placed in self._queues_of(pool, wanted):
            outcome = await self._moved(placed, self._other_pool)
            if outcome is not None:
                yield placed, outcome

    async def rebalance(self) -> AsyncIterator[MoveOutcome]:
        """Moves queues until each pool has its share by weight of those of its flavor.

        Queues in a pool of another flavor than their own move first.  The default pool has
        no flavor and weight 0: it gives its queues to pools without a flavor that have a weight.
        """
        for name in (DEFAULT_POOL, *await self._router.stores.pools()):
            async for placed in self._queues_of(name, self._is_rebalancing):
                outcome = await self._moved(placed, self._pool_of_flavor)
                if outcome is not None:
                    yield placed, outcome
        pools = (await self._router.stores.pools()).values()
        for surplus, wanting in imbalances(pools, await self.counts()):
            for name, left in surplus.items():
                async for placed_outcome in self._give_surplus(name, left, wanting):
                    yield placed_outcome

    async def counts(self) -> dict[str, int]:
        """Returns how many queues each store has, by name."""
        names = [DEFAULT_POOL, *await self._router.stores.pools()]
        counts = await asyncio.gather(*map(self._control.catalogue.count, names))
        return dict(zip(names, counts, strict=True))

    async def _give_surplus(
        self, pool: str, left: int, wanting: dict[str, int]
    ) -> AsyncIterator[MoveOutcome]:
        """Moves *left* queues of a pool, each to the pool that lacks the most."""
        async for placed in self._queues_of(pool, self._is_rebalancing):
            if left == 0:
                return
            target = max(wanting, key=wanting.__getitem__)
            outcome = await self._moved(placed, _always(target))
            if isinstance(outcome, int):
                left -= 1
                wanting[target] -= 1
            if outcome is not None:
                yield placed, outcome

    async def _round(
        self, name: str, outcomes: AsyncIterator[MoveOutcome], draining: str | None = None
    ) -> int:
        """Runs a round of a job and stores its progress; returns how many queues moved."""
        moved = stayed = unavailable = 0
        why: list[str] = []
        async for placed, outcome in outcomes:
            if isinstance(outcome, int):
                moved += 1
                continue
            stayed += 1
            if len(why) < _MAX_REASONS:
                why.append(f"{placed.project}/{placed.queue}: {outcome.text}")
            unavailable += isinstance(outcome, errors.Unavailable)
            if unavailable == _MAX_UNAVAILABLE:
                if draining is not None:  # none of the others moves either
                    stayed = await self._control.catalogue.count(draining)
                break
        job = Job(running=draining is not None, stayed=stayed, why=tuple(why))
        before = await self._control.jobs.get(name)
        if job != before:
            await self._control.jobs.put(name, job)
            for reason in why:
                LOG.warning("%s: %s", name, reason, extra={"action": "move_failed"})
        return moved

    async def _queues_of(self, pool: str, wanted: StillWanted) -> AsyncIterator[CatalogueEntry]:
        after = ""
        while page := await self._control.catalogue.queues_of(pool, after, _PAGE):
            for placed in page:
                if not await wanted():
                    return
                yield placed
            after = page[-1].marker

    async def _is_rebalancing(self) -> bool:
        job = await self._control.jobs.get(REBALANCE_JOB)
        return job is not None and job.running

    async def _moved(
        self, placed: CatalogueEntry, where: TargetChooser
    ) -> int | errors.Problem | None:
        try:
            target = await where(placed)
            if target is None:
                return None
            metrics.MOVES_RUNNING.set(1)
            count = await self._mover.move(placed.project, placed.queue, placed.pool, target)
        except (
            errors.CannotMove,
            errors.NoSuchPool,
            errors.QueueNotInPool,
            errors.Unavailable,
        ) as why:
            metrics.MOVES.add("failed")
            return why
        finally:
            metrics.MOVES_RUNNING.set(0)
        metrics.MOVES.add("done")
        metrics.MOVED.total += count
        return count

    async def _other_pool(self, placed: CatalogueEntry) -> str:
        flavor = await self._flavor(placed) or ""
        pools = [
            pool
            for pool in (await self._router.stores.pools()).values()
            if pool.name != placed.pool
        ]
        pool = await self._router.stores.choose_available(pools, flavor)
        if pool is None and flavor:
            raise errors.CannotMove(
                queue=placed.queue, why=f'the flavor "{flavor}" has no other pool that takes queues'
            )
        return pool.name if pool else DEFAULT_POOL

    async def _pool_of_flavor(self, placed: CatalogueEntry) -> str | None:
        flavor = await self._flavor(placed)
        pools = await self._router.stores.pools()
        current = pools[placed.pool].flavor if placed.pool in pools else ""
        if flavor is None or flavor == current:
            return None
        pool = await self._router.stores.choose_available(pools.values(), flavor)
        return pool.name if pool else None

    async def _flavor(self, placed: CatalogueEntry) -> str | None:
        """Returns the flavor of a queue; empty: it has none; None: there is no such queue."""
        driver = (await self._router.stores.get(placed.pool)).driver
        queue = await driver.queues.get(placed.project, placed.queue)
        return (queue.metadata.get("_flavor") or "") if queue else None

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_LEASE_SECONDS / 4)
            # If the lease is lost, two movers may run: that is slow, but harmless.
            with contextlib.suppress(errors.Unavailable):
                await self._control.lead(_ROLE, _LEASE_SECONDS)


def _always(target: str) -> TargetChooser:
    async def where(placed: CatalogueEntry) -> str:
        return target

    return where


def apportion(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Splits *total* by weight into whole numbers; the rest goes to the largest remainders."""
    weight_sum = sum(weights.values())
    split = {name: divmod(total * weight, weight_sum) for name, weight in weights.items()}
    found = {name: share for name, (share, _) in split.items()}
    order = sorted(split, key=lambda name: (-split[name][1], name))
    for name in order[: total - sum(found.values())]:
        found[name] += 1
    return found


def imbalances(
    pools: Iterable[Pool], counts: Mapping[str, int]
) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """Yields for each flavor the surplus and the shortage of queues, by pool.

    *counts* are those that the pools have.  The default pool has no flavor and weight 0;
    a draining pool counts as weight 0 in its flavor.
    """
    groups: dict[str, dict[str, int]] = {"": {DEFAULT_POOL: 0}}
    for pool in pools:
        groups.setdefault(pool.flavor, {})[pool.name] = 0 if pool.draining else pool.weight
    for weights in groups.values():
        if not any(weights.values()):
            continue  # no pool takes queues
        actual = {name: counts.get(name, 0) for name in weights}
        target = apportion(sum(actual.values()), weights)
        surplus = {
            name: actual[name] - target[name] for name in weights if actual[name] > target[name]
        }
        wanting = {
            name: target[name] - actual[name] for name in weights if actual[name] < target[name]
        }
        yield surplus, wanting
