# SPDX-License-Identifier: Apache-2.0
"""Messages that are published in one iteration of the event loop travel together.

All that go to one channel are one *frame*, so that a broker handles one message instead of many,
and so does each receiver.  A single message is a frame as it is.  Several, or one that begins
with a zero byte, are a zero byte and a list of byte strings in msgpack.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import msgspec

from zaqar_redis import errors
from zaqar_redis.keyspace.refusals import RefusalLog
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.realtime.bus import Deliver, OnDropped, ignore_dropped

LOG = logging.getLogger(__name__)

#: Bytes of a frame, unless a single message is larger: a receiver does nothing else meanwhile.
_FRAME_MAX = 64 * 1024
#: Frames that are written and not answered yet: a part of the commands that a client of Redis may
#: have in flight, and enough for a busy one.  The slower the bus, the more messages a frame has.
_IN_FLIGHT_MAX = 2048
#: Seconds to wait at the end until the broker has what was sent.
_DRAIN_SECONDS = 1.0
#: Bytes that a message costs beside its payload while it waits.
_OVERHEAD = 64

_REFUSALS = RefusalLog("bus")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


def pack(payloads: Sequence[bytes]) -> bytes:
    """Returns the frame of messages, at least one."""
    if len(payloads) == 1 and payloads[0][:1] != b"\0":
        return payloads[0]
    return b"\0" + _encode(payloads)


def unpack(frame: bytes) -> Sequence[bytes]:
    """Returns the messages of a frame.  Raises ValueError."""
    if frame[:1] != b"\0":
        return (frame,)
    return _decode(memoryview(frame)[1:])


#: Takes a channel and a frame; returns the future of how many nodes receive it, None: not known.
#: The future raises BusUnavailable, Overloaded or ContentTooLarge when the frame is not sent.
Write = Callable[[bytes, bytes], asyncio.Future[int | None]]

#: Takes a channel; returns whether its messages travel together.
Packs = Callable[[bytes], bool]

_Receipts = deque[tuple[int, asyncio.Future[int | None]]]


def pack_all(channel: bytes) -> bool:
    return True


class FrameSender:
    """Collects messages, and writes a frame for each channel at the end of the iteration."""

    def __init__(
        self, name: str, write: Write, backlog_bytes: int, packs: Packs = pack_all
    ) -> None:
        """*backlog_bytes*: of what waits to be written at most; the rest is dropped.

        *packs*: whether messages on a channel travel together.
        """
        self._name = name
        self.on_dropped: OnDropped = ignore_dropped
        self._write = write
        self._backlog_bytes = backlog_bytes
        self._packs = packs
        self._waiting: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self._size = 0
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        #: of `send`, by channel: the place of a message among those that wait, and its future
        self._receipts: defaultdict[bytes, _Receipts] = defaultdict(deque)

    def publish(self, channel: bytes, payload: bytes) -> bool:
        """Returns False for a message that is dropped, as too much waits."""
        size = len(payload) + _OVERHEAD
        if self._size + size > self._backlog_bytes:
            metrics.BUS_DROPPED.add(self._name, "backlog")
            self.on_dropped(channel)
            return False
        if not self._waiting and self._in_flight < _IN_FLIGHT_MAX:
            asyncio.get_running_loop().call_soon(self.flush)
        self._size += size
        self._waiting[channel].append(payload)
        return True

    async def send(self, channel: bytes, payload: bytes) -> int | None:
        """Raises BusUnavailable, Overloaded and ContentTooLarge."""
        if not self.publish(channel, payload):
            raise errors.Overloaded(store=self._name)
        receipt: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._receipts[channel].append((len(self._waiting[channel]) - 1, receipt))
        return await receipt

    async def drain(self) -> None:
        """Writes all that waits, and waits until it is answered."""
        self.flush()
        await self._idle.wait()

    def flush(self) -> None:
        """Writes what waits, as much as may be in flight; the rest follows the answers."""
        while self._waiting and self._in_flight < _IN_FLIGHT_MAX:
            channel = next(iter(self._waiting))
            payloads = self._waiting.pop(channel)
            self._size -= sum(map(len, payloads)) + _OVERHEAD * len(payloads)
            self._write_frames(channel, payloads, self._receipts.pop(channel, deque()))

    def _write_frames(self, channel: bytes, payloads: list[bytes], receipts: _Receipts) -> None:
        end = 0
        frames = _frames(payloads) if self._packs(channel) else ([each] for each in payloads)
        for some in frames:
            written = self._write(channel, pack(some))
            self._in_flight += 1
            self._idle.clear()
            written.add_done_callback(self._counter(channel, len(some)))
            end += len(some)
            while receipts and receipts[0][0] < end:
                _pass_on(written, receipts.popleft()[1])

    def _counter(
        self, channel: bytes, messages: int
    ) -> Callable[[asyncio.Future[int | None]], None]:
        def count(written: asyncio.Future[int | None]) -> None:
            self._in_flight -= 1
            if self._waiting:
                self.flush()
            elif not self._in_flight:
                self._idle.set()
            if (reason := _drop_reason(written)) is not None:
                if reason == "too_large":
                    _REFUSALS.note(self._name, reason, cast(Exception, written.exception()))
                metrics.BUS_DROPPED.add(self._name, reason, by=messages)
                self.on_dropped(channel)
            else:
                metrics.BUS_SENT.add(self._name, by=messages)

        return count


class FramedBus(abc.ABC):
    """A bus over a broker, whose messages travel in frames."""

    def __init__(self, name: str, backlog_bytes: int, packs: Packs = pack_all) -> None:
        """*backlog_bytes*, *packs*: as `FrameSender` has them."""
        self.name = name
        self._sender = FrameSender(name, self._write, backlog_bytes, packs)
        self._is_started = False
        self._deliver: Deliver
        self._on_gap: Callable[[], None]
        self._end_measuring: Callable[[], None]

    @property
    @abc.abstractmethod
    def live(self) -> bool: ...

    async def start(
        self,
        deliver: Deliver,
        on_gap: Callable[[], None],
        channels: Sequence[bytes],
        on_dropped: OnDropped = ignore_dropped,
    ) -> None:
        if self._is_started:
            return
        self._is_started = True
        self._deliver, self._on_gap = deliver, on_gap
        self._sender.on_dropped = on_dropped
        self._end_measuring = metrics.BUS_UP.follow(lambda: self.live, self.name)
        await self._open(channels)

    async def stop(self) -> None:
        if not self._is_started:
            return
        self._is_started = False
        self._end_measuring()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._drain()
        await self._close()

    def publish(self, channel: bytes, payload: bytes) -> None:
        self._sender.publish(channel, payload)

    async def send(self, channel: bytes, payload: bytes) -> int | None:
        return await self._sender.send(channel, payload)

    def _deliver_frame(self, channel: bytes, frame: bytes) -> None:
        """Never raises: one message that cannot be delivered must not stop the others."""
        try:
            payloads = unpack(frame)
        except ValueError:
            self._log("a frame that is none", channel)
            return
        metrics.BUS_RECEIVED.add(self.name, by=len(payloads))
        for payload in payloads:
            try:
                self._deliver(channel, payload)
            except Exception:
                self._log("a message that could not be delivered", channel)

    def _log(self, what: str, channel: bytes) -> None:
        LOG.exception(
            "%s, on %.300r of bus %s", what, channel, self.name, extra={"action": "bus_message"}
        )

    async def _drain(self) -> None:
        await self._sender.drain()

    @abc.abstractmethod
    def _write(self, channel: bytes, frame: bytes) -> asyncio.Future[int | None]:
        """Is a `Write`."""

    @abc.abstractmethod
    async def _open(self, channels: Sequence[bytes]) -> None:
        """Connects, and waits for a while until the channels are subscribed to."""

    @abc.abstractmethod
    async def _close(self) -> None: ...


def _drop_reason(written: asyncio.Future[int | None]) -> str | None:
    """Returns why a frame was dropped; None: it was sent."""
    error = None if written.cancelled() else written.exception()
    if isinstance(error, errors.ContentTooLarge):
        return "too_large"
    if isinstance(error, errors.Overloaded):
        return "backlog"
    return "unavailable" if error is not None or written.cancelled() else None


def _frames(payloads: list[bytes]) -> Iterator[list[bytes]]:
    """Yields the messages of each frame."""
    if sum(map(len, payloads)) <= _FRAME_MAX:
        yield payloads
        return
    some: list[bytes] = []
    size = 0
    for payload in payloads:
        if some and size + len(payload) > _FRAME_MAX:
            yield some
            some, size = [], 0
        some.append(payload)
        size += len(payload)
    yield some


def _pass_on(source: asyncio.Future[int | None], receipt: asyncio.Future[int | None]) -> None:
    def done(_: object) -> None:
        with contextlib.suppress(asyncio.InvalidStateError):  # whoever waited may have left
            if source.cancelled():
                receipt.cancel()
            elif (error := source.exception()) is not None:
                receipt.set_exception(error)
                receipt.exception()  # retrieved: whoever waits may be cancelled right now
            else:
                receipt.set_result(source.result())

    source.add_done_callback(done)
