# SPDX-License-Identifier: Apache-2.0
"""The routes of the v2 API."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Struct

from zaqar_redis import errors, rules
from zaqar_redis.api import metadata_schemas as metadata
from zaqar_redis.api import queries
from zaqar_redis.api import schemas as docs
from zaqar_redis.api.bodies import Body, metadata_bodies
from zaqar_redis.api.descriptions import about
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
from zaqar_redis.api.rest.schedules import ScheduleHandlers
from zaqar_redis.api.rest.topics import TopicHandlers
from zaqar_redis.api.routes import ApiRoute, Handler, delete, get, patch, post, put
from zaqar_redis.api.schedule_routes import schedule_routes
from zaqar_redis.auth.signed_urls import SignedUrl
from zaqar_redis.check_records import StoreHealth


class HandlerSet(Struct, frozen=True):
    """The handlers of a service; None where it has no such resources."""

    messages: MessageHandlers
    claims: ClaimHandlers
    queues: QueueHandlers
    administration: AdministrationHandlers
    health: HealthHandlers
    topics: TopicHandlers
    pools: InstallationHandlers | None = None
    quotas: QuotaHandlers | None = None
    schedules: ScheduleHandlers | None = None


def rest_routes(handlers: HandlerSet, limits: rules.Limits, admin: bool) -> list[ApiRoute]:
    """Returns the routes of the v2 API; *admin*: with those for operators."""
    messages, topics = handlers.messages, handlers.topics
    home = home_document(admin, pooling=handlers.pools is not None)
    routes = [
        *_home_routes(home),
        *_health_routes(handlers.health),
        *_routes_of(_QUEUES, handlers.queues, limits, hot=True),
        *_routes_of_messages(_QUEUES, messages.post, messages.list, limits, hot=True),
        *_message_routes(messages),
        *_claim_routes(handlers.claims),
        *administration_routes(handlers.administration),
    ]
    if handlers.schedules is not None:
        routes += schedule_routes(handlers.schedules, limits)
    if handlers.quotas is not None:
        routes += quota_routes(handlers.quotas, admin=admin)
    if admin:
        report = (StoreHealth, dict[str, StoreHealth | bool])
        answers = {200: report, 503: report}
        routes.append(get("/v2/health", handlers.health.report, "health:get", answers=answers))
        if handlers.pools is not None:
            routes += pool_routes(handlers.pools)
    return [
        *routes,
        *_routes_of(_TOPICS, topics, limits, hot=False),
        *_routes_of_messages(_TOPICS, topics.publish, topics.history, limits, hot=False),
        *_topic_message_routes(topics),
    ]


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
    check = partial(ApiRoute, action="healthcheck:get", public=True)
    text = partial(check, "GET", answers={200: Literal["OK"]}, media_type=TEXT)
    head = partial(check, "HEAD", answers={200: None})
    ping = partial(ApiRoute, path="/v2/ping", action="ping:get", public=True)
    return [
        text("/healthcheck", health.check, hot=True),
        head("/healthcheck", health.check),
        text("/healthcheck/live", health.live, needs_store=False),
        text("/healthcheck/ready", health.ready),
        check("GET", "/health", health.probe, answers={200: docs.NothingOut}, hot=True),
        head("/health", health.probe),
        ping("GET", handler=health.ping, hot=True),
        ping("HEAD", handler=health.ping_worker, needs_store=False),
    ]


class _Kind(NamedTuple):
    """Queues, or topics."""

    noun: str
    metadata: Any
    attributes: Collection[str]
    shown: Any
    share: type[Struct]
    query: type[Struct]
    page: type[Struct]
    messages: type[Struct]


_QUEUES = _Kind(
    "queue",
    metadata.Metadata,
    metadata.ATTRIBUTES,
    metadata.ShownMetadata,
    docs.ShareIn,
    queries.QueueListQuery,
    docs.QueuePageOut,
    queries.MessageListQuery,
)
_TOPICS = _Kind(
    "topic",
    metadata.TopicMetadata,
    metadata.TOPIC_ATTRIBUTES,
    metadata.ShownTopicMetadata,
    docs.TopicShareIn,
    queries.TopicListQuery,
    docs.TopicPageOut,
    queries.TopicMessagesQuery,
)

_MISSING = (errors.NotFound,)
_get_message = partial(
    get,
    query=queries.ShownMessageQuery,
    answers={200: docs.MessageOut},
    problems=_MISSING,
    is_raw=True,
)


def _routes_of(
    kind: _Kind, of: QueueHandlers | TopicHandlers, limits: rules.Limits, *, hot: bool
) -> Iterator[ApiRoute]:
    """Yields those of queues, or topics, themselves."""
    every, noun = f"{kind.noun}s", kind.noun.capitalize()
    one = f"/v2/{every}/{{{kind.noun}}}"
    new, changes = metadata_bodies(noun, kind.metadata, kind.attributes, limits)
    page, shown, made = {200: kind.page}, {200: kind.shown}, {201: None, 204: None}
    full = (errors.QuotaExceeded,)
    refused = (errors.NotFound, errors.Conflict, errors.UnsupportedMediaType)
    stats = partial(
        get, query=queries.StatsQuery, answers={200: docs.StatsOut}, problems=_MISSING, hot=hot
    )
    everything = Body(docs.PurgeIn, "A purge", default=docs.PurgeIn(docs.PURGEABLE))
    share = partial(post, body=Body(kind.share, "A share"), answers={200: SignedUrl})
    yield get(f"/v2/{every}", of.list, f"{every}:get_all", query=kind.query, answers=page, hot=hot)
    yield put(one, of.create, f"{every}:create", body=new, answers=made, problems=full, hot=hot)
    yield get(one, of.get, f"{every}:get", answers=shown, hot=hot)
    yield patch(one, of.patch, f"{every}:update", body=changes, answers=shown, problems=refused)
    yield delete(one, of.delete, f"{every}:delete", hot=hot)
    yield stats(f"{one}/stats", of.stats, f"{every}:stats")
    yield post(f"{one}/purge", of.purge, f"{every}:purge", body=everything)
    yield share(f"{one}/share", of.share, f"{every}:share", needs_store=False)


def _routes_of_messages(
    kind: _Kind, post_many: Handler, list_many: Handler, limits: rules.Limits, *, hot: bool
) -> Iterator[ApiRoute]:
    """Yields those of all messages of a queue, or topic."""
    many = f"/v2/{kind.noun}s/{{{kind.noun}}}/messages"
    document = Annotated[docs.PostIn, about(required=["messages"])]
    yield post(
        many,
        post_many,
        "messages:create",
        body=Body(
            document,
            "Messages",
            limits.max_messages_post_size,
            raw_query=docs.MessageFieldsIn,
        ),
        answers={201: docs.PostedOut},
        headers={"Idempotency-Replayed": "`true`: this answer was given before."},
        problems=(errors.IdempotencyKeyReused, errors.QuotaExceeded, errors.PostRefused),
        hot=True,
    )
    page = partial(get, query=kind.messages, answers={200: docs.MessagePageOut}, hot=hot)
    yield page(many, list_many, "messages:get_all", problems=_MISSING)


def _message_routes(messages: MessageHandlers) -> list[ApiRoute]:
    many = "/v2/queues/{queue}/messages"
    one = f"{many}/{{message}}"
    delete_many = partial(delete, query=queries.MessageDeleteQuery, hot=True)
    popped, claimed = {200: docs.PoppedOut, 204: None}, (errors.ClaimedByOther,)
    query, held = queries.HolderQuery, (errors.MessageClaimed,)
    return [
        delete_many(
            many, messages.delete_many, "messages:delete_all", answers=popped, problems=claimed
        ),
        _get_message(one, messages.get, "messages:get", hot=True),
        delete(one, messages.delete, "messages:delete", query=query, problems=held, hot=True),
    ]


def _claim_routes(claims: ClaimHandlers) -> list[ApiRoute]:
    claim = Body(docs.ClaimIn, "A claim", default=docs.ClaimIn())
    renewal = Body(docs.RenewalIn, "A claim")
    part = Body(docs.ReleaseIn, "A release", default=docs.ReleaseIn())
    renewed, released = {204: None, 200: docs.RenewedOut}, {200: docs.ReleasedOut}
    every = "/v2/queues/{queue}/claims"
    one = f"{every}/{{claim}}"
    query, new = queries.ClaimQuery, {201: docs.ClaimedOut, 204: None}
    show = partial(get, query=queries.MessageQuery, answers={200: docs.ClaimOut}, hot=True)
    renew, release = (partial(each, problems=_MISSING, hot=True) for each in (patch, post))
    return [
        post(every, claims.create, "claims:create", query=query, body=claim, answers=new, hot=True),
        show(one, claims.get, "claims:get", problems=_MISSING),
        renew(one, claims.update, "claims:update", body=renewal, answers=renewed),
        release(f"{one}/release", claims.release, "claims:delete", body=part, answers=released),
        delete(one, claims.delete, "claims:delete", hot=True),
    ]


def _topic_message_routes(topics: TopicHandlers) -> list[ApiRoute]:
    one = "/v2/topics/{topic}/messages/{message}"
    return [
        _get_message(one, topics.get_message, "messages:get"),
        delete(one, topics.delete_message, "messages:delete"),
    ]
