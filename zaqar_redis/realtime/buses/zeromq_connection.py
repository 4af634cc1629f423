# SPDX-License-Identifier: Apache-2.0
"""The two sockets of a node at a ZeroMQ broker: one sends messages, the other receives them.

ZeroMQ's own sockets reconnect by themselves, and say nothing of what is lost meanwhile.  So these
do not: once anything is wrong with one of them, both are closed.

A socket's descriptor becomes readable when its state may have changed, but not again while there
is still something to do: so it is always used until it refuses.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

import zmq
from zmq.utils.monitor import recv_monitor_message

from zaqar_redis import errors
from zaqar_redis.realtime.buses import zeromq_wire as wire
from zaqar_redis.realtime.buses.zeromq_keys import CurveKeys

#: Messages that a socket holds: their frames have at most 64 KiB, unless a single message is
#: larger, so these are 32 MiB at most each for what is sent and received.  When the socket that
#: receives is full, TCP holds up the broker, which then drops what is for this node.
_HIGH_WATER_MARK = 512
#: Messages that are received in one iteration of the event loop, and bytes after which no more
#: are: sockets of clients wait for it.
_BURST, _BURST_BYTES = 64, 256 * 1024
#: Seconds until a probe is sent once more: at first, and at most, as the pause is doubled.
_PROBE_INTERVAL, _PROBE_INTERVAL_MAX = 0.002, 0.1
#: Milliseconds between pings of ZeroMQ, and until the connection is given up without an answer:
#: this is how a broker is noticed that is cut off or stopped.
_PING_INTERVAL, _PONG_TIMEOUT = 2000, 6000
#: What a message costs beside its bytes while it waits.
_OVERHEAD = 128

_NO_HANDSHAKE = "no handshake: check bus_curve_server_key, and whether the broker uses CURVE"
#: Events of a socket that end its connection, and why: the same for both sockets, as either may
#: be first, and a reason is logged when it is another one than before.
_ENDS = {
    zmq.Event.CLOSED: "nothing listens there; start a broker: zaqar-redis bus-broker",
    zmq.Event.DISCONNECTED: "the broker closed the connection, or does not answer",
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: _NO_HANDSHAKE,
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: _NO_HANDSHAKE,
    zmq.Event.HANDSHAKE_FAILED_AUTH: (
        "the broker refuses the CURVE key of this service; add bus_curve_public_key to its file "
        "--curve-clients"
    ),
}


class BrokerAddress(NamedTuple):
    """Where a broker is, and the keys for it."""

    name: str
    host: str
    port: int
    curve: CurveKeys | None

    def endpoint(self, offset: int) -> str:
        """*offset*: 0 for what is sent, 1 for what is received."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port + offset}"


class BrokerConnection:
    """A pair of sockets, from `connect` to `disconnect`; then another one is needed."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        broker: BrokerAddress,
        topics: Collection[bytes],
        on_messages: Callable[[list[bytes]], None],
        backlog_bytes: int,
    ) -> None:
        """*topics*: those that are wanted when it connects; *on_messages* takes what was received
        in one iteration; *backlog_bytes*: of what waits for a socket that is full."""
        self._context = context
        self._broker = broker
        self._topics = topics
        self._on_messages = on_messages
        self._backlog_bytes = backlog_bytes
        self._is_open = False
        self._publisher: zmq.Socket[bytes]
        self._subscriber: zmq.Socket[bytes]
        #: those two, and what reports their events
        self._sockets: list[zmq.Socket[bytes]] = []
        self._receives_soon = False
        #: what the full socket has not taken, and to whom to say so
        self._backlog: deque[tuple[bytes, asyncio.Future[int | None] | None]] = deque()
        self._backlog_size = 0
        #: never on a channel of another connection
        self._probe_prefix = wire.PROBE + secrets.token_bytes(8)
        self._probe_numbers = itertools.count()
        self._probes: dict[bytes, asyncio.Future[None]] = {}
        self._loop = asyncio.get_running_loop()
        #: has the exception that says why the connection is lost
        self._lost: asyncio.Future[None] = self._loop.create_future()

    async def connect(self) -> None:
        """Subscribes to all that is wanted; returns when messages pass, both ways.

        Raises OSError, and ZMQError when ZeroMQ cannot do it at all.
        """
        self._is_open = True
        self._subscriber = self._socket(zmq.SUB)
        self._publisher = self._socket(zmq.PUB)
        # Else ZeroMQ would drop what a full socket does not take, and nobody could count it.
        self._publisher.setsockopt(zmq.XPUB_NODROP, 1)
        # Subscriptions wait here: one that did not fit would be lost in silence.
        self._subscriber.setsockopt(zmq.SNDHWM, 0)
        self._watch(self._publisher, self._broker.endpoint(0), self._drain_backlog)
        self._watch(self._subscriber, self._broker.endpoint(1), self._receive)
        for topic in tuple(self._topics):
            self._subscriber.setsockopt(zmq.SUBSCRIBE, topic)
        await self.probe()

    async def disconnect(self, nowait: bool = False) -> None:
        """Closes both sockets; what has not been sent yet is dropped."""
        if not self._is_open:
            return
        self._is_open = False
        for socket in self._sockets:
            self._loop.remove_reader(socket.fileno())
            socket.disable_monitor()
            socket.close(linger=0)
        self._lose(ConnectionError("the connection was closed"))
        for _, written in self._backlog:
            if written is not None and not written.done():
                written.set_exception(errors.BusUnavailable(self._broker.name))
        self._backlog.clear()

    def subscribe(self, topic: bytes) -> None:
        if self._is_open:
            self._subscriber.setsockopt(zmq.SUBSCRIBE, topic)
            self._receive_soon()

    def unsubscribe(self, topic: bytes) -> None:
        if self._is_open:
            self._subscriber.setsockopt(zmq.UNSUBSCRIBE, topic)
            self._receive_soon()

    def send(self, message: bytes, written: asyncio.Future[int | None]) -> None:
        """Sends a message after earlier ones; *written* learns whether the socket has taken it."""
        if not self._backlog and self._take(message):
            written.set_result(None)
            return
        size = len(message) + _OVERHEAD
        if self._backlog_size + size > self._backlog_bytes:
            written.set_exception(errors.Overloaded(store=self._broker.name))
            return
        self._backlog_size += size
        self._backlog.append((message, written))

    async def flush(self) -> None:
        """Returns when the broker has all that was sent before.  Raises OSError."""
        while self._backlog:
            await asyncio.wait((self._lost,), timeout=_PROBE_INTERVAL)
            self._drain_backlog()
        await self.probe()

    async def probe(self) -> None:
        """Returns when the broker has taken all that was subscribed to before.

        It handles subscriptions of a connection in order.  So a channel that only this probe has
        is subscribed to after the others, and a message on it sent until it comes back.  Raises
        OSError when the connection is lost.
        """
        topic = self._probe_prefix + next(self._probe_numbers).to_bytes(8, "big")
        answered = self._probes[topic] = self._loop.create_future()
        self.subscribe(topic)
        pause = _PROBE_INTERVAL
        try:
            while not answered.done():
                if self._lost.done():
                    self._lost.result()
                self._send_first(topic)
                ends = (answered, self._lost)
                await asyncio.wait(ends, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                pause = min(2 * pause, _PROBE_INTERVAL_MAX)
        finally:
            del self._probes[topic]
            self.unsubscribe(topic)

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, -1)
        socket.setsockopt(zmq.SNDHWM, _HIGH_WATER_MARK)
        socket.setsockopt(zmq.RCVHWM, _HIGH_WATER_MARK)
        socket.setsockopt(zmq.MAXMSGSIZE, wire.MESSAGE_MAX)
        socket.setsockopt(zmq.HEARTBEAT_IVL, _PING_INTERVAL)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _PONG_TIMEOUT)
        socket.setsockopt(zmq.IPV6, int(":" in self._broker.host))
        if self._broker.curve is not None:
            socket.setsockopt(zmq.CURVE_SERVERKEY, self._broker.curve.server.encode())
            socket.setsockopt(zmq.CURVE_PUBLICKEY, self._broker.curve.public.encode())
            socket.setsockopt(zmq.CURVE_SECRETKEY, self._broker.curve.secret.encode())
        return socket

    def _watch(
        self, socket: zmq.Socket[bytes], endpoint: str, on_ready: Callable[[], None]
    ) -> None:
        monitor = socket.get_monitor_socket(sum(_ENDS))
        self._sockets.append(monitor)

        def read_events() -> None:
            while self._is_open and int(monitor.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                event = zmq.Event(recv_monitor_message(monitor, zmq.NOBLOCK)["event"])
                self._lose(ConnectionError(_ENDS[event]))

        self._loop.add_reader(monitor.fileno(), read_events)
        self._loop.add_reader(socket.fileno(), on_ready)
        socket.connect(endpoint)
        self._loop.call_soon(read_events)
        self._loop.call_soon(on_ready)

    def _lose(self, error: ConnectionError) -> None:
        if not self._lost.done():
            self._lost.set_exception(error)
            self._lost.exception()  # retrieved: perhaps nothing is waiting for it

    async def lost(self) -> None:
        """Raises ConnectionError when the connection is lost."""
        await asyncio.shield(self._lost)

    def _receive_soon(self) -> None:
        if not self._receives_soon:
            self._receives_soon = True
            self._loop.call_soon(self._receive)

    def _receive(self) -> None:
        """Passes on what has come, and the next burst in the next iteration."""
        self._receives_soon = False
        if not self._is_open:
            return
        messages: list[bytes] = []
        size = 0
        try:
            while len(messages) < _BURST and size < _BURST_BYTES:
                messages.append(self._subscriber.recv(zmq.NOBLOCK))
                size += len(messages[-1])
            self._receive_soon()
        except zmq.Again:
            pass
        for message in messages:
            if message.startswith(wire.PROBE):
                self._answer(message)
        if messages:
            self._on_messages([each for each in messages if not each.startswith(wire.PROBE)])

    def _answer(self, topic: bytes) -> None:
        answered = self._probes.get(topic)
        if answered is not None and not answered.done():
            answered.set_result(None)

    def _take(self, message: bytes) -> bool:
        """Returns whether the socket has taken the message."""
        try:
            self._publisher.send(message, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def _send_first(self, message: bytes) -> None:
        """Sends a probe before what waits; if the socket is full, and it is repeated, once."""
        if not self._take(message) and not (self._backlog and self._backlog[0][1] is None):
            self._backlog.appendleft((message, None))

    def _drain_backlog(self) -> None:
        if not self._is_open:
            return
        # Also when nothing waits: the socket handles what the broker has subscribed to.
        self._publisher.getsockopt(zmq.EVENTS)
        while self._backlog and self._take(self._backlog[0][0]):
            message, written = self._backlog.popleft()
            if written is not None:
                self._backlog_size -= len(message) + _OVERHEAD
                if not written.done():
                    written.set_result(None)
