# SPDX-License-Identifier: Apache-2.0
"""The rows of the table of routes that are about topics."""

from __future__ import annotations

from collections.abc import Iterator

from zaqar_redis import errors, rules
from zaqar_redis.api import queries
from zaqar_redis.api import schemas as docs
from zaqar_redis.api.bodies import metadata_bodies
from zaqar_redis.api.rest.topics import TopicHandlers
from zaqar_redis.api.routes import (
    ApiRoute,
    delete,
    get,
    patch,
    post_messages,
    purge,
    put,
    share,
)


def topic_routes(topics: TopicHandlers, limits: rules.Limits) -> Iterator[ApiRoute]:
    """Yields the routes of topics."""
    metadata, changes = metadata_bodies("Topic", docs.TopicMetadata, docs.TOPIC_ATTRIBUTES, limits)
    shown, missing = {200: docs.ShownTopicMetadata}, (errors.NotFound,)
    refused = (errors.NotFound, errors.Conflict, errors.UnsupportedMediaType)
    topic = "/v2/topics/{topic}"
    message = f"{topic}/messages/{{message}}"
    yield get(
        "/v2/topics",
        topics.list,
        "topics:get_all",
        query=queries.TopicListQuery,
        answers={200: docs.TopicPageOut},
    )
    yield put(
        topic,
        topics.create,
        "topics:create",
        body=metadata,
        answers={201: None, 204: None},
        problems=(errors.QuotaExceeded,),
    )
    yield get(topic, topics.get, "topics:get", answers=shown)
    yield patch(topic, topics.patch, "topics:update", body=changes, answers=shown, problems=refused)
    yield delete(topic, topics.delete, "topics:delete")
    yield get(
        f"{topic}/stats",
        topics.stats,
        "topics:stats",
        query=queries.StatsQuery,
        answers={200: docs.StatsOut},
        problems=missing,
    )
    yield purge(topic, topics.purge, "topics:purge")
    yield share(topic, topics.share, "topics:share", docs.TopicShareIn)
    yield post_messages(topic, topics.publish, limits)
    yield get(
        f"{topic}/messages",
        topics.history,
        "messages:get_all",
        query=queries.TopicMessagesQuery,
        answers={200: docs.MessagePageOut},
        problems=missing,
    )
    yield get(
        message,
        topics.get_message,
        "messages:get",
        query=queries.MessageQuery,
        answers={200: docs.MessageOut},
        problems=missing,
    )
    yield delete(message, topics.delete_message, "messages:delete")
