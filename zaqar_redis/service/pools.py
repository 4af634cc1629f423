# SPDX-License-Identifier: Apache-2.0
"""Operations on pools and flavors, for operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from zaqar_redis import errors, rules
from zaqar_redis.keyspace import uris
from zaqar_redis.keyspace.settings import check_options
from zaqar_redis.keyspace.uris import redact_password
from zaqar_redis.pool_records import Flavor, Job, Pool, QueueLocation, StoreShare
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.pools import PooledDriver
from zaqar_redis.storage.pools.rebalance import REBALANCE_JOB, drain_job, imbalances

#: How often a change is tried when others change pools meanwhile.
_UPDATE_TRIES = 10
#: Queues of a pool that are searched for in the store of its new URI.
_SAMPLE = 100
#: Names that would hide something else in `/v2/health`.
_RESERVED = ("catalog_reachable",)
#: Bytes of a pool's options, as JSON: a handful of numbers.
_OPTIONS_MAX = 4096
_MEMORY = "memory:"


class PoolService:
    def __init__(self, driver: PooledDriver) -> None:
        self._driver = driver
        self._store = driver.control.pools

    async def list(self, marker: str, limit: int) -> Sequence[Pool]:
        """Returns up to *limit* pools behind the name *marker*."""
        found = [pool for pool in (await self._store.list()).items if pool.name > marker]
        return [without_password(pool) for pool in found[:limit]]

    async def get(self, name: str) -> Pool:
        return without_password(await self._require(name))

    async def count(self, name: str) -> int:
        """Returns the number of queues in the pool."""
        return await self._driver.control.catalogue.count(name)

    async def put(
        self, pool: Pool, version: int | None = None, *, adopt: bool = False
    ) -> bool | None:
        """Creates or replaces a pool; returns True when it is new.

        Returns None, and changes nothing, when pools have changed since *version*.  With
        *adopt* its store may be another installation's, or have queues of its own; they
        become the pool's.

        Raises BadRequest when the pool is invalid or its store does not answer,
        UriTaken when its store is another pool's, however that is spelt, StoreOwned
        when it is another installation's, Conflict when another pool has a queue of it,
        and StoreLacksQueues when the pool has queues and its new store none of them.
        """
        _name("pool", pool.name)
        if pool.name == DEFAULT_POOL:
            raise errors.BadRequest(
                why=f'"{DEFAULT_POOL}" is the service\'s own store, and not a pool.'
            )
        if pool.name in _RESERVED:
            raise errors.BadRequest(why=f'No pool may be called "{pool.name}".')
        before = await self._store.get(pool.name)
        if before is not None and pool.uri == redact_password(before.uri):
            pool = msgspec.structs.replace(pool, uri=before.uri)  # as it was shown
        _check(pool)
        store_changed = before is None or (before.uri, before.options) != (pool.uri, pool.options)
        if store_changed:
            await self._check_store(pool)
        if before is not None and before.uri != pool.uri:
            await self._check_queues(pool)
        if store_changed or adopt:
            await self._driver.adoption.check(pool, adopt)
        created = await self._store.put(pool, canonical=uris.canonical(pool.uri), version=version)
        if created is not None and pool.draining:
            await self._driver.control.jobs.end(drain_job(pool.name))  # a new attempt
        if created is not None and (store_changed or adopt):
            await self._driver.adoption.take(pool)
        return created

    async def update(self, name: str, changes: dict[str, Any], *, adopt: bool = False) -> Pool:
        """Raises NotFound, Conflict, and what `put` raises."""
        for _ in range(_UPDATE_TRIES):
            known = await self._store.list()
            pool = next((each for each in known.items if each.name == name), None)
            if pool is None:
                raise errors.NotFound(why=f"There is no pool {name}.")
            pool = msgspec.structs.replace(pool, **changes)
            if await self.put(pool, version=known.version, adopt=adopt) is not None:
                return await self.get(name)
        raise errors.Conflict(why="Pools are being changed by others.")

    async def delete(self, name: str) -> None:
        """Raises PoolInUse and FlavorEmptied."""
        # Catalogue entries of queues that were deleted just now do not need the pool.
        await self._driver.forget_deleted(0, name)
        pool = await self._store.get(name)
        await self._store.delete(name)
        await self._driver.control.jobs.end(drain_job(name))
        if pool is not None:
            await self._driver.adoption.drop(pool)

    async def drain(self, name: str) -> Job | None:
        """Returns the outcome of the last round that drained the pool."""
        return await self._driver.control.jobs.get(drain_job(name))

    async def locate(self, project: str, queue: str) -> QueueLocation:
        """Returns the store of a queue, also while it is unavailable.  Raises NotFound."""
        located = await self._driver.control.catalogue.locate(project, queue)
        try:
            exists = await self._driver.queues.get(project, queue) is not None
        except errors.StoreUnavailable:
            if located.pool is None:
                raise
            exists = not located.deleted
        if not exists:
            raise errors.NotFound(why=f"Queue {queue} does not exist.")
        return msgspec.structs.replace(located, pool=located.pool or DEFAULT_POOL)

    async def _require(self, name: str) -> Pool:
        pool = await self._store.get(name)
        if pool is None:
            raise errors.NotFound(why=f"There is no pool {name}.")
        return pool

    async def _check_store(self, pool: Pool) -> None:
        """Checks that the store answers, can hold queues, and is no other pool's."""
        if pool.uri.lower().startswith(_MEMORY):
            raise errors.BadRequest(
                why=f'The value of "uri": {_MEMORY}// cannot be a pool: each process would have '
                "one of its own, and lose with its end what it has acknowledged."
            )
        try:
            identity = await self._driver.identity_of(pool)
        except errors.BadConfiguration as error:
            raise errors.BadRequest(why=f'The value of "uri": {error}.') from error
        except (errors.Unavailable, OSError) as error:
            cause = error.__cause__
            reason = f": {errors.reason(cause).rstrip('.')}" if cause is not None else ""
            raise errors.BadRequest(
                why=f'The value of "uri": cannot connect to {redact_password(pool.uri)}{reason}.'
            ) from None
        for name, other in (await self._driver.identities()).items():
            if name != pool.name and other == identity:
                raise errors.UriTaken(pool=name)

    async def _check_queues(self, pool: Pool) -> None:
        """Checks that the new store has queues of the pool: it is the old one, or a copy."""
        placed = await self._driver.control.catalogue.queues_of(pool.name, "", _SAMPLE)
        if placed and not await self._driver.has_any_queue(pool, placed):
            raise errors.StoreLacksQueues(pool=pool.name, count=await self.count(pool.name))


class RebalanceService:
    """The job that spreads queues over pools by weight."""

    def __init__(self, driver: PooledDriver) -> None:
        self._driver = driver
        self._jobs = driver.control.jobs

    async def start(self) -> None:
        await self._jobs.put(REBALANCE_JOB, Job(running=True))

    async def stop(self) -> None:
        """Stops the job; the move under way is finished.  Idempotent."""
        await self._jobs.end(REBALANCE_JOB)

    async def get(self) -> Job:
        return await self._jobs.get(REBALANCE_JOB) or Job(running=False)

    async def plan(self) -> list[StoreShare]:
        """Returns how many queues each store has and should have, by name."""
        counts = await self._driver.jobs.counts()
        pools = (await self._driver.control.pools.list()).items
        targets = dict(counts)
        for surplus, deficit in imbalances(pools, counts):
            for name in surplus:
                targets[name] -= surplus[name]
            for name in deficit:
                targets[name] += deficit[name]
        return [StoreShare(name=name, queues=counts[name], due=targets[name]) for name in counts]


class FlavorService:
    def __init__(self, driver: PooledDriver) -> None:
        self._store = driver.control.flavors

    async def list(self, marker: str, limit: int) -> Sequence[Flavor]:
        """Returns up to *limit* flavors behind the name *marker*."""
        found = [flavor for flavor in await self._store.list() if flavor.name > marker]
        return found[:limit]

    async def get(self, name: str) -> Flavor:
        flavor = await self._store.get(name)
        if flavor is None:
            raise errors.NotFound(why=f"There is no flavor {name}.")
        return flavor

    async def put(self, name: str, pools: Sequence[str]) -> bool:
        """Creates a flavor of just these pools, or replaces its pools; True when it is new."""
        _name("flavor", name)
        if not pools:
            raise errors.BadRequest(why='The value of "pool_list" must name at least one pool.')
        try:
            return await self._store.put(name, tuple(dict.fromkeys(pools)))
        except errors.NoSuchPool as error:
            raise errors.BadRequest(why=f'The value of "pool_list": {error.text}') from error

    async def delete(self, name: str) -> None:
        await self._store.delete(name)


def without_password(pool: Pool) -> Pool:
    """Returns the pool without the password in its URI."""
    return msgspec.structs.replace(pool, uri=redact_password(pool.uri))


def _name(what: str, name: str) -> None:
    # Dots alone do not fit in a URL: clients take them for folders.
    if not rules.is_queue_name(name) or name in (".", ".."):
        raise errors.BadRequest(
            why=f"The name of a {what} must have 1 to {rules.QUEUE_NAME_MAX} ASCII letters, "
            'digits, underscores, dashes and dots, and be neither "." nor "..".'
        )


def _check(pool: Pool) -> None:
    if not 0 < len(pool.uri) <= rules.URI_MAX:
        raise errors.BadRequest(
            why=f'The value of "uri" must have 1 to {rules.URI_MAX} characters.'
        )
    rules.within("weight", pool.weight, 0, rules.WEIGHT_MAX)
    if pool.flavor:
        _name("flavor", pool.flavor)
    if len(msgspec.json.encode(pool.options)) > _OPTIONS_MAX:
        raise errors.BadRequest(why=f'"options" may be at most {_OPTIONS_MAX} bytes.')
    try:
        check_options(pool.options)
    except errors.BadConfiguration as error:
        raise errors.BadRequest(why=f'The value of "options": {error}.') from error
