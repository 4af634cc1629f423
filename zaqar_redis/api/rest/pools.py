# SPDX-License-Identifier: Apache-2.0
"""/v2/pools and /v2/flavors, for operators."""

from __future__ import annotations

from typing import Any

import msgspec

from zaqar_redis import rules
from zaqar_redis.api import documents
from zaqar_redis.api.documents import FlavorChangeIn, FlavorIn, PoolChangeIn, PoolIn
from zaqar_redis.api.exchange import DONE, Answer, Request
from zaqar_redis.api.queries import DetailedPageQuery, DetailsQuery
from zaqar_redis.records import Flavor, Job, Pool
from zaqar_redis.service.pools import FlavorService, PoolService, RebalanceService

#: API: the capabilities that the driver for stock Zaqar declares.
_CAPABILITIES = ["FIFO", "CLAIMS", "DURABILITY", "AOD", "HIGH_THROUGHPUT"]


class PoolHandlers:
    def __init__(self, pools: PoolService, limits: rules.Limits) -> None:
        self._pools = pools
        self._limits = limits

    async def list(self, request: Request[DetailedPageQuery, None]) -> Answer:
        query = request.query
        limit = rules.limit(query.limit, self._limits.max_queues_per_page)
        found = await self._pools.list(query.marker or "", limit)
        links = documents.next_link(request.path, query, found[-1].name if found else "")
        items = [_pool(f"{request.path}/{pool.name}", pool, query.detailed) for pool in found]
        location = f"{request.path}?{request.query_string}".rstrip("?")
        return Answer(
            documents.encode({"pools": items, "links": links}),
            headers=(("content-location", location),),
        )

    async def get(self, request: Request[DetailsQuery, None], pool: str) -> Answer:
        found = await self._pools.get(pool)
        document = _pool(request.path, found, request.query.detailed)
        if request.query.detailed:
            document["queues"] = await self._pools.count(pool)
            document["stayed"] = _stayed(await self._pools.drain(pool))
        return Answer(documents.encode(document))

    async def put(self, request: Request[None, PoolIn], pool: str) -> Answer:
        given = documents.pool(request.document)
        adopt = given.pop("adopt", False)
        await self._pools.put(Pool(name=pool, **given), adopt=adopt)
        # API: 201 also when it existed
        return Answer(status=201, headers=(("location", request.path),))

    async def patch(self, request: Request[None, PoolChangeIn], pool: str) -> Answer:
        changes = documents.pool_changes(request.document)
        adopt = changes.pop("adopt", False)
        changed = await self._pools.update(pool, changes, adopt=adopt)
        return Answer(documents.encode(_pool(request.path, changed, detailed=True)))

    async def delete(self, request: Request[None, None], pool: str) -> Answer:
        await self._pools.delete(pool)
        return DONE

    async def locate(self, request: Request[None, None], queue: str) -> Answer:
        found = await self._pools.locate(request.project, queue)
        moving = found.move is not None and not found.move.committed
        target = found.move.target if found.move and moving else None
        return Answer(documents.encode({"queue": queue, "pool": found.pool, "moving_to": target}))


class RebalanceHandlers:
    def __init__(self, rebalance: RebalanceService) -> None:
        self._rebalance = rebalance

    async def get(self, request: Request[None, None]) -> Answer:
        return Answer(documents.encode(await self._document()))

    async def start(self, request: Request[None, None]) -> Answer:
        await self._rebalance.start()
        return Answer(documents.encode(await self._document()), 202)

    async def stop(self, request: Request[None, None]) -> Answer:
        await self._rebalance.stop()
        return DONE

    async def _document(self) -> dict[str, Any]:
        job = await self._rebalance.get()
        stores = [msgspec.to_builtins(share) for share in await self._rebalance.plan()]
        return {"running": job.running, "stores": stores, "stayed": _stayed(job)}


class FlavorHandlers:
    def __init__(self, flavors: FlavorService, limits: rules.Limits) -> None:
        self._flavors = flavors
        self._limits = limits

    async def list(self, request: Request[DetailedPageQuery, None]) -> Answer:
        query = request.query
        limit = rules.limit(query.limit, self._limits.max_queues_per_page)
        found = await self._flavors.list(query.marker or "", limit)
        links = documents.next_link(request.path, query, found[-1].name if found else "")
        items = [_flavor(f"{request.path}/{each.name}", each, query.detailed) for each in found]
        return Answer(documents.encode({"flavors": items, "links": links}))

    async def get(self, request: Request[None, None], flavor: str) -> Answer:
        found = await self._flavors.get(flavor)
        return Answer(documents.encode(_flavor(request.path, found, True)))

    async def put(self, request: Request[None, FlavorIn], flavor: str) -> Answer:
        await self._flavors.put(flavor, request.document.pool_list)
        # API: 201 also when it existed
        return Answer(status=201, headers=(("location", request.path),))

    async def patch(self, request: Request[None, FlavorChangeIn], flavor: str) -> Answer:
        await self._flavors.get(flavor)
        await self._flavors.put(flavor, request.document.pool_list)
        found = await self._flavors.get(flavor)
        return Answer(documents.encode(_flavor(request.path, found, True)))

    async def delete(self, request: Request[None, None], flavor: str) -> Answer:
        await self._flavors.delete(flavor)
        return DONE


def _pool(href: str, pool: Pool, detailed: bool | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": pool.name,
        "href": href,
        "uri": pool.uri,
        "weight": pool.weight,
        "flavor": pool.flavor,
        "draining": pool.draining,
    }
    if detailed:
        document["options"] = pool.options
    return document


def _stayed(job: Job | None) -> dict[str, Any]:
    """Returns how many queues could not move in the last round, and why the first few."""
    return {"queues": job.stayed if job else 0, "why": list(job.why) if job else []}


def _flavor(href: str, flavor: Flavor, detailed: bool | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": flavor.name,
        "href": href,
        "pool_list": list(flavor.pools),
    }
    if detailed:
        document["capabilities"] = _CAPABILITIES if flavor.pools else []
    return document
