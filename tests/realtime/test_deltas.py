# SPDX-License-Identifier: Apache-2.0
"""Deltas in the conversation, without a socket; they are read as the SDK reads them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from centrifuge.fossil import apply_delta
from centrifuge.protocol import client_pb2
from msgspec import Raw
from msgspec.structs import replace

from tests.realtime.test_session import OPEN, Client, House, token
from zaqar_redis.realtime import fossil
from zaqar_redis.realtime.codec import PUSHES
from zaqar_redis.realtime.codes import Close
from zaqar_redis.realtime.protobuf import PROTOBUF
from zaqar_redis.realtime.session import Session
from zaqar_redis.realtime.world import Settings
from zaqar_redis.service.channels import Channels

#: Long enough that a delta is smaller.
TEXT = "a text that does not change, and is long enough for that to matter: é€😀"
DELTA = replace(
    OPEN,
    join_leave=False,
    history_size=300,
    allowed_delta_types=("fossil",),
    delta_publish=True,
)
NAMESPACES = {
    "delta": DELTA,
    "asked": replace(DELTA, delta_publish=False),
    "bare": replace(DELTA, history_size=0),
    "tags": replace(DELTA, allow_tags_filter=True),
    "cache": replace(DELTA, force_recovery_mode="cache", auto_cache_recover=True),
}


@pytest.fixture
def house() -> Iterator[House]:
    with asyncio.Runner() as runner:
        made = House(runner)
        made.build(Settings(), OPEN, **NAMESPACES)
        yield made
        made.run(made.node.close())


class Reader:
    """What a subscription has of a channel."""

    def __init__(self, client: Client, channel: str) -> None:
        self._client = client
        self._channel = channel
        self._data = b""
        self.offset, self.epoch = 0, ""
        #: what it has read, and whether that came as a delta
        self.read: list[tuple[Any, bool]] = []

    def subscribe(self, **how: Any) -> dict[str, Any]:
        request = {"channel": self._channel, "delta": "fossil"} | how
        result: dict[str, Any] = self._client.ask(subscribe=request)["subscribe"]
        self.offset, self.epoch = result.get("offset", 0), result.get("epoch", "")
        for publication in result.get("publications", []):
            self.take(publication)
        return result

    def leave(self) -> None:
        self._client.ask(unsubscribe={"channel": self._channel})

    def comes_back(self) -> dict[str, Any]:
        self.leave()
        return self.subscribe(recover=True, offset=self.offset, epoch=self.epoch)

    def take(self, publication: dict[str, Any]) -> None:
        given, is_delta = publication["data"].encode(), publication.get("delta", False)
        self._data = apply_delta(self._data, given) if is_delta else given
        self.read.append((json.loads(self._data), is_delta))
        self.offset = publication.get("offset", 0)

    def reads(self) -> list[tuple[Any, bool]]:
        """What is new."""
        for each in self._client.heard():
            if "pub" in each.get("push", {}):
                self.take(each["push"]["pub"])
        found, self.read = self.read, []
        return found


def publish(house: House, channel: str, *values: Any, **how: Any) -> None:
    for value in values:
        house.run(house.scope.publish(channel, Raw(json.dumps(value).encode()), **how))


def long(n: int) -> dict[str, Any]:
    return {"n": n, "text": TEXT}


def test_the_first_is_whole_and_the_others_are_what_has_changed(house: House) -> None:
    ann = Reader(house.connected(), "delta:a")
    assert ann.subscribe()["delta"] is True
    publish(house, "delta:a", *map(long, range(3)))
    assert ann.reads() == [(long(0), False), (long(1), True), (long(2), True)]
    # Whoever comes later has another base; whoever did not ask sees nothing of it.
    bob, cid = Reader(house.connected("bob"), "delta:a"), house.connected("cid")
    bob.subscribe()
    assert "delta" not in cid.ask(subscribe={"channel": "delta:a"})["subscribe"]
    publish(house, "delta:a", long(3))
    assert (ann.reads(), bob.reads()) == ([(long(3), True)], [(long(3), False)])
    (push,) = cid.heard()
    assert push["push"]["pub"]["data"] == long(3)
    assert "delta" not in push["push"]["pub"]
    kept = cid.ask(history={"channel": "delta:a", "limit": -1})["history"]["publications"]
    assert [each["data"] for each in kept] == list(map(long, range(4)))
    # What has nothing of the one before is shorter as it is.
    publish(house, "delta:a", "short", [1], long(4))
    assert ann.reads() == [("short", False), ([1], False), (long(4), False)]


def test_what_is_recovered_is_whole_and_then_what_has_changed(house: House) -> None:
    ann = Reader(house.connected(), "delta:a")
    ann.subscribe()
    publish(house, "delta:a", long(0), long(1))
    ann.reads()
    result = ann.comes_back()
    assert (result["recovered"], result["delta"]) == (True, True)
    publish(house, "delta:a", long(2))
    assert ann.reads() == [(long(2), False)]
    ann.leave()
    publish(house, "delta:a", long(3), long(4), long(5))
    assert ann.comes_back()["recovered"]
    publish(house, "delta:a", long(6))
    assert ann.reads() == [(long(3), False), *((long(n), True) for n in (4, 5, 6))]
    cached = Reader(house.connected(), "cache:a")
    publish(house, "cache:a", long(1), long(2))
    assert cached.subscribe()["recovered"]
    publish(house, "cache:a", long(3))
    assert cached.reads() == [(long(2), False), (long(3), True)]


def test_a_publication_says_whether_it_is_to_be_a_delta(house: House) -> None:
    ann = Reader(house.connected(), "asked:a")
    ann.subscribe()
    publish(house, "asked:a", long(0), long(1))
    for n in (2, 3):
        asked = {"channel": "asked:a", "data": long(n), "delta": True}
        house.run(Channels(house.scope).call("publish", json.dumps(asked).encode()))
    publish(house, "asked:a", long(4))
    assert ann.reads() == [(long(n), n in (2, 3)) for n in range(5)]


def test_where_nothing_is_kept_a_delta_is_of_what_the_client_has(house: House) -> None:
    ann = Reader(house.connected(), "bare:a")
    ann.subscribe()
    publish(house, "bare:a", long(0))
    bus = house.node.engine.bus
    house.run(bus.unsubscribe("default/bare:a"))
    publish(house, "bare:a", long(1))
    house.run(bus.subscribe("default/bare:a"))
    publish(house, "bare:a", long(2))
    assert ann.reads() == [(long(0), False), (long(2), True)]


@pytest.mark.parametrize(
    ("channel", "request_"),
    [
        ("a", {}),  # it is not allowed there
        ("tags:a", {"tf": {"key": "kind", "cmp": "nex"}}),
    ],
)
def test_deltas_are_left_out_where_they_cannot_be(
    house: House, channel: str, request_: dict[str, Any]
) -> None:
    ann = house.connected()
    asked = {"channel": channel, "delta": "fossil"} | request_
    assert "delta" not in ann.ask(subscribe=asked)["subscribe"]
    ann.heard()
    publish(house, channel, long(0), long(1), delta=True)
    assert [each["push"]["pub"]["data"] for each in ann.heard()] == [long(0), long(1)]


class Frames:
    """What a session of Protobuf said."""

    def __init__(self) -> None:
        self.replies: list[client_pb2.Reply] = []

    def send(self, reply: bytes) -> None:
        size = 1 + (reply[0] > 127)
        self.replies.append(client_pb2.Reply.FromString(reply[size:]))

    def close(self, close: Close) -> None:
        raise AssertionError(close)


def test_clients_of_protobuf_get_bytes(house: House) -> None:
    out = Frames()
    session = Session(house.scope, PROTOBUF, out)
    for command in (
        client_pb2.Command(id=1, connect=client_pb2.ConnectRequest(token=token())),
        client_pb2.Command(
            id=2, subscribe=client_pb2.SubscribeRequest(channel="delta:a", delta="fossil")
        ),
    ):
        text = command.SerializeToString()
        size = bytes([len(text) & 127 | 128, len(text) >> 7])
        house.run(session.receive(size + text))
    assert out.replies[-1].subscribe.delta
    publish(house, "delta:a", long(0), long(1))
    first, second = (each.push.pub for each in out.replies[-2:])
    assert (json.loads(first.data), first.delta) == (long(0), False)
    assert json.loads(apply_delta(first.data, second.data)) == long(1)
    assert second.delta


def test_who_only_listens_may_ask_for_deltas_too(house: House) -> None:
    client = Client(house)
    client.session.codec = PUSHES
    subs = {"delta:a": {"delta": "fossil"}}
    client.says(json.dumps({"token": token(channels=["delta:a"]), "subs": subs}))
    publish(house, "delta:a", long(0), long(1))
    publications = [each["pub"] for each in client.heard()]
    whole, delta = (each["data"].encode() for each in publications)
    assert (json.loads(whole), json.loads(apply_delta(whole, delta))) == (long(0), long(1))


def test_a_delta_is_made_once_however_many_get_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def create(source: bytes, target: bytes) -> bytes:
        made.append(target)
        return real(source, target)

    real = fossil.create
    monkeypatch.setattr(fossil, "create", create)
    readers = [Reader(house.connected(), "delta:a") for _ in range(5)]
    for reader in readers:
        reader.subscribe()
    values = [{"once": n, "text": TEXT} for n in range(4)]
    publish(house, "delta:a", *values)
    for reader in readers:
        assert reader.reads() == [(value, n > 0) for n, value in enumerate(values)]
    assert len(made) == 3
    for reader in readers:  # those who recover get the same
        reader.offset = 0
        reader.comes_back()
        assert len(reader.reads()) == 4
    assert len(made) == 3


def test_whatever_happens_who_gets_deltas_reads_what_was_published(house: House) -> None:
    chance = random.Random(6)
    readers = [Reader(house.connected(f"user {n}"), "delta:a") for n in range(3)]
    away, read = set(readers), {reader: list[Any]() for reader in readers}
    published = []
    for _ in range(400):
        reader = chance.choice(readers)
        if chance.random() < 0.8:
            value = {"é": chance.sample(["é" * 20, "€" * 10, "😀😀😀", "letters " * 3], k=3)}
            published.append(value)
            publish(house, "delta:a", value)
        elif reader in away:
            away.remove(reader)
            assert reader.comes_back()["recovered"]
        else:
            away.add(reader)
            read[reader] += reader.reads()
            reader.leave()
    for reader in readers:
        if reader in away:
            reader.comes_back()
        whole = read[reader] + reader.reads()
        assert [value for value, _ in whole] == published
        assert sum(is_delta for _, is_delta in whole) > 200
