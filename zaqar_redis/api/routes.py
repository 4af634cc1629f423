# SPDX-License-Identifier: Apache-2.0
"""The table of routes: everything that the REST API answers, and how."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Struct, field

from zaqar_redis import errors, rules
from zaqar_redis.api import administration_schemas, pool_schemas, queries, quota_schemas
from zaqar_redis.api import schemas as docs
from zaqar_redis.api.bodies import Body, metadata_bodies
from zaqar_redis.api.exchange import JSON, TEXT, Answer, Receive, Request, Send
from zaqar_redis.api.rest.administration import AdministrationHandlers
from zaqar_redis.api.rest.claims import ClaimHandlers
from zaqar_redis.api.rest.home import (
    JSON_HOME,
    HealthHandlers,
    home_document,
    list_versions,
    show_version,
)
from zaqar_redis.api.rest.messages import MessageHandlers
from zaqar_redis.api.rest.pools import FlavorHandlers, PoolHandlers, RebalanceHandlers
from zaqar_redis.api.rest.queues import QueueHandlers
from zaqar_redis.api.rest.quotas import QuotaHandlers
from zaqar_redis.auth.signed_urls import SignedUrl
from zaqar_redis.check_records import StoreHealth

#: Takes a `Request` and the path's parameters, in their order.
Handler = Callable[..., Awaitable[Answer]]
#: Takes a request and its action.
Guard = Callable[[Request[Any, Any], str], Awaitable[None] | None]
WebSocketHandler = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class ApiRoute(Struct, frozen=True):
    method: str
    #: ``{name}`` is one segment, any but a slash
    path: str
    handler: Handler
    #: the rule of `auth.policy` that says who may call it
    action: str
    query: type[Struct] | None = None
    body: Body | None = None
    #: status -> the document, or a tuple if it is one of several; None: there is no body
    answers: dict[int, Any] = field(default_factory=lambda: {204: None})
    #: what is raised beside what every request may get
    problems: tuple[type[errors.Problem], ...] = ()
    #: of the answers, beside those of all: name -> what it says
    headers: dict[str, str] = {}
    media_type: str = JSON
    needs_store: bool = True
    #: answered by the server itself, without the framework; then the handler is a verb, and the
    #: path names no project
    hot: bool = False
    #: needs neither client nor project
    public: bool = False
    #: its requests must look like those of Zaqar: signature, content type, Accept
    checked: bool = True
    #: refuses what has no effect, in the place of naming it
    strict: bool = False
    #: for web pages: CORS
    cors: bool = False
    #: in the place of the checks of who sends a request to Zaqar's API: raises for who may not,
    #: and so does what is awaited; before the body is read
    guard: Guard | None = None
    #: the socket that a GET may ask for
    websocket: WebSocketHandler | None = None


class HandlerSet(Struct, frozen=True):
    """The handlers of a service; None where it has no such resources."""

    messages: MessageHandlers
    claims: ClaimHandlers
    queues: QueueHandlers
    administration: AdministrationHandlers
    health: HealthHandlers
    pools: PoolHandlers | None = None
    flavors: FlavorHandlers | None = None
    rebalance: RebalanceHandlers | None = None
    quotas: QuotaHandlers | None = None


get, head, put, post, patch, delete = (
    partial(ApiRoute, method) for method in ("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE")
)


def share(path: str, handler: Handler, action: str, document: type[Struct]) -> ApiRoute:
    """Returns the route that shares a queue or topic."""
    body, answers = Body(document, "A share"), {200: SignedUrl}
    return post(f"{path}/share", handler, action, body=body, answers=answers, needs_store=False)


def purge(path: str, handler: Handler, action: str) -> ApiRoute:
    """Returns the route that empties a queue or topic."""
    body = Body(docs.PurgeIn, "A purge", default=docs.PurgeIn(docs.PURGEABLE))
    return post(f"{path}/purge", handler, action, body=body)


def post_messages(path: str, handler: Handler, limits: rules.Limits) -> ApiRoute:
    """Returns the route that posts messages to a queue or topic."""
    document = Annotated[docs.PostIn, docs.about(required=["messages"])]
    return post(
        f"{path}/messages",
        handler,
        "messages:create",
        body=Body(document, "Messages", limits.max_messages_post_size),
        answers={201: docs.PostedOut},
        headers={"Idempotency-Replayed": "`true`: this answer was given before."},
        problems=(errors.IdempotencyKeyReused, errors.QuotaExceeded),
        hot=True,
    )


def rest_routes(handlers: HandlerSet, limits: rules.Limits, admin: bool) -> list[ApiRoute]:
    """Returns the routes of the v2 API; *admin*: with those for operators."""
    health, queues = handlers.health, handlers.queues
    messages, claims = handlers.messages, handlers.claims
    home = home_document(admin, pooling=handlers.pools is not None)
    metadata, changes = metadata_bodies("Queue", docs.Metadata, docs.ATTRIBUTES, limits)
    claim = Body(docs.ClaimIn, "A claim", default=docs.ClaimIn())
    renewal = Body(docs.ClaimIn, "A claim")
    ok, shown, missing = {200: None}, {200: docs.ShownMetadata}, (errors.NotFound,)
    refused = (errors.NotFound, errors.Conflict, errors.UnsupportedMediaType)
    put_queue, counted = {201: None, 204: None}, {200: docs.StatsOut}
    versions, version = {300: docs.VersionsOut}, {200: docs.VersionOut}
    resources = {200: docs.HomeOut}
    health_report = (StoreHealth, dict[str, StoreHealth | bool])
    queue = "/v2/queues/{queue}"
    message, a_claim = f"{queue}/messages/{{message}}", f"{queue}/claims/{{claim}}"
    routes = [
        get("/", list_versions, "versions:get", answers=versions, public=True, needs_store=False),
        get("/v2", show_version, "versions:get", answers=version, public=True, needs_store=False),
        get(
            "/healthcheck",
            health.check,
            "healthcheck:get",
            answers={200: Literal["OK"]},
            media_type=TEXT,
            public=True,
            hot=True,
        ),
        head("/healthcheck", health.check, "healthcheck:get", answers=ok, public=True),
        get(
            "/healthcheck/live",
            health.live,
            "healthcheck:get",
            answers={200: Literal["OK"]},
            media_type=TEXT,
            public=True,
            needs_store=False,
        ),
        get(
            "/healthcheck/ready",
            health.ready,
            "healthcheck:get",
            answers={200: Literal["OK"]},
            media_type=TEXT,
            public=True,
        ),
        get(
            "/health",
            health.probe,
            "healthcheck:get",
            answers={200: docs.NothingOut},
            public=True,
            hot=True,
        ),
        head("/health", health.probe, "healthcheck:get", answers=ok, public=True),
        get(
            "/v2/",
            home,
            "home:get",
            answers=resources,
            headers={"Cache-Control": "It may be kept for a day."},
            media_type=JSON_HOME,
            needs_store=False,
        ),
        get("/v2/ping", health.ping, "ping:get", public=True, hot=True),
        head("/v2/ping", health.ping_worker, "ping:get", public=True, needs_store=False),
        get(
            "/v2/queues",
            queues.list,
            "queues:get_all",
            query=queries.QueueListQuery,
            answers={200: docs.QueuePageOut},
            hot=True,
        ),
        put(
            queue,
            queues.create,
            "queues:create",
            body=metadata,
            answers=put_queue,
            problems=(errors.QuotaExceeded,),
            hot=True,
        ),
        get(queue, queues.get, "queues:get", answers=shown, hot=True),
        patch(queue, queues.patch, "queues:update", body=changes, answers=shown, problems=refused),
        delete(queue, queues.delete, "queues:delete", hot=True),
        get(
            f"{queue}/stats",
            queues.stats,
            "queues:stats",
            query=queries.StatsQuery,
            answers=counted,
            problems=missing,
            hot=True,
        ),
        purge(queue, queues.purge, "queues:purge"),
        share(queue, queues.share, "queues:share", docs.ShareIn),
        post_messages(queue, messages.post, limits),
        get(
            f"{queue}/messages",
            messages.list,
            "messages:get_all",
            query=queries.MessageListQuery,
            answers={200: docs.MessagePageOut},
            problems=missing,
            hot=True,
        ),
        delete(
            f"{queue}/messages",
            messages.delete_many,
            "messages:delete_all",
            query=queries.MessageDeleteQuery,
            answers={200: docs.PoppedOut, 204: None},
            problems=(errors.ClaimedByOther,),
            hot=True,
        ),
        get(
            message,
            messages.get,
            "messages:get",
            query=queries.MessageQuery,
            answers={200: docs.MessageOut},
            problems=missing,
            hot=True,
        ),
        delete(
            message,
            messages.delete,
            "messages:delete",
            query=queries.HolderQuery,
            problems=(errors.MessageClaimed,),
            hot=True,
        ),
        post(
            f"{queue}/claims",
            claims.create,
            "claims:create",
            query=queries.ClaimQuery,
            body=claim,
            answers={201: docs.ClaimedOut, 204: None},
            hot=True,
        ),
        get(
            a_claim,
            claims.get,
            "claims:get",
            query=queries.MessageQuery,
            answers={200: docs.ClaimOut},
            problems=missing,
            hot=True,
        ),
        patch(a_claim, claims.update, "claims:update", body=renewal, problems=missing, hot=True),
        delete(a_claim, claims.delete, "claims:delete", hot=True),
    ]
    routes += _administration_routes(handlers.administration)
    routes += _quota_routes(handlers, admin)
    if admin:
        report = {200: health_report, 503: health_report}
        routes.append(get("/v2/health", health.report, "health:get", answers=report))
        routes += _pool_routes(handlers)
    return routes


def _administration_routes(administration: AdministrationHandlers) -> Iterator[ApiRoute]:
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


def _quota_routes(handlers: HandlerSet, admin: bool) -> Iterator[ApiRoute]:
    quotas = handlers.quotas
    if quotas is None:
        return
    quota, shown = "/v2/quotas/{project}", {200: quota_schemas.QuotaOut}
    yield get(quota, quotas.get, "quotas:get", answers=shown)
    if admin:
        page, new = {200: quota_schemas.QuotaPageOut}, Body(quota_schemas.QuotaIn, "A quota")
        query = queries.PageQuery
        yield get("/v2/quotas", quotas.list, "quotas:get_all", query=query, answers=page)
        yield put(quota, quotas.put, "quotas:update", body=new, answers=shown)
        yield delete(quota, quotas.delete, "quotas:delete")


def _pool_routes(handlers: HandlerSet) -> Iterator[ApiRoute]:
    pools, flavors, rebalance = handlers.pools, handlers.flavors, handlers.rebalance
    if pools is None or flavors is None or rebalance is None:
        return
    page, details = queries.DetailedPageQuery, queries.DetailsQuery
    pool, flavor = "/v2/pools/{pool}", "/v2/flavors/{flavor}"
    new_pool = Body(
        Annotated[pool_schemas.PoolIn, docs.about(required=["uri", "weight"])],
        "A pool",
        ignored=pool_schemas.ignored,
    )
    one_of = [{"required": [name]} for name in pool_schemas.PoolChangeIn.__struct_fields__]
    pool_change = Body(
        Annotated[pool_schemas.PoolChangeIn, docs.about(anyOf=one_of)],
        "A pool",
        ignored=pool_schemas.ignored,
    )
    new_flavor = Body(pool_schemas.FlavorIn, "A flavor")
    flavor_change = Body(pool_schemas.FlavorChangeIn, "A flavor")
    created, missing = {201: None}, (errors.NotFound,)
    taken = (errors.UriTaken, errors.StoreOwned, errors.StoreLacksQueues, errors.Conflict)
    in_use = (errors.PoolInUse, errors.FlavorEmptied)
    shown, one_flavor = {200: pool_schemas.PoolOut}, {200: pool_schemas.FlavorOut}
    pool_page, flavor_page = {200: pool_schemas.PoolPageOut}, {200: pool_schemas.FlavorPageOut}
    location = {200: pool_schemas.QueuePoolOut}
    rebalancing, begun = {200: pool_schemas.RebalanceOut}, {202: pool_schemas.RebalanceOut}
    yield from (
        get("/v2/pools", pools.list, "pools:get_all", query=page, answers=pool_page),
        get(pool, pools.get, "pools:get", query=details, answers=shown, problems=missing),
        put(pool, pools.put, "pools:create", body=new_pool, answers=created, problems=taken),
        patch(
            pool,
            pools.patch,
            "pools:update",
            body=pool_change,
            answers=shown,
            problems=(*missing, *taken),
        ),
        delete(pool, pools.delete, "pools:delete", problems=in_use),
        get(
            "/v2/queues/{queue}/pool",
            pools.locate,
            "pools:locate",
            answers=location,
            problems=missing,
        ),
        get("/v2/rebalance", rebalance.get, "pools:rebalance", answers=rebalancing),
        put("/v2/rebalance", rebalance.start, "pools:rebalance", answers=begun),
        delete("/v2/rebalance", rebalance.stop, "pools:rebalance"),
        get("/v2/flavors", flavors.list, "flavors:get_all", query=page, answers=flavor_page),
        get(flavor, flavors.get, "flavors:get", answers=one_flavor, problems=missing),
        put(flavor, flavors.put, "flavors:create", body=new_flavor, answers=created),
        patch(
            flavor,
            flavors.patch,
            "flavors:update",
            body=flavor_change,
            answers=one_flavor,
            problems=missing,
        ),
        delete(flavor, flavors.delete, "flavors:delete"),
    )
