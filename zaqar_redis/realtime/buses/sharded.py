# SPDX-License-Identifier: Apache-2.0
"""A bus made of several buses (shards): each channel is on one, by its name.

Jump consistent hash chooses it (Lamping, Veach: A Fast, Minimal Memory,
Consistent Hash Algorithm, 2014), from the first 64 bits of the name's BLAKE2b.  A bus that is
added at the end of the list takes its share of the channels, and no others move.

Channels without a project, those of the nodes themselves, are on every bus, and the first copy
of a message that arrives counts: so it arrives at once while any bus works, and no node has to
find out which does.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b

import jump

from zaqar_redis import errors, runner
from zaqar_redis.realtime.bus import Bus, Deliver, OnDropped, ignore_dropped

#: The sender of a message that is on every bus, and its number among those of the sender.
_HEADER = struct.Struct(">8sQ")
#: Messages of a sender whose copies may arrive out of order: those it sends while one of the
#: buses is slow; copies of earlier ones are dropped.
_WINDOW = 1024
#: Seconds to wait for the other buses after the first one has taken a message.
_STRAGGLER_TIMEOUT = 0.25
#: Senders that are remembered at most: nodes and commands of some hours.
_SENDERS_MAX = 4096


def shard(channel: bytes, count: int) -> int:
    """Returns the index of the bus or store, of *count*, that a channel is in."""
    key = int.from_bytes(blake2b(channel, digest_size=8).digest())
    return jump.hash(key, count)


def is_of_nodes(channel: bytes) -> bool:
    """Returns whether a channel belongs to no project."""
    return b"/" not in channel


class ShardedBus:
    """A bus of *buses*: the same ones, in the same order, on every node."""

    def __init__(
        self, buses: Sequence[Bus], find: Callable[[bytes], Bus] | None = None, name: str = ""
    ) -> None:
        """*find* returns the bus of a channel; None: by its hash.  What starts buses that come
        later gives them `deliver_once`."""
        self.name = name or ", ".join(bus.name for bus in buses)
        self._find = find or self._by_hash
        self._deliver: Deliver
        self._buses = buses
        self._deduplicator = _Deduplicator()
        self._sender = secrets.token_bytes(8)
        self._number = 0
        self._sending: set[asyncio.Task[int | None]] = set()

    @property
    def live(self) -> bool:
        return any(bus.live for bus in self._buses)

    async def start(
        self,
        deliver: Deliver,
        on_gap: Callable[[], None],
        channels: Sequence[bytes],
        on_dropped: OnDropped = ignore_dropped,
    ) -> None:
        self._deliver = deliver
        await asyncio.gather(
            *(bus.start(self.deliver_once, on_gap, channels, on_dropped) for bus in self._buses)
        )

    def deliver_once(self, channel: bytes, payload: bytes) -> int:
        if not is_of_nodes(channel):
            return self._deliver(channel, payload)
        sender, number = _HEADER.unpack_from(payload)
        if not self._deduplicator.is_first(sender, number):
            return 0
        return self._deliver(channel, payload[_HEADER.size :])

    async def stop(self) -> None:
        await runner.cancel(*self._sending)
        await asyncio.gather(*(bus.stop() for bus in self._buses))

    async def subscribe(self, channel: bytes) -> None:
        await self._find(channel).subscribe(channel)

    async def unsubscribe(self, channel: bytes) -> None:
        await self._find(channel).unsubscribe(channel)

    def publish(self, channel: bytes, payload: bytes) -> int | None:
        if not is_of_nodes(channel):
            return self._find(channel).publish(channel, payload)
        message = self._numbered(payload)
        for bus in self._buses:
            bus.publish(channel, message)
        return None

    async def send(self, channel: bytes, payload: bytes) -> int | None:
        if not is_of_nodes(channel):
            return await self._find(channel).send(channel, payload)
        message = self._numbered(payload)
        sending = {asyncio.create_task(bus.send(channel, message)) for bus in self._buses}
        self._sending |= sending
        for each in sending:
            each.add_done_callback(self._on_sent)
        receivers: list[int | None] = []
        problem: Exception = errors.BusUnavailable(self.name)
        while sending and not receivers:
            done, sending = await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
            receivers = [each.result() for each in done if each.exception() is None]
            for error in (each.exception() for each in done):
                if isinstance(error, (errors.Overloaded, errors.ContentTooLarge)):
                    problem = error
        if not receivers:
            raise problem
        if sending:  # an unavailable bus must not hold up the call
            done, _ = await asyncio.wait(sending, timeout=_STRAGGLER_TIMEOUT)
            receivers += [each.result() for each in done if each.exception() is None]
        known = [count for count in receivers if count is not None]
        return max(known) if known else None

    def _by_hash(self, channel: bytes) -> Bus:
        return self._buses[shard(channel, len(self._buses))]

    def _numbered(self, payload: bytes) -> bytes:
        self._number += 1
        return _HEADER.pack(self._sender, self._number) + payload

    def _on_sent(self, task: asyncio.Task[int | None]) -> None:
        self._sending.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved: another bus may have sent the message


class _Deduplicator:
    """Recognition of the first copy of a message, however late the others arrive."""

    def __init__(self) -> None:
        #: sender -> numbers of the latest messages, in order of arrival
        self._recent: OrderedDict[bytes, dict[int, None]] = OrderedDict()
        #: sender -> the highest number that is no longer among them
        self._forgotten: dict[bytes, int] = {}

    def is_first(self, sender: bytes, number: int) -> bool:
        recent = self._recent.setdefault(sender, {})
        self._recent.move_to_end(sender)
        forgotten = self._forgotten.get(sender, 0)
        if number in recent or number <= forgotten:
            return False
        recent[number] = None
        if len(recent) > _WINDOW:
            oldest = next(iter(recent))
            del recent[oldest]
            self._forgotten[sender] = max(forgotten, oldest)
        if len(self._recent) > _SENDERS_MAX:
            idle, _ = self._recent.popitem(last=False)
            self._forgotten.pop(idle, None)
        return True
