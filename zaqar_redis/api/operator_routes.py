# SPDX-License-Identifier: Apache-2.0
"""The routes of the v2 API for operators: peek and move, quotas, pools and flavors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Struct

from zaqar_redis import errors
from zaqar_redis.api import administration_schemas, pool_schemas, queries, quota_schemas
from zaqar_redis.api import schemas as docs
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.rest.administration import AdministrationHandlers
from zaqar_redis.api.rest.pools import FlavorHandlers, PoolHandlers, RebalanceHandlers
from zaqar_redis.api.rest.quotas import QuotaHandlers
from zaqar_redis.api.routes import ApiRoute, delete, get, patch, post, put


class InstallationHandlers(Struct, frozen=True):
    """The handlers of a service with pools."""

    pools: PoolHandlers
    flavors: FlavorHandlers
    rebalance: RebalanceHandlers


def administration_routes(administration: AdministrationHandlers) -> Iterator[ApiRoute]:
    queue, schemas = "/v2/queues/{queue}", administration_schemas
    yield get(
        f"{queue}/peek",
        administration.peek,
        "messages:peek",
        query=schemas.PeekQuery,
        answers={200: schemas.PeekPageOut},
    )
    yield post(
        f"{queue}/move",
        administration.move,
        "messages:move",
        body=Body(schemas.MoveIn, "A move"),
        answers={200: schemas.MovedOut},
        problems=(errors.NotFound, errors.QuotaExceeded),
    )
    yield get(
        f"{queue}/claims",
        administration.list_claims,
        "claims:get_all",
        query=schemas.ClaimListQuery,
        answers={200: schemas.ClaimPageOut},
    )


def quota_routes(quotas: QuotaHandlers, *, admin: bool) -> Iterator[ApiRoute]:
    quota, shown = "/v2/quotas/{project}", {200: quota_schemas.QuotaOut}
    yield get(quota, quotas.get, "quotas:get", answers=shown)
    if admin:
        page, new = {200: quota_schemas.QuotaPageOut}, Body(quota_schemas.QuotaIn, "A quota")
        query = queries.PageQuery
        yield get("/v2/quotas", quotas.list, "quotas:get_all", query=query, answers=page)
        yield put(quota, quotas.put, "quotas:update", body=new, answers=shown)
        yield delete(quota, quotas.delete, "quotas:delete")


def pool_routes(handlers: InstallationHandlers) -> list[ApiRoute]:
    rebalance = handlers.rebalance
    rebalancing, begun = {200: pool_schemas.RebalanceOut}, {202: pool_schemas.RebalanceOut}
    return [
        *_pool_routes(handlers.pools),
        get("/v2/rebalance", rebalance.get, "pools:rebalance", answers=rebalancing),
        put("/v2/rebalance", rebalance.start, "pools:rebalance", answers=begun),
        delete("/v2/rebalance", rebalance.stop, "pools:rebalance"),
        *_flavor_routes(handlers.flavors),
    ]


def _pool_routes(pools: PoolHandlers) -> Iterator[ApiRoute]:
    pool = "/v2/pools/{pool}"
    new = Body(
        Annotated[pool_schemas.PoolIn, docs.about(required=["uri", "weight"])],
        "A pool",
        ignored=pool_schemas.ignored,
    )
    one_of = [{"required": [name]} for name in pool_schemas.PoolChangeIn.__struct_fields__]
    change = Body(
        Annotated[pool_schemas.PoolChangeIn, docs.about(anyOf=one_of)],
        "A pool",
        ignored=pool_schemas.ignored,
    )
    page, shown = {200: pool_schemas.PoolPageOut}, {200: pool_schemas.PoolOut}
    details, missing = queries.DetailsQuery, (errors.NotFound,)
    taken = (errors.UriTaken, errors.StoreOwned, errors.StoreLacksQueues, errors.Conflict)
    query = queries.DetailedPageQuery
    yield get("/v2/pools", pools.list, "pools:get_all", query=query, answers=page)
    yield get(pool, pools.get, "pools:get", query=details, answers=shown, problems=missing)
    yield put(pool, pools.put, "pools:create", body=new, answers={201: None}, problems=taken)
    yield patch(
        pool,
        pools.patch,
        "pools:update",
        body=change,
        answers=shown,
        problems=(*missing, *taken),
    )
    in_use = (errors.PoolInUse, errors.FlavorEmptied)
    yield delete(pool, pools.delete, "pools:delete", problems=in_use)
    yield get(
        "/v2/queues/{queue}/pool",
        pools.locate,
        "pools:locate",
        answers={200: pool_schemas.QueuePoolOut},
        problems=missing,
    )


def _flavor_routes(flavors: FlavorHandlers) -> Iterator[ApiRoute]:
    flavor, missing = "/v2/flavors/{flavor}", (errors.NotFound,)
    page, shown = {200: pool_schemas.FlavorPageOut}, {200: pool_schemas.FlavorOut}
    new = Body(pool_schemas.FlavorIn, "A flavor")
    change = Body(pool_schemas.FlavorChangeIn, "A flavor")
    query = queries.DetailedPageQuery
    yield get("/v2/flavors", flavors.list, "flavors:get_all", query=query, answers=page)
    yield get(flavor, flavors.get, "flavors:get", answers=shown, problems=missing)
    yield put(flavor, flavors.put, "flavors:create", body=new, answers={201: None})
    yield patch(
        flavor,
        flavors.patch,
        "flavors:update",
        body=change,
        answers=shown,
        problems=missing,
    )
    yield delete(flavor, flavors.delete, "flavors:delete")
