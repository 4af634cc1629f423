# SPDX-License-Identifier: Apache-2.0
"""A bus over core NATS: each channel is a subject.

What nats-py repairs by itself is off: a connection that is lost is closed whole, and then
`ConnectionKeeper` opens another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport
from nats.errors import Error, NoServersError

from zaqar_redis import errors
from zaqar_redis.keyspace.connection import ConnectionKeeper, Parts
from zaqar_redis.keyspace.uris import redact_password
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.realtime.bus import Bus, BusSettings
from zaqar_redis.realtime.buses.batching import FramedBus

LOG = logging.getLogger(__name__)

#: Seconds to wait for a connection, and for the confirmation of a subscription.
_CONFIRM_TIMEOUT_SECONDS = 4.0
#: Seconds without anything to confirm after which the connection is tested, and seconds for the
#: answer; nodes miss messages meanwhile.
_PING_INTERVAL_SECONDS, _PONG_TIMEOUT_SECONDS = 5.0, 5
#: Seconds between looks whether nats-py has given the connection up: it does not always say so.
_CLOSED_INTERVAL_SECONDS = 0.1
#: Seconds between attempts to connect, the first and the longest.
_BACKOFF_SECONDS, _BACKOFF_MAX_SECONDS = 0.25, 1.0
#: Seconds until the server is left.
_DRAIN_SECONDS = 1.0
#: Commands that are written in one step: each takes up to 40 µs.
_MAX_COMMANDS = 256
#: Characters of a subject; the server takes 4096 for a command.
_SUBJECT_MAX = 2048
#: Bytes that a frame costs beside its content while it waits.
_OVERHEAD = 256


def _name_of(uri: str) -> str:
    """Returns the URI without its password or token."""
    plain = redact_password(uri)
    userinfo = urlsplit(uri).netloc.rpartition("@")[0]
    return plain if ":" in userinfo else plain.replace(f"//{userinfo}@", "//***@", 1)


def subject_of(channel: bytes) -> str:
    """Returns the subject of a channel: one token below ``zr``, whatever is in its name."""
    token = quote(channel, safe="/:").replace(".", "%2E") or "%"
    if len(token) > _SUBJECT_MAX:
        token = "%" + blake2b(channel).hexdigest()
    return f"zr.{token}"


class _DeliveringClient(Client):
    """Delivers what it reads at once: nats-py has a task for each subscription do that."""

    def __init__(self) -> None:
        super().__init__()
        #: by subject, what takes the messages
        self.receivers: dict[bytes, Callable[[bytes], None]] = {}

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        receive = self.receivers.get(subject)
        if receive is not None:
            receive(data)


class _NatsConnection:
    """A connection of nats-py that can be closed whatever state it is in."""

    def __init__(self, uri: str, settings: BusSettings) -> None:
        self.client = _DeliveringClient()
        #: what the server or the network said last
        self.error: Exception = ConnectionError("the connection was closed")
        self._uri = uri
        self._settings = settings
        self._subscriptions: dict[bytes, Subscription] = {}

    async def connect(self) -> None:
        parts = urlsplit(self._uri)
        user = unquote(parts.username or "") or None
        password = None if parts.password is None else unquote(parts.password)
        try:
            await self.client.connect(
                f"nats://{parts.netloc.rpartition('@')[2]}",
                user=user,
                password=password,
                token=user if password is None else None,
                name="zaqar-redis",
                error_cb=self._on_error,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=math.ceil(self._settings.connect_timeout),
                # Else it waits when one of them is full, and ignores that it is cancelled; the
                # bus bounds what comes here.
                flusher_queue_size=0,
                pending_size=sys.maxsize,
            )
        except NoServersError:
            raise self.error from None

    async def disconnect(self, nowait: bool = False) -> None:
        if nowait:
            self._abort()
        try:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_DRAIN_SECONDS):
                    await self.client.close()
        finally:
            # nats-py leaves it behind when the connection breaks while it is closed.
            self._abort()

    def _abort(self) -> None:
        transport = self.client._transport
        if isinstance(transport, TcpTransport) and transport._io_writer is not None:
            transport._io_writer.transport.abort()

    async def subscribe(self, channel: bytes, receive: Callable[[bytes, bytes], None]) -> None:
        if channel not in self._subscriptions:
            subject = subject_of(channel)
            self.client.receivers[subject.encode()] = partial(receive, channel)
            self._subscriptions[channel] = await self.client.subscribe(subject)

    async def unsubscribe(self, channel: bytes) -> None:
        subscription = self._subscriptions.pop(channel, None)
        if subscription is not None:
            del self.client.receivers[subscription.subject.encode()]
            await subscription.unsubscribe()

    async def confirm(self) -> None:
        """Returns when the server has all that was written before.  Raises TimeoutError."""
        # A PING overtakes what waits in nats-py's buffer: only the second one follows it.  Not by
        # its flush, which confirms everything once its reader has died.
        for _ in range(2):
            await self.client.rtt(_PONG_TIMEOUT_SECONDS)

    async def _on_error(self, error: Exception) -> None:
        refused = type(error) is Error and self.client.is_connected
        if refused and errors.reason(error) != errors.reason(self.error):
            LOG.warning(
                "the bus %s refuses something: %s",
                _name_of(self._uri),
                errors.reason(error),
                extra={"action": "bus_refused"},
            )
        self.error = error


class _NatsFrame(NamedTuple):
    subject: str
    content: bytes
    written: asyncio.Future[int | None]


class NatsBus(FramedBus):
    live = False

    def __init__(self, uri: str, settings: BusSettings) -> None:
        super().__init__(_name_of(uri), settings.backlog_bytes)
        self._backlog_bytes = settings.backlog_bytes
        #: wanted channels, and the event of their confirmation; the last one of the permanent
        #: ones is confirmed after all others
        self._confirmed: dict[bytes, asyncio.Event] = {}
        self._permanent: Sequence[bytes] = ()
        #: channels whose subscription may not be as it is wanted
        self._changed: dict[bytes, None] = {}
        #: frames to be written, those that the server may not have, and the bytes of both
        self._waiting: deque[_NatsFrame] = deque()
        self._written: list[_NatsFrame] = []
        self._size = 0
        self._subscribed: list[asyncio.Event] = []
        self._has_work, self._has_written = asyncio.Event(), asyncio.Event()
        self._has_begun = False
        self._connection: _NatsConnection | None = None
        self._keeper = ConnectionKeeper(
            partial(_NatsConnection, uri, settings),
            self._serve,
            self._on_lost,
            name=f"connection to the bus {self.name}",
            store=self.name,
            action="bus_lost",
            timeout=settings.connect_timeout,
            backoff=_BACKOFF_SECONDS,
            backoff_max=_BACKOFF_MAX_SECONDS,
        )

    async def _open(self, channels: Sequence[bytes]) -> None:
        self._permanent = channels
        self._confirmed.update((channel, asyncio.Event()) for channel in channels)
        self._keeper.start()
        with contextlib.suppress(errors.BusUnavailable):
            await self._confirmation(channels[-1])
        self._has_begun = True

    async def _close(self) -> None:
        await self._keeper.close()

    async def subscribe(self, channel: bytes) -> None:
        if channel not in self._confirmed:
            self._confirmed[channel] = asyncio.Event()
            self._change(channel)
        await self._confirmation(channel)

    async def unsubscribe(self, channel: bytes) -> None:
        if self._confirmed.pop(channel, None) is not None:
            self._change(channel)

    async def _confirmation(self, channel: bytes) -> None:
        try:
            async with asyncio.timeout(_CONFIRM_TIMEOUT_SECONDS):
                await self._confirmed[channel].wait()
        except TimeoutError:
            raise errors.BusUnavailable(self.name) from None

    def _change(self, channel: bytes) -> None:
        if self._connection is not None:  # the next one begins with all that is wanted
            self._changed[channel] = None
            self._has_work.set()

    def _write(self, channel: bytes, content: bytes) -> asyncio.Future[int | None]:
        written: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        size = len(content) + _OVERHEAD
        if self._connection is None:
            written.set_exception(errors.BusUnavailable(self.name))
        elif len(content) > (limit := self._connection.client.max_payload):
            why = f"the bus {self.name} takes {limit} bytes at most, not {len(content)}"
            written.set_exception(errors.ContentTooLarge(why=why))
        elif self._size + size > self._backlog_bytes + _OVERHEAD:
            written.set_exception(errors.Overloaded(store=self.name))
        else:
            self._size += size
            self._waiting.append(_NatsFrame(subject_of(channel), content, written))
            self._has_work.set()
        return written

    def _serve(self, connection: _NatsConnection) -> Parts:
        self._connection = connection
        others = [channel for channel in self._confirmed if channel not in self._permanent]
        self._changed = dict.fromkeys((*others, *self._permanent))
        self._has_work.set()
        return self._send(connection), self._confirm(connection), _watch(connection)

    async def _send(self, connection: _NatsConnection) -> None:
        """Writes what waits, some of it at a time."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            while self._changed or self._waiting:
                for channel in tuple(islice(self._changed, _MAX_COMMANDS)):
                    del self._changed[channel]
                    await self._adjust(connection, channel)
                for _ in range(min(len(self._waiting), _MAX_COMMANDS)):
                    frame = self._waiting.popleft()
                    self._written.append(frame)
                    await connection.client.publish(frame.subject, frame.content)
                self._has_written.set()
                await asyncio.sleep(0)

    async def _adjust(self, connection: _NatsConnection, channel: bytes) -> None:
        confirmed = self._confirmed.get(channel)
        if confirmed is None:
            await connection.unsubscribe(channel)
        else:
            await connection.subscribe(channel, self._receive)
            self._subscribed.append(confirmed)

    async def _confirm(self, connection: _NatsConnection) -> None:
        """Has all that was written confirmed, and tests a connection that is silent."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PING_INTERVAL_SECONDS):
                    await self._has_written.wait()
            self._has_written.clear()
            subscribed, self._subscribed = self._subscribed, []
            frames = len(self._written)
            await connection.confirm()
            for confirmed in subscribed:
                confirmed.set()
            for frame in self._written[:frames]:
                self._size -= len(frame.content) + _OVERHEAD
                frame.written.set_result(None)
            del self._written[:frames]
            if not self.live and self._confirmed[self._permanent[-1]].is_set():
                self._complete()

    def _complete(self) -> None:
        """Ends a connection's beginning: everything that was wanted is confirmed."""
        self.live = True
        self._keeper.confirm()
        if self._has_begun:
            self._on_gap()

    def _receive(self, channel: bytes, frame: bytes) -> None:
        if channel in self._confirmed:
            self._deliver_frame(channel, frame)

    def _on_lost(self) -> None:
        if self.live and self._is_started:
            metrics.BUS_LOST.add(self.name)
        self._connection, self.live = None, False
        for confirmed in self._confirmed.values():
            confirmed.clear()
        for frame in (*self._written, *self._waiting):
            frame.written.set_exception(errors.BusUnavailable(self.name))
        self._written.clear()
        self._waiting.clear()
        self._subscribed.clear()
        self._changed.clear()
        self._size = 0


async def _watch(connection: _NatsConnection) -> None:
    """Raises the reason when nats-py has given the connection up."""
    while True:
        await asyncio.sleep(_CLOSED_INTERVAL_SECONDS)
        if connection.client.is_closed:
            raise connection.error


def create(uri: str, settings: BusSettings) -> Bus:
    """Returns a bus over one NATS server: ``nats://[user:pw@]host[:4222]``."""
    try:
        parts = urlsplit(uri)
        if not parts.hostname or parts.path.strip("/") or (parts.port or 1) < 1:
            raise ValueError("it is not like nats://[user:password@]host[:port]")
    except ValueError as error:
        raise errors.BadConfiguration(f"bus URI {_name_of(uri)}: {error}") from error
    return NatsBus(uri, settings)
