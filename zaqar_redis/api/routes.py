# SPDX-License-Identifier: Apache-2.0
"""The table of routes: everything that the REST API answers, and how."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, Any, Literal

from msgspec import Struct, field

from zaqar_redis import errors, rules
from zaqar_redis.api import queries
from zaqar_redis.api import schemas as docs
from zaqar_redis.api.exchange import JSON, TEXT, Answer
from zaqar_redis.api.rest.claims import ClaimHandlers
from zaqar_redis.api.rest.home import JSON_HOME, HealthHandlers, home_document, list_versions
from zaqar_redis.api.rest.messages import MessageHandlers
from zaqar_redis.api.rest.pools import FlavorHandlers, PoolHandlers, RebalanceHandlers
from zaqar_redis.api.rest.queues import PATCH, QueueHandlers
from zaqar_redis.auth.signed_urls import SignedUrl
from zaqar_redis.records import StoreHealth

#: Bytes of documents without a limit of their own: claims, purges, shares, pools, flavors.
_SMALL = 64 * 1024

#: Takes a `Request` and the path's parameters, in their order.
Handler = Callable[..., Awaitable[Answer]]


class Body(Struct, frozen=True):
    """The document of a request."""

    kind: Any
    #: what errors call it
    noun: str
    #: bytes
    size_max: int = _SMALL
    #: the document of a request without a body; None: it needs one
    default: Any = None
    media_type: str = JSON

    def too_large(self) -> errors.BadRequest:
        return errors.BadRequest(why=f"{self.noun} may be at most {self.size_max} bytes a request.")


class Route(Struct, frozen=True):
    method: str
    #: ``{name}`` is one segment, any but a slash
    path: str
    handler: Handler
    #: for policies: the kind of resource, and what is done with it
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
    #: answered by the server itself, without the framework; then the handler is a verb
    hot: bool = False
    #: needs neither client nor project
    public: bool = False


class HandlerSet(Struct, frozen=True):
    """The handlers of a service; None where it has no such resources."""

    messages: MessageHandlers
    claims: ClaimHandlers
    queues: QueueHandlers
    health: HealthHandlers
    pools: PoolHandlers | None = None
    flavors: FlavorHandlers | None = None
    rebalance: RebalanceHandlers | None = None


def rest_routes(handlers: HandlerSet, limits: rules.Limits, admin: bool) -> list[Route]:
    """Returns the routes of the v2 API; *admin*: with those for operators."""
    health, queues = handlers.health, handlers.queues
    messages, claims = handlers.messages, handlers.claims
    home = home_document(admin, pooling=handlers.pools is not None)
    metadata = Body(docs.Metadata, "Queue metadata", limits.max_queue_metadata, default={})
    patch = Body(docs.Patches, "Queue metadata", limits.max_queue_metadata, media_type=PATCH)
    post = Body(
        Annotated[docs.PostIn, docs.about(required=["messages"])],
        "Messages",
        limits.max_messages_post_size,
    )
    claim = Body(docs.ClaimIn, "A claim", default=docs.ClaimIn())
    renewal = Body(docs.ClaimIn, "A claim")
    purge = Body(docs.PurgeIn, "A purge", default=docs.PurgeIn(docs.PURGEABLE))
    share = Body(docs.ShareIn, "A share")
    ok, shown, missing = {200: None}, {200: docs.ShownMetadata}, (errors.NotFound,)
    refused = (errors.NotFound, errors.Conflict, errors.UnsupportedMediaType)
    versions, resources = {300: docs.VersionsOut}, {200: docs.HomeOut}
    health_report = (StoreHealth, dict[str, StoreHealth | bool])
    queue = "/v2/queues/{queue}"
    message, a_claim = f"{queue}/messages/{{message}}", f"{queue}/claims/{{claim}}"
    routes = [
        Route(
            "GET",
            "/",
            list_versions,
            "service:versions",
            answers=versions,
            public=True,
            needs_store=False,
        ),
        Route(
            "GET",
            "/healthcheck",
            health.check,
            "service:health",
            answers={200: Literal["OK"]},
            media_type=TEXT,
            public=True,
            hot=True,
        ),
        Route("HEAD", "/healthcheck", health.check, "service:health", answers=ok, public=True),
        Route(
            "GET",
            "/health",
            health.probe,
            "service:health",
            answers={200: docs.NothingOut},
            public=True,
            hot=True,
        ),
        Route("HEAD", "/health", health.probe, "service:health", answers=ok, public=True),
        Route(
            "GET",
            "/v2/",
            home,
            "service:home",
            answers=resources,
            headers={"Cache-Control": "It may be kept for a day."},
            media_type=JSON_HOME,
            needs_store=False,
        ),
        Route("GET", "/v2/ping", health.ping, "service:health", public=True, hot=True),
        Route(
            "HEAD", "/v2/ping", health.ping_worker, "service:health", public=True, needs_store=False
        ),
        Route(
            "GET",
            "/v2/queues",
            queues.list,
            "queues:list",
            query=queries.QueueListQuery,
            answers={200: docs.QueuePageOut},
        ),
        Route(
            "PUT",
            queue,
            queues.create,
            "queues:create",
            body=metadata,
            answers={201: None, 204: None},
        ),
        Route("GET", queue, queues.get, "queues:get", answers=shown),
        Route(
            "PATCH",
            queue,
            queues.patch,
            "queues:update",
            body=patch,
            answers=shown,
            problems=refused,
        ),
        Route("DELETE", queue, queues.delete, "queues:delete"),
        Route("GET", f"{queue}/stats", queues.stats, "queues:stats", answers={200: docs.StatsOut}),
        Route("POST", f"{queue}/purge", queues.purge, "queues:purge", body=purge),
        Route(
            "POST",
            f"{queue}/share",
            queues.share,
            "queues:share",
            body=share,
            answers={200: SignedUrl},
            needs_store=False,
        ),
        Route(
            "POST",
            f"{queue}/messages",
            messages.post,
            "messages:post",
            body=post,
            answers={201: docs.PostedOut},
            headers={"Idempotency-Replayed": "`true`: this answer was given before."},
            problems=(errors.IdempotencyKeyReused,),
            hot=True,
        ),
        Route(
            "GET",
            f"{queue}/messages",
            messages.list,
            "messages:list",
            query=queries.MessageListQuery,
            answers={200: docs.MessagePageOut},
            problems=missing,
            hot=True,
        ),
        Route(
            "DELETE",
            f"{queue}/messages",
            messages.delete_many,
            "messages:delete",
            query=queries.MessageDeleteQuery,
            answers={200: docs.PoppedOut, 204: None},
            problems=(errors.ClaimedByOther,),
            hot=True,
        ),
        Route(
            "GET",
            message,
            messages.get,
            "messages:get",
            answers={200: docs.MessageOut},
            problems=missing,
            hot=True,
        ),
        Route(
            "DELETE",
            message,
            messages.delete,
            "messages:delete",
            query=queries.HolderQuery,
            problems=(errors.MessageClaimed,),
            hot=True,
        ),
        Route(
            "POST",
            f"{queue}/claims",
            claims.create,
            "claims:create",
            query=queries.ClaimQuery,
            body=claim,
            answers={201: docs.ClaimedOut, 204: None},
            hot=True,
        ),
        Route(
            "GET", a_claim, claims.get, "claims:get", answers={200: docs.ClaimOut}, problems=missing
        ),
        Route(
            "PATCH",
            a_claim,
            claims.update,
            "claims:update",
            body=renewal,
            problems=missing,
            hot=True,
        ),
        Route("DELETE", a_claim, claims.delete, "claims:delete"),
    ]
    if admin:
        report = {200: health_report, 503: health_report}
        routes.append(Route("GET", "/v2/health", health.report, "service:report", answers=report))
        routes += _pool_routes(handlers)
    return routes


def _pool_routes(handlers: HandlerSet) -> Iterator[Route]:
    pools, flavors, rebalance = handlers.pools, handlers.flavors, handlers.rebalance
    if pools is None or flavors is None or rebalance is None:
        return
    page, details = queries.DetailedPageQuery, queries.DetailsQuery
    pool, flavor = "/v2/pools/{pool}", "/v2/flavors/{flavor}"
    new_pool = Body(Annotated[docs.PoolIn, docs.about(required=["uri", "weight"])], "A pool")
    one_of = [{"required": [name]} for name in docs.PoolChangeIn.__struct_fields__]
    pool_change = Body(Annotated[docs.PoolChangeIn, docs.about(anyOf=one_of)], "A pool")
    new_flavor = Body(docs.FlavorIn, "A flavor")
    flavor_change = Body(docs.FlavorChangeIn, "A flavor")
    put, missing = {201: None}, (errors.NotFound,)
    taken = (errors.UriTaken, errors.StoreOwned, errors.StoreLacksQueues, errors.Conflict)
    in_use = (errors.PoolInUse, errors.FlavorEmptied)
    shown, one_flavor = {200: docs.PoolOut}, {200: docs.FlavorOut}
    pool_page, flavor_page = {200: docs.PoolPageOut}, {200: docs.FlavorPageOut}
    location = {200: docs.QueuePoolOut}
    rebalancing, begun = {200: docs.RebalanceOut}, {202: docs.RebalanceOut}
    yield from (
        Route("GET", "/v2/pools", pools.list, "pools:list", query=page, answers=pool_page),
        Route("GET", pool, pools.get, "pools:get", query=details, answers=shown, problems=missing),
        Route("PUT", pool, pools.put, "pools:put", body=new_pool, answers=put, problems=taken),
        Route(
            "PATCH",
            pool,
            pools.patch,
            "pools:update",
            body=pool_change,
            answers=shown,
            problems=(*missing, *taken),
        ),
        Route("DELETE", pool, pools.delete, "pools:delete", problems=in_use),
        Route(
            "GET",
            "/v2/queues/{queue}/pool",
            pools.locate,
            "pools:locate",
            answers=location,
            problems=missing,
        ),
        Route("GET", "/v2/rebalance", rebalance.get, "pools:rebalance", answers=rebalancing),
        Route("PUT", "/v2/rebalance", rebalance.start, "pools:rebalance", answers=begun),
        Route("DELETE", "/v2/rebalance", rebalance.stop, "pools:rebalance"),
        Route("GET", "/v2/flavors", flavors.list, "flavors:list", query=page, answers=flavor_page),
        Route("GET", flavor, flavors.get, "flavors:get", answers=one_flavor, problems=missing),
        Route("PUT", flavor, flavors.put, "flavors:put", body=new_flavor, answers=put),
        Route(
            "PATCH",
            flavor,
            flavors.patch,
            "flavors:update",
            body=flavor_change,
            answers=one_flavor,
            problems=missing,
        ),
        Route("DELETE", flavor, flavors.delete, "flavors:delete"),
    )
