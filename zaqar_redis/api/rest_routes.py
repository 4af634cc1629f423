# SPDX-License-Identifier: Apache-2.0
"""The routes of the v2 API."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from zaqar_redis import errors, rules
from zaqar_redis.api import queries
from zaqar_redis.api import schemas as docs
from zaqar_redis.api.bodies import Body, metadata_bodies
from zaqar_redis.api.exchange import TEXT
from zaqar_redis.api.operator_routes import (
    InstallationHandlers,
    administration_routes,
    pool_routes,
    quota_routes,
)
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
from zaqar_redis.api.rest.queues import QueueHandlers
from zaqar_redis.api.rest.quotas import QuotaHandlers
from zaqar_redis.api.routes import (
    ApiRoute,
    Handler,
    delete,
    get,
    head,
    patch,
    post,
    post_messages,
    purge,
    put,
    share,
)
from zaqar_redis.check_records import StoreHealth


class HandlerSet(Struct, frozen=True):
    """The handlers of a service; None where it has no such resources."""

    messages: MessageHandlers
    claims: ClaimHandlers
    queues: QueueHandlers
    administration: AdministrationHandlers
    health: HealthHandlers
    pools: InstallationHandlers | None = None
    quotas: QuotaHandlers | None = None


def rest_routes(handlers: HandlerSet, limits: rules.Limits, admin: bool) -> list[ApiRoute]:
    """Returns the routes of the v2 API; *admin*: with those for operators."""
    home = home_document(admin, pooling=handlers.pools is not None)
    routes = [
        *_home_routes(home),
        *_health_routes(handlers.health),
        *_queue_routes(handlers.queues, limits),
        *_message_routes(handlers.messages, limits),
        *_claim_routes(handlers.claims),
        *administration_routes(handlers.administration),
    ]
    if handlers.quotas is not None:
        routes += quota_routes(handlers.quotas, admin=admin)
    if admin:
        report = (StoreHealth, dict[str, StoreHealth | bool])
        answers = {200: report, 503: report}
        routes.append(get("/v2/health", handlers.health.report, "health:get", answers=answers))
        if handlers.pools is not None:
            routes += pool_routes(handlers.pools)
    return routes


def _home_routes(home: Handler) -> list[ApiRoute]:
    versions, version = {300: docs.VersionsOut}, {200: docs.VersionOut}
    return [
        get("/", list_versions, "versions:get", answers=versions, public=True, needs_store=False),
        get("/v2", show_version, "versions:get", answers=version, public=True, needs_store=False),
        get(
            "/v2/",
            home,
            "home:get",
            answers={200: docs.HomeOut},
            headers={"Cache-Control": "It may be kept for a day."},
            media_type=JSON_HOME,
            needs_store=False,
        ),
    ]


def _health_routes(health: HealthHandlers) -> list[ApiRoute]:
    ok = {200: None}
    return [
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
        get("/v2/ping", health.ping, "ping:get", public=True, hot=True),
        head("/v2/ping", health.ping_worker, "ping:get", public=True, needs_store=False),
    ]


def _queue_routes(queues: QueueHandlers, limits: rules.Limits) -> list[ApiRoute]:
    metadata, changes = metadata_bodies("Queue", docs.Metadata, docs.ATTRIBUTES, limits)
    shown, missing = {200: docs.ShownMetadata}, (errors.NotFound,)
    refused = (errors.NotFound, errors.Conflict, errors.UnsupportedMediaType)
    queue = "/v2/queues/{queue}"
    return [
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
            answers={201: None, 204: None},
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
            answers={200: docs.StatsOut},
            problems=missing,
            hot=True,
        ),
        purge(queue, queues.purge, "queues:purge"),
        share(queue, queues.share, "queues:share", docs.ShareIn),
    ]


def _message_routes(messages: MessageHandlers, limits: rules.Limits) -> list[ApiRoute]:
    queue, missing = "/v2/queues/{queue}", (errors.NotFound,)
    message = f"{queue}/messages/{{message}}"
    return [
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
    ]


def _claim_routes(claims: ClaimHandlers) -> list[ApiRoute]:
    claim = Body(docs.ClaimIn, "A claim", default=docs.ClaimIn())
    renewal = Body(docs.ClaimIn, "A claim")
    queue, missing = "/v2/queues/{queue}", (errors.NotFound,)
    a_claim = f"{queue}/claims/{{claim}}"
    return [
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
