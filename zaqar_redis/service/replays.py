# SPDX-License-Identifier: Apache-2.0
"""Replays: what a subscription was not delivered, or the history of its topic, comes once more."""

from __future__ import annotations

from zaqar_redis import errors, rules
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.records import Message, MessageListing, Page, Record, Subscription
from zaqar_redis.service import subscription_options
from zaqar_redis.service.messages import MessageService
from zaqar_redis.service.subscription_filters import LazyBody
from zaqar_redis.service.subscription_options import SubscriptionOptions
from zaqar_redis.service.subscriptions import SubscriptionService
from zaqar_redis.storage.contract import Messages

#: Messages of a history that one request reads: half a second or so of the service's time.
HISTORY_MAX = 10_000
#: Messages that are read, and stored as deliveries, at once: twelve megabytes of the largest.
_PAGE = 50


class Replay(Record, frozen=True):
    #: deliveries that are to be made again
    replayed: int
    #: message behind which the history goes on; empty: there is no more
    marker: str = ""


class ReplayService(ComposedVerbs):
    def __init__(
        self, store: Messages, messages: MessageService, subscriptions: SubscriptionService
    ) -> None:
        self._store = store
        self._messages = messages
        self._subscriptions = subscriptions

    @verb
    def failed(self, project: str, queue: str, id: str) -> Steps[Replay]:
        """Has deliveries tried again that were given up.

        Raises what `SubscriptionService.get_reachable` does.
        """
        yield self._subscriptions.get_reachable(project, queue, id)
        return Replay((yield self._subscriptions.deliveries.replay(project, queue, id)))

    @verb
    def history(
        self, project: str, topic: str, id: str, *, after: str | None, limit: int | None
    ) -> Steps[Replay]:
        """Has the history of a topic delivered, behind a message, as far as the filter wants it.

        *limit*: of messages that are read.  Messages that wait to be delivered are not doubled.
        Raises BadRequest for a queue, and what `SubscriptionService.get_reachable` does.
        """
        if not rules.is_topic(topic):
            raise errors.BadRequest(why='"history": only topics have one.')
        if after is not None and not rules.is_message_id(after):
            raise errors.BadRequest(why='"after" must be the id of a message.')
        left = HISTORY_MAX if limit is None else limit
        rules.within("limit", left, 1, HISTORY_MAX)
        found: Subscription = yield self._subscriptions.get_reachable(project, topic, id)
        options = subscription_options.parse(found.options)
        count = 0
        while left:
            listing = MessageListing(
                min(left, _PAGE), after, include_claimed=True, include_delayed=True
            )
            page: Page[Message] = yield self._store.list(project, topic, listing)
            if wanted := self._wanted(project, page, options):
                count += yield self._subscriptions.deliveries.enqueue_messages(
                    project, topic, id, wanted
                )
            if len(page.items) < min(left, _PAGE):
                return Replay(count)
            after = page.marker
            left -= len(page.items)
        return Replay(count, after or "")

    def _wanted(
        self, project: str, page: Page[Message], options: SubscriptionOptions
    ) -> list[Message]:
        """Returns the messages, as they are stored, that the subscription wants."""
        if options.filter is None:
            return list(page.items)
        decrypted = self._messages.decrypted(project, page.items)
        return [
            stored
            for stored, message in zip(page.items, decrypted, strict=True)
            if options.filter.matches(message.attributes, LazyBody(message.body))
        ]
