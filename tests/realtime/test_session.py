# SPDX-License-Identifier: Apache-2.0
"""Channel sessions without a socket: commands in, replies and pushes out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jwt
import pytest

from tests.support import servers
from zaqar_redis import clock, errors
from zaqar_redis.auth import tokens
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.realtime.engine import HistoryFilter, HistoryOptions, Position
from zaqar_redis.realtime.engines.memory import MemoryEngine
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.project_context import ProjectContext
from zaqar_redis.realtime.protocol import codes, wire
from zaqar_redis.realtime.protocol.codec import JSON
from zaqar_redis.realtime.protocol.codes import DisconnectCode
from zaqar_redis.realtime.session import recovery
from zaqar_redis.realtime.session.context import SessionSettings
from zaqar_redis.realtime.session.namespaces import ChannelOptions, Namespaces
from zaqar_redis.realtime.session.session import Session

SECRET = "a secret that is long enough for HS256"
#: All permissions, and a history.
OPEN = ChannelOptions(
    presence=True,
    join_leave=True,
    force_push_join_leave=True,
    history_size=10,
    history_ttl=300,
    force_recovery=True,
    allow_subscribe_for_client=True,
    allow_publish_for_subscriber=True,
    allow_presence_for_subscriber=True,
    allow_history_for_subscriber=True,
    allow_user_limited_channels=True,
)


class RecordingTransport:
    """Records the replies of a session, and its close."""

    def __init__(self) -> None:
        self.replies: list[dict[str, Any]] = []
        self.closed: DisconnectCode | None = None

    def send(self, reply: bytes) -> None:
        self.replies.append(json.loads(reply))

    def close(self, close: DisconnectCode) -> None:
        self.closed = close


class SessionClient:
    """The client end of a session."""

    def __init__(self, harness: NodeHarness) -> None:
        self._harness = harness
        self.out = RecordingTransport()
        self.session = Session(harness.scope, JSON, self.out)
        harness.node.sessions.add(self.session)

    def send(self, *commands: dict[str, Any] | str) -> list[dict[str, Any]]:
        """Sends commands; returns the replies and pushes that follow."""
        lines = [each if isinstance(each, str) else json.dumps(each) for each in commands]
        self._harness.run(self.session.receive("\n".join(lines).encode()))
        return self.received()

    def received(self) -> list[dict[str, Any]]:
        self._harness.run(asyncio.sleep(0))
        received, self.out.replies = self.out.replies, []
        return received

    def ends(self) -> list[int]:
        """Returns the codes with which subscriptions were ended."""
        pushes = [each["push"] for each in self.received()]
        return [push["unsubscribe"]["code"] for push in pushes if "unsubscribe" in push]

    def request(self, **command: Any) -> dict[str, Any]:
        """Sends a command; returns its reply and drops pushes around it."""
        (reply,) = [each for each in self.send({"id": 7} | command) if each.get("id") == 7]
        return reply

    def tick_session(self) -> None:
        """Runs the session's periodic work."""

        async def tick() -> None:
            self.session.tick()

        self._harness.run(tick())

    @property
    def code(self) -> int | None:
        return self.out.closed.code if self.out.closed else None


class NodeHarness:
    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner

    def build(
        self, settings: SessionSettings, options: ChannelOptions, **named: ChannelOptions
    ) -> None:
        verifier = tokens.TokenVerifier(
            tokens.TokenSettings(hmac_secret_key=SECRET, any_project=True)
        )
        namespaces = Namespaces(options, named)
        self.node = Node(MemoryEngine(clock.process), settings, namespaces, verifier)
        self.scope = ProjectContext(self.node, "default")
        self.run(self.node.start())

    def run(self, work: Any) -> Any:
        return self._runner.run(work)

    def run_and_wait(self, happens: Callable[[], None], seconds: float = 0.05) -> None:
        """Calls *happens* in the event loop, and waits *seconds* for its effects."""

        async def work() -> None:
            happens()
            await asyncio.sleep(seconds)

        self.run(work())

    def connected(self, user: str = "ann", **claims: Any) -> SessionClient:
        client = SessionClient(self)
        reply = client.request(connect={"token": token(user, **claims)})
        assert "connect" in reply
        client.received()
        return client

    def close_code(self, given: str) -> int | None:
        """Connects a client with a token; returns with which code it is closed, if it is."""
        client = SessionClient(self)
        replies = client.send({"id": 1, "connect": {"token": given}})
        assert (client.code is None) == any("connect" in each for each in replies)
        return client.code


def token(user: str = "ann", secret: str = SECRET, **claims: Any) -> str:
    return jwt.encode({"sub": user} | claims, secret, algorithm="HS256")


@contextlib.contextmanager
def node_harness(runner: asyncio.Runner, **named: ChannelOptions) -> Iterator[NodeHarness]:
    """*named*: its namespaces, beside the one of all other channels."""
    harness = NodeHarness(runner)
    harness.build(SessionSettings(), OPEN, **named)
    yield harness
    harness.run(harness.node.close())


@pytest.fixture
def harness(runner: asyncio.Runner) -> Iterator[NodeHarness]:
    small = ChannelOptions(history_size=2, history_ttl=60)
    with node_harness(runner, small=small, plain=ChannelOptions()) as started:
        yield started


class TwoSockets:
    """A quota of two sockets for each project."""

    def __init__(self) -> None:
        self.open: Counter[str] = Counter()

    def add_socket(self, project: str) -> None:
        if self.open[project] == 2:
            raise errors.QuotaExceeded(quota="sockets", project=project, limit=2, used=2, more=1)
        self.open[project] += 1

    def remove_socket(self, project: str) -> None:
        self.open[project] -= 1


def test_client_beyond_the_quota_of_sockets_is_disconnected(harness: NodeHarness) -> None:
    quota = harness.node.sessions.quota = TwoSockets()
    first, second = harness.connected(), harness.connected("bob")
    third = SessionClient(harness)
    third.send({"id": 1, "connect": {"token": token()}})
    assert third.out.closed
    assert third.out.closed.code == codes.CONNECTION_LIMIT.code
    for client in (third, third, first, first):
        harness.node.remove(client.session)
    assert quota.open == {"default": 1}
    harness.connected("cid")
    harness.node.remove(second.session)
    assert quota.open == {"default": 1}


def test_connect_reply_has_client_id_and_ping_interval(harness: NodeHarness) -> None:
    result = SessionClient(harness).request(connect={"token": token(), "data": {"any": [1]}})[
        "connect"
    ]
    assert len(result["client"]) == 36
    assert result["version"]
    assert (result["ping"], result["pong"]) == (25, True)
    assert "expires" not in result
    expiry = int(time.time()) + 100
    late = SessionClient(harness).request(connect={"token": token(exp=expiry)})["connect"]
    assert late["expires"]
    assert expiry - time.time() <= late["ttl"] <= 100


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        *(("", 3501), ("nonsense", 3501), ("[]", 3501), ("{}", 3501)),
        ('{"id": 1, "connect": {}}', 3501),
        ('{"id": 1, "subscribe": {"channel": "news"}}', 3501),
        *(('{"id": 1, "connect": {"token": 7}}', 3501), ('{"id": -1, "connect": {}}', 3501)),
        ('{"connect": {"token": "TOKEN"}}', 3501),
        ('{"id": 1, "connect": {"token": "TOKEN"}, "ping": {}}', 3501),
        ('{"id": 1, "connect": {"token": "no"}}', 3500),
        ('{"id": 1, "connect": {"token": "OTHER"}}', 3500),
        ('{"id": 1, "connect": {"token": "CHANNEL"}}', 3500),
    ],
)
def test_connection_without_valid_connect_command_is_closed(
    harness: NodeHarness, frame: str, code: int
) -> None:
    client = SessionClient(harness)
    text = frame.replace("TOKEN", token()).replace("OTHER", token(secret="x" * 32))
    assert client.send(text.replace("CHANNEL", token(channel="news"))) == []
    assert client.code == code


def test_connect_with_expired_token_replies_109_and_stays_unconnected(harness: NodeHarness) -> None:
    client = SessionClient(harness)
    reply = client.request(connect={"token": token(exp=1)})
    assert reply["error"]["code"] == 109
    assert client.code is None
    client.send({"id": 8, "connect": {"token": token()}})
    assert client.code == 3501


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"id": 2, "connect": {}}, 3501),
        ({"id": 0, "publish": {"channel": "news", "data": 1}}, 3501),
        ({}, 3501),
        ({"send": {"data": 1}}, 3508),
        ({"id": 2, "subscribe": {}}, 3501),
        ({"id": 2, "subscribe": {"channel": "news", "delta": "other"}}, 3501),
        ({"id": 2, "history": {}}, 3501),
    ],
)
def test_malformed_command_closes_the_connection(
    harness: NodeHarness, command: dict[str, Any], code: int
) -> None:
    client = harness.connected()
    other = harness.connected()
    client.send(command)
    assert client.code == code
    assert other.code is None


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"subscribe": {"channel": "x" * 256}}, 107),
        ({"subscribe": {"channel": "é"}}, 107),
        ({"subscribe": {"channel": "other:news"}}, 102),
        ({"subscribe": {"channel": "$news"}}, 103),
        ({"subscribe": {"channel": "talk#bob"}}, 103),
        ({"subscribe": {"channel": "small:news"}}, 103),
        ({"subscribe": {"channel": "news", "token": "no"}}, 103),
        ({"publish": {"channel": "elsewhere", "data": 1}}, 103),
        *(({"subscribe": {"channel": "news", "type": type}}, 103) for type in (1, 2, 3, 4, 99)),
        ({"presence": {"channel": "elsewhere"}}, 103),
        ({"presence_stats": {"channel": "elsewhere"}}, 103),
        ({"history": {"channel": "elsewhere"}}, 103),
        # A disabled feature is not available, whatever the permissions.
        ({"presence": {"channel": "small:news"}}, 108),
        ({"presence_stats": {"channel": "small:news"}}, 108),
        ({"history": {"channel": "plain:news"}}, 108),
        ({"publish": {"channel": "here"}}, 107),
        ({"subscribe": {"channel": "here"}}, 105),
        ({"history": {"channel": "here", "since": {"offset": 0}, "reverse": True}}, 107),
        ({"history": {"channel": "here", "since": {"offset": 1, "epoch": "other"}}}, 112),
        ({"rpc": {"method": "any"}}, 108),
        ({"ping": {}}, 108),
        ({"sub_refresh": {"channel": "elsewhere", "token": "x"}}, 103),
        ({"sub_refresh": {"channel": "here"}}, 107),
    ],
)
def test_refused_command_replies_error_and_keeps_the_connection(
    harness: NodeHarness, command: dict[str, Any], code: int
) -> None:
    client = harness.connected()
    client.request(subscribe={"channel": "here"})
    error = client.request(**command)["error"]
    assert error["code"] == code
    assert error["message"]
    assert client.code is None
    assert "unsubscribe" in client.request(unsubscribe={"channel": "anything"})


def test_channel_limit_of_a_connection_is_enforced(harness: NodeHarness) -> None:
    client = harness.connected()
    for number in range(128):
        assert "subscribe" in client.request(subscribe={"channel": f"c{number}"})
    assert client.request(subscribe={"channel": "one more"})["error"]["code"] == 106
    assert harness.close_code(token(channels=[f"c{n}" for n in range(129)])) == 3505


def test_publications_reach_all_subscribers_in_order(harness: NodeHarness) -> None:
    ann, bob = harness.connected(), harness.connected("bob", info={"name": "Bob"})
    for client in (ann, bob):
        client.request(subscribe={"channel": "news"})
    ann.received()
    for number in range(3):
        assert bob.request(publish={"channel": "news", "data": {"n": number}})["publish"] == {}
    pushes = [each["push"] for each in ann.received()]
    assert [push["pub"]["data"] for push in pushes] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert [push["pub"]["offset"] for push in pushes] == [1, 2, 3]
    assert {push["pub"]["info"]["user"] for push in pushes} == {"bob"}
    assert pushes[0]["pub"]["info"]["conn_info"] == {"name": "Bob"}


def test_join_and_leave_pushes_reach_the_joining_client_too(harness: NodeHarness) -> None:
    ann = harness.connected()
    first, second = ann.send({"id": 2, "subscribe": {"channel": "news"}})
    assert first["id"] == 2
    assert second["push"]["join"]["info"]["user"] == "ann"
    bob = harness.connected("bob")
    bob.request(subscribe={"channel": "news"})
    assert ann.received()[0]["push"]["join"]["info"]["user"] == "bob"
    harness.run(bob.session.end())
    assert ann.received()[0]["push"]["leave"]["info"]["user"] == "bob"
    present = ann.request(presence={"channel": "news"})["presence"]["presence"]
    assert [each["user"] for each in present.values()] == ["ann"]
    stats = ann.request(presence_stats={"channel": "news"})["presence_stats"]
    assert stats == {"num_clients": 1, "num_users": 1}


def publish(harness: NodeHarness, channel: str, *values: object) -> None:
    bob = harness.connected("bob")
    bob.request(subscribe={"channel": channel})
    for value in values:
        bob.request(publish={"channel": channel, "data": value})


@pytest.mark.parametrize(
    ("offset", "missed", "recovered"),
    [(20, 0, True), (17, 3, True), (10, 10, True), (9, 0, False), (0, 0, False), (25, 0, False)],
)
def test_missed_publications_are_recovered_or_reported_unrecovered(
    harness: NodeHarness, offset: int, missed: int, recovered: bool
) -> None:
    publish(harness, "news", *range(1, 21))
    ann = harness.connected()
    epoch = ann.request(subscribe={"channel": "news"})["subscribe"]["epoch"]
    ann.request(unsubscribe={"channel": "news"})
    again = {"channel": "news", "recover": True, "offset": offset, "epoch": epoch}
    result = ann.request(subscribe=again)["subscribe"]
    assert result["was_recovering"]
    assert result.get("recovered", False) == recovered
    found = [each["data"] for each in result.get("publications", [])]
    assert found == list(range(offset + 1, 21))[:missed]
    assert result["offset"] == (offset if recovered else 20)
    # In either case later publications arrive.
    publish(harness, "news", "next")
    pushed = [each["push"]["pub"] for each in ann.received() if "pub" in each.get("push", {})]
    assert [(each["data"], each["offset"]) for each in pushed] == [("next", 21)]


def test_publications_deliveries_and_recoveries_are_counted(harness: NodeHarness) -> None:
    def counts() -> list[float]:
        recoveries = dict(metrics.RECOVERIES.rows())
        outcomes = [recoveries[("recovered",)][0], recoveries[("lost",)][0]]
        return [metrics.PUBLICATIONS.total, metrics.DELIVERIES.total, *outcomes]

    before = counts()
    clients = [harness.connected(), harness.connected()]  # and the one that publishes
    for client in clients:
        client.request(subscribe={"channel": "news"})
    publish(harness, "news", 1, 2, 3)
    harness.run_and_wait(lambda: None)
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [3, 9, 0, 0]
    for offset in (2, 99):
        again = {"channel": "news", "recover": True, "offset": offset}
        harness.connected().request(subscribe=again)
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [3, 9, 1, 1]


def test_position_of_another_epoch_is_never_recovered(harness: NodeHarness) -> None:
    publish(harness, "news", 1, 2)
    ann = harness.connected()
    request = {"channel": "news", "recover": True, "offset": 1, "epoch": "other"}
    assert not ann.request(subscribe=request)["subscribe"].get("recovered", False)
    ann.request(unsubscribe={"channel": "news"})
    assert ann.request(subscribe=request | {"flag": 2})["error"]["code"] == 112
    assert "subscribe" in ann.request(subscribe={"channel": "news"})


def test_history_is_paged(harness: NodeHarness) -> None:
    publish(harness, "news", *range(1, 6))
    ann = harness.connected()
    epoch = ann.request(subscribe={"channel": "news"})["subscribe"]["epoch"]

    def found(**request: Any) -> list[int]:
        result = ann.request(history={"channel": "news", **request})["history"]
        assert (result["offset"], result["epoch"]) == (5, epoch)
        return [each["data"] for each in result["publications"]]

    assert found() == []
    assert found(limit=-1) == [1, 2, 3, 4, 5]
    assert found(limit=2, reverse=True) == [5, 4]
    assert found(limit=2, since={"offset": 2, "epoch": epoch}) == [3, 4]
    assert found(limit=-1, since={"offset": 3, "epoch": epoch}, reverse=True) == [2, 1]
    assert found(limit=-1, since={"offset": 9}) == []


def test_private_channel_needs_a_subscription_token(harness: NodeHarness) -> None:
    ann = harness.connected()
    opened = token("ann", channel="$news", info={"role": "x"})
    assert "subscribe" in ann.request(subscribe={"channel": "$news", "token": opened})
    assert "subscribe" in ann.request(subscribe={"channel": "talk#ann,bob"})
    expired = token("ann", channel="$late", exp=1)
    assert ann.request(subscribe={"channel": "$late", "token": expired})["error"]["code"] == 109
    ann.send({"id": 9, "subscribe": {"channel": "$b", "token": token("bob", channel="$b")}})
    assert ann.code == 3500


def test_token_subscriptions_are_in_the_connect_reply(harness: NodeHarness) -> None:
    harness.node.settings = harness.scope.settings = SessionSettings(user_personal_channel=True)
    client = SessionClient(harness)
    given = {"a": {"info": 1}, "b": {"override": {"join_leave": {"value": False}}}}
    reply = client.request(connect={"token": token(subs=given)})
    assert set(reply["connect"]["subs"]) == {"a", "b", "#ann"}
    joined = [each["push"]["channel"] for each in client.received() if "join" in each["push"]]
    assert joined == []  # joins before the reply are not pushed
    publish(harness, "a", "x")
    assert client.received()[-1]["push"]["pub"]["data"] == "x"


class SkewedClock:
    """A clock that runs ahead by a settable time, in seconds."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def skewed_clock(harness: NodeHarness, monkeypatch: pytest.MonkeyPatch) -> SkewedClock:
    skewed = SkewedClock()
    monkeypatch.setattr(harness.scope, "now", skewed)
    return skewed


def test_client_without_connect_command_is_closed_as_stale(
    harness: NodeHarness, skewed_clock: SkewedClock
) -> None:
    client = SessionClient(harness)
    skewed_clock.ahead = 11
    client.tick_session()
    assert client.code == 3502


def test_unanswered_ping_closes_the_connection(
    harness: NodeHarness, skewed_clock: SkewedClock
) -> None:
    client = harness.connected()
    skewed_clock.ahead = 26
    client.tick_session()
    assert client.received() == [{}]
    client.send("{}")
    skewed_clock.ahead += 10
    client.tick_session()
    assert client.code is None
    skewed_clock.ahead += 26
    client.tick_session()
    skewed_clock.ahead += 9
    client.tick_session()
    assert client.code == 3012


def test_connections_and_subscriptions_end_with_their_tokens(
    harness: NodeHarness, skewed_clock: SkewedClock
) -> None:
    expiry = int(time.time()) + 100
    ann, bob = harness.connected(exp=expiry), harness.connected("bob")
    bob.request(subscribe={"channel": "$n", "token": token("bob", channel="$n", exp=expiry)})
    renewed = token(exp=expiry + 1000)
    assert ann.request(refresh={"token": renewed})["refresh"]["ttl"] > 1000
    skewed_clock.ahead = 126
    for client in (ann, bob):
        client.tick_session()
    assert (ann.code, bob.code) == (None, None)
    ended = [each["push"]["unsubscribe"] for each in bob.received() if each.get("push")]
    assert [each["code"] for each in ended if each] == [2501]
    ann.send("{}")
    skewed_clock.ahead = 1200
    ann.tick_session()
    assert ann.code == 3005
    cid = harness.connected()
    cid.send({"id": 3, "refresh": {"token": token("bob")}})
    assert cid.code == 3500


def test_missing_offset_ends_subscription_at_next_publication(harness: NodeHarness) -> None:
    ann = harness.connected()
    ann.request(subscribe={"channel": "news"})
    publish(harness, "news", 1)
    ann.received()
    bus = harness.node.engine.events
    harness.run(bus.unsubscribe("default/news"))  # the next publication is lost
    send = harness.node.engine.history.publish
    payload = b"\x92\xc4\x012\x00"
    harness.run(send("default/news", payload, OPEN.history_options))
    harness.run(bus.subscribe("default/news"))
    harness.run(send("default/news", payload, OPEN.history_options))
    assert ann.ends() == [2500]
    assert ann.code is None


def test_repeated_offset_ends_subscription_as_insufficient_state(harness: NodeHarness) -> None:
    ann = harness.connected()
    subscribed = ann.request(subscribe={"channel": "news"})["subscribe"]
    publish(harness, "news", 1, 2, 3)
    ann.received()
    # Redis restarted from old data, and more was published since than was lost.
    again = Position(2, subscribed["epoch"])
    harness.run_and_wait(
        lambda: harness.node.on_publication("default/news", b"\x92\xc4\x012\x00", again)
    )
    assert ann.ends() == [2500]
    wanted = {"channel": "news", "recover": True, "offset": 3, "epoch": subscribed["epoch"]}
    result = ann.request(subscribe=wanted)["subscribe"]
    assert not result.get("recovered", False)
    assert result["epoch"] != subscribed["epoch"]


def test_position_check_reads_each_channel_history_once(harness: NodeHarness) -> None:
    members = [harness.connected() for _ in range(3)]
    for member in members:
        member.request(subscribe={"channel": "news"})
    publish(harness, "news", 1)
    history = harness.node.engine.history
    reads = []

    async def counted(channel: str, since: HistoryFilter, history_options: HistoryOptions) -> Any:
        reads.append(channel)
        return await read(channel, since, history_options)

    read, history.history = history.history, counted  # type: ignore[method-assign]  # counts calls
    bus = harness.node.engine.events
    harness.run(bus.unsubscribe("default/news"))
    harness.run(history.publish("default/news", b"\x92\xc4\x012\x00", OPEN.history_options))
    harness.run(bus.subscribe("default/news"))
    codes: list[list[int]] = [[] for _ in members]

    def have_ended() -> bool:
        harness.run(asyncio.sleep(0.01))
        for member, found in zip(members, codes, strict=True):
            ends = [each["push"].get("unsubscribe") for each in member.received()]
            found += [end["code"] for end in ends if end]
        return all(codes)

    began = time.monotonic()
    harness.run_and_wait(harness.node.on_gap, 0.5)
    assert reads == ["default/news"]
    servers.wait_for(have_ended, "the subscriptions to end")
    assert time.monotonic() - began >= 1  # time for pushes under way to arrive
    assert codes == [[2500]] * 3


def test_disconnect_during_store_outage_leaves_no_subscriptions(
    harness: NodeHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise errors.StoreUnavailable

    ann = harness.connected()
    for channel in ("a", "b", "c"):
        ann.request(subscribe={"channel": channel})
    monkeypatch.setattr(harness.node.engine.presence, "remove", fail)
    harness.run(ann.session.end())
    assert harness.node.counts() == {}


@pytest.mark.parametrize("wrong", [1, ["a"], {"a": 1}, True])
def test_token_with_non_string_user_or_project_is_invalid(harness: NodeHarness, wrong: Any) -> None:
    for claim in ("sub", "project"):
        assert harness.close_code(_token_with(**{claim: wrong})) == 3500


def test_token_with_null_user_and_project_is_anonymous_in_default_project(
    harness: NodeHarness,
) -> None:
    client = SessionClient(harness)
    assert "connect" in client.request(connect={"token": _token_with(sub=None, project=None)})
    assert (client.session.user, client.session.anonymous) == ("", True)
    assert client.session.context.project == "default"


def _token_with(**claims: Any) -> str:
    """Returns a token of any claims; `jwt.encode` refuses some of them."""
    return jwt.api_jws.encode(json.dumps(claims).encode(), SECRET, algorithm="HS256")


def test_token_with_unknown_channel_closes_without_subscriptions(harness: NodeHarness) -> None:
    client = SessionClient(harness)
    channels = ["ok", "nowhere:x", "also"]
    client.send({"id": 1, "connect": {"token": token(channels=channels)}})
    assert client.code == 3501
    assert not client.session.connected


def test_token_of_another_project_is_refused(harness: NodeHarness) -> None:
    ann = harness.connected("ann", project="one")
    other = token("ann", channel="$x", project="two")
    ann.send({"id": 2, "subscribe": {"channel": "$x", "token": other}})
    assert ann.code == 3500
    ann = harness.connected("ann", project="one")
    mine = token("ann", channel="$x", project="one")
    assert "subscribe" in ann.request(subscribe={"channel": "$x", "token": mine})
    assert "refresh" in ann.request(refresh={"token": token("ann", project="one")})
    ann.send({"id": 3, "refresh": {"token": token("ann", project="two")}})
    assert ann.code == 3500


def test_refresh_that_changes_server_channels_reconnects_the_client(harness: NodeHarness) -> None:
    ann = harness.connected("ann", channels=["a"])
    assert "refresh" in ann.request(refresh={"token": token("ann", channels=["a"])})
    ann.send({"id": 3, "refresh": {"token": token("ann", channels=["a", "b"])}})
    assert ann.code == 3010


def test_personal_channel_is_for_its_user_only(harness: NodeHarness) -> None:
    harness.run(harness.node.close())
    harness.build(SessionSettings(user_personal_channel=True), OPEN)
    for user in ("ann", "b\u00f6b", "auth0|x:1"):
        client = SessionClient(harness)
        result = client.request(connect={"token": token(user)})["connect"]
        assert list(result["subs"]) == [f"#{user}"]
    ann = harness.connected("ann")
    assert ann.request(subscribe={"channel": "#bob"})["error"]["code"] == 103
    assert "unsubscribe" in ann.request(unsubscribe={"channel": "#ann"})
    assert "subscribe" in ann.request(subscribe={"channel": "#ann"})


@pytest.mark.parametrize("id", [-1, 2**32])
def test_command_id_out_of_range_closes_the_connection(harness: NodeHarness, id: int) -> None:
    ann = harness.connected()
    ann.send({"id": id, "unsubscribe": {"channel": "x"}})
    assert ann.code == 3501


def test_command_during_store_outage_replies_temporary_error(
    harness: NodeHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise errors.StoreUnavailable

    ann = harness.connected()
    monkeypatch.setattr(harness.node.engine.history, "history", fail)
    refused = ann.request(subscribe={"channel": "x"})["error"]
    assert (refused["code"], refused["temporary"]) == (100, True)
    assert ann.code is None
    monkeypatch.undo()
    assert "subscribe" in ann.request(subscribe={"channel": "x"})


@pytest.mark.parametrize("claim", ["nbf", "iat"])
def test_not_yet_valid_token_is_reported_as_expired(harness: NodeHarness, claim: str) -> None:
    later: dict[str, Any] = {claim: int(time.time()) + 100}
    client = SessionClient(harness)
    assert client.request(connect={"token": token(**later)})["error"] == {
        "code": 109,
        "message": "token expired",
    }
    assert client.code is None
    ann = harness.connected()
    refused = ann.request(subscribe={"channel": "$x", "token": token(channel="$x", **later)})
    assert refused["error"]["code"] == 103
    assert ann.code is None


@pytest.mark.parametrize("claim", ["nbf", "iat"])
def test_token_that_starts_within_the_leeway_is_valid(harness: NodeHarness, claim: str) -> None:
    near: dict[str, Any] = {claim: int(time.time()) + 3}
    later: dict[str, Any] = {claim: int(time.time()) + 100}
    assert harness.connected(**near)
    settings = tokens.TokenSettings(hmac_secret_key=SECRET, leeway=200)
    harness.node.verifier = harness.scope.verifier = tokens.TokenVerifier(settings)
    ann = harness.connected(**later)
    given = token(channel="$x", **later)
    assert "subscribe" in ann.request(subscribe={"channel": "$x", "token": given})
    late = SessionClient(harness).request(connect={"token": token(exp=int(time.time()) - 1)})
    assert late["error"]["code"] == 109  # the leeway is for the start, not for the expiry


@pytest.mark.parametrize("claim", ["nbf", "iat"])
def test_token_with_malformed_start_time_is_invalid(harness: NodeHarness, claim: str) -> None:
    never: dict[str, Any] = {claim: [1]}
    assert harness.close_code(token(**never)) == 3500


def test_refresh_with_not_yet_valid_token_disconnects_for_reconnect(harness: NodeHarness) -> None:
    later: dict[str, Any] = {"nbf": int(time.time()) + 100}
    ann, bob = harness.connected(), harness.connected()
    ann.send({"id": 2, "refresh": {"token": token(**later)}})
    assert ann.code == 3005
    assert "subscribe" in bob.request(subscribe={"channel": "x"})
    bob.send({"id": 2, "sub_refresh": {"channel": "x", "token": token(channel="x", **later)}})
    assert bob.code == 3006


@pytest.mark.parametrize("roles", ["admin", [1], {"a": 1}, None])
def test_roles_claim_of_another_shape_gives_none_and_is_no_error(
    harness: NodeHarness, roles: object
) -> None:
    assert harness.connected(roles=roles).session.roles == ()


def test_unreachable_jwks_disconnects_with_reconnect_code(harness: NodeHarness) -> None:
    port = servers.free_port()
    settings = tokens.TokenSettings(
        hmac_secret_key=SECRET, jwks_public_endpoint=f"http://127.0.0.1:{port}/keys"
    )
    harness.node.verifier = harness.scope.verifier = tokens.TokenVerifier(settings)
    named = jwt.encode({"sub": "ann"}, SECRET, algorithm="HS256", headers={"kid": "k"})
    assert harness.close_code(named) == 3004
    assert "connect" in SessionClient(harness).request(
        connect={"token": token("ann")}
    )  # it has no key id


def test_recovery_fails_when_any_publication_is_missing() -> None:
    top = Position(5, "e")
    entries = [wire.Publication(offset=offset) for offset in (2, 3, 4, 5)]
    assert recovery.is_recovered(Position(1, "e"), entries, top)
    for missing in entries:
        assert not recovery.is_recovered(
            Position(1, "e"), [each for each in entries if each is not missing], top
        )
    assert not recovery.is_recovered(Position(6, "e"), [], top)


def test_failing_connection_does_not_stop_delivery_to_others(
    harness: NodeHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ann, bob = harness.connected("ann"), harness.connected("bob")
    for each in (ann, bob):
        assert "subscribe" in each.request(subscribe={"channel": "x"})

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ann.session, "deliver", broken)
    bob.request(publish={"channel": "x", "data": 1})
    assert ann.code == 3004
    assert "a connection failed" in caplog.text
    bob.request(publish={"channel": "x", "data": 2})
    assert bob.code is None
