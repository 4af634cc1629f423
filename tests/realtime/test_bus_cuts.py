# SPDX-License-Identifier: Apache-2.0
"""A node that is cut off from its bus, and one that does not read, on the buses with a broker."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial

import pytest

from tests.realtime.bus_node import dropped
from tests.realtime.conftest import RecordingEventHandler
from tests.realtime.crowd import until
from tests.realtime.test_buses import RecordingNode
from tests.support import servers
from tests.support.buses import BROKERS, BusBroker
from tests.support.tcp_proxy import TcpProxy, tcp_proxy
from zaqar_redis import errors
from zaqar_redis.realtime.bus import BusSettings
from zaqar_redis.realtime.engine import Position
from zaqar_redis.realtime.engines.events import BusEvents
from zaqar_redis.realtime.load import load_bus

NEWS = b"p/news"


@pytest.fixture(scope="module", params=BROKERS)
def broker(request: pytest.FixtureRequest) -> Iterator[BusBroker]:
    with BROKERS[request.param]() as running:
        yield running


@contextlib.asynccontextmanager
async def proxied(broker: BusBroker) -> AsyncIterator[tuple[list[TcpProxy], str]]:
    """Yields proxies before the ports of a broker, and the URI by which it is reached by them."""
    uri = broker.uri
    if isinstance(broker, servers.RedisServer):
        uri = f"redis://127.0.0.1:{broker.open_port()}"
    target = int(re.findall(r":(\d+)", uri)[-1])
    ports = 2 if uri.startswith("zeromq") else 1
    async with contextlib.AsyncExitStack() as stack:
        own, proxies = await _open_proxies(stack, [target + number for number in range(ports)])
        yield proxies, uri.replace(f":{target}", f":{own}")


async def _open_proxies(
    stack: contextlib.AsyncExitStack, targets: Sequence[int]
) -> tuple[int, list[TcpProxy]]:
    """Returns proxies on consecutive ports, and the first of these."""
    own = servers.free_ports(len(targets))
    found = [
        await stack.enter_async_context(tcp_proxy(target, own + number))
        for number, target in enumerate(targets)
    ]
    return own, [proxy for proxy, _ in found]


def has_dropped(node: RecordingNode, count: float) -> bool:
    return dropped(node.bus.name, "unavailable") == count


def has_gap(node: RecordingNode, count: int) -> bool:
    return node.gaps >= count


async def sends(node: RecordingNode) -> bool:
    """Its connection for commands may come back later than the one it listens on."""
    with contextlib.suppress(errors.BusUnavailable):
        await node.bus.send(NEWS, node.own)
        return True
    return False


def has_received(node: RecordingNode, count: int) -> bool:
    return len(node.received) >= count


async def test_node_that_was_cut_off_comes_back_reports_a_gap_and_gets_each_message_once(
    broker: BusBroker,
) -> None:
    async with proxied(broker) as (proxies, uri):
        cut, other = RecordingNode([uri], "a"), RecordingNode([broker.uri], "b")
        for node in (cut, other):
            await node.start()
            await node.bus.subscribe(NEWS)
        for _ in range(2):
            gaps = cut.gaps
            for proxy in proxies:
                proxy.cut()
            await until(lambda: not cut.bus.live, "the loss to be noticed")
            before = dropped(cut.bus.name, "unavailable")
            for number in range(10):
                cut.bus.publish(NEWS, b"lost %d" % number)
            await until(partial(has_dropped, cut, before + 10), "ten messages to be counted")
            await other.bus.send(NEWS, b"missed")
            for proxy in proxies:
                proxy.mend()
            await until(lambda: cut.bus.live, "the node to be back")
            await until(partial(has_gap, cut, gaps + 1), "the gap")
            await cut.bus.subscribe(NEWS)  # confirmed: it is subscribed again
            cut.received.clear()
            other.received.clear()
            for sender in (cut, other):
                await until(partial(sends, sender), "a message to leave")
            for node in (cut, other):
                await until(partial(has_received, node, 2), "both messages")
                assert sorted(node.received) == [(NEWS, cut.own), (NEWS, other.own)]
        for node in (cut, other):
            await node.bus.stop()


async def test_redis_cuts_off_a_node_that_does_not_read_and_it_comes_back() -> None:
    with servers.redis_server() as redis:
        slow = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.realtime.bus_node", redis.uri, NEWS.decode()),
            stdout=asyncio.subprocess.PIPE,
        )
        output = slow.stdout
        assert output is not None
        sender = RecordingNode([redis.uri], "a")
        await sender.start()
        try:
            assert await output.readline() == b"ready\n"
            slow.send_signal(signal.SIGSTOP)
            with redis.client() as client:
                client.config_set("client-output-buffer-limit", "pubsub 4mb 4mb 1")
                before = client.info("memory")["used_memory"]
                for _ in range(400):
                    await sender.bus.send(NEWS, b"x" * 60_000)
                assert client.info("memory")["used_memory"] - before < 16 * 1024 * 1024
            slow.send_signal(signal.SIGCONT)

            async def answers() -> bool:
                await sender.bus.send(NEWS, b"report 1")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        _, received, _ = map(int, (await output.readline()).split())
                        return received < 400
                return False

            await until(answers, "the slow node to be back")
        finally:
            slow.kill()
            await slow.wait()
            await sender.bus.stop()


async def test_bus_that_is_stopped_while_it_starts_leaves_nothing_behind(broker: BusBroker) -> None:
    broker.signal(signal.SIGSTOP)
    try:
        node = RecordingNode([broker.uri], "a")
        starting = asyncio.create_task(node.start())
        await asyncio.sleep(0.05)
        await node.bus.stop()
        await starting
        assert asyncio.all_tasks() == {asyncio.current_task()}
    finally:
        broker.signal(signal.SIGCONT)


async def test_events_that_are_dropped_while_they_are_closed_leave_nothing_behind(
    broker: BusBroker,
) -> None:
    try:
        events = BusEvents(load_bus([broker.uri], BusSettings()))
        await events.start("a", RecordingEventHandler())
        broker.signal(signal.SIGSTOP)
        events.announce("p/news", b"x", Position(1, "e"))
        await events.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
    finally:
        broker.signal(signal.SIGCONT)
