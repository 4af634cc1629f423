# SPDX-License-Identifier: Apache-2.0
"""/v2/topics and its sub-resources, except subscriptions.

A topic is stored as a queue, `rules.topic` of its name: the handlers of queues and messages
answer for it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from zaqar_redis import rules
from zaqar_redis.api import documents
from zaqar_redis.api.exchange import DONE, Answer, Request
from zaqar_redis.api.queries import MessageQuery, StatsQuery, TopicListQuery, TopicMessagesQuery
from zaqar_redis.api.rest.messages import MessageHandlers
from zaqar_redis.api.rest.queues import QueueHandlers
from zaqar_redis.api.schemas import PostIn, PurgeIn, ShareIn
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.service.messages import MessageService
from zaqar_redis.service.queues import QueueService


class TopicHandlers(ComposedVerbs):
    def __init__(
        self,
        queue_handlers: QueueHandlers,
        message_handlers: MessageHandlers,
        queues: QueueService,
        messages: MessageService,
    ) -> None:
        self._queue_handlers = queue_handlers
        self._message_handlers = message_handlers
        self._queues = queues
        self._messages = messages

    @verb
    def list(self, request: Request[TopicListQuery, None]) -> Steps[Answer]:
        """Lists the project's topics, by name."""
        query = request.query
        page = yield self._queues.list(
            request.project,
            f"{rules.TOPIC_PREFIX}{query.marker or ''}",
            query.limit,
            query.name or "",
            query.filters,
            topics=True,
        )
        shown = [self._queues.shown(topic.name, topic.metadata) for topic in page.items]
        marker = page.marker.removeprefix(rules.TOPIC_PREFIX)
        links = documents.next_link(request.path, query, marker)
        return Answer(documents.topic_page(page, shown if query.detailed else None, links))

    def create(self, request: Request[None, dict[str, Any]], topic: str) -> Awaitable[Answer]:
        """Creates a topic.

        A topic that exists is left as it is, metadata included; the metadata given must be
        valid all the same.
        """
        return self._queue_handlers.create(request, rules.topic(topic))

    def get(self, request: Request[None, None], topic: str) -> Awaitable[Answer]:
        """Shows a topic's metadata.

        A topic that does not exist shows the defaults alone.
        """
        return self._queue_handlers.get(request, rules.topic(topic))

    def patch(self, request: Request[None, Any], topic: str) -> Awaitable[Answer]:
        """Changes a topic's metadata, as that of a queue."""
        return self._queue_handlers.patch(request, rules.topic(topic))

    def delete(self, request: Request[None, None], topic: str) -> Awaitable[Answer]:
        """Deletes a topic with its messages and subscriptions."""
        return self._queue_handlers.delete(request, rules.topic(topic))

    def stats(self, request: Request[StatsQuery, None], topic: str) -> Awaitable[Answer]:
        """Counts the messages in a topic's history."""
        return self._queue_handlers.stats(request, rules.topic(topic))

    def purge(self, request: Request[None, PurgeIn], topic: str) -> Awaitable[Answer]:
        """Empties a topic.

        Deletes all messages and all subscriptions; keeps the topic.
        """
        return self._queue_handlers.purge(request, rules.topic(topic))

    def share(self, request: Request[None, ShareIn], topic: str) -> Awaitable[Answer]:
        """Creates a pre-signed URL, as for a queue."""
        return self._queue_handlers.share(request, rules.topic(topic))

    def publish(self, request: Request[None, PostIn], topic: str) -> Awaitable[Answer]:
        """Publishes messages.

        All of them or none, in this order.  Creates the topic if it does not exist.  With another
        content type than JSON the request's body is that of one message, as in a queue.
        """
        return self._message_handlers.post(request, rules.topic(topic))

    def history(self, request: Request[TopicMessagesQuery, None], topic: str) -> Awaitable[Answer]:
        """Lists a topic's messages, oldest or newest first, or gets some by their ids.

        Whoever has published them.  With `ids`: those of them that exist; all other parameters
        are ignored.
        """
        return self._message_handlers.history(request, rules.topic(topic))

    def get_message(
        self, request: Request[MessageQuery, None], topic: str, message: str
    ) -> Awaitable[Answer]:
        """Gets a message of a topic, or its body alone, as of a queue."""
        return self._message_handlers.get(request, rules.topic(topic), message)

    @verb
    def delete_message(
        self, request: Request[None, None], topic: str, message: str
    ) -> Steps[Answer]:
        """Deletes a message from a topic's history."""
        yield self._messages.delete(request.project, rules.topic(topic), message, None)
        return DONE
