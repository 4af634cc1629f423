# SPDX-License-Identifier: Apache-2.0
"""Publications of a channel in the order of their offsets, as a node receives them.

Two nodes that publish on a channel get consecutive offsets from its history, and then send each
its own publication: a bus may bring the later one first.  It is held until the earlier one is
there, or for so long that this one must have been lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from zaqar_redis.realtime.engine import Position

#: Seconds for which what is held waits for the next publication that is missing: how far nodes
#: that publish on one channel are apart, if one of them is busy.  Subscribers with a position
#: recover what is lost.
_HOLD_SECONDS = 0.25
#: Seconds for which the first one that a node receives is held: it may not be the earliest.
_SETTLE_SECONDS = 0.02
#: Publications that are held of one channel at most, as many as wait for a subscription.
_HELD_MAX = 1000
#: Seconds for which an earlier publication may come late, and is dropped; one that comes after
#: that is a sign that the history went back.
_LATE_SECONDS = 5.0


class _ChannelOrder:
    __slots__ = ("epoch", "epoch_before", "held", "late_until", "offset", "timer")

    def __init__(self) -> None:
        #: of the last publication that was passed on; None: there was none yet
        self.offset: int | None = None
        self.epoch = self.epoch_before = ""
        self.held: dict[int, bytes] = {}
        self.late_until = 0.0
        self.timer: asyncio.TimerHandle | None = None


class PublicationOrder:
    def __init__(
        self,
        deliver: Callable[[str, bytes, Position], None],
        missed: Callable[[], None],
    ) -> None:
        """*missed* is called for each publication that comes too late."""
        self._deliver = deliver
        self._missed = missed
        self._channels: dict[str, _ChannelOrder] = {}

    def add(self, channel: str, payload: bytes, position: Position) -> None:
        """Passes a publication on, or holds it until those before it are there."""
        order = self._channels.get(channel)
        if not position.offset:  # it is in no history
            if order is not None and order.offset is None:
                self._release(channel, order)
            self._deliver(channel, payload, position)
            return
        if order is None:
            order = self._channels[channel] = _ChannelOrder()
            order.epoch = position.epoch
        if position.epoch != order.epoch:
            self._begin_epoch(channel, order, payload, position)
        elif order.offset is None:
            self._hold(channel, order, position.offset, payload, _SETTLE_SECONDS)
        elif position.offset == order.offset + 1:
            self._pass_on(channel, order, position.offset, payload)
        elif position.offset > order.offset:
            self._hold(channel, order, position.offset, payload, _HOLD_SECONDS)
        elif _now() < order.late_until:
            self._missed()
        else:
            order.offset = position.offset
            self._deliver(channel, payload, position)

    def forget(self, channel: str) -> None:
        """Forgets a channel that is not received any more."""
        order = self._channels.pop(channel, None)
        if order is not None and order.timer is not None:
            order.timer.cancel()

    def _begin_epoch(
        self, channel: str, order: _ChannelOrder, payload: bytes, position: Position
    ) -> None:
        if position.epoch == order.epoch_before and _now() < order.late_until:
            self._missed()
            return
        self._release(channel, order)
        order.epoch_before, order.epoch = order.epoch, position.epoch
        order.late_until = _now() + _LATE_SECONDS
        self._pass_on(channel, order, position.offset, payload)

    def _pass_on(self, channel: str, order: _ChannelOrder, offset: int, payload: bytes) -> None:
        """Passes on a publication, and those that were held until it came."""
        order.offset = offset
        self._deliver(channel, payload, Position(offset, order.epoch))
        while (following := order.held.pop(offset + 1, None)) is not None:
            order.offset = offset = offset + 1
            self._deliver(channel, following, Position(offset, order.epoch))
        if order.timer is not None:  # it was for what has come now
            order.timer.cancel()
            order.timer = None
            if order.held:
                self._begin_waiting(channel, order, _HOLD_SECONDS)

    def _hold(
        self, channel: str, order: _ChannelOrder, offset: int, payload: bytes, seconds: float
    ) -> None:
        order.held[offset] = payload
        if len(order.held) > _HELD_MAX:
            self._release(channel, order)
        elif order.timer is None:
            self._begin_waiting(channel, order, seconds)

    def _begin_waiting(self, channel: str, order: _ChannelOrder, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        order.timer = loop.call_later(seconds, self._release, channel, order)

    def _release(self, channel: str, order: _ChannelOrder) -> None:
        """Passes on what is held, without what is missing between."""
        if order.timer is not None:
            order.timer.cancel()
            order.timer = None
        if order.held:
            order.late_until = _now() + _LATE_SECONDS
        held, order.held = order.held, {}
        for offset in sorted(held):
            order.offset = offset
            self._deliver(channel, held[offset], Position(offset, order.epoch))


def _now() -> float:
    return asyncio.get_running_loop().time()
