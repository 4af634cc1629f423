# SPDX-License-Identifier: Apache-2.0
"""What an operator can do with pools and flavors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from zaqar_redis import errors, rules
from zaqar_redis.keyspace import uris
from zaqar_redis.keyspace.client import check_options, printable
from zaqar_redis.records import Flavor, Job, Located, Pool, Share
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.pooled import PooledDriver, shares
from zaqar_redis.storage.pooled.jobs import REBALANCE, drain_of

#: How often a change is tried when others change pools meanwhile.
_UPDATE_TRIES = 10
#: Queues of a pool that are looked for in the store of its new URI.
_SAMPLE = 100
#: Names that would hide something else in `/v2/health`.
_RESERVED = ("catalog_reachable",)
#: Bytes of a pool's options, as JSON: a handful of numbers.
_OPTIONS_MAX = 4096


class Pools:
    def __init__(self, driver: PooledDriver) -> None:
        self._driver = driver
        self._store = driver.control.pools

    async def list(self, marker: str, limit: int) -> Sequence[Pool]:
        """Up to *limit* pools behind the name *marker*."""
        found = [pool for pool in (await self._store.list()).items if pool.name > marker]
        return [shown(pool) for pool in found[:limit]]

    async def get(self, name: str) -> Pool:
        return shown(await self._known(name))

    async def count(self, name: str) -> int:
        """How many queues live in it."""
        return await self._driver.control.catalogue.count(name)

    async def put(
        self, pool: Pool, version: int | None = None, *, adopt: bool = False
    ) -> bool | None:
        """Make or replace a pool; True when it is new.

        None, and nothing is changed, when pools have changed since *version*.  With
        *adopt* its store may be another installation's, or have queues of its own; they
        come along.

        Raises BadRequest when it is not as it should be or its store does not
        answer, UriTaken when its store is another pool's, however that is spelt,
        StoreOwned when it is another installation's, Conflict when a queue of it is
        elsewhere, and QueuesElsewhere when it has queues and its new store has none of them.
        """
        _name("pool", pool.name)
        if pool.name == DEFAULT:
            raise errors.BadRequest(why=f'"{DEFAULT}" is the service\'s own store, and no pool.')
        if pool.name in _RESERVED:
            raise errors.BadRequest(why=f'No pool may be called "{pool.name}".')
        before = await self._store.get(pool.name)
        if before is not None and pool.uri == printable(before.uri):
            pool = msgspec.structs.replace(pool, uri=before.uri)  # as it was shown
        _check(pool)
        elsewhere = before is None or (before.uri, before.options) != (pool.uri, pool.options)
        if elsewhere:
            await self._check_store(pool)
        if before is not None and before.uri != pool.uri:
            await self._check_queues(pool)
        if elsewhere or adopt:
            await self._driver.adoption.check(pool, adopt)
        made = await self._store.put(pool, canonical=uris.canonical(pool.uri), version=version)
        if made is not None and pool.draining:
            await self._driver.control.jobs.end(drain_of(pool.name))  # a new attempt
        if made is not None and (elsewhere or adopt):
            await self._driver.adoption.take(pool)
        return made

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
        # Places of queues that were deleted just now are nothing that it is needed for.
        await self._driver.forget_deleted(0, name)
        pool = await self._store.get(name)
        await self._store.delete(name)
        await self._driver.control.jobs.end(drain_of(name))
        if pool is not None:
            await self._driver.adoption.drop(pool)

    async def drain(self, name: str) -> Job | None:
        """How emptying the pool went, the last time round."""
        return await self._driver.control.jobs.get(drain_of(name))

    async def locate(self, project: str, queue: str) -> Located:
        """The store that the queue lives in, also while that is away.  Raises NotFound."""
        located = await self._driver.control.catalogue.locate(project, queue)
        try:
            there = await self._driver.queues.get(project, queue) is not None
        except errors.StoreUnavailable:
            if located.pool is None:
                raise
            there = not located.deleted
        if not there:
            raise errors.NotFound(why=f"Queue {queue} does not exist.")
        return msgspec.structs.replace(located, pool=located.pool or DEFAULT)

    async def _known(self, name: str) -> Pool:
        pool = await self._store.get(name)
        if pool is None:
            raise errors.NotFound(why=f"There is no pool {name}.")
        return pool

    async def _check_store(self, pool: Pool) -> None:
        """The store answers, is one that queues can live in, and nobody else's."""
        try:
            identity = await self._driver.identity_of(pool)
        except errors.BadConfiguration as error:
            raise errors.BadRequest(why=f'The value of "uri": {error}.') from error
        except (errors.Unavailable, OSError) as error:
            reason = f": {error.__cause__}" if error.__cause__ else ""
            raise errors.BadRequest(
                why=f'The value of "uri": cannot connect to {printable(pool.uri)}{reason}.'
            ) from None
        for name, other in (await self._driver.identities()).items():
            if name != pool.name and other == identity:
                raise errors.UriTaken(pool=name)

    async def _check_queues(self, pool: Pool) -> None:
        """A pool takes its queues along: to another address, or to a copy of its store."""
        placed = await self._driver.control.catalogue.queues_of(pool.name, "", _SAMPLE)
        if placed and not await self._driver.has_any(pool, placed):
            raise errors.QueuesElsewhere(pool=pool.name, count=await self.count(pool.name))


class Rebalance:
    """Spreading queues over pools by weight."""

    def __init__(self, driver: PooledDriver) -> None:
        self._driver = driver
        self._jobs = driver.control.jobs

    async def start(self) -> None:
        await self._jobs.put(REBALANCE, Job(running=True))

    async def stop(self) -> None:
        """Idempotent.  The queue that is on the move arrives."""
        await self._jobs.end(REBALANCE)

    async def get(self) -> Job:
        return await self._jobs.get(REBALANCE) or Job(running=False)

    async def plan(self) -> list[Share]:
        """What each store has and should have, by name."""
        counts = await self._driver.jobs.counts()
        pools = (await self._driver.control.pools.list()).items
        due = dict(counts)
        for surplus, wanting in shares.transfers(pools, counts):
            for name in surplus:
                due[name] -= surplus[name]
            for name in wanting:
                due[name] += wanting[name]
        return [Share(name=name, queues=counts[name], due=due[name]) for name in counts]


class Flavors:
    def __init__(self, driver: PooledDriver) -> None:
        self._store = driver.control.flavors

    async def list(self, marker: str, limit: int) -> Sequence[Flavor]:
        """Up to *limit* flavors behind the name *marker*."""
        found = [flavor for flavor in await self._store.list() if flavor.name > marker]
        return found[:limit]

    async def get(self, name: str) -> Flavor:
        flavor = await self._store.get(name)
        if flavor is None:
            raise errors.NotFound(why=f"There is no flavor {name}.")
        return flavor

    async def put(self, name: str, pools: Sequence[str]) -> bool:
        """Make a flavor of just these pools, or give it these; True when it is new."""
        _name("flavor", name)
        if not pools:
            raise errors.BadRequest(why='The value of "pool_list" must name at least one pool.')
        try:
            return await self._store.put(name, tuple(dict.fromkeys(pools)))
        except errors.NoSuchPool as error:
            raise errors.BadRequest(why=f'The value of "pool_list": {error.text}') from error

    async def delete(self, name: str) -> None:
        await self._store.delete(name)


def shown(pool: Pool) -> Pool:
    """Without the password in its URI."""
    return msgspec.structs.replace(pool, uri=printable(pool.uri))


def _name(what: str, name: str) -> None:
    # Of dots alone no URL can be made: clients take them for folders.
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
