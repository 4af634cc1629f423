# SPDX-License-Identifier: Apache-2.0
"""How fast one worker delivers the publications of a channel to all its subscribers.

Clients count deliveries of channels without history, and of channels that keep one.  One of the
clients is checked in full: it must get every publication once, and in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import deque
from collections.abc import Callable

import msgspec

from benchmarks.channels.websocket_peers import Dialogue, WebSocketPeer, WebSocketPeers, frames
from benchmarks.support.figures import Figures
from benchmarks.support.processes import cpu_seconds
from benchmarks.support.rounds import in_turns, print_progress
from tests.support import servers
from zaqar_redis import clock
from zaqar_redis.benchmarks.report import spread
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.realtime.engine import HistoryOptions
from zaqar_redis.realtime.engines.redis import RedisEngine
from zaqar_redis.realtime.node import packing

_CHANNEL = "news"
#: Occurs once in each publication.
_MARK = b'"delivered"'
_NUMBER = re.compile(rb'"n":(\d+)')
#: Fills a publication up to 150 bytes of JSON.
_FILL = "x" * 120
#: Publications in flight: of a busy channel, and of one with pauses.
_BUSY, _QUIET = 32, 1
#: Labels of contenders: without history, and with it and checked positions.
_PLAIN, _KEPT = "zaqar-redis", "zaqar-redis, kept"
_TARGETS = {(_BUSY, _PLAIN): ("≥", 100_000)}
#: Clients that connect at a time.
_AT_ONCE = 200
#: Seconds without a delivery after which missing deliveries count as lost.
_LOST_AFTER_SECONDS = 20.0
#: Seconds of the warm-up round.
_WARM_UP = 1
_HISTORY_OPTIONS = HistoryOptions(size=100, ttl=300, meta_ttl=3600)

_JOIN: Dialogue = [
    (b'{"id":1,"connect":{}}', lambda data: b'"id":1' in data),
    (b'{"id":2,"subscribe":{"channel":"news"}}', lambda data: b'"id":2' in data),
]

#: Publishes the publications with these numbers.
Publish = Callable[[range], None]


class FanoutRound(msgspec.Struct, frozen=True):
    """The result of one round: deliveries/s, µs of the server's CPU for each, and the median
    of the seconds until a publication had reached all subscribers."""

    rate: float
    cpu: float
    delay: float


class OrderChecker:
    """A check of one client's publications: each once, and in order."""

    def __init__(self) -> None:
        self.next = 0
        self.frames = 0

    def count_publications(self, messages: list[bytes]) -> int:
        """Returns the number of publications.

        Raises BenchmarkFailed for one that is not the next.
        """
        self.frames += len(messages)
        before = self.next
        for message in messages:
            for number in map(int, _NUMBER.findall(message)):
                if number != self.next:
                    raise BenchmarkFailed(f"publication {number} arrived instead of {self.next}")
                self.next += 1
        return self.next - before


class FanoutContender:
    """A server with its subscribers, and the function that publishes to them."""

    def __init__(
        self, label: str, process: int, websocket_peers: WebSocketPeers, publish: Publish
    ) -> None:
        self.label = label
        self._process = process
        self._websocket_peers = websocket_peers
        self._publish = publish
        self._order_checker = OrderChecker()

    def run(self, seconds: float, window: int) -> FanoutRound:
        """Publishes for *seconds*, with *window* publications in flight, until all arrived.

        Raises BenchmarkFailed when deliveries are lost.
        """
        many, published, arrived = len(self._websocket_peers.peers), 0, 0
        sent: deque[float] = deque()
        delays: list[float] = []
        base, used = self._order_checker.next, cpu_seconds(self._process)
        start = last = time.perf_counter()
        while sent or last < start + seconds:
            free = window - len(sent)
            if free and last < start + seconds:
                sent.extend([time.perf_counter()] * free)
                self._publish(range(base + published, base + published + free))
                published += free
            arrived += sum(map(self._count, self._websocket_peers.poll(_LOST_AFTER_SECONDS)))
            before, last = last, time.perf_counter()
            if last > before + _LOST_AFTER_SECONDS:
                raise BenchmarkFailed(
                    f"{self.label}: {published * many - arrived} deliveries are missing"
                )
            while sent and arrived >= (published - len(sent) + 1) * many:
                delays.append(last - sent.popleft())
        used = cpu_seconds(self._process) - used
        if arrived != published * many or self._order_checker.next != base + published:
            raise BenchmarkFailed(f"{self.label}: {arrived} deliveries of {published} publications")
        return FanoutRound(arrived / (last - start), used / arrived * 1e6, spread(delays).median)

    def _count(self, peer: WebSocketPeer) -> int:
        if peer.number == 0:
            messages, peer.data = frames(peer.data)
            return self._order_checker.count_publications(messages)
        found = peer.data.count(_MARK)
        # The data may end within a mark; less than one mark is kept for the next piece.
        peer.data = peer.data[1 - len(_MARK) :]
        return found


def measure(
    found: Figures, runner: asyncio.Runner, rounds: int, seconds: float, subscribers: int
) -> None:
    with contextlib.ExitStack() as stack:
        contenders = [
            _contender(stack, runner, _PLAIN, subscribers, history_options=None),
            _contender(stack, runner, _KEPT, subscribers, history_options=_HISTORY_OPTIONS),
        ]
        for window, name in ((_BUSY, "busy"), (_QUIET, "quiet")):
            _take_turns(found, name, window, contenders, rounds, seconds)


def _take_turns(
    found: Figures,
    name: str,
    window: int,
    contenders: list[FanoutContender],
    rounds: int,
    seconds: float,
) -> None:
    part = f"fanout, {name}"
    values_by_label = {
        each.label: [
            found.figure(part, each.label, "deliveries/s", _TARGETS.get((window, each.label))),
            *(found.figure(part, each.label, unit) for unit in ("µs of CPU", "ms")),
        ]
        for each in contenders
    }
    for each in contenders:
        each.run(min(_WARM_UP, seconds), window)
    for number, order in in_turns(contenders, rounds):
        for each in order:
            done = each.run(seconds, window)
            for values, value in zip(
                values_by_label[each.label], (done.rate, done.cpu, done.delay * 1e3), strict=True
            ):
                values.append(value)
            print_progress(
                f"{part}: round {number} of {rounds}, {each.label}: {done.rate:.0f} deliveries/s, "
                f"{done.cpu:.2f} µs of CPU each"
            )


def _contender(
    stack: contextlib.ExitStack,
    runner: asyncio.Runner,
    label: str,
    subscribers: int,
    history_options: HistoryOptions | None,
) -> FanoutContender:
    store = stack.enter_context(servers.redis_server())
    channels: dict[str, object] = {"insecure": True, "ping_interval": 3600}
    if history_options is not None:
        channels |= {
            "history_size": history_options.size,
            "history_ttl": history_options.ttl,
            "force_recovery": True,
        }
    running = stack.enter_context(servers.service(store.uri, options={"channels": channels}))
    [worker] = running.workers()
    websocket_peers = WebSocketPeers(running.port)
    stack.callback(websocket_peers.close)
    websocket_peers.connect([_JOIN] * subscribers, _AT_ONCE)
    engine = start_engine(stack, runner, store.uri)

    async def publish(numbers: range) -> None:
        now = round(time.time() * 1000)
        payloads = [
            packing.pack_publication(msgspec.Raw(msgspec.json.encode(_data(n))), now)
            for n in numbers
        ]
        await asyncio.gather(
            *(
                engine.history.publish(f"default/{_CHANNEL}", each, history_options)
                for each in payloads
            )
        )

    return FanoutContender(
        label, worker, websocket_peers, lambda numbers: runner.run(publish(numbers))
    )


def start_engine(stack: contextlib.ExitStack, runner: asyncio.Runner, uri: str) -> RedisEngine:
    """Returns an engine in this process, which only publishes."""
    # Its loop stands still while others take their turns, and answers wait for it.
    client = keyspace.client(uri, BatchSettings(timeout=60))
    runner.run(client.start())
    stack.callback(lambda: runner.run(client.close()))
    return RedisEngine([client], clock.process)


def _data(number: int) -> dict[str, object]:
    return {"n": number, "delivered": _FILL}
