# SPDX-License-Identifier: Apache-2.0
"""The routing service: nodes that share a bus in one process, and nodes on one Redis."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.realtime.crowd import until
from tests.realtime.peers import JsonPeer, ProtobufPeer, ProtocolPeer, field
from tests.realtime.sdk_client import KEY, SECRET
from tests.realtime.test_server_api import call_api
from tests.realtime.test_session import RecordingTransport, token
from tests.support import servers
from tests.support.command_line import CommandLine
from zaqar_redis import clock, errors, rules
from zaqar_redis.auth import tokens
from zaqar_redis.realtime.buses.memory import MemoryBus, MemoryHub
from zaqar_redis.realtime.engines.memory import MemoryEngine
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.project_context import ProjectContext
from zaqar_redis.realtime.protocol import wire
from zaqar_redis.realtime.protocol.codec import JSON
from zaqar_redis.realtime.session.context import SessionSettings
from zaqar_redis.realtime.session.namespaces import ChannelOptions, Namespaces
from zaqar_redis.realtime.session.session import Session
from zaqar_redis.service import routing
from zaqar_redis.service.routing import RoutingService


class LocalNode:
    """A node in this process, and its routing service."""

    def __init__(self, hub: MemoryHub, settings: SessionSettings) -> None:
        secret = tokens.TokenSettings(
            hmac_secret_key="a secret that is long enough for HS256", any_project=True
        )
        self.node = Node(
            MemoryEngine(clock.process, MemoryBus(hub)),
            settings,
            Namespaces(ChannelOptions(), {}),
            tokens.TokenVerifier(secret),
        )
        self.routing = RoutingService(self.node.engine, "default")

    async def client(self, user: str, **claims: Any) -> LocalClient:
        client = LocalClient(self.node)
        connect = wire.Command(id=1, connect=wire.ConnectRequest(token=token(user, **claims)))
        await client.session.handle(connect)
        assert client.session.connected
        client.transport.replies.clear()
        return client


class LocalClient:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.transport = RecordingTransport()
        self.session = Session(ProjectContext(node, "default"), JSON, self.transport)
        node.sessions.add(self.session)

    @property
    def id(self) -> str:
        return self.session.client

    async def leave(self) -> None:
        self.node.remove(self.session)
        await self.session.end()

    def received(self) -> list[Any]:
        """Returns the payloads of messages."""
        replies, self.transport.replies = self.transport.replies, []
        return [reply["push"]["message"]["data"]["payload"] for reply in replies]


class Nodes(NamedTuple):
    a: LocalNode
    b: LocalNode


@pytest.fixture
def nodes(runner: asyncio.Runner) -> Iterator[Nodes]:
    hub = MemoryHub()
    found = Nodes(*(LocalNode(hub, SessionSettings(channel_limit=2)) for _ in range(2)))
    for each in found:
        runner.run(each.node.start())
    yield found
    for each in found:
        runner.run(each.node.close())


async def test_message_reaches_all_connections_of_its_user_on_both_nodes_and_is_counted(
    nodes: Nodes,
) -> None:
    here, there = await nodes.a.client("ann"), await nodes.b.client("ann")
    other = await nodes.b.client("bob")
    elsewhere = await nodes.b.client("ann", project="other")
    assert nodes.a.routing.send_to_user("ann", "greeting", {"n": 1}) == 2
    assert here.received() == there.received() == [{"n": 1}]
    assert other.received() == elsewhere.received() == []
    assert nodes.b.routing.send_to_user("cid", "greeting", 1) == 0
    await there.leave()
    assert nodes.a.routing.send_to_user("ann", "greeting", 2) == 1


async def test_message_to_a_role_reaches_those_whose_token_lists_it(nodes: Nodes) -> None:
    one = await nodes.a.client("ann", roles=["editor", "admin"])
    two = await nodes.b.client("bob", roles=["editor"])
    three = await nodes.b.client("cid")
    assert nodes.b.routing.send_to_role("editor", "news", 1) == 2
    assert nodes.a.routing.send_to_role("admin", "news", 2) == 1
    assert (one.received(), two.received(), three.received()) == ([1, 2], [1], [])
    await one.leave()
    await two.leave()
    assert nodes.a.routing.send_to_role("editor", "news", 3) == 0


async def test_broadcast_reaches_all_of_the_project_and_a_connection_only_itself(
    nodes: Nodes,
) -> None:
    one, two = await nodes.a.client("ann"), await nodes.b.client("")
    other = await nodes.b.client("ann", project="other")
    assert nodes.a.routing.broadcast("news", [1]) == 2
    assert nodes.a.routing.send_to_connection(two.id, "news", 2) is True
    assert nodes.a.routing.send_to_connection(other.id, "news", 3) is False
    assert (one.received(), two.received(), other.received()) == ([[1]], [[1], 2], [])


async def test_topic_reaches_its_subscribers_and_their_subscriptions_end_with_them(
    nodes: Nodes,
) -> None:
    one, two = await nodes.a.client("ann"), await nodes.b.client("bob")
    for client in (one, two, one):
        await nodes.a.routing.subscribe(client.id, "order:1")
    assert nodes.a.routing.publish_to_topic("order:1", "paid", 1) == 2
    assert nodes.a.routing.publish_to_topic("order:10", "paid", 1) == 0
    await nodes.b.routing.unsubscribe(one.id, "order:1")
    assert nodes.a.routing.publish_to_topic("order:1", "paid", 2) == 1
    assert (one.received(), two.received()) == ([1], [1, 2])
    await two.leave()
    assert nodes.a.routing.publish_to_topic("order:1", "paid", 3) == 0
    await asyncio.sleep(0)
    assert await nodes.a.routing.topic_subscribers("order:1") == set()


async def test_connection_has_as_many_topics_as_channel_limit_allows(nodes: Nodes) -> None:
    one = await nodes.a.client("ann")
    for topic in ("1", "2", "3"):
        await nodes.a.routing.subscribe(one.id, topic)
    await asyncio.sleep(0)
    assert await nodes.a.routing.connection_topics(one.id) == {"1", "2"}
    await nodes.a.routing.unsubscribe(one.id)
    await asyncio.sleep(0)
    assert await nodes.a.routing.connection_topics(one.id) == set()


@pytest.mark.parametrize("target", ["", "x" * (rules.ROUTING_NAME_MAX + 1)])
def test_target_that_nobody_can_have_is_refused_with_its_field_and_limit(
    nodes: Nodes, target: str
) -> None:
    for send in (
        nodes.a.routing.send_to_user,
        nodes.a.routing.send_to_role,
        nodes.a.routing.send_to_connection,
        nodes.a.routing.publish_to_topic,
    ):
        with pytest.raises(errors.BadRequest, match="target: 1 to 255 characters"):
            send(target, "news", 1)


def test_message_that_is_none_is_refused_with_its_field() -> None:
    service = routing.RoutingService(MemoryEngine(clock.process), "default")
    for target, type, payload, named in (
        (5, "t", 1, "target"),
        ("ann", 5, 1, "type"),
        ("ann", "t", object(), "payload"),
    ):
        with pytest.raises(errors.BadRequest, match=f"^{named}: "):
            service.send_to_user(target, type, payload)  # type: ignore[arg-type]  # as callers may


async def test_message_has_type_payload_and_the_time_it_was_sent(nodes: Nodes) -> None:
    client = await nodes.b.client("ann")
    before = clock.process()
    nodes.a.routing.send_to_user("ann", "greeting", {"text": "é"})
    ((reply,),) = ([*client.transport.replies],)
    data = reply["push"]["message"]["data"]
    assert (data["type"], data["payload"]) == ("greeting", {"text": "é"})
    assert before <= data["timestamp"] <= clock.process()


# Nodes on one Redis

OPTIONS: dict[str, dict[str, object]] = {
    "channels": {"token_hmac_secret_key": SECRET, "api_key": KEY, "presence_ttl": 2}
}


def send(service: servers.RunningService, route: str, target: str, payload: Any) -> Any:
    body = {"route": route, "target": target, "type": "t", "payload": payload}
    answer = call_api(service, "send", body)
    assert answer.status_code == 200
    return answer.json()


@pytest.mark.parametrize("peer", [JsonPeer, ProtobufPeer])
def test_all_routes_reach_clients_of_any_worker_by_the_server_api(
    service: servers.RunningService, peer: type[ProtocolPeer]
) -> None:
    user = uuid.uuid4().hex
    with peer(service, user, roles=[f"role-{user}"]) as client:
        topic = {"client": client.identity.client, "topic": f"topic-{user}"}
        assert call_api(service, "topic_subscribe", topic).json() == {"result": {}}
        for route, target in (
            ("user", user),
            ("role", f"role-{user}"),
            ("connection", client.identity.client),
            ("topic", f"topic-{user}"),
            ("broadcast", ""),
        ):
            assert send(service, route, target, {"by": route}) == {"result": {}}
            received = message_of(client, client.next())
            assert (received["type"], received["payload"]) == ("t", {"by": route})
        stored = {"result": {"clients": [client.identity.client]}}
        servers.wait_for(
            lambda: call_api(service, "topic_subscribers", topic).json() == stored,
            "the subscription to be stored",
        )


def message_of(client: ProtocolPeer, reply: bytes) -> Any:
    """Returns the data of a message push, which must be all there is in the reply."""
    if isinstance(client, JsonPeer):
        found = json.loads(reply)
        data = found["push"]["message"]["data"]
        assert found == {"push": {"message": {"data": data}}}
        return data
    data = reply[reply.index(b"{") :]
    assert reply == field(4, field(8, field(1, data)))
    return json.loads(data)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"route": "everybody", "target": "x"}, "there are user, role, broadcast, connection"),
        ({"route": "user"}, "target: 1 to 255 characters, not 0"),
        ({"route": "broadcast", "target": "x"}, "a broadcast goes to all"),
        ({"route": "topic", "target": "x" * 256}, "not 256"),
        ({"target": "x"}, "route: it is missing"),
        ({"route": "user", "target": 5}, "got `int` - at `$.target`"),
        ({"route": "user", "target": "x"}, "type: 1 to 255 characters, not 0"),
        ({"route": "user", "target": "x", "type": "t"}, "payload: it is missing"),
        ({"route": "broadcast", "type": "t", "payload": 1, "timestamp": -1}, "timestamp: "),
    ],
)
def test_bad_send_is_refused_with_the_field_and_what_it_may_be(
    service: servers.RunningService, body: dict[str, Any], text: str
) -> None:
    error = call_api(service, "send", body).json()["error"]
    assert error["code"] == 107
    assert text in error["message"]


def test_node_has_keys_only_while_connections_have_topics_and_check_knows_them() -> None:
    def stored(redis: servers.RedisServer) -> list[bytes]:
        with redis.client() as client:
            return [*client.keys("zr:{routing}*")]

    shell = CommandLine()
    with servers.redis_server() as redis, servers.service(redis.uri, options=OPTIONS) as running:
        with JsonPeer(running, "ann") as client:
            assert stored(redis) == []
            topic = {"client": client.identity.client, "topic": "news"}
            call_api(running, "topic_subscribe", topic)
            servers.wait_for(lambda: len(stored(redis)) == 4, "three sets and the lease")
            shell.done("check", "--storage", redis.uri)  # fails when it finds something
        servers.wait_for(lambda: stored(redis) == [], "the keys to be removed")


async def test_python_process_sends_to_nodes_on_several_stores() -> None:
    with servers.redis_server() as one, servers.redis_server() as other:
        uris = [one.uri, other.uri]
        channels = OPTIONS["channels"] | {"uris": ", ".join(uris)}
        with (
            servers.service(one.uri, options=OPTIONS | {"channels": channels}) as running,
            JsonPeer(running, "ann") as client,
        ):
            async with routing.connected(uris) as service:
                service.send_to_user("ann", "t", 1)
                message = message_of(client, await asyncio.to_thread(client.next))
                assert message["payload"] == 1


async def test_python_process_without_clients_sends_and_reads_topics() -> None:
    with (
        servers.redis_server() as redis,
        servers.service(redis.uri, options=OPTIONS) as running,
        JsonPeer(running, "ann") as client,
    ):
        async with routing.connected(redis.uri, bus="") as service:
            await service.subscribe(client.identity.client, "news")
            assert service.publish_to_topic("news", "t", 1) is None
            assert service.send_to_user("ann", "t", 2) is None
            assert service.send_to_connection(client.identity.client, "t", 3) is None
            received = [message_of(client, await asyncio.to_thread(client.next)) for _ in range(3)]
            assert [each["payload"] for each in received] == [1, 2, 3]

            async def is_stored() -> bool:
                return await service.topic_subscribers("news") == {client.identity.client}

            await until(is_stored, "the subscription to be stored")
            assert await service.connection_topics(client.identity.client) == {"news"}
