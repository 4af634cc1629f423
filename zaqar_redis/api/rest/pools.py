# SPDX-License-Identifier: Apache-2.0
"""/v2/pools and /v2/flavors, for operators."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from zaqar_redis import errors, rules
from zaqar_redis.api import decoding, documents
from zaqar_redis.api import operator_schemas as schemas
from zaqar_redis.api.exchange import DONE, Answer, Request
from zaqar_redis.api.queries import DetailedPageQuery, DetailsQuery
from zaqar_redis.pool_records import Flavor, Job, Pool
from zaqar_redis.service.pools import FlavorService, PoolService, RebalanceService

#: API: the capabilities that the driver for stock Zaqar declares.
_CAPABILITIES = ["FIFO", "CLAIMS", "DURABILITY", "AOD", "HIGH_THROUGHPUT"]


class PoolHandlers:
    def __init__(self, pools: PoolService, limits: rules.Limits) -> None:
        self._pools = pools
        self._limits = limits

    async def list(self, request: Request[DetailedPageQuery, None]) -> Answer:
        """Lists pools, by name."""
        query = request.query
        limit = rules.limit(query.limit, self._limits.max_queues_per_page)
        found = await self._pools.list(query.marker or "", limit)
        links = documents.next_link(request.path, query, found[-1].name if found else "")
        items = [_pool(f"{request.path}/{pool.name}", pool, query.detailed) for pool in found]
        location = f"{request.path}?{request.query_string}".rstrip("?")
        return Answer(
            documents.encode(schemas.PoolPageOut(items, links)),
            headers=(("content-location", location),),
        )

    async def get(self, request: Request[DetailsQuery, None], pool: str) -> Answer:
        """Shows a pool."""
        found = await self._pools.get(pool)
        document = _pool(request.path, found, request.query.detailed)
        if request.query.detailed:
            document.queues = await self._pools.count(pool)
            document.stayed = _stayed(await self._pools.drain(pool))
        return Answer(documents.encode(document))

    async def put(self, request: Request[None, schemas.PoolIn], pool: str) -> Answer:
        """Creates or replaces a pool.

        The store must answer, and be no other pool's, however its URI is spelt.
        """
        given = _pool_given(request.document)
        adopt = given.pop("adopt", False)
        await self._pools.put(Pool(name=pool, **given), adopt=adopt)
        # API: 201 also when it existed
        return Answer(status=201, headers=(("location", request.path),))

    async def patch(self, request: Request[None, schemas.PoolChangeIn], pool: str) -> Answer:
        """Changes a pool.

        What is not given stays.  What else a pool is shown with is ignored: a document that
        was read may be sent back.
        """
        changes = _pool_changes(request.document)
        adopt = changes.pop("adopt", False)
        changed = await self._pools.update(pool, changes, adopt=adopt)
        return Answer(documents.encode(_pool(request.path, changed, detailed=True)))

    async def delete(self, request: Request[None, None], pool: str) -> Answer:
        """Removes a pool.

        A pool that has queues, or that is the last one of a flavor, stays.
        """
        await self._pools.delete(pool)
        return DONE

    async def locate(self, request: Request[None, None], queue: str) -> Answer:
        """Shows which pool a queue is in."""
        found = await self._pools.locate(request.project, queue)
        moving = found.move is not None and not found.move.committed
        target = found.move.target if found.move and moving else None
        return Answer(documents.encode(schemas.QueuePoolOut(queue, found.pool, target)))


class RebalanceHandlers:
    def __init__(self, rebalance: RebalanceService) -> None:
        self._rebalance = rebalance

    async def get(self, request: Request[None, None]) -> Answer:
        """Shows how queues are spread over the stores, and should be by weight."""
        return Answer(documents.encode(await self._document()))

    async def start(self, request: Request[None, None]) -> Answer:
        """Spreads queues over the stores by weight.

        In the background: queues move until each store has its share.
        """
        await self._rebalance.start()
        return Answer(documents.encode(await self._document()), 202)

    async def stop(self, request: Request[None, None]) -> Answer:
        """Stops spreading queues, when the move under way is finished."""
        await self._rebalance.stop()
        return DONE

    async def _document(self) -> schemas.RebalanceOut:
        job = await self._rebalance.get()
        return schemas.RebalanceOut(job.running, await self._rebalance.plan(), _stayed(job))


class FlavorHandlers:
    def __init__(self, flavors: FlavorService, limits: rules.Limits) -> None:
        self._flavors = flavors
        self._limits = limits

    async def list(self, request: Request[DetailedPageQuery, None]) -> Answer:
        """Lists flavors, by name."""
        query = request.query
        limit = rules.limit(query.limit, self._limits.max_queues_per_page)
        found = await self._flavors.list(query.marker or "", limit)
        links = documents.next_link(request.path, query, found[-1].name if found else "")
        items = [_flavor(f"{request.path}/{each.name}", each, query.detailed) for each in found]
        return Answer(documents.encode(schemas.FlavorPageOut(items, links)))

    async def get(self, request: Request[None, None], flavor: str) -> Answer:
        """Shows a flavor."""
        found = await self._flavors.get(flavor)
        return Answer(documents.encode(_flavor(request.path, found, True)))

    async def put(self, request: Request[None, schemas.FlavorIn], flavor: str) -> Answer:
        """Creates or replaces a flavor.

        Each of its pools leaves the flavor that it was in, which may be left without any.
        """
        await self._flavors.put(flavor, request.document.pool_list)
        # API: 201 also when it existed
        return Answer(status=201, headers=(("location", request.path),))

    async def patch(self, request: Request[None, schemas.FlavorChangeIn], flavor: str) -> Answer:
        """Changes a flavor.

        What else a flavor is shown with is ignored.
        """
        await self._flavors.get(flavor)
        await self._flavors.put(flavor, request.document.pool_list)
        found = await self._flavors.get(flavor)
        return Answer(documents.encode(_flavor(request.path, found, True)))

    async def delete(self, request: Request[None, None], flavor: str) -> Answer:
        """Removes a flavor; its pools stay, without one."""
        await self._flavors.delete(flavor)
        return DONE


def _pool_given(document: schemas.PoolIn) -> dict[str, Any]:
    """Returns the fields of a new pool, except its name.  Raises BadBody."""
    given = decoding.given(document)
    for name in ("uri", "weight"):
        if name not in given:
            raise errors.BadBody(why=f'Request body: "{name}" is missing.')
    return given


def _pool_changes(document: schemas.PoolChangeIn) -> dict[str, Any]:
    """Returns the fields of a pool that are to change.  Raises BadBody.

    API: the other fields of a shown pool are ignored.
    """
    given = decoding.given(document)
    if not given:
        raise errors.BadBody(
            why='Request body: one of "uri", "weight", "flavor", "options", "draining" or "adopt" '
            "must be given."
        )
    return given


def _pool(href: str, pool: Pool, detailed: bool | None) -> schemas.PoolOut:
    options = pool.options if detailed else UNSET
    return schemas.PoolOut(
        pool.name, href, pool.uri, pool.weight, pool.flavor, pool.draining, options
    )


def _stayed(job: Job | None) -> schemas.StayedOut:
    return schemas.StayedOut(job.stayed, job.why) if job else schemas.StayedOut(0, ())


def _flavor(href: str, flavor: Flavor, detailed: bool | None) -> schemas.FlavorOut:
    capabilities = _CAPABILITIES if flavor.pools else []
    return schemas.FlavorOut(flavor.name, href, flavor.pools, capabilities if detailed else UNSET)
