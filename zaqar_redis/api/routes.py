# SPDX-License-Identifier: Apache-2.0
"""The table of routes: everything that the REST API answers, and how."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from msgspec import Struct

from zaqar_redis import errors, rules
from zaqar_redis.api import documents as docs
from zaqar_redis.api import queries
from zaqar_redis.api.exchange import JSON, Answer, Receive, Request, Send
from zaqar_redis.api.rest.claims import ClaimHandlers
from zaqar_redis.api.rest.home import HealthHandlers, home_document, list_versions
from zaqar_redis.api.rest.messages import MessageHandlers
from zaqar_redis.api.rest.pools import FlavorHandlers, PoolHandlers, RebalanceHandlers
from zaqar_redis.api.rest.queues import PATCH, QueueHandlers

#: Bytes of documents without a limit of their own: claims, purges, shares, pools, flavors.
_SMALL = 64 * 1024

#: Takes a `Request` and the path's parameters, in their order.
Handler = Callable[..., Awaitable[Answer]]
Guard = Callable[[Request[Any, Any]], None]
WebSocketHandler = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class Body(Struct, frozen=True):
    """The document of a request."""

    #: bytes: it is not decoded
    kind: Any
    #: what errors call it
    noun: str
    #: bytes
    size_max: int = _SMALL
    #: the document of a request without a body; None: it needs one
    default: Any = None
    media_type: str = JSON
    #: of one that is too large
    error: type[errors.Problem] = errors.BadRequest

    def too_large(self) -> errors.Problem:
        return self.error(why=f"{self.noun} may be at most {self.size_max} bytes a request.")


class Route(Struct, frozen=True):
    method: str
    #: ``{name}`` is one segment, any but a slash
    path: str
    handler: Handler
    #: for policies: the kind of resource, and what is done with it
    action: str
    query: type[Struct] | None = None
    body: Body | None = None
    #: status -> Struct of the document, None: the answer has no body
    answers: dict[int, Any] = {}
    #: answered by the server itself, without the framework; then the handler is a verb
    hot: bool = False
    #: needs neither client nor project
    public: bool = False
    #: its requests must look like those of Zaqar: signature, content type, Accept
    checked: bool = True
    #: for web pages: CORS
    cors: bool = False
    #: raises for who may not; before the body is read
    guard: Guard | None = None
    #: the socket that a GET may ask for
    websocket: WebSocketHandler | None = None


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
    metadata = Body(dict[str, Any], "Queue metadata", limits.max_queue_metadata, default={})
    patch = Body(Any, "Queue metadata", limits.max_queue_metadata, media_type=PATCH)
    post = Body(docs.PostIn, "Messages", limits.max_messages_post_size)
    claim = Body(docs.ClaimIn, "A claim", default=docs.ClaimIn())
    renewal = Body(docs.ClaimIn, "A claim")
    purge = Body(docs.PurgeIn, "A purge", default=docs.PurgeIn(docs.PURGEABLE))
    share = Body(docs.ShareIn, "A share")
    queue = "/v2/queues/{queue}"
    message, a_claim = f"{queue}/messages/{{message}}", f"{queue}/claims/{{claim}}"
    routes = [
        Route("GET", "/", list_versions, "service:versions", public=True),
        Route("GET", "/healthcheck", health.check, "service:health", public=True, hot=True),
        Route("HEAD", "/healthcheck", health.check, "service:health", public=True),
        Route("GET", "/health", health.probe, "service:health", public=True, hot=True),
        Route("HEAD", "/health", health.probe, "service:health", public=True),
        Route("GET", "/v2/", home, "service:home"),
        Route("GET", "/v2/ping", health.ping, "service:health", public=True, hot=True),
        Route("HEAD", "/v2/ping", health.ping_worker, "service:health", public=True),
        Route("GET", "/v2/queues", queues.list, "queues:list", query=queries.QueueListQuery),
        Route("PUT", queue, queues.create, "queues:create", body=metadata),
        Route("GET", queue, queues.get, "queues:get"),
        Route("PATCH", queue, queues.patch, "queues:update", body=patch),
        Route("DELETE", queue, queues.delete, "queues:delete"),
        Route("GET", f"{queue}/stats", queues.stats, "queues:stats"),
        Route("POST", f"{queue}/purge", queues.purge, "queues:purge", body=purge),
        Route("POST", f"{queue}/share", queues.share, "queues:share", body=share),
        Route("POST", f"{queue}/messages", messages.post, "messages:post", body=post, hot=True),
        Route(
            "GET",
            f"{queue}/messages",
            messages.list,
            "messages:list",
            query=queries.MessageListQuery,
            hot=True,
        ),
        Route(
            "DELETE",
            f"{queue}/messages",
            messages.delete_many,
            "messages:delete",
            query=queries.MessageDeleteQuery,
            hot=True,
        ),
        Route("GET", message, messages.get, "messages:get", hot=True),
        Route(
            "DELETE",
            message,
            messages.delete,
            "messages:delete",
            query=queries.HolderQuery,
            hot=True,
        ),
        Route(
            "POST",
            f"{queue}/claims",
            claims.create,
            "claims:create",
            query=queries.ClaimQuery,
            body=claim,
            hot=True,
        ),
        Route("GET", a_claim, claims.get, "claims:get"),
        Route("PATCH", a_claim, claims.update, "claims:update", body=renewal, hot=True),
        Route("DELETE", a_claim, claims.delete, "claims:delete"),
    ]
    if admin:
        routes.append(Route("GET", "/v2/health", health.report, "service:report"))
        routes += _pool_routes(handlers)
    return routes


def _pool_routes(handlers: HandlerSet) -> Iterator[Route]:
    pools, flavors, rebalance = handlers.pools, handlers.flavors, handlers.rebalance
    if pools is None or flavors is None or rebalance is None:
        return
    page, details = queries.DetailedPageQuery, queries.DetailsQuery
    pool, flavor = "/v2/pools/{pool}", "/v2/flavors/{flavor}"
    new_pool, pool_change = Body(docs.PoolIn, "A pool"), Body(docs.PoolChangeIn, "A pool")
    new_flavor = Body(docs.FlavorIn, "A flavor")
    flavor_change = Body(docs.FlavorChangeIn, "A flavor")
    yield from (
        Route("GET", "/v2/pools", pools.list, "pools:list", query=page),
        Route("GET", pool, pools.get, "pools:get", query=details),
        Route("PUT", pool, pools.put, "pools:put", body=new_pool),
        Route("PATCH", pool, pools.patch, "pools:update", body=pool_change),
        Route("DELETE", pool, pools.delete, "pools:delete"),
        Route("GET", "/v2/queues/{queue}/pool", pools.locate, "pools:locate"),
        Route("GET", "/v2/rebalance", rebalance.get, "pools:rebalance"),
        Route("PUT", "/v2/rebalance", rebalance.start, "pools:rebalance"),
        Route("DELETE", "/v2/rebalance", rebalance.stop, "pools:rebalance"),
        Route("GET", "/v2/flavors", flavors.list, "flavors:list", query=page),
        Route("GET", flavor, flavors.get, "flavors:get"),
        Route("PUT", flavor, flavors.put, "flavors:put", body=new_flavor),
        Route("PATCH", flavor, flavors.patch, "flavors:update", body=flavor_change),
        Route("DELETE", flavor, flavors.delete, "flavors:delete"),
    )
