# SPDX-License-Identifier: Apache-2.0
"""One round: the processes of its clients begin together, and are measured together."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import IO, Self, cast

import msgspec

from benchmarks.bus import process
from benchmarks.bus.brokers import RunningBroker
from benchmarks.bus.sessions import (
    STAMP_BYTES,
    ClientResult,
    ClientSpec,
    RoundSchedule,
)
from benchmarks.support.processes import cpu_seconds
from zaqar_redis.benchmarks.service import BenchmarkFailed

#: Seconds between the schedule and its beginning, of the warm-up, and for what is still on its
#: way at the end.
_LEAD_SECONDS, _WARM_UP_SECONDS, _DRAIN_SECONDS = 0.2, 1.0, 10.0
#: Characters of the error of a client that are shown.
_REASON_CHARACTERS = 2000


class BusSample(msgspec.Struct, frozen=True):
    """A round of one contender with a number of clients."""

    #: messages a second that a subscriber receives: the median of what they report each second
    per_client: float
    #: messages a second, of all subscribers
    total: float
    #: messages a second, of all publishers
    published: float
    #: seconds of CPU per million messages received
    cpu_publishers: float
    cpu_subscribers: float
    cpu_broker: float
    #: share of the published messages that did not reach a subscriber
    lost: float
    gaps: int


class RelaySample(msgspec.Struct, frozen=True):
    """A round of the relay from one node to another."""

    #: messages a second
    rate: float
    received: int
    #: milliseconds from publishing to delivery
    p50: float
    p99: float
    lost: float


class ClientProcess:
    def __init__(self, spec: ClientSpec, log: IO[bytes]) -> None:
        self.spec = spec
        self._log = log
        self._process = subprocess.Popen(
            [sys.executable, "-m", process.__name__, msgspec.json.encode(spec).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # Ctrl-C ends the command, which ends these
        )
        self._input = cast(IO[bytes], self._process.stdin)
        self._output = cast(IO[bytes], self._process.stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def wait_until_ready(self) -> None:
        if self._output.readline() != process.READY:
            raise self._failure()

    def begin(self, schedule: RoundSchedule) -> None:
        try:
            self._input.write(msgspec.json.encode(schedule) + b"\n")
            self._input.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def result(self) -> ClientResult:
        line = self._output.readline()
        if not line:
            raise self._failure()
        return msgspec.json.decode(line, type=ClientResult)

    def _failure(self) -> BenchmarkFailed:
        self._log.seek(0)
        reason = self._log.read().decode(errors="replace").strip()[-_REASON_CHARACTERS:]
        return BenchmarkFailed(f"the {self.spec.role} of {self.spec.contender}: {reason}")


@contextlib.contextmanager
def _ready(specs: Sequence[ClientSpec]) -> Iterator[list[ClientProcess]]:
    """Yields processes that are connected, and have subscribed."""
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(ClientProcess(spec, stack.enter_context(tempfile.TemporaryFile())))
            for spec in specs
        ]
        for each in processes:
            each.wait_until_ready()
        yield processes


def measure(
    specs: Sequence[ClientSpec], seconds: float, broker: RunningBroker
) -> tuple[list[ClientResult], float]:
    """Returns what each client found, and the seconds of CPU of the broker.

    Raises BenchmarkFailed when one of them fails.
    """
    with _ready(specs) as processes:
        begin = time.monotonic() + _LEAD_SECONDS
        end = begin + _WARM_UP_SECONDS + seconds
        schedule = RoundSchedule(begin, begin + _WARM_UP_SECONDS, end, end + _DRAIN_SECONDS)
        for each in processes:
            each.begin(schedule)
        time.sleep(max(0.0, schedule.count_from - time.monotonic()))
        before = cpu_seconds(broker.process)
        time.sleep(max(0.0, schedule.end - time.monotonic()))
        used = cpu_seconds(broker.process) - before
        return [each.result() for each in processes], used


def throughput(spec: ClientSpec, clients: int, seconds: float, broker: RunningBroker) -> BusSample:
    """Measures *clients* publishers and as many subscribers.

    *spec*: of one of them.  Raises BenchmarkFailed.
    """
    roles = ["collector", *["subscriber"] * clients, *["publisher"] * clients]
    specs = [msgspec.structs.replace(spec, role=role) for role in roles]
    results, broker_cpu = measure(specs, seconds, broker)
    collector, subscribers, publishers = (
        results[0],
        results[1 : clients + 1],
        results[clients + 1 :],
    )
    received = sum(each.counted for each in subscribers)
    if not received or not collector.reports:
        raise BenchmarkFailed(f"{spec.contender}: no messages were received")
    million = received / 1e6
    expected = sum(each.messages for each in publishers) * clients
    return BusSample(
        per_client=median(collector.reports),
        total=received / seconds,
        published=sum(each.counted for each in publishers) / seconds,
        cpu_publishers=sum(each.cpu for each in publishers) / million,
        cpu_subscribers=sum(each.cpu for each in subscribers) / million,
        cpu_broker=broker_cpu / million,
        lost=1 - sum(each.messages for each in subscribers) / expected,
        gaps=sum(each.gaps for each in subscribers),
    )


def relay(spec: ClientSpec, rate: float, seconds: float, broker: RunningBroker) -> RelaySample:
    """Measures the time from one node to another at *rate* messages a second.

    Raises BenchmarkFailed.
    """
    specs = [
        msgspec.structs.replace(spec, role=role, rate=rate, size=max(spec.size, STAMP_BYTES))
        for role in ("latency-subscriber", "rated-publisher")
    ]
    (subscriber, publisher), _ = measure(specs, seconds, broker)
    if not subscriber.messages or not publisher.counted:
        raise BenchmarkFailed(f"{spec.contender}: no messages were relayed")
    return RelaySample(
        rate=publisher.counted / seconds,
        received=subscriber.messages,
        p50=subscriber.p50,
        p99=subscriber.p99,
        lost=1 - subscriber.messages / publisher.messages,
    )
