# SPDX-License-Identifier: Apache-2.0
"""A bus over a broker of ZeroMQ, ``zaqar-redis bus-broker``.

``zeromq://HOST[:PORT]``: messages are sent to the port, and received from the one after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
from collections.abc import Sequence
from urllib.parse import urlsplit

import zmq

from zaqar_redis import errors
from zaqar_redis.keyspace.connection import ConnectionKeeper, Parts, answer_within
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.realtime.bus import Bus, BusSettings
from zaqar_redis.realtime.buses import zeromq_wire as wire
from zaqar_redis.realtime.buses.batching import FramedBus
from zaqar_redis.realtime.buses.zeromq_connection import BrokerAddress, BrokerConnection
from zaqar_redis.realtime.buses.zeromq_keys import CurveKeys, check_curve_key, new_keys, public_key

LOG = logging.getLogger(__name__)

#: Seconds between attempts to connect again: messages are missed meanwhile.
_RECONNECT_DELAY_SECONDS = 0.25
#: Seconds to wait for the confirmation of a subscription.
_CONFIRM_TIMEOUT_SECONDS = 4.0
#: Seconds between probes when nothing is to be confirmed, and seconds for the answer: those that
#: find a broker that answers pings but passes nothing on.
_PROBE_INTERVAL_SECONDS, _PROBE_TIMEOUT_SECONDS = 3.0, 6.0


class ZeroMqBus(FramedBus):
    def __init__(self, broker: BrokerAddress, settings: BusSettings) -> None:
        super().__init__(broker.name, settings.backlog_bytes)
        self._broker = broker
        self._settings = settings
        self._numbers = wire.FrameNumbers(secrets.token_bytes(8))
        self._gaps = wire.GapDetector()
        #: topic -> channel, and the number of its subscription
        self._topics: dict[bytes, tuple[bytes, int]] = {}
        self._subscriptions = itertools.count()
        #: how many connections there have been
        self._connections = 0
        self._connection: BrokerConnection | None = None
        self._live = asyncio.Event()
        self._is_gap_possible = False
        self._unconfirmed: set[asyncio.Future[None]] = set()
        self._asked = asyncio.Event()
        self._context: zmq.Context[zmq.Socket[bytes]]
        self._keeper = ConnectionKeeper(
            self._connect,
            self._serve,
            self._on_lost,
            name=f"connection to the bus {self.name}",
            store=self.name,
            action="bus_lost",
            timeout=settings.connect_timeout,
            backoff=_RECONNECT_DELAY_SECONDS,
            backoff_max=_RECONNECT_DELAY_SECONDS,
        )

    @property
    def live(self) -> bool:
        return self._live.is_set()

    async def _open(self, channels: Sequence[bytes]) -> None:
        for channel in channels:
            self._add(channel)
        self._context = zmq.Context()
        self._keeper.start()
        try:
            async with asyncio.timeout(self._settings.connect_timeout):
                await self._live.wait()
        except TimeoutError:
            self._is_gap_possible = True

    async def _drain(self) -> None:
        if self.live and self._connection is not None:
            await super()._drain()
            await self._connection.flush()

    async def _close(self) -> None:
        await self._keeper.close()
        self._is_gap_possible = False
        self._context.term()  # at once: nothing lingers

    async def subscribe(self, channel: bytes) -> None:
        self._add(channel)
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unconfirmed.add(confirmed)
        self._asked.set()
        try:
            async with asyncio.timeout(_CONFIRM_TIMEOUT_SECONDS):
                await confirmed
        except TimeoutError:
            raise errors.BusUnavailable(self.name) from None
        finally:
            self._unconfirmed.discard(confirmed)

    async def unsubscribe(self, channel: bytes) -> None:
        topic = wire.topic_of(channel)
        if self._topics.pop(topic, None) is not None and self._connection is not None:
            self._connection.unsubscribe(topic)

    def _add(self, channel: bytes) -> None:
        topic = wire.topic_of(channel)
        if topic not in self._topics:
            self._topics[topic] = (channel, next(self._subscriptions))
            if self._connection is not None:
                self._connection.subscribe(topic)

    def _write(self, channel: bytes, frame: bytes) -> asyncio.Future[int | None]:
        written: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        try:
            message = self._numbers.message(wire.topic_of(channel), frame)
        except ValueError as error:
            LOG.warning(
                "bus %s: a frame is dropped: %s",
                self.name,
                errors.reason(error),
                extra={"action": "bus_message"},
            )
            written.set_exception(errors.ContentTooLarge(why=str(error)))
            return written
        if self._connection is None or not self.live:
            written.set_exception(errors.BusUnavailable(self.name))
        else:
            self._connection.send(message, written)
        return written

    def _receive(self, messages: list[bytes]) -> None:
        is_gap = False
        for message in messages:
            try:
                topic, sender, number, frame = wire.split(message)
            except ValueError as error:
                LOG.warning(
                    "bus %s: %s", self.name, errors.reason(error), extra={"action": "bus_message"}
                )
                continue
            wanted = self._topics.get(topic)
            if wanted is None:
                continue
            channel, subscription = wanted
            missed, is_new = self._gaps.missed(
                topic, sender, number, subscription, self._connections
            )
            if missed:
                metrics.BUS_DROPPED.add(self.name, "missed", by=missed)
                is_gap |= is_new
            self._deliver_frame(channel, frame)
        if is_gap:
            self._report_gap()

    def _report_gap(self) -> None:
        try:
            self._on_gap()
        except Exception:
            LOG.exception("bus %s: a gap was not handled", self.name, extra={"action": "bus_gap"})

    def _connect(self) -> BrokerConnection:
        self._connections += 1
        self._connection = BrokerConnection(
            self._context,
            self._broker,
            self._topics.keys(),
            self._receive,
            self._settings.backlog_bytes,
        )
        return self._connection

    def _serve(self, connection: BrokerConnection) -> Parts:
        self._keeper.confirm()
        self._live.set()
        self._asked.set()  # for those that subscribed while there was no connection
        if self._is_gap_possible:
            self._is_gap_possible = False
            self._report_gap()
        return connection.lost(), self._confirm(connection)

    def _on_lost(self) -> None:
        self._connection = None
        if self.live:
            self._live.clear()
            self._is_gap_possible = True
            if self._is_started:
                metrics.BUS_LOST.add(self.name)

    async def _confirm(self, connection: BrokerConnection) -> None:
        """Confirms what was subscribed in one iteration together; sees whether messages pass."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PROBE_INTERVAL_SECONDS):
                    await self._asked.wait()
            self._asked.clear()
            unconfirmed = tuple(self._unconfirmed)
            async with answer_within(_PROBE_TIMEOUT_SECONDS):
                await connection.probe()
            for confirmed in unconfirmed:
                if not confirmed.done():
                    confirmed.set_result(None)


def create(uri: str, settings: BusSettings) -> Bus:
    return ZeroMqBus(_broker(uri, settings), settings)


def _broker(uri: str, settings: BusSettings) -> BrokerAddress:
    """Raises BadConfiguration."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, wire.PORT if parts.port is None else parts.port
    except ValueError as error:
        raise errors.BadConfiguration(f"bus URI: {error}") from error
    if not host or "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
        raise errors.BadConfiguration(
            "bus URI: a ZeroMQ bus is zeromq://HOST[:PORT] and nothing else; its keys are options"
        )
    if not 1 <= port <= wire.PORT_MAX:
        raise errors.BadConfiguration(f"bus URI: the port of a ZeroMQ bus is 1 to {wire.PORT_MAX}")
    name = f"zeromq://{f'[{host}]' if ':' in host else host}:{port}"
    return BrokerAddress(name, host, port, _curve_keys(settings))


def _curve_keys(settings: BusSettings) -> CurveKeys | None:
    """Raises BadConfiguration."""
    server, public, secret = (
        settings.curve_server_key,
        settings.curve_public_key,
        settings.curve_secret_key or "",
    )
    if not server:
        if public or secret:
            raise errors.BadConfiguration(
                "bus_curve_server_key is missing: bus_curve_public_key and bus_curve_secret_key "
                "have no effect without it"
            )
        return None
    if bool(public) != bool(secret):
        raise errors.BadConfiguration(
            "bus_curve_public_key and bus_curve_secret_key: set both, or none for a new pair"
        )
    keys = {"bus_curve_server_key": server}
    if public:
        keys |= {"bus_curve_public_key": public, "bus_curve_secret_key": secret}
    for name, key in keys.items():
        check_curve_key(name, key)
    if not public:
        return CurveKeys(server, *new_keys())
    if public_key(secret) != public:
        raise errors.BadConfiguration(
            "bus_curve_public_key: it does not belong to bus_curve_secret_key"
        )
    return CurveKeys(server, public, secret)
