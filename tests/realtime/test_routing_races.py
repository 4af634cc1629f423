# SPDX-License-Identifier: Apache-2.0
"""Races of the routing service, between two nodes on one Redis: each is a process.

Some are those that the design BOU-85 names.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import NamedTuple

import pytest
import redis

from tests.realtime.crowd import until
from tests.realtime.routed_client import NodeApi, RoutedClient
from tests.realtime.sdk_client import KEY, SECRET
from tests.support import servers
from zaqar_redis.keyspace.routing_keys import RoutingKeys

OPTIONS: dict[str, dict[str, object]] = {
    "channels": {"token_hmac_secret_key": SECRET, "api_key": KEY, "presence_ttl": 2}
}


class TwoNodes(NamedTuple):
    redis: servers.RedisServer
    a: servers.RunningService
    b: servers.RunningService


@pytest.fixture(scope="module")
def nodes() -> Iterator[TwoNodes]:
    with (
        servers.redis_server() as server,
        servers.service(server.uri, options=OPTIONS) as a,
        servers.service(server.uri, options=OPTIONS) as b,
    ):
        yield TwoNodes(server, a, b)


@contextlib.asynccontextmanager
async def apis(nodes: TwoNodes) -> AsyncIterator[tuple[NodeApi, NodeApi]]:
    async with NodeApi(nodes.a) as a, NodeApi(nodes.b) as b:
        yield a, b


def both_sides(client: redis.Redis) -> tuple[set[tuple[bytes, bytes]], set[tuple[bytes, bytes]]]:
    """Returns the subscriptions (topic and client) as topics and as clients have them, at once."""
    script = """
        local found = {}
        for i, key in ipairs(redis.call('KEYS', ARGV[1])) do
            found[i] = {key, redis.call('SMEMBERS', key)}
        end
        return found
    """
    read = client.eval(
        f"local function all(pattern) ARGV[1] = pattern {script} end "
        "return {all('zr:{routing}:topic:*'), all('zr:{routing}:client:*')}",
        0,
        "",
    )
    by_topic, by_client = (
        {(key.split(b":")[-1], member) for key, members in side for member in members}
        for side in read
    )
    return (
        {(topic.replace(b"%2F", b"/"), each) for topic, each in by_topic},
        {(topic, each) for each, topic in by_client},
    )


async def test_both_sides_of_subscriptions_agree_at_any_time_also_when_a_node_is_killed(
    nodes: TwoNodes,
) -> None:
    """Race 1: a torn write of two sets; and what a dead node leaves is removed."""
    chance = random.Random(5)

    async def change(api: NodeApi, client: RoutedClient) -> None:
        act = api.subscribe if chance.random() < 0.6 else api.unsubscribe
        await act(client, f"torn-{chance.randrange(4)}")

    async def replaced() -> bool:
        return await asyncio.to_thread(nodes.b.answers)

    async with contextlib.AsyncExitStack() as stack:
        api, _ = await stack.enter_async_context(apis(nodes))
        here = [await stack.enter_async_context(RoutedClient(nodes.a, f"a{n}")) for n in range(3)]
        there = [await stack.enter_async_context(RoutedClient(nodes.b, f"b{n}")) for n in range(3)]
        with nodes.redis.client() as store:
            seen = 0
            for step in range(60):
                if step == 40:
                    (worker,) = nodes.b.workers()
                    os.kill(worker, signal.SIGKILL)
                await asyncio.gather(*(change(api, chance.choice(here + there)) for _ in range(10)))
                by_topic, by_client = both_sides(store)
                assert by_topic == by_client
                seen = max(seen, len(by_topic))
            assert seen > 5
            dead = {client.id.encode() for client in there}

            async def is_clean() -> bool:
                return not dead & {client for _, client in both_sides(store)[0]}

            await until(is_clean, "the subscriptions of the dead node to be removed")
            await until(replaced, "another worker")


async def test_subscriber_that_comes_while_the_last_one_leaves_stays(nodes: TwoNodes) -> None:
    """Race 2: a set that is found empty and deleted while somebody is added."""
    async with (
        apis(nodes) as (a, b),
        RoutedClient(nodes.a, "ann") as ann,
        RoutedClient(nodes.b, "bob") as bob,
    ):
        for number in range(30):
            topic = f"last-{number}"
            await a.subscribe(ann, topic)
            await asyncio.gather(b.unsubscribe(ann, topic), a.subscribe(bob, topic))
            await until(partial(is_only, a, topic, bob), "bob alone")
            await a.send("topic", topic, number)
            await until(partial(has, bob, number), "the message")
            await a.unsubscribe(bob, topic)
        with nodes.redis.client() as store:

            async def is_empty() -> bool:
                return not store.keys("zr:{routing}:topic:*last-*")

            await until(is_empty, "the sets to be deleted")


async def is_only(api: NodeApi, topic: str, client: RoutedClient) -> bool:
    return await api.subscribers(topic) == {client.id}


async def has(client: RoutedClient, payload: object) -> bool:
    return payload in client.received


async def test_subscribe_and_unsubscribe_of_one_pair_leave_delivery_and_store_in_agreement(
    nodes: TwoNodes,
) -> None:
    """Race 3: the later of two changes that meet wins, and both sides know it."""
    async with apis(nodes) as (a, b), RoutedClient(nodes.b, "ann") as ann:
        for number in range(40):
            changes = [a.subscribe(ann, "pair"), b.unsubscribe(ann, "pair")]
            random.shuffle(changes)
            await asyncio.gather(*changes)
            await a.send("topic", "pair", number)
            await a.send("connection", ann.id, ["after", number])
            await until(partial(has, ann, ["after", number]), "the marker")
            delivered = number in ann.received

            async def agrees(delivered: bool = delivered) -> bool:
                return (ann.id in await a.subscribers("pair")) == delivered

            await until(agrees, f"the store to agree with delivery: {delivered}")


async def test_nodes_whose_subscription_was_lost_come_back_with_exactly_one(
    nodes: TwoNodes,
) -> None:
    """Races 4 and 5: a double subscription, and one that is lost and made anew."""
    async with (
        apis(nodes) as (a, _),
        RoutedClient(nodes.a, "ann") as ann,
        RoutedClient(nodes.b, "bob") as bob,
    ):
        with nodes.redis.client() as store:
            number = 0
            for _ in range(4):
                store.client_kill_filter(_type="pubsub")
                for _ in range(5):  # some are lost
                    number += 1
                    await a.send("broadcast", "", number)

                async def is_back() -> bool:
                    ((_, count),) = store.pubsub_numsub("zr:nodes")
                    return bool(count == 2)

                await until(is_back, "both nodes to listen again")
                for _ in range(20):
                    number += 1
                    assert await a.send("broadcast", "", number)
                for client in (ann, bob):
                    await until(partial(has, client, number), "all")
        for client in (ann, bob):
            assert client.received == sorted(set(client.received))
            assert len(client.received) >= 80


async def test_client_of_a_node_that_just_started_misses_nothing(nodes: TwoNodes) -> None:
    """Race 6: a node accepts sockets only when its subscription is live."""
    done, port, sent = threading.Event(), servers.free_port(), list[int]()

    def start() -> None:
        with servers.service(nodes.redis.uri, options=OPTIONS, port=port):
            done.wait(60)

    async with apis(nodes) as (a, _):
        late = servers.RunningService(nodes.a.process, port, nodes.a.log)
        starting = asyncio.create_task(asyncio.to_thread(start))
        client = RoutedClient(late, "ann")
        while True:
            sent.append(len(sent))
            await a.send("broadcast", "", sent[-1])
            try:
                await client.__aenter__()
                break
            except OSError:
                assert not starting.done() or starting.exception() is None
        first = len(sent)
        for number in range(first, first + 20):
            await a.send("broadcast", "", number)
        await until(lambda: has(client, first + 19), "the last message")
        assert client.received[-20:] == list(range(first, first + 20))
        await client.__aexit__(None, None, None)
        done.set()
        await starting


async def test_paused_node_whose_subscriptions_were_removed_has_them_again(nodes: TwoNodes) -> None:
    async with apis(nodes) as (a, _), RoutedClient(nodes.b, "ann") as ann:
        await a.subscribe(ann, "paused")
        await until(lambda: is_only(a, "paused", ann), "the subscription")
        (worker,) = nodes.b.workers()
        os.kill(worker, signal.SIGSTOP)
        try:

            async def is_removed() -> bool:
                return not await a.subscribers("paused")

            await until(is_removed, "the lease to end")
        finally:
            os.kill(worker, signal.SIGCONT)
        await until(lambda: is_only(a, "paused", ann), "the subscription to be back")
        with nodes.redis.client() as store:
            await until(lambda: store.zcard(RoutingKeys().nodes), "the lease to be back")
        await a.send("topic", "paused", "x")
        await until(lambda: has(ann, "x"), "the message")
