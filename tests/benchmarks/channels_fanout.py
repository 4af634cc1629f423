# SPDX-License-Identifier: Apache-2.0
"""How fast one worker gives the publications of a channel to all its subscribers.

The same clients count what arrived, at ours and at python-socketio's, and as many
publications are on their way at both.  One of the clients is looked at closely: it must get
every publication once, and in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec
import socketio

from tests import servers
from tests.benchmarks import house
from tests.benchmarks.crowd import Crowd, Dialogue, Peer, frames
from tests.benchmarks.found import Found
from tests.benchmarks.rounds import cpu_seconds, tell
from tests.benchmarks.socketio_server import ROOM
from zaqar_redis import clock
from zaqar_redis.bench import logs
from zaqar_redis.bench.report import spread
from zaqar_redis.bench.service import Failed
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.realtime import packing
from zaqar_redis.realtime.engine import Keep
from zaqar_redis.realtime.engines.redis import RedisEngine

CHANNEL = "news"
#: It is in each publication once.
_MARK = b'"delivered"'
_NUMBER = re.compile(rb'"n":(\d+)')
#: Makes 150 bytes of JSON.
_FILL = "x" * 120
#: Publications that are on their way at a time: a busy channel, and one with pauses.
_BUSY, _QUIET = 32, 1
#: Clients that connect at a time.
_AT_ONCE = 200
#: Seconds without a word after which deliveries that miss are lost.
_LOST = 20.0
#: Seconds of the round that nobody counts.
_WARM_UP = 1
_KEEP = Keep(size=100, ttl=300, meta_ttl=3600)

_JOIN: Dialogue = [
    (b'{"id":1,"connect":{}}', lambda data: b'"id":1' in data),
    (b'{"id":2,"subscribe":{"channel":"news"}}', lambda data: b'"id":2' in data),
]
_JOIN_ROOM: Dialogue = [(b"", lambda data: b'"sid"' in data), (b"40", lambda data: b"40{" in data)]

#: Publishes the publications of these numbers.
Publish = Callable[[range], None]


class Pass(msgspec.Struct, frozen=True):
    """Of one round: deliveries/s, µs of the server's CPU for each, and seconds until a
    publication had arrived everywhere."""

    rate: float
    cpu: float
    delay: float


class Witness:
    """The client that is looked at closely."""

    def __init__(self) -> None:
        self.next = 0
        self.frames = 0

    def hears(self, messages: list[bytes]) -> int:
        """How many publications these are.  Raises Failed for one that is not the next."""
        self.frames += len(messages)
        before = self.next
        for message in messages:
            for number in map(int, _NUMBER.findall(message)):
                if number != self.next:
                    raise Failed(f"publication {number} came in the place of {self.next}")
                self.next += 1
        return self.next - before


class Contender:
    """A server with its subscribers, and a way to publish to them."""

    def __init__(self, label: str, process: int, crowd: Crowd, publish: Publish) -> None:
        self.label = label
        self._process = process
        self._crowd = crowd
        self._publish = publish
        self._witness = Witness()

    def run(self, seconds: float, window: int) -> Pass:
        """Publish for so long, and wait until all has arrived.  Raises Failed."""
        many, published, arrived = len(self._crowd.peers), 0, 0
        sent: deque[float] = deque()
        delays: list[float] = []
        base, used = self._witness.next, cpu_seconds(self._process)
        start = last = time.perf_counter()
        while sent or last < start + seconds:
            free = window - len(sent)
            if free and last < start + seconds:
                sent.extend([time.perf_counter()] * free)
                self._publish(range(base + published, base + published + free))
                published += free
            arrived += sum(map(self._count, self._crowd.poll(_LOST)))
            before, last = last, time.perf_counter()
            if last > before + _LOST:
                raise Failed(f"{self.label}: {published * many - arrived} deliveries are missing")
            while sent and arrived >= (published - len(sent) + 1) * many:
                delays.append(last - sent.popleft())
        used = cpu_seconds(self._process) - used
        if arrived != published * many or self._witness.next != base + published:
            raise Failed(f"{self.label}: {arrived} deliveries of {published} publications")
        return Pass(arrived / (last - start), used / arrived * 1e6, spread(delays).median)

    def _count(self, peer: Peer) -> int:
        if peer.number == 0:
            whole, peer.data = frames(peer.data)
            return self._witness.hears(whole)
        found = peer.data.count(_MARK)
        # Less than a whole mark: the next piece may begin in the midst of one.
        peer.data = peer.data[1 - len(_MARK) :]
        return found


def measure(
    found: Found, runner: asyncio.Runner, rounds: int, seconds: float, subscribers: int
) -> None:
    with contextlib.ExitStack() as stack:
        contenders = [
            _ours(stack, runner, "zaqar-redis", subscribers, keep=None),
            _socketio(stack, "python-socketio", subscribers),
            _ours(stack, runner, "zaqar-redis, kept", subscribers, keep=_KEEP),
        ]
        for window, name in ((_BUSY, "busy"), (_QUIET, "quiet")):
            _take_turns(found, name, window, contenders, rounds, seconds)


def _take_turns(
    found: Found,
    name: str,
    window: int,
    contenders: list[Contender],
    rounds: int,
    seconds: float,
) -> None:
    part = f"fanout, {name}"
    ours, theirs, _ = (each.label for each in contenders)
    busy = window == _BUSY
    if busy:
        target = found.figure(part, ours, "deliveries/s", ("≥", 100_000))
    ratio = found.figure(part, f"{ours} : {theirs}", "ratio", ("≥", 5) if busy else None)
    by_cpu = found.figure(part, f"{theirs} : {ours}", "CPU time", ("≥", 5) if busy else None)
    told = {
        each.label: [
            found.figure(part, each.label, unit) for unit in ("deliveries/s", "µs of CPU", "ms")
        ]
        for each in contenders
    }
    for each in contenders:
        each.run(_WARM_UP, window)
    order = deque(contenders)
    for number in range(1, rounds + 1):
        passes = {}
        for each in order:
            done = passes[each.label] = each.run(seconds, window)
            for values, value in zip(
                told[each.label], (done.rate, done.cpu, done.delay * 1e3), strict=True
            ):
                values.append(value)
            tell(
                f"{part}: round {number} of {rounds}, {each.label}: {done.rate:.0f} deliveries/s, "
                f"{done.cpu:.2f} µs of CPU each"
            )
        order.rotate(-1)
        if busy:
            target.append(passes[ours].rate)
        ratio.append(passes[ours].rate / passes[theirs].rate)
        by_cpu.append(passes[theirs].cpu / passes[ours].cpu)


def _ours(
    stack: contextlib.ExitStack,
    runner: asyncio.Runner,
    label: str,
    subscribers: int,
    keep: Keep | None,
) -> Contender:
    store = house.redis_server(stack)
    channels: dict[str, object] = {"insecure": True, "ping_interval": 3600}
    if keep is not None:
        channels |= {
            "history_size": keep.size,
            "history_ttl": keep.ttl,
            "force_recovery": True,
        }
    running = stack.enter_context(servers.service(store.uri, options={"channels": channels}))
    [worker] = running.workers()
    crowd = Crowd(running.port, "/connection/websocket")
    stack.callback(crowd.close)
    crowd.grow([_JOIN] * subscribers, _AT_ONCE)
    engine = started(stack, runner, store.uri)

    async def publish(numbers: range) -> None:
        now = round(time.time() * 1000)
        payloads = [
            packing.publication(msgspec.Raw(msgspec.json.encode(_data(n))), now) for n in numbers
        ]
        await asyncio.gather(
            *(engine.history.publish(f"default/{CHANNEL}", each, keep) for each in payloads)
        )

    return Contender(label, worker, crowd, lambda numbers: runner.run(publish(numbers)))


def started(stack: contextlib.ExitStack, runner: asyncio.Runner, uri: str) -> RedisEngine:
    """An engine of this process, that only publishes."""
    client = keyspace.client(uri, BatchSettings())
    runner.run(client.start())
    stack.callback(lambda: runner.run(client.close()))
    return RedisEngine(client, clock.process)


def _socketio(stack: contextlib.ExitStack, label: str, subscribers: int) -> Contender:
    store = house.redis_server(stack)
    port = servers.free_port()
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="zr-"))
    log = Path(folder) / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.socketio_server", str(port), store.uri],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    stack.callback(lambda: logs.check("python-socketio", log.read_text()))
    stack.callback(process.wait)
    stack.callback(process.kill)
    servers.wait_for(lambda: _listens(port), "python-socketio to start")
    crowd = Crowd(port, "/socket.io/?EIO=4&transport=websocket")
    stack.callback(crowd.close)
    crowd.grow([_JOIN_ROOM] * subscribers, _AT_ONCE)
    manager = socketio.RedisManager(store.uri, write_only=True)

    def publish(numbers: range) -> None:
        for number in numbers:
            manager.emit(CHANNEL, _data(number), room=ROOM)

    return Contender(label, process.pid, crowd, publish)


def _data(number: int) -> dict[str, object]:
    return {"n": number, "delivered": _FILL}


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
