# SPDX-License-Identifier: Apache-2.0
"""What a measured client does and counts, in a process of its own.

The functions of a contender take a session: `PublishSession` for those that publish, one of the
others for those that listen.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Sequence
from concurrent.futures import Future
from threading import Event
from typing import Any, Protocol

import msgspec

#: Each subscriber reports here how many messages a second it receives.
METRICS = b"bench/metrics"
#: Messages that are published between two looks at the clock; contenders that wait for their
#: broker do so once for these: the article's buffer has as many.
BURST = 1000
#: Seconds without a message after which nothing more is expected.
_QUIET_SECONDS = 0.5
#: Bytes of a time, at the beginning of a payload of the relay.
STAMP_BYTES = 8
#: One in so many messages has its latency measured: for all, that would cost more than the bus.
_MEASURED_EVERY = 16


class ClientSpec(msgspec.Struct, frozen=True):
    """What a process is to do."""

    #: the name of a contender
    contender: str
    #: a key of `process.ROLES`
    role: str
    #: of the broker
    address: str
    channels: int
    #: bytes of a message
    size: int
    #: messages a second, of a publisher with a rate
    rate: float = 0.0


class RoundSchedule(msgspec.Struct, frozen=True):
    """When things happen, in seconds of CLOCK_MONOTONIC, which processes share."""

    begin: float
    #: the end of the warm-up
    count_from: float
    end: float
    #: when to stop waiting for messages that have not arrived yet
    drain_until: float


class ClientResult(msgspec.Struct, frozen=True):
    #: published or received, from begin to end
    messages: int = 0
    #: those between the warm-up and the end
    counted: int = 0
    #: seconds of CPU, in the same time
    cpu: float = 0.0
    #: messages a second, as the subscribers reported them
    reports: Sequence[float] = ()
    #: how often messages may have been missed, where the client knows
    gaps: int = 0
    #: of the relay, in milliseconds
    p50: float = 0.0
    p99: float = 0.0


class ClientSession:
    """Base of the sessions: a client begins, and is measured for a while."""

    def __init__(self, spec: ClientSpec) -> None:
        self.channels: Sequence[bytes] = [b"bench/%d" % n for n in range(spec.channels)]
        self.messages = 0
        self.gaps = 0
        self.ready = Event()
        self.schedule: Future[RoundSchedule] = Future()

    def begin(self) -> None:
        """Tells that the client is connected, and subscribed; blocks until the round begins."""
        self.ready.set()
        schedule = self.schedule.result()
        time.sleep(max(0.0, schedule.begin - time.monotonic()))

    def result(self) -> ClientResult:
        return ClientResult(messages=self.messages, gaps=self.gaps)


class PublishSession(ClientSession):
    def __init__(self, spec: ClientSpec) -> None:
        super().__init__(spec)
        self.payload = b"x" * spec.size
        self.rate = spec.rate

    def is_over(self) -> bool:
        return time.monotonic() >= self.schedule.result().end

    def stamped(self) -> bytes:
        """Returns a payload that begins with the time, for what is published now."""
        return time.monotonic_ns().to_bytes(STAMP_BYTES, sys.byteorder) + self.payload[STAMP_BYTES:]


class ListenSession(ClientSession, ABC):
    @abstractmethod
    def count(self, payload: bytes) -> bytes | None:
        """Takes a message that was received; returns what is to be published on METRICS."""


class CountSession(ListenSession):
    """Counts messages, and reports their rate each second, as the article's subscribers do."""

    def __init__(self, spec: ClientSpec) -> None:
        super().__init__(spec)
        self._last = 0.0
        self._reported = 0

    def begin(self) -> None:
        super().begin()
        self._last = time.monotonic()

    def count(self, payload: bytes) -> bytes | None:
        self.messages += 1
        now = time.monotonic()
        if now - self._last <= 1:
            return None
        rate = (self.messages - self._reported) / (now - self._last)
        self._last, self._reported = now, self.messages
        return b"%.1f" % rate


class CollectSession(ListenSession):
    """Collects what subscribers report; the warm-up is left out."""

    def __init__(self, spec: ClientSpec) -> None:
        super().__init__(spec)
        self.channels = [METRICS]
        self._reports: list[float] = []

    def count(self, payload: bytes) -> bytes | None:
        schedule = self.schedule.result()
        # A report is about the second before it.
        if schedule.count_from + 1 <= time.monotonic() <= schedule.end:
            self._reports.append(float(payload))
        return None

    def result(self) -> ClientResult:
        return ClientResult(reports=self._reports)


class LatencySession(ListenSession):
    """Measures how old messages are when they arrive; the warm-up is left out."""

    def __init__(self, spec: ClientSpec) -> None:
        super().__init__(spec)
        #: in nanoseconds; bounded by the time and the rate of a round
        self._latencies = array("q")

    def count(self, payload: bytes) -> bytes | None:
        self.messages += 1
        if self.messages % _MEASURED_EVERY == 0:
            now = time.monotonic_ns()
            if now > self.schedule.result().count_from * 1e9:
                self._latencies.append(now - int.from_bytes(payload[:STAMP_BYTES], sys.byteorder))
        return None

    def result(self) -> ClientResult:
        found = sorted(self._latencies) or [0]
        return ClientResult(
            messages=self.messages,
            gaps=self.gaps,
            p50=found[len(found) // 2] / 1e6,
            p99=found[len(found) * 99 // 100] / 1e6,
        )


def wait_until_quiet(session: ClientSession, until: float) -> None:
    """Waits until no more messages arrive, or for the time *until*."""
    last, since = session.messages, time.monotonic()
    while (now := time.monotonic()) < until and now - since < _QUIET_SECONDS:
        time.sleep(0.05)
        if session.messages != last:
            last, since = session.messages, time.monotonic()


class ClientModule(Protocol):
    """What the module of a contender has; both functions end with their process at the latest."""

    def publish(self, address: str, session: PublishSession) -> Any:
        """Publishes until the session is over; returns when the broker has everything."""

    def listen(self, address: str, session: ListenSession) -> Any:
        """Subscribes, begins, and counts messages."""
