# SPDX-License-Identifier: Apache-2.0
"""What is special to the bus over ZeroMQ: its broker, keys, and bounds."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
import zmq

from tests.realtime.bus_node import dropped
from tests.realtime.crowd import until
from tests.realtime.test_buses import NODES, RecordingNode
from tests.support.brokers import ZeroMqBroker, zeromq_broker
from zaqar_redis import errors
from zaqar_redis.realtime.bus import BusSettings
from zaqar_redis.realtime.buses import zeromq_wire as wire
from zaqar_redis.realtime.buses.zeromq import create
from zaqar_redis.realtime.buses.zeromq_keys import new_keys

NEWS = b"p/news"
#: Two of them are not in one frame.
LARGE = b"x" * 40_000


@pytest.fixture
def broker() -> Iterator[ZeroMqBroker]:
    with zeromq_broker() as started:
        yield started


@asynccontextmanager
async def node(
    broker: ZeroMqBroker, name: str, settings: BusSettings | None = None
) -> AsyncIterator[RecordingNode]:
    started = RecordingNode([broker.uri], name, settings)
    await started.start()
    try:
        yield started
    finally:
        await started.bus.stop()


async def expect_each_message_once(a: RecordingNode, b: RecordingNode) -> None:
    for number in range(20):
        await a.bus.send(NEWS, b"%d" % number)
    for each in (a, b):
        await each.expect(*((NEWS, b"%d" % number) for number in range(20)))


def test_bus_works_in_the_event_loop_of_the_workers(broker: ZeroMqBroker) -> None:
    async def scenario() -> None:
        async with node(broker, "a") as a, node(broker, "b") as b:
            for _ in range(3):
                await asyncio.gather(a.bus.subscribe(NEWS), b.bus.subscribe(NEWS))
                await expect_each_message_once(a, b)
                await asyncio.gather(a.bus.unsubscribe(NEWS), b.bus.unsubscribe(NEWS))

    uvloop.run(scenario())


async def test_burst_on_more_channels_than_sockets_hold_passes_whole() -> None:
    channels = [b"p/%d" % number for number in range(5000)]
    with zeromq_broker("--high-water-mark", "10000") as broker:
        async with node(broker, "a") as a, node(broker, "b") as b:
            await asyncio.gather(*(a.bus.subscribe(channel) for channel in channels))
            for channel in channels:
                b.bus.publish(channel, b"x")
            await until(lambda: len(a.received) >= len(channels), "all messages")
            assert sorted(a.received) == sorted((channel, b"x") for channel in channels)
        assert dropped(broker.uri, "backlog") == 0


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_nodes_come_back_when_a_killed_broker_is_back_and_get_each_message_once(
    broker: ZeroMqBroker, run: Callable[..., None]
) -> None:
    async def scenario() -> None:
        async with node(broker, "a") as a, node(broker, "b") as b:
            await asyncio.gather(a.bus.subscribe(NEWS), b.bus.subscribe(NEWS))
            for times in range(1, 3):
                broker.signal(signal.SIGKILL)
                await until(lambda: not a.bus.live and not b.bus.live, "the loss to be noticed")
                assert (a.gaps, b.gaps) == (times - 1, times - 1)
                await asyncio.to_thread(broker.start)
                await until(lambda: a.bus.live and b.bus.live, "both nodes to be back")
                assert (a.gaps, b.gaps) == (times, times)
                await expect_each_message_once(a, b)

    run(scenario())


@pytest.mark.nightly
async def test_broker_that_is_stopped_and_goes_on_gets_its_nodes_back(broker: ZeroMqBroker) -> None:
    async with node(broker, "a") as a, node(broker, "b") as b:
        await asyncio.gather(a.bus.subscribe(NEWS), b.bus.subscribe(NEWS))
        broker.signal(signal.SIGSTOP)
        await until(lambda: not a.bus.live and not b.bus.live, "the loss to be noticed")
        broker.signal(signal.SIGCONT)
        await until(lambda: a.bus.live and b.bus.live, "both nodes to be back")
        assert (a.gaps, b.gaps) == (1, 1)
        await expect_each_message_once(a, b)


async def test_node_starts_without_a_broker_and_is_live_when_there_is_one() -> None:
    with zeromq_broker(started=False) as broker:
        try:
            began = time.monotonic()
            async with node(broker, "a", BusSettings(connect_timeout=0.5)) as a:
                assert 0.4 < time.monotonic() - began < 20
                assert not a.bus.live
                before = dropped(broker.uri, "unavailable")
                a.bus.publish(NODES, b"lost")
                with pytest.raises(errors.BusUnavailable):
                    await a.bus.send(NODES, b"lost")
                assert dropped(broker.uri, "unavailable") == before + 2
                with pytest.raises(errors.BusUnavailable):
                    await a.bus.subscribe(NEWS)
                await asyncio.to_thread(broker.start)
                await until(lambda: a.bus.live, "the bus to be live")
                assert a.gaps == 1
                await a.bus.send(NEWS, b"x")
                await a.expect((NEWS, b"x"))
        finally:
            broker.stop()


async def test_reason_why_there_is_no_broker_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with zeromq_broker(started=False) as broker:
        async with node(broker, "a"):
            await asyncio.sleep(1)  # some attempts more
        lines = [line for line in caplog.messages if broker.uri in line]
    (line,) = lines
    assert "nothing listens there" in line


async def test_full_socket_drops_and_counts_and_publish_never_raises(broker: ZeroMqBroker) -> None:
    small = BusSettings(backlog_bytes=1024 * 1024)
    async with node(broker, "a", small) as a, node(broker, "b") as b:
        await b.bus.subscribe(NEWS)
        broker.signal(signal.SIGSTOP)
        try:
            for _ in range(200):
                for _ in range(20):
                    a.bus.publish(NEWS, LARGE)
                await asyncio.sleep(0)
            with pytest.raises(errors.Overloaded):
                await a.bus.send(NEWS, LARGE)
        finally:
            broker.signal(signal.SIGCONT)
        lost = dropped(broker.uri, "backlog")
        assert lost > 1000
        await until(lambda: len(b.received) == 4001 - lost, "what was not dropped")
        gaps = b.gaps
        await until(lambda: a.bus.live and b.bus.live, "both nodes")
        await a.bus.send(NEWS, b"end")
        await until(lambda: b.received[-1] == (NEWS, b"end"), "the last message")
        assert b.gaps > gaps
    assert dropped(broker.uri, "missed") == dropped(broker.uri, "backlog")


async def test_slow_node_costs_the_broker_little_and_counts_what_it_missed() -> None:
    with zeromq_broker("--high-water-mark", "100") as broker:
        slow = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.realtime.bus_node", broker.uri, NEWS.decode()),
            stdout=asyncio.subprocess.PIPE,
        )
        assert slow.stdout
        try:
            assert await slow.stdout.readline() == b"ready\n"
            async with node(broker, "a") as a, node(broker, "b") as b:
                sent, asked, received, missed = await _report(a, slow.stdout, 0)
                assert (received, missed) == (asked, 0)
                await b.bus.subscribe(NEWS)
                slow.send_signal(signal.SIGSTOP)
                before = broker.resident_bytes()
                for _ in range(120):
                    for _ in range(25):  # fewer than the high-water mark
                        await a.bus.send(NEWS, LARGE)
                    await until(lambda: len(b.received) == 25, "a node that is not slow")
                    b.received.clear()
                assert broker.resident_bytes() - before < 32 * 1024 * 1024
                slow.send_signal(signal.SIGCONT)
                _, asked, received, missed = await _report(a, slow.stdout, sent + 3000)
                assert missed > 1000
                assert received + missed == asked
        finally:
            slow.kill()
            await slow.wait()


async def _report(
    node: RecordingNode, output: asyncio.StreamReader, sent: int
) -> tuple[int, int, int, int]:
    """Asks until there is an answer, after *sent* frames.

    Returns how many have been sent now, and how many when it was asked what is answered, of which
    it has received and missed how many.
    """
    for number in range(sent + 1, sent + 61):
        await node.bus.send(NEWS, b"report %d" % number)
        try:
            async with asyncio.timeout(1):
                asked = 0
                while asked <= sent:  # the answer to an earlier call
                    asked, received, missed = map(int, (await output.readline()).split())
                return number, asked, received, missed
        except TimeoutError:
            continue
    raise TimeoutError("no report")


async def test_broker_sends_a_node_only_what_it_has_subscribed_to(broker: ZeroMqBroker) -> None:
    async with node(broker, "a") as a:
        # Unlike SUB, an XSUB does not filter what it receives.
        with zmq.Context() as context, context.socket(zmq.XSUB) as raw:
            raw.connect(f"tcp://127.0.0.1:{broker.port + 1}")
            raw.send(b"\1" + wire.topic_of(NEWS))
            await a.bus.subscribe(NEWS)
            while not raw.poll(20):
                await a.bus.send(NEWS, b"first")
            while raw.poll(100):
                raw.recv()
            for number in range(100):
                await a.bus.send(b"p/other%d" % number, b"x")
                await a.bus.send(b"p/new", b"x")
            await a.bus.send(NEWS, b"last")
            message = b"first"
            while message.endswith(b"first"):  # some may still have been under way
                assert raw.poll(60_000)
                message = raw.recv()
            assert message.endswith(b"last")
            assert not raw.poll(100)


@pytest.fixture
def keys(tmp_path: Path) -> tuple[str, Path]:
    """The public key of a broker, and the file with its secret key."""
    public, secret = new_keys()
    file = tmp_path / "secret.key"
    file.write_text(f"# of the broker\n{secret}\n")
    return public, file


async def test_client_without_the_keys_of_the_broker_gets_nothing_and_logs_why(
    keys: tuple[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    public, file = keys
    wrong, _ = new_keys()
    with zeromq_broker("--curve-secret-key-file", str(file)) as broker:
        stranger = BusSettings(curve_server_key=wrong)
        async with (
            node(broker, "a", BusSettings(curve_server_key=public)) as a,
            node(broker, "b", stranger) as b,
            node(broker, "c", BusSettings()) as c,
        ):
            assert (a.bus.live, b.bus.live, c.bus.live) == (True, False, False)
            await a.bus.send(NODES, b"secret")
            await a.expect((NODES, b"secret"))
            assert b.received == c.received == []
    # One line for both: they are in one process.
    (line,) = [line for line in caplog.messages if line.startswith("no connection to the bus")]
    assert "no handshake: check bus_curve_server_key" in line


async def test_client_with_keys_at_a_broker_without_them_logs_why(
    broker: ZeroMqBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async with node(broker, "a", BusSettings(curve_server_key=new_keys()[0])) as a:
        assert not a.bus.live
    assert caplog.text.count("no handshake: check bus_curve_server_key") == 1


async def test_client_whose_key_is_not_listed_is_refused_and_both_sides_say_so(
    keys: tuple[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server, file = keys
    known, strange = new_keys(), new_keys()
    clients = tmp_path / "clients"
    clients.write_text(f"# nodes\n{known[0]}\n\n{new_keys()[0]}\n")

    def settings(pair: tuple[str, str]) -> BusSettings:
        return BusSettings(
            curve_server_key=server, curve_public_key=pair[0], curve_secret_key=pair[1]
        )

    words = ("--curve-secret-key-file", str(file), "--curve-clients", str(clients))
    with zeromq_broker(*words) as broker:
        async with (
            node(broker, "a", settings(known)) as a,
            node(broker, "b", settings(strange)) as b,
        ):
            assert (a.bus.live, b.bus.live) == (True, False)
            await a.bus.send(NODES, b"secret")
            await a.expect((NODES, b"secret"))
            assert b.received == []
        assert broker.log.count(f"client key refused: {strange[0]}") == 1
    assert "the broker refuses the CURVE key of this service" in caplog.text


@pytest.mark.parametrize(
    "uri",
    [
        *("zeromq://", "zeromq://:5561", "zeromq://a:b@host", "zeromq://host/0"),
        *("zeromq://host?x=1", "zeromq://host#x", "zeromq://host:x", "zeromq://host:0"),
        *("zeromq://host:65535", "zeromq://[::1"),
    ],
)
def test_uri_with_unknown_parts_is_refused(uri: str) -> None:
    with pytest.raises(errors.BadConfiguration, match="bus URI: "):
        create(uri, BusSettings())


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("zeromq://broker", "zeromq://broker:5561"),
        ("zeromq://127.0.0.1:7000/", "zeromq://127.0.0.1:7000"),
        ("zeromq://[::1]", "zeromq://[::1]:5561"),
    ],
)
def test_bus_is_named_by_its_host_and_port(uri: str, name: str) -> None:
    assert create(uri, BusSettings()).name == name


_PUBLIC, _SECRET = new_keys()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (BusSettings(curve_server_key="short"), "bus_curve_server_key: this is no CURVE key"),
        (BusSettings(curve_server_key="é" * 40), "bus_curve_server_key: this is no CURVE key"),
        (BusSettings(curve_server_key="~" * 40), "bus_curve_server_key: this is no CURVE key"),
        (BusSettings(curve_server_key="#" * 40), "bus_curve_server_key: this is no CURVE key"),
        (BusSettings(curve_secret_key=_SECRET), "bus_curve_server_key is missing"),
        (BusSettings(curve_public_key=_PUBLIC), "bus_curve_server_key is missing"),
        (BusSettings(curve_server_key=_PUBLIC, curve_public_key=_PUBLIC), "set both, or none"),
        (BusSettings(curve_server_key=_PUBLIC, curve_secret_key=_SECRET), "set both, or none"),
        (
            BusSettings(
                curve_server_key=_PUBLIC, curve_public_key=new_keys()[0], curve_secret_key=_SECRET
            ),
            "it does not belong to bus_curve_secret_key",
        ),
    ],
)
def test_key_that_cannot_be_used_is_refused_and_not_shown(
    settings: BusSettings, message: str
) -> None:
    with pytest.raises(errors.BadConfiguration, match=message) as refused:
        create("zeromq://127.0.0.1", settings)
    assert _SECRET not in str(refused.value)


def test_gaps_are_frames_whose_numbers_are_missing() -> None:
    gaps = wire.GapDetector()
    assert gaps.missed(b"t", b"s", 5, 0, 1) == (0, False)  # the first one that comes
    assert gaps.missed(b"t", b"s", 6, 0, 1) == (0, True)
    assert gaps.missed(b"t", b"s", 9, 0, 1) == (2, True)
    assert gaps.missed(b"t", b"other", 1, 0, 1) == (0, False)
    assert gaps.missed(b"t", b"s", 1, 0, 1) == (0, True)  # its sender counts anew
    assert gaps.missed(b"t", b"s", 4, 0, 2) == (2, False)  # lost with the connection
    assert gaps.missed(b"t", b"s", 8, 1, 2) == (0, False)  # while it was not subscribed to


def test_memory_for_numbers_is_bounded_and_what_is_forgotten_is_no_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "_NUMBERS_MAX", 2)
    numbers, gaps = wire.FrameNumbers(b"8 bytes."), wire.GapDetector()
    found = []
    for topic in (b"a", b"b", b"c", b"b", b"a"):
        _, sender, number, frame = wire.split(numbers.message(wire.topic_of(topic), b"frame"))
        assert (sender, frame) == (b"8 bytes.", b"frame")
        found.append((topic, number))
        assert gaps.missed(topic, sender, number, 0, 1)[0] == 0
    assert found == [(b"a", 1), (b"b", 1), (b"c", 1), (b"b", 2), (b"a", 1)]


async def test_frame_that_is_too_large_or_has_too_long_a_channel_is_dropped_alone(
    broker: ZeroMqBroker,
) -> None:
    async with node(broker, "a", BusSettings(backlog_bytes=100 * 1024 * 1024)) as a:
        with pytest.raises(errors.ContentTooLarge):
            await a.bus.send(NODES, bytes(wire.FRAME_MAX + 1))
        with pytest.raises(errors.ContentTooLarge):
            await a.bus.send(bytes(wire.CHANNEL_MAX + 1), b"x")
        await a.bus.send(NODES, b"x")
        await a.expect((NODES, b"x"))
