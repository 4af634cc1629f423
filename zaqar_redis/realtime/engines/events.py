# SPDX-License-Identifier: Apache-2.0
"""Events between nodes, as messages of a bus.

A channel's key is its name on the bus; ``nodes`` and ``nodes:ID`` are the channels of all nodes
and of one, ``routing`` is that of the routing service.  The first byte of a message on a channel
says what it is: ``p``, followed by offset, epoch and payload with colons between them, as
`lua/channel_publish.lua` writes it, too; ``j`` or ``l``, followed by the info of a client that
joins or leaves; ``g``: some were dropped.
"""

from __future__ import annotations

from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.realtime.bus import Bus
from zaqar_redis.realtime.engine import NO_POSITION, EventHandler, Position
from zaqar_redis.realtime.engines import hints
from zaqar_redis.realtime.engines.hints import DropHints
from zaqar_redis.realtime.engines.ordering import PublicationOrder
from zaqar_redis.realtime.engines.peers import PEERS, Peers

_NODES = b"nodes"
#: A channel of its own: nodes of releases without the routing service cannot read its messages, and
#: would connect to Redis anew after each.
_ROUTING = b"routing"


class BusEvents:
    def __init__(self, bus: Bus, *, reorders: bool = False) -> None:
        """*reorders*: publications of a channel may arrive in another order than they have in
        its history, as they are not sent in one step with it."""
        self._bus = bus
        self._handler: EventHandler
        self._peers: Peers
        self._hints = DropHints(bus)
        self._reorders = reorders
        self._order: PublicationOrder | None = None

    @property
    def live(self) -> bool:
        return self._bus.live

    async def start(self, node: str, handler: EventHandler) -> None:
        """Returns soon, also when the bus is unavailable."""
        self._handler = handler
        if self._reorders:
            self._order = PublicationOrder(handler.on_publication, self._missed)
        self._peers = Peers(self._bus, node)
        channels = (PEERS, _ROUTING, _NODES, _of_node(node))
        await self._bus.start(self._on_message, handler.on_gap, channels, self._on_dropped)
        await self._peers.start()

    async def close(self) -> None:
        await self._peers.stop()
        await self._bus.stop()
        await self._hints.stop()  # after all that may still be dropped

    async def subscribe(self, channel: str) -> None:
        await self._bus.subscribe(channel.encode())

    async def unsubscribe(self, channel: str) -> None:
        await self._bus.unsubscribe(channel.encode())
        if self._order is not None:
            self._order.forget(channel)

    async def send(self, channel: str, payload: bytes) -> None:
        """Sends a publication that has no position.  Raises BusUnavailable and Overloaded."""
        await self._bus.send(channel.encode(), _publication(payload, NO_POSITION))

    def announce(self, channel: str, payload: bytes, position: Position) -> None:
        """Sends a publication that is in the history; never raises."""
        self._bus.publish(channel.encode(), _publication(payload, position))

    async def publish_join(self, channel: str, info: bytes) -> None:
        await self._bus.send(channel.encode(), b"j" + info)

    async def publish_leave(self, channel: str, info: bytes) -> None:
        await self._bus.send(channel.encode(), b"l" + info)

    async def publish_control(self, payload: bytes, node: str = "") -> int:
        receivers = await self._bus.send(_of_node(node) if node else _NODES, payload)
        return self._peers.count(node) if receivers is None else receivers

    async def publish_routing(self, payload: bytes) -> None:
        await self._bus.send(_ROUTING, payload)

    def route(self, payload: bytes) -> int | None:
        return self._bus.publish(_ROUTING, payload)

    def _on_dropped(self, channel: bytes) -> None:
        if b"/" in channel:
            self._hints.dropped(channel)

    def _on_message(self, channel: bytes, message: bytes) -> int:
        if b"/" in channel:
            self._on_event(channel.decode(), message)
            return 0
        if channel == PEERS:
            self._peers.on_message(message)
            return 0
        return self._handler.on_control(message)

    def _on_event(self, channel: str, message: bytes) -> None:
        match message[:1]:
            case b"p":
                offset, epoch, payload = message[1:].split(b":", 2)
                position = Position(int(offset), epoch.decode())
                if self._order is not None:
                    self._order.add(channel, payload, position)
                else:
                    self._handler.on_publication(channel, payload, position)
            case hints.HINT:
                self._handler.on_missed(channel)
            case b"j":
                self._handler.on_join(channel, message[1:])
            case b"l":
                self._handler.on_leave(channel, message[1:])

    def _missed(self) -> None:
        metrics.BUS_DROPPED.add(self._bus.name, "missed")


def packs(channel: bytes) -> bool:
    """Returns whether messages on a channel may travel together by PUB/SUB of the engine's Redis.

    On channels that releases before buses have, they read one message at a time.
    """
    return channel == _ROUTING


def _publication(payload: bytes, position: Position) -> bytes:
    return f"p{position.offset}:{position.epoch}:".encode() + payload


def _of_node(node: str) -> bytes:
    return _NODES + b":" + node.encode()
