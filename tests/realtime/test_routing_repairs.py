# SPDX-License-Identifier: Apache-2.0
"""Topics of the routing service when the store was away, or refuses what a node asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from tests.realtime.crowd import until
from tests.realtime.test_routing import LocalClient
from tests.realtime.test_session import token
from tests.support import servers
from tests.support.clock import ManualClock
from tests.support.stores import PATIENT
from zaqar_redis import clock, errors
from zaqar_redis.auth import tokens
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.routing_keys import RoutingKeys
from zaqar_redis.keyspace.script import Call, RedisCommand
from zaqar_redis.realtime.buses.memory import MemoryBus
from zaqar_redis.realtime.engines.redis import RedisEngine
from zaqar_redis.realtime.engines.topics import RedisTopics
from zaqar_redis.realtime.node import routing as node_routing
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.protocol import wire
from zaqar_redis.realtime.session.context import SessionSettings
from zaqar_redis.realtime.session.namespaces import ChannelOptions, Namespaces
from zaqar_redis.service.routing import RoutingService

SECRET = "a secret that is long enough for HS256"
#: So many that clients leave while their subscriptions are written.
CLIENTS = 400


@asynccontextmanager
async def node_on(server: servers.RedisServer) -> AsyncIterator[Node]:
    """A node whose bus needs no Redis, and which repairs the store each second."""
    node = Node(
        RedisEngine([keyspace.client(server.uri, PATIENT)], clock.store, MemoryBus()),
        SessionSettings(presence_ttl=2),
        Namespaces(ChannelOptions(), {}),
        tokens.TokenVerifier(tokens.TokenSettings(hmac_secret_key=SECRET)),
    )
    await node.start()
    try:
        yield node
    finally:
        await node.close()


async def connect(node: Node, user: str) -> LocalClient:
    client = LocalClient(node)
    command = wire.Command(id=1, connect=wire.ConnectRequest(token=token(user)))
    await client.session.handle(command)
    return client


async def test_clients_that_leave_while_the_store_is_repaired_stay_unsubscribed(
    server: servers.RedisServer,
) -> None:
    async with node_on(server) as node:
        routing = RoutingService(node.engine, "default")
        clients = [await connect(node, str(number)) for number in range(CLIENTS)]
        await until(is_up(node), "the store")
        server.stop()
        await until(is_down(node), "the loss of the store")
        for client in clients:
            await routing.subscribe(client.id, "news")
        server.start()

        async def is_being_repaired() -> bool:
            return await is_up(node)() and bool(await routing.topic_subscribers("news"))

        await until(is_being_repaired, "the first subscription")
        stays, *others = clients
        for client in others:
            node.remove(client.session)
        await until_renewed_twice(node, server)
        assert await routing.topic_subscribers("news") == {stays.id}


async def test_lease_is_renewed_again_after_the_store_has_refused_it(
    server: servers.RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with node_on(server) as node:
        routing = RoutingService(node.engine, "default")
        client = await connect(node, "ann")
        await routing.subscribe(client.id, "news")
        with server.client() as redis:
            redis.set(RoutingKeys().nodes, "not a set of nodes")

            async def is_refused() -> bool:
                return "WRONGTYPE" in caplog.text

            await until(is_refused, "the refusal in the log")
            redis.flushall()
            await until_renewed_twice(node, server)
        assert await routing.topic_subscribers("news") == {client.id}


async def test_clients_that_leave_while_the_store_is_away_are_removed_however_many_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_routing, "_UNSAVED_MAX", 5)
    with servers.redis_server(fsync="always") as server:
        async with node_on(server) as node:
            routing = RoutingService(node.engine, "default")
            clients = [await connect(node, str(number)) for number in range(12)]
            for client in clients:
                await routing.subscribe(client.id, "news")

            async def stored() -> set[str]:
                return await routing.topic_subscribers("news")

            async def are_all_stored() -> bool:
                return len(await stored()) == len(clients)

            await until(are_all_stored, "the subscriptions")
            server.stop()
            await until(is_down(node), "the loss of the store")
            stays, *others = clients
            for client in others:
                node.remove(client.session)
            await asyncio.sleep(3)  # the node tries to repair it meanwhile
            server.start()

            async def is_repaired() -> bool:
                return await is_up(node)() and await stored() == {stays.id}

            await until(is_repaired, "the others to be removed")


async def test_node_that_subscribes_while_others_remove_it_keeps_its_lease(
    server: servers.RedisServer,
) -> None:
    async with keyspace.connected(server.uri, PATIENT) as client:
        now = ManualClock()
        own = RedisTopics(client, now)
        assert not await own.subscribe("p/news", "ann", "node", 60)
        assert await own.subscribe("p/old", "ann", "node", 60)
        now.tick(61)

        async def come_back() -> None:
            assert not await own.renew("node", 60)
            assert await own.subscribe("p/news", "ann", "node", 60)

        interrupted = InterruptedClient(client, "lease_end", come_back)
        await RedisTopics(cast(AsyncClient, interrupted), now).expire()
        assert await client.command("ZSCORE", RoutingKeys().nodes, "node") is not None
        assert await own.subscribers("p/news") == {"ann"}
        now.tick(61)
        await own.expire()
        assert await client.command("KEYS", "zr:{routing}*") == []


class InterruptedClient:
    """A client that does something else before it calls a script."""

    def __init__(
        self, client: AsyncClient, script: str, before: Callable[[], Awaitable[None]]
    ) -> None:
        self._client = client
        self._script = script
        self._before = before
        self.command = client.command

    async def call(self, call: RedisCommand) -> Any:
        if isinstance(call, Call) and call.script.name == self._script:
            await self._before()
        return await self._client.call(call)


def is_up(node: Node) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        try:
            await node.engine.ping()
        except errors.Unavailable:
            return False
        return True

    return ask


def is_down(node: Node) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        return not await is_up(node)()

    return ask


async def until_renewed_twice(node: Node, server: servers.RedisServer) -> None:
    """Then everything that the node had begun to write before is written."""
    ends: set[float] = set()

    async def has_three_ends() -> bool:
        with server.client() as redis:
            if (end := redis.zscore(RoutingKeys().nodes, node.id)) is not None:
                ends.add(end)
        return len(ends) > 2

    await until(has_three_ends, "the lease to be renewed")
