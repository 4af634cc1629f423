# SPDX-License-Identifier: Apache-2.0
"""Deltas in channel sessions, without a socket; decoded as the SDK decodes them."""

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

from tests.realtime.test_session import OPEN, NodeHarness, SessionClient, node_harness, token
from zaqar_redis.realtime.protocol import fossil
from zaqar_redis.realtime.protocol.codec import UNI_JSON
from zaqar_redis.realtime.protocol.codes import DisconnectCode
from zaqar_redis.realtime.protocol.protobuf import PROTOBUF
from zaqar_redis.realtime.session.session import Session
from zaqar_redis.service.channels import ChannelService

#: Long enough for a delta to be smaller.
TEXT = "a text that does not change, and is long enough for that to matter: é€😀"
DELTA = replace(
    OPEN, join_leave=False, history_size=300, allowed_delta_types=("fossil",), delta_publish=True
)
NAMESPACES = {
    "delta": DELTA,
    "asked": replace(DELTA, delta_publish=False),
    "bare": replace(DELTA, history_size=0),
    "tags": replace(DELTA, allow_tags_filter=True),
    "cache": replace(DELTA, force_recovery_mode="cache", auto_cache_recover=True),
}


@pytest.fixture
def harness(runner: asyncio.Runner) -> Iterator[NodeHarness]:
    with node_harness(runner, **NAMESPACES) as started:
        yield started


class DeltaSubscriber:
    """A subscription that applies deltas."""

    def __init__(self, client: SessionClient, channel: str) -> None:
        self._client = client
        self._channel = channel
        self._data = b""
        self.offset, self.epoch = 0, ""
        #: values read, and whether each came as a delta
        self.values_read: list[tuple[Any, bool]] = []

    def subscribe(self, **how: Any) -> dict[str, Any]:
        request = {"channel": self._channel, "delta": "fossil"} | how
        result: dict[str, Any] = self._client.request(subscribe=request)["subscribe"]
        self.offset, self.epoch = result.get("offset", 0), result.get("epoch", "")
        for publication in result.get("publications", []):
            self.apply(publication)
        return result

    def leave(self) -> None:
        self._client.request(unsubscribe={"channel": self._channel})

    def resubscribe(self) -> dict[str, Any]:
        self.leave()
        return self.subscribe(recover=True, offset=self.offset, epoch=self.epoch)

    def apply(self, publication: dict[str, Any]) -> None:
        given, is_delta = publication["data"].encode(), publication.get("delta", False)
        self._data = apply_delta(self._data, given) if is_delta else given
        self.values_read.append((json.loads(self._data), is_delta))
        self.offset = publication.get("offset", 0)

    def new_values(self) -> list[tuple[Any, bool]]:
        """Returns the values received since the last call."""
        for each in self._client.received():
            if "pub" in each.get("push", {}):
                self.apply(each["push"]["pub"])
        found, self.values_read = self.values_read, []
        return found


def publish(harness: NodeHarness, channel: str, *values: Any, **how: Any) -> None:
    for value in values:
        harness.run(harness.scope.publish(channel, Raw(json.dumps(value).encode()), **how))


def long(n: int) -> dict[str, Any]:
    return {"n": n, "text": TEXT}


def test_first_publication_is_full_and_later_ones_are_deltas(harness: NodeHarness) -> None:
    ann = DeltaSubscriber(harness.connected(), "delta:a")
    assert ann.subscribe()["delta"] is True
    publish(harness, "delta:a", *map(long, range(3)))
    assert ann.new_values() == [(long(0), False), (long(1), True), (long(2), True)]
    # A later subscriber has another base; one that did not request deltas gets none.
    bob, cid = DeltaSubscriber(harness.connected("bob"), "delta:a"), harness.connected("cid")
    bob.subscribe()
    assert "delta" not in cid.request(subscribe={"channel": "delta:a"})["subscribe"]
    publish(harness, "delta:a", long(3))
    assert (ann.new_values(), bob.new_values()) == ([(long(3), True)], [(long(3), False)])
    (push,) = cid.received()
    assert push["push"]["pub"]["data"] == long(3)
    assert "delta" not in push["push"]["pub"]
    kept = cid.request(history={"channel": "delta:a", "limit": -1})["history"]["publications"]
    assert [each["data"] for each in kept] == list(map(long, range(4)))
    # A value unlike the previous one is shorter than its delta.
    publish(harness, "delta:a", "short", [1], long(4))
    assert ann.new_values() == [("short", False), ([1], False), (long(4), False)]


def test_recovered_publications_are_full_first_then_deltas(harness: NodeHarness) -> None:
    ann = DeltaSubscriber(harness.connected(), "delta:a")
    ann.subscribe()
    publish(harness, "delta:a", long(0), long(1))
    ann.new_values()
    result = ann.resubscribe()
    assert (result["recovered"], result["delta"]) == (True, True)
    publish(harness, "delta:a", long(2))
    assert ann.new_values() == [(long(2), False)]
    ann.leave()
    publish(harness, "delta:a", long(3), long(4), long(5))
    assert ann.resubscribe()["recovered"]
    publish(harness, "delta:a", long(6))
    assert ann.new_values() == [(long(3), False), *((long(n), True) for n in (4, 5, 6))]
    cached = DeltaSubscriber(harness.connected(), "cache:a")
    publish(harness, "cache:a", long(1), long(2))
    assert cached.subscribe()["recovered"]
    publish(harness, "cache:a", long(3))
    assert cached.new_values() == [(long(2), False), (long(3), True)]


def test_publish_request_chooses_delta(harness: NodeHarness) -> None:
    ann = DeltaSubscriber(harness.connected(), "asked:a")
    ann.subscribe()
    publish(harness, "asked:a", long(0), long(1))
    for n in (2, 3):
        asked = {"channel": "asked:a", "data": long(n), "delta": True}
        service = ChannelService(harness.scope, lambda action, resource: None)
        harness.run(service.call("publish", json.dumps(asked).encode()))
    publish(harness, "asked:a", long(4))
    assert ann.new_values() == [(long(n), n in (2, 3)) for n in range(5)]


def test_delta_without_history_is_against_the_last_publication(harness: NodeHarness) -> None:
    ann = DeltaSubscriber(harness.connected(), "bare:a")
    ann.subscribe()
    publish(harness, "bare:a", long(0))
    bus = harness.node.engine.events
    harness.run(bus.unsubscribe("default/bare:a"))
    publish(harness, "bare:a", long(1))
    harness.run(bus.subscribe("default/bare:a"))
    publish(harness, "bare:a", long(2))
    assert ann.new_values() == [(long(0), False), (long(2), True)]


@pytest.mark.parametrize(
    ("channel", "request_"),
    [
        ("a", {}),  # not allowed in this namespace
        ("tags:a", {"tf": {"key": "kind", "cmp": "nex"}}),
    ],
)
def test_delta_request_is_ignored_where_deltas_are_not_allowed(
    harness: NodeHarness, channel: str, request_: dict[str, Any]
) -> None:
    ann = harness.connected()
    asked = {"channel": channel, "delta": "fossil"} | request_
    assert "delta" not in ann.request(subscribe=asked)["subscribe"]
    ann.received()
    publish(harness, channel, long(0), long(1), delta=True)
    assert [each["push"]["pub"]["data"] for each in ann.received()] == [long(0), long(1)]


class RecordingProtobufTransport:
    """Records the replies of a Protobuf session."""

    def __init__(self) -> None:
        self.replies: list[client_pb2.Reply] = []

    def send(self, reply: bytes) -> None:
        size = 1 + (reply[0] > 127)
        self.replies.append(client_pb2.Reply.FromString(reply[size:]))

    def close(self, close: DisconnectCode) -> None:
        raise AssertionError(close)


def test_protobuf_client_gets_deltas_as_bytes(harness: NodeHarness) -> None:
    out = RecordingProtobufTransport()
    session = Session(harness.scope, PROTOBUF, out)
    for command in (
        client_pb2.Command(id=1, connect=client_pb2.ConnectRequest(token=token())),
        client_pb2.Command(
            id=2, subscribe=client_pb2.SubscribeRequest(channel="delta:a", delta="fossil")
        ),
    ):
        text = command.SerializeToString()
        size = bytes([len(text) & 127 | 128, len(text) >> 7])
        harness.run(session.receive(size + text))
    assert out.replies[-1].subscribe.delta
    publish(harness, "delta:a", long(0), long(1))
    first, second = (each.push.pub for each in out.replies[-2:])
    assert (json.loads(first.data), first.delta) == (long(0), False)
    assert json.loads(apply_delta(first.data, second.data)) == long(1)
    assert second.delta


def test_unidirectional_client_may_request_deltas(harness: NodeHarness) -> None:
    client = SessionClient(harness)
    client.session.codec = UNI_JSON
    subs = {"delta:a": {"delta": "fossil"}}
    client.send(json.dumps({"token": token(channels=["delta:a"]), "subs": subs}))
    publish(harness, "delta:a", long(0), long(1))
    publications = [each["pub"] for each in client.received()]
    full, delta = (each["data"].encode() for each in publications)
    assert (json.loads(full), json.loads(apply_delta(full, delta))) == (long(0), long(1))


def test_delta_is_computed_once_for_all_subscribers(
    harness: NodeHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = []

    def create(source: bytes, target: bytes) -> bytes:
        created.append(target)
        return real(source, target)

    real = fossil.create
    monkeypatch.setattr(fossil, "create", create)
    readers = [DeltaSubscriber(harness.connected(), "delta:a") for _ in range(5)]
    for reader in readers:
        reader.subscribe()
    values = [{"once": n, "text": TEXT} for n in range(4)]
    publish(harness, "delta:a", *values)
    for reader in readers:
        assert reader.new_values() == [(value, n > 0) for n, value in enumerate(values)]
    assert len(created) == 3
    for reader in readers:  # recovering subscribers share the deltas
        reader.offset = 0
        reader.resubscribe()
        assert len(reader.new_values()) == 4
    assert len(created) == 3


def test_delta_subscribers_read_all_publications_at_random_reconnects(harness: NodeHarness) -> None:
    chance = random.Random(6)
    readers = [DeltaSubscriber(harness.connected(f"user {n}"), "delta:a") for n in range(3)]
    disconnected, values = set(readers), {reader: list[Any]() for reader in readers}
    published = []
    for _ in range(400):
        reader = chance.choice(readers)
        if chance.random() < 0.8:
            value = {"é": chance.sample(["é" * 20, "€" * 10, "😀😀😀", "letters " * 3], k=3)}
            published.append(value)
            publish(harness, "delta:a", value)
        elif reader in disconnected:
            disconnected.remove(reader)
            assert reader.resubscribe()["recovered"]
        else:
            disconnected.add(reader)
            values[reader] += reader.new_values()
            reader.leave()
    for reader in readers:
        if reader in disconnected:
            reader.resubscribe()
        received = values[reader] + reader.new_values()
        assert [value for value, _ in received] == published
        assert sum(is_delta for _, is_delta in received) > 200
