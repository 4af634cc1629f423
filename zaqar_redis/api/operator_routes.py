# SPDX-License-Identifier: Apache-2.0
"""The routes of the v2 API for operators: peek and move, quotas, pools and flavors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

from msgspec import Struct

from zaqar_redis import errors
from zaqar_redis.api import operator_schemas as schemas
from zaqar_redis.api import queries
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.descriptions import about
from zaqar_redis.api.rest.administration import AdministrationHandlers
from zaqar_redis.api.rest.pools import FlavorHandlers, PoolHandlers, RebalanceHandlers
from zaqar_redis.api.rest.quotas import QuotaHandlers
from zaqar_redis.api.routes import ApiRoute, delete, get, patch, post, put


class InstallationHandlers(Struct, frozen=True):
    """The handlers of a service with pools."""

    pools: PoolHandlers
    flavors: FlavorHandlers
    rebalance: RebalanceHandlers


_MISSING = (errors.NotFound,)


def administration_routes(of: AdministrationHandlers) -> Iterator[ApiRoute]:
    queue = "/v2/queues/{queue}"
    new, moved = Body(schemas.MoveIn, "A move"), {200: schemas.MovedOut}
    peek = partial(get, query=schemas.PeekQuery, answers={200: schemas.PeekPageOut})
    move = partial(post, problems=(errors.NotFound, errors.QuotaExceeded))
    claims = partial(get, query=schemas.ClaimListQuery, answers={200: schemas.ClaimPageOut})
    yield peek(f"{queue}/peek", of.peek, "messages:peek")
    yield move(f"{queue}/move", of.move, "messages:move", body=new, answers=moved)
    yield claims(f"{queue}/claims", of.list_claims, "claims:get_all")


def quota_routes(quotas: QuotaHandlers, *, admin: bool) -> Iterator[ApiRoute]:
    quota, shown = "/v2/quotas/{project}", {200: schemas.QuotaOut}
    yield get(quota, quotas.get, "quotas:get", answers=shown)
    if admin:
        page, new = {200: schemas.QuotaPageOut}, Body(schemas.QuotaIn, "A quota")
        query = queries.PageQuery
        yield get("/v2/quotas", quotas.list, "quotas:get_all", query=query, answers=page)
        yield put(quota, quotas.put, "quotas:update", body=new, answers=shown)
        yield delete(quota, quotas.delete, "quotas:delete")


def pool_routes(handlers: InstallationHandlers) -> list[ApiRoute]:
    rebalance = handlers.rebalance
    rebalancing, begun = {200: schemas.RebalanceOut}, {202: schemas.RebalanceOut}
    return [
        *_pool_routes(handlers.pools),
        get("/v2/rebalance", rebalance.get, "pools:rebalance", answers=rebalancing),
        put("/v2/rebalance", rebalance.start, "pools:rebalance", answers=begun),
        delete("/v2/rebalance", rebalance.stop, "pools:rebalance"),
        *_flavor_routes(handlers.flavors),
    ]


def _pool_routes(of: PoolHandlers) -> Iterator[ApiRoute]:
    pool = "/v2/pools/{pool}"
    body = partial(Body, noun="A pool", ignored=schemas.ignored)
    new = body(Annotated[schemas.PoolIn, about(required=["uri", "weight"])])
    one_of = [{"required": [name]} for name in schemas.PoolChangeIn.__struct_fields__]
    change = body(Annotated[schemas.PoolChangeIn, about(anyOf=one_of)])
    page, shown, located = (
        {200: each} for each in (schemas.PoolPageOut, schemas.PoolOut, schemas.QueuePoolOut)
    )
    query, details = queries.DetailedPageQuery, queries.DetailsQuery
    taken = (errors.UriTaken, errors.StoreOwned, errors.StoreLacksQueues, errors.Conflict)
    refused, in_use = (*_MISSING, *taken), (errors.PoolInUse, errors.FlavorEmptied)
    yield get("/v2/pools", of.list, "pools:get_all", query=query, answers=page)
    yield get(pool, of.get, "pools:get", query=details, answers=shown, problems=_MISSING)
    yield put(pool, of.put, "pools:create", body=new, answers={201: None}, problems=taken)
    yield patch(pool, of.patch, "pools:update", body=change, answers=shown, problems=refused)
    yield delete(pool, of.delete, "pools:delete", problems=in_use)
    located_at = "/v2/queues/{queue}/pool", of.locate, "pools:locate"
    yield get(*located_at, answers=located, problems=_MISSING)


def _flavor_routes(of: FlavorHandlers) -> Iterator[ApiRoute]:
    flavor = "/v2/flavors/{flavor}"
    page, shown = {200: schemas.FlavorPageOut}, {200: schemas.FlavorOut}
    new, change = Body(schemas.FlavorIn, "A flavor"), Body(schemas.FlavorChangeIn, "A flavor")
    query = queries.DetailedPageQuery
    yield get("/v2/flavors", of.list, "flavors:get_all", query=query, answers=page)
    yield get(flavor, of.get, "flavors:get", answers=shown, problems=_MISSING)
    yield put(flavor, of.put, "flavors:create", body=new, answers={201: None})
    yield patch(flavor, of.patch, "flavors:update", body=change, answers=shown, problems=_MISSING)
    yield delete(flavor, of.delete, "flavors:delete")
