# SPDX-License-Identifier: Apache-2.0
"""The rules of the conversation, without a socket: commands in, replies and pushes out."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import jwt
import pytest

from tests import servers
from zaqar_redis import clock, errors
from zaqar_redis.auth import tokens
from zaqar_redis.realtime import recovery
from zaqar_redis.realtime.codec import JSON
from zaqar_redis.realtime.codes import Close
from zaqar_redis.realtime.engine import Keep, Kept, Position, Since
from zaqar_redis.realtime.engines.memory import MemoryEngine
from zaqar_redis.realtime.namespaces import Namespaces, Options
from zaqar_redis.realtime.node import Node
from zaqar_redis.realtime.scope import Scope
from zaqar_redis.realtime.session import Session
from zaqar_redis.realtime.world import Settings

SECRET = "a secret that is long enough for HS256"
#: Everything is allowed, and kept.
OPEN = Options(
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


class Out:
    """What a session said, and how it ended."""

    def __init__(self) -> None:
        self.replies: list[dict[str, Any]] = []
        self.closed: Close | None = None

    def send(self, reply: bytes) -> None:
        self.replies.append(json.loads(reply))

    def close(self, close: Close) -> None:
        self.closed = close


class Client:
    """Somebody at the other end."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.out = Out()
        self.session = Session(house.scope, JSON, self.out)
        house.node.sessions.add(self.session)

    def says(self, *commands: dict[str, Any] | str) -> list[dict[str, Any]]:
        """What comes back."""
        lines = [each if isinstance(each, str) else json.dumps(each) for each in commands]
        self._house.run(self.session.receive("\n".join(lines).encode()))
        return self.heard()

    def heard(self) -> list[dict[str, Any]]:
        self._house.run(asyncio.sleep(0))
        heard, self.out.replies = self.out.replies, []
        return heard

    def ask(self, **command: Any) -> dict[str, Any]:
        """The reply to a command; pushes before and behind it are left out."""
        (reply,) = [each for each in self.says({"id": 7} | command) if each.get("id") == 7]
        return reply

    def ticks(self) -> None:
        """What is due is done."""

        async def tick() -> None:
            self.session.tick()

        self._house.run(tick())

    @property
    def code(self) -> int | None:
        return self.out.closed.code if self.out.closed else None


class House:
    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner

    def build(self, settings: Settings, options: Options, **named: Options) -> None:
        verifier = tokens.Verifier(tokens.Settings(hmac=(SECRET,)))
        namespaces = Namespaces(options, named)
        self.node = Node(MemoryEngine(clock.process), settings, namespaces, verifier)
        self.scope = Scope(self.node, "default")
        self.run(self.node.start())

    def run(self, work: Any) -> Any:
        return self._runner.run(work)

    def soon(self, happens: Callable[[], None], seconds: float = 0.05) -> None:
        """Something happens in the loop, and so long for what comes of it."""

        async def work() -> None:
            happens()
            await asyncio.sleep(seconds)

        self.run(work())

    def connected(self, user: str = "ann", **claims: Any) -> Client:
        client = Client(self)
        reply = client.ask(connect={"token": token(user, **claims)})
        assert "connect" in reply
        client.heard()
        return client


def token(user: str = "ann", secret: str = SECRET, **claims: Any) -> str:
    return jwt.encode({"sub": user} | claims, secret, algorithm="HS256")


@pytest.fixture
def house() -> Iterator[House]:
    with asyncio.Runner() as runner:
        made = House(runner)
        small = Options(history_size=2, history_ttl=60)
        made.build(Settings(), OPEN, small=small, plain=Options())
        yield made
        made.run(made.node.close())


def test_who_connects_is_told_who_it_is_and_how_often_to_be_pinged(house: House) -> None:
    result = Client(house).ask(connect={"token": token(), "data": {"any": [1]}})["connect"]
    assert len(result["client"]) == 36
    assert result["version"]
    assert (result["ping"], result["pong"]) == (25, True)
    assert "expires" not in result
    late = Client(house).ask(connect={"token": token(exp=int(time.time()) + 100)})["connect"]
    assert late["expires"]
    assert 95 <= late["ttl"] <= 100


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("", 3501),
        ("nonsense", 3501),
        ("[]", 3501),
        ("{}", 3501),
        ('{"id": 1, "connect": {}}', 3501),
        ('{"id": 1, "subscribe": {"channel": "news"}}', 3501),
        ('{"id": 1, "connect": {"token": 7}}', 3501),
        ('{"id": -1, "connect": {}}', 3501),
        ('{"connect": {"token": "TOKEN"}}', 3501),
        ('{"id": 1, "connect": {"token": "TOKEN"}, "ping": {}}', 3501),
        ('{"id": 1, "connect": {"token": "no"}}', 3500),
        ('{"id": 1, "connect": {"token": "OTHER"}}', 3500),
        ('{"id": 1, "connect": {"token": "CHANNEL"}}', 3500),
    ],
)
def test_a_connection_that_begins_wrongly_is_closed(house: House, frame: str, code: int) -> None:
    client = Client(house)
    text = frame.replace("TOKEN", token()).replace("OTHER", token(secret="x" * 32))
    assert client.says(text.replace("CHANNEL", token(channel="news"))) == []
    assert client.code == code


def test_an_expired_token_is_told_and_nothing_else_is_done(house: House) -> None:
    client = Client(house)
    reply = client.ask(connect={"token": token(exp=1)})
    assert reply["error"]["code"] == 109
    assert client.code is None
    client.says({"id": 8, "connect": {"token": token()}})
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
def test_what_no_client_says_closes_the_connection(
    house: House, command: dict[str, Any], code: int
) -> None:
    client = house.connected()
    other = house.connected()
    client.says(command)
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
        # What is off is not there, whoever asks.
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
def test_what_cannot_be_done_is_an_error_and_the_connection_goes_on(
    house: House, command: dict[str, Any], code: int
) -> None:
    client = house.connected()
    client.ask(subscribe={"channel": "here"})
    error = client.ask(**command)["error"]
    assert error["code"] == code
    assert error["message"]
    assert client.code is None
    assert "unsubscribe" in client.ask(unsubscribe={"channel": "anything"})


def test_there_is_a_limit_of_channels(house: House) -> None:
    client = house.connected()
    for number in range(128):
        assert "subscribe" in client.ask(subscribe={"channel": f"c{number}"})
    assert client.ask(subscribe={"channel": "one more"})["error"]["code"] == 106
    many = Client(house)
    many.says({"id": 1, "connect": {"token": token(channels=[f"c{n}" for n in range(129)])}})
    assert many.code == 3505


def test_publications_reach_all_subscribers_in_order(house: House) -> None:
    ann, bob = house.connected(), house.connected("bob", info={"name": "Bob"})
    for client in (ann, bob):
        client.ask(subscribe={"channel": "news"})
    ann.heard()
    for number in range(3):
        assert bob.ask(publish={"channel": "news", "data": {"n": number}})["publish"] == {}
    pushes = [each["push"] for each in ann.heard()]
    assert [push["pub"]["data"] for push in pushes] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert [push["pub"]["offset"] for push in pushes] == [1, 2, 3]
    assert {push["pub"]["info"]["user"] for push in pushes} == {"bob"}
    assert pushes[0]["pub"]["info"]["conn_info"] == {"name": "Bob"}


def test_joins_and_leaves_are_told_also_to_who_joins(house: House) -> None:
    ann = house.connected()
    first, second = ann.says({"id": 2, "subscribe": {"channel": "news"}})
    assert first["id"] == 2
    assert second["push"]["join"]["info"]["user"] == "ann"
    bob = house.connected("bob")
    bob.ask(subscribe={"channel": "news"})
    assert ann.heard()[0]["push"]["join"]["info"]["user"] == "bob"
    house.run(bob.session.end())
    assert ann.heard()[0]["push"]["leave"]["info"]["user"] == "bob"
    present = ann.ask(presence={"channel": "news"})["presence"]["presence"]
    assert [each["user"] for each in present.values()] == ["ann"]
    stats = ann.ask(presence_stats={"channel": "news"})["presence_stats"]
    assert stats == {"num_clients": 1, "num_users": 1}


def _publish(house: House, channel: str, *values: object) -> None:
    bob = house.connected("bob")
    bob.ask(subscribe={"channel": channel})
    for value in values:
        bob.ask(publish={"channel": channel, "data": value})


@pytest.mark.parametrize(
    ("offset", "missed", "recovered"),
    [(20, 0, True), (17, 3, True), (10, 10, True), (9, 0, False), (0, 0, False), (25, 0, False)],
)
def test_what_was_missed_is_recovered_or_that_is_told(
    house: House, offset: int, missed: int, recovered: bool
) -> None:
    _publish(house, "news", *range(1, 21))
    ann = house.connected()
    epoch = ann.ask(subscribe={"channel": "news"})["subscribe"]["epoch"]
    ann.ask(unsubscribe={"channel": "news"})
    again = {"channel": "news", "recover": True, "offset": offset, "epoch": epoch}
    result = ann.ask(subscribe=again)["subscribe"]
    assert result["was_recovering"]
    assert result.get("recovered", False) == recovered
    found = [each["data"] for each in result.get("publications", [])]
    assert found == list(range(offset + 1, 21))[:missed]
    assert result["offset"] == (offset if recovered else 20)
    # Whichever it was, what comes now comes.
    _publish(house, "news", "next")
    pushed = [each["push"]["pub"] for each in ann.heard() if "pub" in each.get("push", {})]
    assert [(each["data"], each["offset"]) for each in pushed] == [("next", 21)]


def test_another_epoch_is_never_recovered(house: House) -> None:
    _publish(house, "news", 1, 2)
    ann = house.connected()
    request = {"channel": "news", "recover": True, "offset": 1, "epoch": "other"}
    assert not ann.ask(subscribe=request)["subscribe"].get("recovered", False)
    ann.ask(unsubscribe={"channel": "news"})
    assert ann.ask(subscribe=request | {"flag": 2})["error"]["code"] == 112
    assert "subscribe" in ann.ask(subscribe={"channel": "news"})


def test_the_history_is_paged(house: House) -> None:
    _publish(house, "news", *range(1, 6))
    ann = house.connected()
    epoch = ann.ask(subscribe={"channel": "news"})["subscribe"]["epoch"]

    def found(**request: Any) -> list[int]:
        result = ann.ask(history={"channel": "news", **request})["history"]
        assert (result["offset"], result["epoch"]) == (5, epoch)
        return [each["data"] for each in result["publications"]]

    assert found() == []
    assert found(limit=-1) == [1, 2, 3, 4, 5]
    assert found(limit=2, reverse=True) == [5, 4]
    assert found(limit=2, since={"offset": 2, "epoch": epoch}) == [3, 4]
    assert found(limit=-1, since={"offset": 3, "epoch": epoch}, reverse=True) == [2, 1]
    assert found(limit=-1, since={"offset": 9}) == []


def test_a_token_opens_what_is_closed_to_others(house: House) -> None:
    ann = house.connected()
    opened = token("ann", channel="$news", info={"role": "x"})
    assert "subscribe" in ann.ask(subscribe={"channel": "$news", "token": opened})
    assert "subscribe" in ann.ask(subscribe={"channel": "talk#ann,bob"})
    expired = token("ann", channel="$late", exp=1)
    assert ann.ask(subscribe={"channel": "$late", "token": expired})["error"]["code"] == 109
    ann.says({"id": 9, "subscribe": {"channel": "$b", "token": token("bob", channel="$b")}})
    assert ann.code == 3500


def test_subscriptions_come_with_the_connection(house: House) -> None:
    house.node.settings = house.scope.settings = Settings(user_personal_channel=True)
    client = Client(house)
    given = {"a": {"info": 1}, "b": {"override": {"join_leave": {"value": False}}}}
    reply = client.ask(connect={"token": token(subs=given)})
    assert set(reply["connect"]["subs"]) == {"a", "b", "#ann"}
    joined = [each["push"]["channel"] for each in client.heard() if "join" in each["push"]]
    assert joined == []  # they came with the reply
    _publish(house, "a", "x")
    assert client.heard()[-1]["push"]["pub"]["data"] == "x"


class Turned:
    """A clock that is ahead of the others."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def turned(house: House, monkeypatch: pytest.MonkeyPatch) -> Turned:
    made = Turned()
    monkeypatch.setattr(house.scope, "now", made)
    return made


def test_who_says_nothing_is_closed(house: House, turned: Turned) -> None:
    client = Client(house)
    turned.ahead = 11
    client.ticks()
    assert client.code == 3502


def test_pings_must_be_answered(house: House, turned: Turned) -> None:
    client = house.connected()
    turned.ahead = 26
    client.ticks()
    assert client.heard() == [{}]
    client.says("{}")
    turned.ahead += 10
    client.ticks()
    assert client.code is None
    turned.ahead += 26
    client.ticks()
    turned.ahead += 9
    client.ticks()
    assert client.code == 3012


def test_connections_and_subscriptions_end_with_their_tokens(house: House, turned: Turned) -> None:
    soon = int(time.time()) + 100
    ann, bob = house.connected(exp=soon), house.connected("bob")
    bob.ask(subscribe={"channel": "$n", "token": token("bob", channel="$n", exp=soon)})
    renewed = token(exp=soon + 1000)
    assert ann.ask(refresh={"token": renewed})["refresh"]["ttl"] > 1000
    turned.ahead = 126
    for client in (ann, bob):
        client.ticks()
    assert (ann.code, bob.code) == (None, None)
    ended = [each["push"]["unsubscribe"] for each in bob.heard() if each.get("push")]
    assert [each["code"] for each in ended if each] == [2501]
    ann.says("{}")
    turned.ahead = 1200
    ann.ticks()
    assert ann.code == 3005
    cid = house.connected()
    cid.says({"id": 3, "refresh": {"token": token("bob")}})
    assert cid.code == 3500


def test_a_hole_is_found_when_the_next_comes(house: House) -> None:
    ann = house.connected()
    ann.ask(subscribe={"channel": "news"})
    _publish(house, "news", 1)
    ann.heard()
    bus = house.node.engine.bus
    house.run(bus.unsubscribe("default/news"))  # a publication is lost
    publish = house.node.engine.history.publish
    payload = b"\x92\xc4\x012\x00"
    house.run(publish("default/news", payload, OPEN.keep))
    house.run(bus.subscribe("default/news"))
    house.run(publish("default/news", payload, OPEN.keep))
    ends = [
        each["push"]["unsubscribe"]["code"] for each in ann.heard() if "unsubscribe" in each["push"]
    ]
    assert ends == [2500]
    assert ann.code is None


def test_an_offset_that_is_given_again_ends_the_epoch(house: House) -> None:
    ann = house.connected()
    subscribed = ann.ask(subscribe={"channel": "news"})["subscribe"]
    _publish(house, "news", 1, 2, 3)
    ann.heard()
    # Redis came back older than it was; by now more was published again than was lost.
    again = Position(2, subscribed["epoch"])
    house.soon(lambda: house.node.on_publication("default/news", b"\x92\xc4\x012\x00", again))
    ends = [
        each["push"]["unsubscribe"]["code"] for each in ann.heard() if "unsubscribe" in each["push"]
    ]
    assert ends == [2500]
    wanted = {"channel": "news", "recover": True, "offset": 3, "epoch": subscribed["epoch"]}
    result = ann.ask(subscribe=wanted)["subscribe"]
    assert not result.get("recovered", False)
    assert result["epoch"] != subscribed["epoch"]


def test_those_who_missed_something_are_found_with_one_look(house: House) -> None:
    members = [house.connected() for _ in range(3)]
    for member in members:
        member.ask(subscribe={"channel": "news"})
    _publish(house, "news", 1)
    history = house.node.engine.history
    looks = []

    async def counted(channel: str, since: Since, keep: Keep) -> Any:
        looks.append(channel)
        return await read(channel, since, keep)

    read, history.history = history.history, counted  # type: ignore[method-assign]  # counted
    bus = house.node.engine.bus
    house.run(bus.unsubscribe("default/news"))
    house.run(history.publish("default/news", b"\x92\xc4\x012\x00", OPEN.keep))
    house.run(bus.subscribe("default/news"))
    house.soon(house.node.on_gap, 0.5)
    assert looks == ["default/news"]
    for member in members:
        assert [each for each in member.heard() if "unsubscribe" in each["push"]] == []
    house.run(asyncio.sleep(0.7))  # what was on its way would be here
    for member in members:
        ended = [each for each in member.heard() if "unsubscribe" in each["push"]]
        assert [each["push"]["unsubscribe"]["code"] for each in ended] == [2500]


def test_who_goes_while_redis_is_away_leaves_nothing_behind(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise errors.StoreUnavailable

    ann = house.connected()
    for channel in ("a", "b", "c"):
        ann.ask(subscribe={"channel": channel})
    monkeypatch.setattr(house.node.engine.presence, "remove", away)
    house.run(ann.session.end())
    assert house.node.counts() == {}


@pytest.mark.parametrize("wrong", [1, ["a"], {"a": 1}, True])
def test_a_user_is_a_text(house: House, wrong: Any) -> None:
    for claim in ("sub", "project"):
        client = Client(house)
        client.says({"id": 1, "connect": {"token": _token_with(**{claim: wrong})}})
        assert client.code == 3500


def test_null_is_nobody_in_no_project_of_its_own(house: House) -> None:
    client = Client(house)
    assert "connect" in client.ask(connect={"token": _token_with(sub=None, project=None)})
    assert (client.session.user, client.session.anonymous) == ("", True)
    assert client.session.world.project == "default"


def _token_with(**claims: Any) -> str:
    """PyJWT refuses to sign some."""
    return jwt.api_jws.encode(json.dumps(claims).encode(), SECRET, algorithm="HS256")


def test_what_the_token_names_must_be_channels_and_nothing_is_left_of_them(house: House) -> None:
    client = Client(house)
    channels = ["ok", "nowhere:x", "also"]
    client.says({"id": 1, "connect": {"token": token(channels=channels)}})
    assert client.code == 3501
    assert not client.session.connected


def test_tokens_are_for_their_project(house: House) -> None:
    ann = house.connected("ann", project="one")
    other = token("ann", channel="$x", project="two")
    ann.says({"id": 2, "subscribe": {"channel": "$x", "token": other}})
    assert ann.code == 3500
    ann = house.connected("ann", project="one")
    mine = token("ann", channel="$x", project="one")
    assert "subscribe" in ann.ask(subscribe={"channel": "$x", "token": mine})
    assert "refresh" in ann.ask(refresh={"token": token("ann", project="one")})
    ann.says({"id": 3, "refresh": {"token": token("ann", project="two")}})
    assert ann.code == 3500


def test_a_refresh_that_changes_what_the_server_gives_begins_anew(house: House) -> None:
    ann = house.connected("ann", channels=["a"])
    assert "refresh" in ann.ask(refresh={"token": token("ann", channels=["a"])})
    ann.says({"id": 3, "refresh": {"token": token("ann", channels=["a", "b"])}})
    assert ann.code == 3010


def test_a_personal_channel_is_of_its_user_alone(house: House) -> None:
    house.run(house.node.close())
    house.build(Settings(user_personal_channel=True), OPEN)
    for user in ("ann", "b\u00f6b", "auth0|x:1"):
        client = Client(house)
        result = client.ask(connect={"token": token(user)})["connect"]
        assert list(result["subs"]) == [f"#{user}"]
    ann = house.connected("ann")
    assert ann.ask(subscribe={"channel": "#bob"})["error"]["code"] == 103
    assert "unsubscribe" in ann.ask(unsubscribe={"channel": "#ann"})
    assert "subscribe" in ann.ask(subscribe={"channel": "#ann"})


@pytest.mark.parametrize("id", [-1, 2**32])
def test_ids_are_numbers_that_every_client_can_hold(house: House, id: int) -> None:
    ann = house.connected()
    ann.says({"id": id, "unsubscribe": {"channel": "x"}})
    assert ann.code == 3501


def test_without_a_store_a_command_is_refused_and_may_be_repeated(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise errors.StoreUnavailable

    ann = house.connected()
    monkeypatch.setattr(house.node.engine.history, "history", away)
    refused = ann.ask(subscribe={"channel": "x"})["error"]
    assert (refused["code"], refused["temporary"]) == (100, True)
    assert ann.code is None
    monkeypatch.undo()
    assert "subscribe" in ann.ask(subscribe={"channel": "x"})


@pytest.mark.parametrize("claim", ["nbf", "iat"])
def test_a_token_that_does_not_hold_yet_is_told_as_expired(house: House, claim: str) -> None:
    later: dict[str, Any] = {claim: int(time.time()) + 100}
    client = Client(house)
    assert client.ask(connect={"token": token(**later)})["error"] == {
        "code": 109,
        "message": "token expired",
    }
    assert client.code is None
    ann = house.connected()
    refused = ann.ask(subscribe={"channel": "$x", "token": token(channel="$x", **later)})
    assert refused["error"]["code"] == 103
    assert ann.code is None


@pytest.mark.parametrize("claim", ["nbf", "iat"])
def test_a_token_that_begins_within_the_leeway_holds(house: House, claim: str) -> None:
    soon: dict[str, Any] = {claim: int(time.time()) + 3}
    later: dict[str, Any] = {claim: int(time.time()) + 100}
    assert house.connected(**soon)
    settings = tokens.Settings(hmac=(SECRET,), leeway=200)
    house.node.verifier = house.scope.verifier = tokens.Verifier(settings)
    ann = house.connected(**later)
    given = token(channel="$x", **later)
    assert "subscribe" in ann.ask(subscribe={"channel": "$x", "token": given})
    late = Client(house).ask(connect={"token": token(exp=int(time.time()) - 1)})
    assert late["error"]["code"] == 109  # it is of the beginning, not of the end


@pytest.mark.parametrize("claim", ["nbf", "iat"])
def test_a_token_that_begins_at_no_time_is_invalid(house: House, claim: str) -> None:
    client = Client(house)
    never: dict[str, Any] = {claim: [1]}
    client.says({"id": 1, "connect": {"token": token(**never)}})
    assert client.code == 3500


def test_who_renews_with_a_token_that_does_not_hold_yet_comes_back(house: House) -> None:
    later: dict[str, Any] = {"nbf": int(time.time()) + 100}
    ann, bob = house.connected(), house.connected()
    ann.says({"id": 2, "refresh": {"token": token(**later)}})
    assert ann.code == 3005
    assert "subscribe" in bob.ask(subscribe={"channel": "x"})
    bob.says({"id": 2, "sub_refresh": {"channel": "x", "token": token(channel="x", **later)}})
    assert bob.code == 3006


def test_keys_that_cannot_be_had_make_nobody_leave_for_good(house: House) -> None:
    port = servers.free_port()
    settings = tokens.Settings(hmac=(SECRET,), jwks_url=f"http://127.0.0.1:{port}/keys")
    house.node.verifier = house.scope.verifier = tokens.Verifier(settings)
    client = Client(house)
    named = jwt.encode({"sub": "ann"}, SECRET, algorithm="HS256", headers={"kid": "k"})
    client.says({"id": 1, "connect": {"token": named}})
    assert client.code == 3004
    assert "connect" in Client(house).ask(connect={"token": token("ann")})  # it names no key


def test_what_was_missed_is_all_of_it() -> None:
    top = Position(5, "e")
    whole = [Kept(offset, b"") for offset in (2, 3, 4, 5)]
    assert recovery.is_recovered(Position(1, "e"), whole, top)
    for gone in whole:
        assert not recovery.is_recovered(
            Position(1, "e"), [each for each in whole if each is not gone], top
        )
    assert not recovery.is_recovered(Position(6, "e"), [], top)


def test_a_connection_that_fails_keeps_nothing_from_the_others(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ann, bob = house.connected("ann"), house.connected("bob")
    for each in (ann, bob):
        assert "subscribe" in each.ask(subscribe={"channel": "x"})

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ann.session, "deliver", broken)
    bob.ask(publish={"channel": "x", "data": 1})
    assert ann.code == 3004
    assert "a connection failed" in caplog.text
    bob.ask(publish={"channel": "x", "data": 2})
    assert bob.code is None
