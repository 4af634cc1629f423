# SPDX-License-Identifier: Apache-2.0
"""The contract of buses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from tests.support.buses import SETTINGS, open_bus
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.realtime.bus import Bus, BusSettings
from zaqar_redis.realtime.buses import batching, nats
from zaqar_redis.realtime.load import load_bus

NODES = b"nodes"


class RecordingNode:
    """A bus with a delivery function that records what comes."""

    def __init__(self, uris: list[str], name: str, settings: BusSettings | None = None) -> None:
        self.bus: Bus = open_bus(uris) if settings is None else load_bus(uris, settings)
        self.own = b"nodes:" + name.encode()
        self.received: list[tuple[bytes, bytes]] = []
        self.gaps = 0
        self.dropped: list[bytes] = []

    async def start(self) -> None:
        channels = NODES, self.own
        await self.bus.start(self._deliver, self._on_gap, channels, self.dropped.append)

    def _deliver(self, channel: bytes, payload: bytes) -> int:
        if payload == b"bug":
            raise ValueError("a delivery function with a bug")
        self.received.append((channel, payload))
        return 1

    def _on_gap(self) -> None:
        self.gaps += 1

    async def wait_for(self, count: int) -> None:
        """Waits until as many messages have come, or must have been lost."""
        for _ in range(6000):
            if len(self.received) >= count:
                break
            await asyncio.sleep(0.01)

    async def expect(self, *expected: tuple[bytes, bytes]) -> None:
        """Waits for the expected messages; fails at any other or missing one."""
        await self.wait_for(len(expected))
        await asyncio.sleep(0.02)  # one too many would come now
        assert self.received == list(expected)
        self.received.clear()


TwoNodes = tuple[RecordingNode, RecordingNode]


@contextlib.asynccontextmanager
async def two_nodes(uris: list[str]) -> AsyncIterator[TwoNodes]:
    nodes = RecordingNode(uris, "a"), RecordingNode(uris, "b")
    for node in nodes:
        await node.start()
    try:
        yield nodes
    finally:
        for node in nodes:
            await node.bus.stop()


@pytest.fixture
def pair(runner: asyncio.Runner, uris: list[str]) -> Iterator[TwoNodes]:
    nodes = two_nodes(uris)
    yield runner.run(nodes.__aenter__())
    runner.run(nodes.__aexit__(None, None, None))


async def test_message_reaches_each_subscribed_node_once_and_its_sender_too(pair: TwoNodes) -> None:
    a, b = pair
    await a.bus.subscribe(b"p/news")
    await b.bus.subscribe(b"p/news")
    await b.bus.subscribe(b"p/other")
    for number in range(3):
        await a.bus.send(b"p/news", b"%d" % number)
    await a.bus.send(b"p/other", b"x")
    await a.expect(*((b"p/news", b"%d" % number) for number in range(3)))
    await b.wait_for(4)
    assert len(b.received) == 4
    assert [each for each in b.received if each[0] == b"p/news"] == [
        (b"p/news", b"%d" % number) for number in range(3)
    ]


async def test_channels_given_at_start_are_live_when_start_returns(pair: TwoNodes) -> None:
    a, b = pair
    assert a.bus.live
    assert b.bus.live
    await a.bus.send(NODES, b"all")
    await a.bus.send(b.own, b"one")
    await a.expect((NODES, b"all"))
    await b.expect((NODES, b"all"), (b.own, b"one"))


async def test_second_start_changes_nothing_and_each_message_still_comes_once(
    pair: TwoNodes,
) -> None:
    a, b = pair
    await a.start()
    await a.bus.subscribe(b"p/news")
    await a.bus.subscribe(b"p/news")
    for message in ((b"p/news", b"1"), (NODES, b"2")):
        await b.bus.send(*message)
        await a.expect(message)


async def test_unsubscribed_channel_is_silent_until_it_is_subscribed_again(pair: TwoNodes) -> None:
    a, b = pair
    await a.bus.subscribe(b"p/news")
    for _ in range(2):
        await a.bus.unsubscribe(b"p/news")
    await a.bus.subscribe(b"p/after")  # confirmed after the unsubscription
    await b.bus.send(b"p/news", b"1")
    await b.bus.send(b"p/after", b"2")
    await a.expect((b"p/after", b"2"))
    await a.bus.subscribe(b"p/news")
    await b.bus.send(b"p/news", b"3")
    await a.expect((b"p/news", b"3"))


async def test_channel_whose_name_begins_with_another_is_another_channel(pair: TwoNodes) -> None:
    a, b = pair
    names = [b"p/a", b"p/a.b", b"p/a b", b"p/*", b"p/>", "p/é".encode(), b"p/a\0", b"p/%2E"]
    for name in names:
        await a.bus.subscribe(name)
    for name in (*names, b"p/ab", b"p/", b"p/a.b.c"):
        await b.bus.send(name, b"to " + name)
    await a.wait_for(len(names))
    assert sorted(a.received) == sorted((name, b"to " + name) for name in names)


async def test_payloads_may_be_any_bytes(pair: TwoNodes) -> None:
    a, b = pair
    payloads = [b"", b"\0", b"\0\x91\xc4\x00", bytes(range(256)) * 2000, b"{}"]
    await a.bus.subscribe(b"p/news")
    for payload in payloads:
        await b.bus.send(b"p/news", payload)
    for payload in payloads:
        b.bus.publish(b"p/news", payload)
    await a.expect(*((b"p/news", payload) for payload in payloads * 2))


async def test_messages_of_one_sender_on_a_channel_arrive_in_order(pair: TwoNodes) -> None:
    a, b = pair
    await a.bus.subscribe(b"p/0")
    await a.bus.subscribe(b"p/1")
    total = 20_000
    for number in range(total):
        b.bus.publish(b"p/%d" % (number % 2), b"%d" % number)
        if number % 1000 == 999:
            await b.bus.send(b"p/0", b"end")
    await a.wait_for(total + 20)
    for parity in range(2):
        found = [
            int(payload)
            for channel, payload in a.received
            if channel == b"p/%d" % parity and payload != b"end"
        ]
        assert found == list(range(parity, total, 2))


async def test_delivery_function_that_raises_does_not_stop_delivery(pair: TwoNodes) -> None:
    a, b = pair
    await a.bus.subscribe(b"p/news")
    b.bus.publish(b"p/news", b"bug")
    b.bus.publish(b"p/news", b"1")
    await b.bus.send(b"p/news", b"2")
    await a.expect((b"p/news", b"1"), (b"p/news", b"2"))


async def test_stopped_bus_receives_nothing_and_may_be_stopped_again(
    pair: TwoNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    for kind in (batching, nats):  # what was published leaves a busy machine, too
        monkeypatch.setattr(kind, "_DRAIN_SECONDS", 60.0)

    await b.bus.subscribe(b"p/news")
    a.bus.publish(b"p/news", b"last")
    for _ in range(2):
        await a.bus.stop()
    assert not a.bus.live
    await b.expect((b"p/news", b"last"))
    await b.bus.send(NODES, b"x")
    await b.expect((NODES, b"x"))
    assert a.received == []


async def test_only_a_bus_within_the_process_counts_deliveries(
    pair: TwoNodes, uris: list[str]
) -> None:
    a, b = pair
    await a.bus.subscribe(b"p/news")
    await b.bus.subscribe(b"p/news")
    counted = 2 if uris[0].startswith("memory") else None
    assert a.bus.publish(b"p/news", b"x") == counted


async def test_stop_is_no_loss_of_the_connection(pair: TwoNodes) -> None:
    a, b = pair

    def losses() -> float:
        return sum(row[0] for row in dict(metrics.BUS_LOST.rows()).values())

    before = losses()
    await b.bus.subscribe(b"p/news")
    for node in (a, b):
        await node.bus.stop()
    assert losses() == before
    assert (a.gaps, b.gaps) == (0, 0)


async def test_sender_is_told_of_messages_that_are_more_than_may_wait(uris: list[str]) -> None:
    given = SETTINGS.get(uris[0], BusSettings())
    small = msgspec.structs.replace(given, backlog_bytes=1024 * 1024)
    node = RecordingNode(uris, "small", small)
    await node.start()
    for _ in range(64):  # in one iteration of the event loop
        node.bus.publish(b"p/news", bytes(64 * 1024))
    keeps_none = uris[0].startswith("memory")
    assert set(node.dropped) == (set() if keeps_none else {b"p/news"})
    await node.bus.stop()
