# SPDX-License-Identifier: Apache-2.0
"""/v2/pools and /v2/flavors, for operators."""

from __future__ import annotations

from typing import Any

import msgspec
from falcon.asgi import Request, Response

from zaqar_redis import rules
from zaqar_redis.api import body, documents
from zaqar_redis.records import Flavor, Job, Pool
from zaqar_redis.service.pools import FlavorService, PoolService, RebalanceService

#: API: the capabilities that the driver for stock Zaqar declares.
_CAPABILITIES = ["FIFO", "CLAIMS", "DURABILITY", "AOD", "HIGH_THROUGHPUT"]


def _page(req: Request, limits: rules.Limits) -> tuple[dict[str, Any], int]:
    given: dict[str, Any] = {
        "marker": req.get_param("marker"),
        "limit": req.get_param_as_int("limit"),
        "detailed": req.get_param_as_bool("detailed"),
    }
    return given, rules.limit(given["limit"], limits.max_queues_per_page)


class PoolCollection:
    def __init__(self, pools: PoolService, limits: rules.Limits) -> None:
        self._pools = pools
        self._limits = limits

    async def on_get(self, req: Request, resp: Response) -> None:
        given, limit = _page(req, self._limits)
        found = await self._pools.list(given["marker"] or "", limit)
        links = documents.next_link(req.path, given, found[-1].name if found else "")
        items = [_pool(f"{req.path}/{pool.name}", pool, given["detailed"]) for pool in found]
        resp.set_header("Content-Location", req.relative_uri)
        resp.data = documents.encode({"pools": items, "links": links})


class PoolItem:
    def __init__(self, pools: PoolService) -> None:
        self._pools = pools

    async def on_get(self, req: Request, resp: Response, pool: str) -> None:
        found = await self._pools.get(pool)
        detailed = req.get_param_as_bool("detailed")
        document = _pool(req.path, found, detailed)
        if detailed:
            document["queues"] = await self._pools.count(pool)
            document["stayed"] = _stayed(await self._pools.drain(pool))
        resp.data = documents.encode(document)

    async def on_put(self, req: Request, resp: Response, pool: str) -> None:
        given = documents.pool(await body.read(req, body.SMALL, "A pool"))
        adopt = given.pop("adopt", False)
        await self._pools.put(Pool(name=pool, **given), adopt=adopt)
        resp.status = 201  # API: also when it existed
        resp.set_header("Location", req.path)

    async def on_patch(self, req: Request, resp: Response, pool: str) -> None:
        changes = documents.pool_changes(await body.read(req, body.SMALL, "A pool"))
        adopt = changes.pop("adopt", False)
        changed = await self._pools.update(pool, changes, adopt=adopt)
        resp.data = documents.encode(_pool(req.path, changed, detailed=True))

    async def on_delete(self, req: Request, resp: Response, pool: str) -> None:
        await self._pools.delete(pool)
        resp.status = 204


class QueuePool:
    """``GET /v2/queues/{queue}/pool``: the pool of a queue."""

    def __init__(self, pools: PoolService) -> None:
        self._pools = pools

    async def on_get(self, req: Request, resp: Response, queue: str) -> None:
        found = await self._pools.locate(req.context.project, queue)
        moving = found.move is not None and not found.move.committed
        target = found.move.target if found.move and moving else None
        resp.data = documents.encode({"queue": queue, "pool": found.pool, "moving_to": target})


class RebalanceItem:
    def __init__(self, rebalance: RebalanceService) -> None:
        self._rebalance = rebalance

    async def on_get(self, req: Request, resp: Response) -> None:
        resp.data = documents.encode(await self._document())

    async def on_put(self, req: Request, resp: Response) -> None:
        await self._rebalance.start()
        resp.status = 202
        resp.data = documents.encode(await self._document())

    async def on_delete(self, req: Request, resp: Response) -> None:
        await self._rebalance.stop()
        resp.status = 204

    async def _document(self) -> dict[str, Any]:
        job = await self._rebalance.get()
        stores = [msgspec.to_builtins(share) for share in await self._rebalance.plan()]
        return {"running": job.running, "stores": stores, "stayed": _stayed(job)}


class FlavorCollection:
    def __init__(self, flavors: FlavorService, limits: rules.Limits) -> None:
        self._flavors = flavors
        self._limits = limits

    async def on_get(self, req: Request, resp: Response) -> None:
        given, limit = _page(req, self._limits)
        found = await self._flavors.list(given["marker"] or "", limit)
        links = documents.next_link(req.path, given, found[-1].name if found else "")
        items = [_flavor(f"{req.path}/{each.name}", each, given["detailed"]) for each in found]
        resp.data = documents.encode({"flavors": items, "links": links})


class FlavorItem:
    def __init__(self, flavors: FlavorService) -> None:
        self._flavors = flavors

    async def on_get(self, req: Request, resp: Response, flavor: str) -> None:
        resp.data = documents.encode(_flavor(req.path, await self._flavors.get(flavor), True))

    async def on_put(self, req: Request, resp: Response, flavor: str) -> None:
        pools = documents.flavor(await body.read(req, body.SMALL, "A flavor"))
        await self._flavors.put(flavor, pools)
        resp.status = 201  # API: also when it existed
        resp.set_header("Location", req.path)

    async def on_patch(self, req: Request, resp: Response, flavor: str) -> None:
        pools = documents.flavor_change(await body.read(req, body.SMALL, "A flavor"))
        await self._flavors.get(flavor)
        await self._flavors.put(flavor, pools)
        resp.data = documents.encode(_flavor(req.path, await self._flavors.get(flavor), True))

    async def on_delete(self, req: Request, resp: Response, flavor: str) -> None:
        await self._flavors.delete(flavor)
        resp.status = 204


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
