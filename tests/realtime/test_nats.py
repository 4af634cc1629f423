# SPDX-License-Identifier: Apache-2.0
"""What is special about the NATS bus: its faults, limits and subjects."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.realtime.crowd import until
from tests.realtime.test_buses import NODES, RecordingNode, two_nodes
from tests.support.nats import NatsServer, nats_server
from zaqar_redis import errors
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.metrics.values import Counter
from zaqar_redis.realtime.bus import BusSettings
from zaqar_redis.realtime.buses.nats import create, subject_of
from zaqar_redis.realtime.load import load_bus

MIB = 1024 * 1024


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with nats_server() as running:
        yield running


def count(counter: Counter, *labels: str) -> float:
    return dict(counter.rows()).get(labels, [0])[0]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def publish_raw(server: NatsServer, channel: bytes, payload: bytes, times: int) -> None:
    """Publishes from outside of the event loop; returns when the server has taken all."""
    subject = subject_of(channel).encode()
    with socket.create_connection(("127.0.0.1", server.port), 30) as peer:
        command = b"PUB %s %d\r\n%s\r\n" % (subject, len(payload), payload)
        peer.sendall(b'CONNECT {"verbose":false}\r\n' + command * times + b"PING\r\n")
        answer = b""
        while b"PONG" not in answer:
            answer += peer.recv(4096)


async def break_and_expect_all_again(
    server: NatsServer, a: RecordingNode, b: RecordingNode, stop: int, resume: Callable[[], None]
) -> None:
    """Breaks the server while messages flow, and checks that nodes come back by themselves."""
    lost = count(metrics.BUS_LOST, a.bus.name)
    dropped = count(metrics.BUS_DROPPED, a.bus.name, "unavailable")
    await b.bus.subscribe(b"p/news")
    server.signal(stop)
    for number in range(100):
        a.bus.publish(b"p/news", b"%d" % number)
        await asyncio.sleep(0)
    await until(lambda: not a.bus.live and not b.bus.live, "the loss to be noticed")
    with pytest.raises(errors.BusUnavailable):
        await a.bus.send(b"p/news", b"lost")
    resume()
    await until(lambda: a.bus.live and b.bus.live, "both nodes to be back")
    assert (a.gaps, b.gaps) == (1, 1)
    assert count(metrics.BUS_LOST, a.bus.name) - lost == 2
    assert count(metrics.BUS_DROPPED, a.bus.name, "unavailable") - dropped == 101
    await a.bus.subscribe(b"p/other")
    b.received.clear()
    await a.bus.send(b"p/news", b"again")
    await a.bus.send(NODES, b"all")
    await b.expect((b"p/news", b"again"), (NODES, b"all"))


async def test_nodes_come_back_with_all_channels_when_the_server_was_killed(
    server: NatsServer,
) -> None:
    async with two_nodes([server.uri]) as (a, b):
        await break_and_expect_all_again(server, a, b, signal.SIGKILL, server.start)


@pytest.mark.nightly
async def test_paused_server_is_noticed_and_left_before_another_connection_is_made(
    server: NatsServer,
) -> None:
    def go_on() -> None:
        server.signal(signal.SIGCONT)

    async with two_nodes([server.uri]) as (a, b):
        await break_and_expect_all_again(server, a, b, signal.SIGSTOP, go_on)
        await a.bus.send(NODES, b"once")
        await b.expect((NODES, b"once"))


@pytest.mark.nightly
async def test_idle_node_notices_a_paused_server(server: NatsServer) -> None:
    async with two_nodes([server.uri]) as (a, _b):
        server.signal(signal.SIGSTOP)
        await until(lambda: not a.bus.live, "the loss to be noticed")
        server.signal(signal.SIGCONT)
        await until(lambda: a.bus.live, "the node to be back")


def test_name_of_a_bus_shows_neither_password_nor_token() -> None:
    names = [load_bus([f"nats://{each}@h:1"], BusSettings()).name for each in ("u:secret", "token")]
    assert names == ["nats://u:***@h:1", "nats://***@h:1"]


async def test_paused_server_that_reads_nothing_does_not_hold_up_stop_or_memory(
    server: NatsServer,
) -> None:
    bus = load_bus([server.uri], BusSettings(backlog_bytes=16 * MIB))
    await bus.start(lambda channel, payload: 0, lambda: None, [NODES])
    before = resident_bytes()
    dropped = count(metrics.BUS_DROPPED, bus.name, "backlog")
    server.signal(signal.SIGSTOP)
    for _ in range(2000):
        bus.publish(b"p/news", bytes(64 * 1024))
        await asyncio.sleep(0)
    assert count(metrics.BUS_DROPPED, bus.name, "backlog") - dropped > 1000
    assert resident_bytes() - before < 64 * MIB
    began = time.monotonic()
    await bus.stop()
    assert time.monotonic() - began < 10
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


@pytest.mark.nightly
async def test_server_that_is_not_there_at_start_is_found_later(server: NatsServer) -> None:
    server.signal(signal.SIGKILL)
    node = RecordingNode([server.uri], "a")
    await node.start()
    assert not node.bus.live
    with pytest.raises(errors.BusUnavailable, match="cannot be reached"):
        await node.bus.subscribe(b"p/news")
    server.start()
    await until(lambda: node.bus.live, "the server to be found")
    assert node.gaps == 1
    await node.bus.send(b"p/news", b"1")
    await node.expect((b"p/news", b"1"))
    await node.bus.stop()


#: What the server's log says of a client with a wrong password.
_REFUSED = "authentication error"


async def test_wrong_password_is_logged_once_and_tried_again_with_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "zaqar_redis")
    with nats_server('authorization: {user: me, password: "p@ss"}') as server:
        wrong = create(f"nats://me:wr%40ng@127.0.0.1:{server.port}", BusSettings())
        await wrong.start(lambda channel, payload: 0, lambda: None, [NODES])
        assert not wrong.live
        while server.log.read_text().count(_REFUSED) < 2:  # noqa: ASYNC110  # of another process
            await asyncio.sleep(0.05)
        assert "wr%40ng" not in wrong.name
        await wrong.stop()
        right = create(f"nats://me:p%40ss@127.0.0.1:{server.port}", BusSettings())
        await right.start(lambda channel, payload: 0, lambda: None, [NODES])
        assert right.live
        await right.stop()
        attempts = server.log.read_text().count(_REFUSED)
    lines = [each.getMessage() for each in caplog.records if each.name.startswith("zaqar_redis")]
    assert "no connection to the bus nats://me:***@" in lines[0]
    assert "Authorization Violation" in lines[0]
    assert [line.rpartition(" is ")[2] for line in lines[1:]] == ["there again"]
    assert attempts <= 12  # within 4 s


async def test_refused_channel_is_logged_and_the_others_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rules = '{subscribe: {allow: "zr.>", deny: "zr.secret"}}'
    with nats_server(
        f"authorization: {{users: [{{user: me, password: pw, permissions: {rules}}}]}}"
    ) as server:
        node = RecordingNode([f"nats://me:pw@127.0.0.1:{server.port}"], "a")
        await node.start()
        await node.bus.subscribe(b"secret")
        await node.bus.send(NODES, b"1")
        await node.expect((NODES, b"1"))
        await node.bus.stop()
    assert 'permissions violation for subscription to "zr.secret"' in "\n".join(caplog.messages)


async def test_node_that_is_too_slow_is_cut_by_the_server_and_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with nats_server('max_pending: 1048576, write_deadline: "2s"') as server:
        gaps: list[float] = []
        received: list[bytes] = []

        def deliver(channel: bytes, payload: bytes) -> int:
            if payload == b"slow":
                publisher.join()  # a delivery that lasts until all is published
            received.append(payload[:4])
            return 1

        bus = load_bus([server.uri], BusSettings())
        await bus.start(deliver, lambda: gaps.append(time.monotonic()), [NODES, b"p/news"])
        lost, before = count(metrics.BUS_LOST, bus.name), resident_bytes()
        content = b"next" + bytes(10_000)
        publisher = threading.Thread(target=publish_raw, args=(server, b"p/news", content, 10_000))
        publisher.start()
        bus.publish(NODES, b"slow")
        await until(lambda: bool(gaps) and bus.live, "the node to be cut and come back")
        assert count(metrics.BUS_LOST, bus.name) - lost == 1
        assert resident_bytes() - before < 64 * MIB
        received.clear()
        await bus.send(NODES, b"last")
        await until(lambda: b"last" in received, "the node to receive again")
        await bus.stop()
        assert "Slow Consumer" in server.log.read_text()


async def test_message_beyond_the_limit_of_the_server_is_dropped_and_counted(
    server: NatsServer,
) -> None:
    async with two_nodes([server.uri]) as (a, b):
        await b.bus.subscribe(b"p/news")
        dropped = count(metrics.BUS_DROPPED, a.bus.name, "too_large")
        a.bus.publish(b"p/news", b"x" * (MIB + 1))
        with pytest.raises(errors.ContentTooLarge, match="1048576 bytes at most, not 1048577"):
            await a.bus.send(b"p/large", b"x" * (MIB + 1))
        await a.bus.send(b"p/news", b"after")
        await b.expect((b"p/news", b"after"))
        assert count(metrics.BUS_DROPPED, a.bus.name, "too_large") - dropped == 2
        assert a.bus.live


async def test_each_channel_has_a_subject_of_its_own_that_the_server_takes(
    server: NatsServer,
) -> None:
    names = [b"", b"%", b".", b"a.b", b"a", b"*", b">", b" ", b"\0\r\n", b"\xff", b"p/\xc3\xa9"]
    names += [b"\xff" * 5000, b"\xff" * 5001, b"%" + subject_of(b"\xff" * 5000)[4:].encode()]
    assert len({subject_of(name) for name in names}) == len(names)
    async with two_nodes([server.uri]) as (a, b):
        for name in names:
            await b.bus.subscribe(name)
        for name in names:
            await a.bus.send(name, b"to " + name)
        await until(lambda: len(b.received) >= len(names), "all messages")
        assert sorted(b.received) == sorted((name, b"to " + name) for name in names)


async def test_thousands_of_channels_are_subscribed_again_after_a_loss(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So many at once take a busy machine longer than one may take.
    monkeypatch.setattr("zaqar_redis.realtime.buses.nats._CONFIRM_TIMEOUT_SECONDS", 60.0)
    async with two_nodes([server.uri]) as (a, b):
        names = [b"p/%d" % number for number in range(5000)]
        await asyncio.gather(*(b.bus.subscribe(name) for name in names))
        server.signal(signal.SIGKILL)
        await until(lambda: not b.bus.live, "the loss to be noticed")
        server.start()
        await until(lambda: a.bus.live and b.bus.live, "both nodes to be back")
        for name in names:
            a.bus.publish(name, name)
        await until(lambda: len(b.received) >= len(names), "all messages")
        assert sorted(b.received) == sorted((name, name) for name in names)


@pytest.mark.parametrize("uri", ["nats://", "nats://host:x", "nats://host/path", "nats://[::1"])
def test_uri_that_names_no_server_is_refused(uri: str) -> None:
    with pytest.raises(errors.BadConfiguration, match="nats://"):
        load_bus([uri], BusSettings())
