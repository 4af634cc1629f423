# SPDX-License-Identifier: Apache-2.0
"""Messages on their way to sockets that have subscribed to their queue."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from msgspec import UNSET, Raw

from zaqar_redis import message_fields
from zaqar_redis.api import documents
from zaqar_redis.api.websocket import frames
from zaqar_redis.api.websocket.schemas import PushOut
from zaqar_redis.records import Message, PostedBatch
from zaqar_redis.service.messages import MessageService
from zaqar_redis.service.subscription_filters import LazyBody, SubscriptionFilter
from zaqar_redis.service.subscriptions import SubscriptionService

LOG = logging.getLogger(__name__)


class PushTarget(Protocol):
    def push(self, frame: bytes) -> None: ...


class PushEncoding(NamedTuple):
    """How a subscriber gets messages."""

    #: MessagePack, not JSON
    binary: bool
    with_attributes: bool


@dataclass(eq=False, slots=True)
class SocketSubscription:
    """A subscription whose subscriber is a socket."""

    project: str
    queue: str
    id: str
    target: PushTarget
    encoding: PushEncoding
    #: which messages it wants; None: all
    filter: SubscriptionFilter | None


@dataclass(eq=False, slots=True)
class QueueSubscribers:
    """The subscriptions of this process to one queue.

    Each message is decoded once for all filters, and encoded once for all with the same encoding.
    """

    messages: MessageService
    project: str
    queue: str
    subscriptions: set[SocketSubscription] = field(default_factory=set)

    def deliver(self, batch: PostedBatch | None) -> None:
        """Pushes messages.  None: some were missed; they are in the queue all the same."""
        if batch is None:
            return
        try:
            messages = self.messages.decrypted(self.project, batch.messages)
        except Exception:  # only this queue fails: others share the connection
            LOG.exception("messages of a queue cannot be read", extra={"action": "unreadable"})
            return
        attributed = any(each.attributes for each in messages)
        bodies = [LazyBody(each.body) for each in messages]
        encoded: dict[PushEncoding, dict[int, bytes]] = {}
        for subscription in tuple(self.subscriptions):
            binary, asked = subscription.encoding
            encoding = PushEncoding(binary, asked and attributed)
            frames_of = encoded.setdefault(encoding, {})
            wanted = subscription.filter
            for number, message in enumerate(messages):
                if wanted and not wanted.matches(message.attributes, bodies[number]):
                    continue
                if number not in frames_of:
                    frames_of[number] = self._frame(message, encoding)
                subscription.target.push(frames_of[number])

    def _frame(self, message: Message, encoding: PushEncoding) -> bytes:
        push = PushOut(
            message.id,
            Raw(message.body),
            message.ttl,
            self.queue,
            message.delay or UNSET,
            attributes=documents.attribute_values(
                message.attributes if encoding.with_attributes else None
            ),
            **message_fields.shown(message.attributes or {}),
        )
        return frames.encode(push, encoding.binary)


class QueuePushes:
    """The sockets of this process that have subscribed to queues."""

    def __init__(self, subscriptions: SubscriptionService, messages: MessageService) -> None:
        self._service = subscriptions
        self._messages = messages
        self._queues: dict[tuple[str, str], QueueSubscribers] = {}

    async def add(self, subscription: SocketSubscription) -> None:
        """Pushes what is posted from now on.  Idempotent; restores a watch that was lost.

        Raises BadRequest for a store that cannot push, and StoreUnavailable: the caller removes
        it then, or calls this again.
        """
        live = self._service.live
        project, queue = key = subscription.project, subscription.queue
        subscribers = self._queues.get(key)
        if subscribers is None:
            subscribers = self._queues[key] = QueueSubscribers(self._messages, project, queue)
        subscribers.subscriptions.add(subscription)
        await live.watch(project, queue, subscribers.deliver)

    def remove(self, subscription: SocketSubscription) -> None:
        """Pushes no more.  Idempotent."""
        key = subscription.project, subscription.queue
        subscribers = self._queues.get(key)
        if subscribers is None:
            return
        subscribers.subscriptions.discard(subscription)
        if not subscribers.subscriptions:
            del self._queues[key]
            self._service.live.unwatch(*key, subscribers.deliver)
