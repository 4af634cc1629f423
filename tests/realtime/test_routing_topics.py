# SPDX-License-Identifier: Apache-2.0
"""The contract of subscriptions to topics of the routing service, on every engine."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from tests.realtime.conftest import EngineHarness, started
from tests.support import servers
from zaqar_redis.keyspace.routing_keys import RoutingKeys


def subscribers(backend: EngineHarness, topic: str) -> set[str]:
    return backend.run(backend.engine.topics.subscribers(topic))


def topics(backend: EngineHarness, client: str) -> set[str]:
    return backend.run(backend.engine.topics.topics(client))


def stored(server: servers.RedisServer) -> list[bytes]:
    """Returns the keys of subscriptions."""
    with server.client() as client:
        return [key for key in client.keys("zr:{routing}*") if not key.endswith(b":nodes")]


@pytest.fixture(scope="module", params=[servers.REDIS, servers.VALKEY])
def server(request: pytest.FixtureRequest) -> Iterator[servers.RedisServer]:
    with servers.redis_server(request.param) as running:
        yield running


@pytest.fixture
def lease_backend(runner: asyncio.Runner, server: servers.RedisServer) -> Iterator[EngineHarness]:
    """An engine that outlives its nodes: those in memory need no lease."""
    with server.client() as client:
        client.flushall()
    with started(runner, server.uri) as harness:
        yield harness


def test_both_sides_know_a_subscription_and_forget_it(backend: EngineHarness) -> None:
    store = backend.engine.topics
    for _ in range(2):
        backend.run(store.subscribe("p/a", "1", "node", 60))
    backend.run(store.subscribe("p/a:é", "1", "node", 60))
    backend.run(store.subscribe("p/a", "2", "other", 60))
    assert subscribers(backend, "p/a") == {"1", "2"}
    assert topics(backend, "1") == {"p/a", "p/a:é"}
    for _ in range(2):
        backend.run(store.unsubscribe("p/a", "1", "node"))
    assert subscribers(backend, "p/a") == {"2"}
    assert topics(backend, "1") == {"p/a:é"}
    assert topics(backend, "3") == subscribers(backend, "p/b") == set()


def test_last_unsubscription_leaves_only_the_lease(
    lease_backend: EngineHarness, server: servers.RedisServer
) -> None:
    store = lease_backend.engine.topics
    lease_backend.run(store.subscribe("p/a", "1", "node", 60))
    assert len(stored(server)) == 3
    lease_backend.run(store.unsubscribe("p/a", "1", "node"))
    assert stored(server) == []


def test_subscriptions_of_a_node_whose_lease_ended_are_removed_and_no_others(
    lease_backend: EngineHarness, server: servers.RedisServer
) -> None:
    store = lease_backend.engine.topics
    for node in ("dead", "alive"):
        for client in range(3):
            is_known = lease_backend.run(store.subscribe("p/a", f"{node}-{client}", node, 60))
            assert is_known == (client > 0)
    lease_backend.clock.tick(40)
    assert lease_backend.run(store.renew("alive", 60))
    lease_backend.run(store.expire())
    assert len(subscribers(lease_backend, "p/a")) == 6
    lease_backend.clock.tick(40)
    lease_backend.run(store.expire())
    assert subscribers(lease_backend, "p/a") == {f"alive-{client}" for client in range(3)}
    assert topics(lease_backend, "dead-1") == set()
    with server.client() as client:
        assert not client.exists(RoutingKeys(node="dead").node)
    assert not lease_backend.run(store.renew("dead", 60))


def test_forgotten_node_leaves_nothing(
    lease_backend: EngineHarness, server: servers.RedisServer
) -> None:
    store = lease_backend.engine.topics
    for client in range(250):
        lease_backend.run(store.subscribe("p/a", str(client), "node", 60))
    for _ in range(2):
        lease_backend.run(store.forget("node"))
    assert stored(server) == []
    assert not lease_backend.run(store.renew("node", 60))


def test_node_that_renews_its_lease_while_it_is_removed_keeps_its_later_subscriptions(
    lease_backend: EngineHarness,
) -> None:
    store = lease_backend.engine.topics

    async def scenario() -> None:
        for client in range(50):
            await store.subscribe("p/a", str(client), "node", 60)
        lease_backend.clock.tick(61)
        removing = asyncio.create_task(store.expire())
        await asyncio.sleep(random.uniform(0, 0.003))
        assert not await store.renew("node", 60)
        for client in range(50):  # as a node does whose lease had ended
            await store.subscribe("p/a", str(client), "node", 60)
        await removing

    for _ in range(5):
        lease_backend.run(scenario())
        assert subscribers(lease_backend, "p/a") == {str(client) for client in range(50)}
        lease_backend.run(store.forget("node"))


async def test_concurrent_changes_never_leave_the_two_sides_apart(
    lease_backend: EngineHarness,
) -> None:
    """Torn writes, and a set that is emptied while somebody is added to it."""
    store, chance = lease_backend.engine.topics, random.Random(7)

    async def change() -> None:
        topic, client = f"p/{chance.randrange(3)}", str(chance.randrange(5))
        node = f"node-{int(client) % 2}"
        if chance.random() < 0.5:
            await store.subscribe(topic, client, node, 60)
        else:
            await store.unsubscribe(topic, client, node)

    for _ in range(40):
        await asyncio.gather(*(change() for _ in range(50)))
        of_topics = {
            (topic, client)
            for topic in ("p/0", "p/1", "p/2")
            for client in await store.subscribers(topic)
        }
        of_clients = {
            (topic, str(client)) for client in range(5) for topic in await store.topics(str(client))
        }
        assert of_topics == of_clients
