# SPDX-License-Identifier: Apache-2.0
"""The routing service on a node: which of its connections get a message, and their topics.

The node knows the topics of its own connections, and delivers by them.  The store knows those of
all nodes: it is written behind, in the order of the changes, and repaired when it was away.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Raw

from zaqar_redis import errors
from zaqar_redis.metrics.definitions import ROUTED
from zaqar_redis.realtime.node import control
from zaqar_redis.realtime.protocol import wire
from zaqar_redis.realtime.protocol.codec import Codec
from zaqar_redis.realtime.session.session import Session

if TYPE_CHECKING:
    from zaqar_redis.realtime.node.node import Node

LOG = logging.getLogger(__name__)

#: Changes that are remembered while the store is away, some megabytes; beyond them the node writes
#: all of its subscriptions anew.
_UNSAVED_MAX = 20_000
_NOBODY: Collection[Session] = ()


class NodeRouting:
    """Delivers envelopes to the connections of one node, and keeps their topics."""

    def __init__(self, node: Node) -> None:
        self._node = node
        #: topic -> connections of this node
        self._subscribers: defaultdict[str, set[Session]] = defaultdict(set)
        #: client -> its topics
        self._topics: defaultdict[str, set[str]] = defaultdict(set)
        #: topics and clients of which the store could not take a change
        self._unsaved: set[tuple[str, str]] = set()
        #: there were more of them
        self._is_outdated = False
        #: whether it has begun: a node without topics needs none
        self._has_lease = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._renew(), name="topics")

    async def close(self) -> None:
        """Removes what the store has of this node."""
        if self._task is not None:
            self._task.cancel()
        self._subscribers.clear()
        self._topics.clear()
        try:
            if self._has_lease:
                await self._node.engine.topics.forget(self._node.id)
        except errors.Unavailable:
            pass  # the lease ends
        except Exception:  # the node closes all the same
            LOG.exception("topics could not be removed", extra={"action": "topics_repair"})

    def deliver(self, envelope: control.Envelope) -> int:
        """Sends a message to the connections that it is for.  Returns how many these are."""
        push = wire.Push(message=wire.MessagePush(Raw(envelope.message)))
        encoded: dict[Codec, bytes] = {}
        sent = 0
        for session in tuple(self._receivers(envelope)):
            if not session.connected:
                continue
            if session.codec not in encoded:
                encoded[session.codec] = session.codec.encode(wire.Reply(push=push))
            session.send_encoded(encoded[session.codec])
            sent += 1
        ROUTED.add(envelope.route, by=sent)
        return sent

    def _receivers(self, envelope: control.Envelope) -> Collection[Session]:
        sessions, project, target = self._node.sessions, envelope.project, envelope.target
        match envelope.route:
            case "user":
                return sessions.of_user(project, target)
            case "role":
                return sessions.of_role(project, target)
            case "broadcast":
                return sessions.of_project(project)
            case "connection":
                found = sessions.of_client(project, target)
                return (found,) if found is not None else _NOBODY
            case "topic":
                return self._subscribers.get(control.project_key(project, target), _NOBODY)
        return _NOBODY  # of a node with a later version

    def change(self, message: control.ControlTopic) -> None:
        """Subscribes a connection of this node to a topic, or unsubscribes it."""
        session = self._node.sessions.of_client(message.project, message.client)
        if session is None:
            return
        topics = self._topics[session.client]
        topic = control.project_key(message.project, message.topic)
        if not message.subscribes:
            self._unsubscribe(session, [topic] if message.topic else list(topics))
        elif topic not in topics and self._has_room(session, message.topic):
            topics.add(topic)
            self._subscribers[topic].add(session)
            self._save(topic, session.client)

    def _has_room(self, session: Session, topic: str) -> bool:
        limit = self._node.settings.channel_limit
        if len(self._topics[session.client]) < limit:
            return True
        LOG.warning(
            "client %s is not subscribed to topic %.300r: it has %d topics, as many as [channels] "
            "channel_limit allows",
            session.client,
            topic,
            limit,
            extra={"action": "subscribe_refused"},
        )
        return False

    def leave(self, session: Session) -> None:
        """Unsubscribes a connection that has ended from all topics.  Idempotent."""
        self._unsubscribe(session, list(self._topics.get(session.client, ())))
        self._topics.pop(session.client, None)

    def _unsubscribe(self, session: Session, topics: list[str]) -> None:
        for topic in topics:
            if topic not in self._topics[session.client]:
                continue
            self._topics[session.client].remove(topic)
            subscribers = self._subscribers[topic]
            subscribers.discard(session)
            if not subscribers:
                del self._subscribers[topic]
            self._save(topic, session.client)

    def _save(self, topic: str, client: str) -> None:
        self._node.spawn(self._write(topic, client))

    async def _write(self, topic: str, client: str) -> None:
        """Writes what is so now: the change may be an old one that the store could not take."""
        topics = self._node.engine.topics
        try:
            if topic not in self._topics.get(client, ()):
                await topics.unsubscribe(topic, client, self._node.id)
                return
            ttl = self._node.settings.presence_ttl
            is_known = await topics.subscribe(topic, client, self._node.id, ttl)
            if self._has_lease and not is_known:
                self._save_all()
            self._has_lease = True
        except Exception as error:
            if len(self._unsaved) < _UNSAVED_MAX:
                self._unsaved.add((topic, client))
            else:
                self._is_outdated = True
            if not isinstance(error, errors.Unavailable):
                raise

    async def _renew(self) -> None:
        """Repairs the store again and again, whatever it answers."""
        while True:
            try:
                await self._repair()
            except errors.Unavailable:
                pass  # the next time
            except Exception:
                LOG.exception(
                    "the store's topics could not be repaired", extra={"action": "topics_repair"}
                )
            await asyncio.sleep(self._node.settings.presence_interval)

    async def _repair(self) -> None:
        """Renews the lease, repairs the store, and removes what dead nodes have left there."""
        topics = self._node.engine.topics
        if self._is_outdated or (self._has_lease and not (self._subscribers or self._unsaved)):
            await self._begin_anew()
        elif self._has_lease:
            ttl = self._node.settings.presence_ttl
            if not await topics.renew(self._node.id, ttl):
                self._save_all()
        for topic, client in tuple(self._unsaved):
            self._unsaved.discard((topic, client))
            await self._write(topic, client)
        await topics.expire()

    async def _begin_anew(self) -> None:
        """Removes what the store has of this node, and writes what the node has by then."""
        unsaved, self._is_outdated = frozenset(self._unsaved), False
        try:
            await self._node.engine.topics.forget(self._node.id)
        except Exception:
            self._is_outdated = True
            raise
        self._has_lease = False
        self._unsaved -= unsaved
        self._save_all()

    def _save_all(self) -> None:
        for client, topics in self._topics.items():
            for topic in topics:
                self._save(topic, client)
