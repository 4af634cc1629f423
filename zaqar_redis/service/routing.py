# SPDX-License-Identifier: Apache-2.0
"""Messages to users, roles, connections and topics, wherever their connections are.

A message goes over the bus to all nodes, and each delivers it to its own connections: at most
once, without a history.  Clients get it as a server-side message: an object with *type*,
*payload* and *timestamp*.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Raw, Struct

from zaqar_redis import clock, errors, rules
from zaqar_redis.auth.tokens import TokenSettings, TokenVerifier
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.realtime.bus import BusSettings
from zaqar_redis.realtime.engine import Engine
from zaqar_redis.realtime.engines.redis import RedisEngine
from zaqar_redis.realtime.load import load_bus
from zaqar_redis.realtime.node import control
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.session.context import SessionSettings
from zaqar_redis.realtime.session.namespaces import ChannelOptions, Namespaces


class RoutedMessage(Struct):
    """What a client gets."""

    #: what kind of message it is, for the application
    type: str
    #: any JSON
    payload: Raw
    #: when it was sent, in milliseconds since 1970
    timestamp: int


class RoutingService:
    """Sends to the connections of one project.

    Sending never waits, and never fails because of the bus: what that cannot take is dropped and
    counted.  On a bus within one process the methods return how many connections got the message;
    else None, as no node knows that of the others.  They raise BadRequest for a target that nobody
    can have, a type that is no text of 1 to 255 characters, and a payload that is no JSON.
    """

    def __init__(self, engine: Engine, project: str) -> None:
        self._engine = engine
        self._project = project

    @property
    def live(self) -> bool:
        """Whether messages pass at the moment, as far as this process knows."""
        return self._engine.events.live

    def send_to_user(self, user: str, type: str, payload: Any) -> int | None:
        """Sends to all connections of a user."""
        return self.route("user", user, _message(type, payload))

    def send_to_role(self, role: str, type: str, payload: Any) -> int | None:
        """Sends to all connections whose token had the role."""
        return self.route("role", role, _message(type, payload))

    def broadcast(self, type: str, payload: Any) -> int | None:
        """Sends to all connections of the project."""
        return self.route("broadcast", "", _message(type, payload))

    def send_to_connection(self, client: str, type: str, payload: Any) -> bool | None:
        """Sends to the connection of a client id; returns whether it is there, or None."""
        sent = self.route("connection", client, _message(type, payload))
        return None if sent is None else sent > 0

    def publish_to_topic(self, topic: str, type: str, payload: Any) -> int | None:
        """Sends to all connections that are subscribed to a topic."""
        return self.route("topic", topic, _message(type, payload))

    def route(self, route: str, target: str, message: RoutedMessage) -> int | None:
        """Sends by one of `control.ROUTES`; *target* is empty for a broadcast."""
        if route not in control.ROUTES:
            problem = f"{route!r} is none" if route else "it is missing"
            raise errors.BadRequest(why=f"route: {problem}; there are {', '.join(control.ROUTES)}")
        if route == "broadcast":
            if target:
                raise errors.BadRequest(why="target: a broadcast goes to all, and has none")
        else:
            _check(target, "target")
        _check_message(message)
        encoded = msgspec.json.encode(message)
        return self._engine.events.route(
            control.pack(control.Envelope(self._project, route, target, encoded))
        )

    # Topics

    async def subscribe(self, client: str, topic: str) -> None:
        """Subscribes the connection of a client id to a topic; does nothing when it is not there.

        Messages that this process sends afterwards reach it.  Raises BadRequest and
        Unavailable.
        """
        _check(topic, "topic")
        await self._change(client, topic, subscribes=True)

    async def unsubscribe(self, client: str, topic: str = "") -> None:
        """Unsubscribes the connection of a client id from a topic; empty: from all.

        Raises BadRequest and Unavailable.
        """
        await self._change(client, topic, subscribes=False)

    async def _change(self, client: str, topic: str, *, subscribes: bool) -> None:
        _check(client, "client")
        change = control.ControlTopic(self._project, client, topic, subscribes)
        await self._engine.events.publish_routing(control.pack(change))

    async def topic_subscribers(self, topic: str) -> set[str]:
        """Returns the ids of the clients, of all nodes, that are subscribed to a topic.

        Raises BadRequest and Unavailable.
        """
        _check(topic, "topic")
        return await self._engine.topics.subscribers(control.project_key(self._project, topic))

    async def connection_topics(self, client: str) -> set[str]:
        """Returns the topics that a client is subscribed to.  Raises Unavailable."""
        prefix = control.project_key(self._project, "")
        found = await self._engine.topics.topics(client)
        return {topic.removeprefix(prefix) for topic in found if topic.startswith(prefix)}


def _message(type: str, payload: Any) -> RoutedMessage:
    try:
        encoded = msgspec.json.encode(payload)
    except (TypeError, ValueError, RecursionError) as error:
        raise errors.BadRequest(why=f"payload: it is no JSON: {error}") from error
    return RoutedMessage(type, Raw(encoded), clock.process())


def _check_message(message: RoutedMessage) -> None:
    """Raises BadRequest."""
    _check(message.type, "type")
    if not bytes(message.payload):
        raise errors.BadRequest(why="payload: it is missing; it may be any JSON, also null")
    if message.timestamp < 0:
        raise errors.BadRequest(why="timestamp: milliseconds since 1970, not less than 0")


def _check(name: str, field: str) -> None:
    """Raises BadRequest."""
    if not isinstance(name, str):  # of a caller in Python
        raise errors.BadRequest(why=f"{field}: a text, not {type(name).__name__}")
    if not 0 < len(name) <= rules.ROUTING_NAME_MAX:
        raise errors.BadRequest(
            why=f"{field}: 1 to {rules.ROUTING_NAME_MAX} characters, not {len(name)}"
        )


@asynccontextmanager
async def connected(
    uri: str | Sequence[str],
    project: str = "default",
    bus: str | Sequence[str] = (),
    settings: BusSettings = BusSettings(),  # noqa: B008  it is frozen
) -> AsyncIterator[RoutingService]:
    """Connects a process without clients of its own to the nodes over the Redis at *uri*.

    *uri*: the store of queues, as text; or, where ``[channels] uris`` is set, the list of these.
    *bus*: URIs of their bus, if it is not that Redis: what their option ``[channels] bus`` says, as
    a text with commas or one by one.  Raises BadConfiguration.
    """
    buses = [each.strip() for each in bus.split(",")] if isinstance(bus, str) else bus
    found = load_bus(buses, settings) if bus else None
    uris = [uri] if isinstance(uri, str) else uri
    clients = [keyspace.client(each, BatchSettings()) for each in uris]
    engine = RedisEngine(clients, clock.store, found)
    node = Node(
        engine,
        SessionSettings(),
        Namespaces(ChannelOptions(), {}),
        TokenVerifier(TokenSettings()),
        accepts_clients=False,
    )
    try:
        await node.start()
        yield RoutingService(engine, project)
    finally:
        await node.close()
