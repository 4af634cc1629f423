# SPDX-License-Identifier: Apache-2.0
"""A run: rounds of all contenders in turn, over their brokers."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from statistics import median

import msgspec

from benchmarks.bus import brokers, report, rounds
from benchmarks.bus.contenders import BusContender
from benchmarks.bus.sessions import ClientSpec
from benchmarks.support.rounds import in_turns, print_progress
from zaqar_redis.benchmarks import report as machine_report
from zaqar_redis.benchmarks.run import terminable
from zaqar_redis.benchmarks.service import BenchmarkFailed


class BusBenchmarkSettings(msgspec.Struct, frozen=True):
    contenders: Sequence[BusContender]
    clients: Sequence[int]
    channels: int
    #: bytes of a message
    size: int
    #: of a round, beside its warm-up
    seconds: int
    rounds: int
    #: URI of a Redis that runs already
    redis: str | None
    #: whether to measure the relay from node to node, too
    relay: bool


class BusRun:
    """What was measured, as far as it has come."""

    def __init__(self, settings: BusBenchmarkSettings) -> None:
        self._settings = settings
        self.failures: list[str] = []
        self.throughput = {
            (contender.name, clients): report.BusRounds(contender.name, clients, [])
            for clients in settings.clients
            for contender in settings.contenders
        }
        self.relay = {
            contender.name: report.RelayRounds(contender.name, [])
            for contender in settings.contenders
            if contender.is_ours
        }

    def measure(self, running: dict[str, brokers.RunningBroker]) -> None:
        """*running*: brokers by kind."""
        settings = self._settings
        for number, order in in_turns(settings.contenders, settings.rounds):
            for contender, clients in itertools.product(order, settings.clients):
                self._throughput(number, contender, clients, running[contender.broker])
        if settings.relay:
            ours = [each for each in settings.contenders if each.is_ours]
            for number, order in in_turns(ours, settings.rounds):
                for contender in order:
                    self._relay(number, contender, running[contender.broker])

    def _throughput(
        self, number: int, contender: BusContender, clients: int, broker: brokers.RunningBroker
    ) -> None:
        name = f"round {number} of {self._settings.rounds}, {contender.name}, {clients} clients"
        with self._noting(name):
            sample = rounds.throughput(
                self._spec(contender, broker), clients, self._settings.seconds, broker
            )
            self.throughput[contender.name, clients].samples.append(sample)
            print_progress(
                f"{name}: {sample.per_client:.0f} messages/s per client, "
                f"{100 * sample.lost:.1f} % lost"
            )

    def _relay(self, number: int, contender: BusContender, broker: brokers.RunningBroker) -> None:
        fewest = min(self._settings.clients)
        samples = self.throughput[contender.name, fewest].samples
        if not samples:
            return
        name = f"round {number} of {self._settings.rounds}, relay of {contender.name}"
        with self._noting(name):
            half = median(sample.per_client for sample in samples) / fewest / 2
            sample = rounds.relay(
                self._spec(contender, broker), half, self._settings.seconds, broker
            )
            self.relay[contender.name].samples.append(sample)
            print_progress(
                f"{name}: {sample.rate:.0f} messages/s, p50 {sample.p50:.2f} ms, "
                f"p99 {sample.p99:.2f} ms"
            )

    def _spec(self, contender: BusContender, broker: brokers.RunningBroker) -> ClientSpec:
        settings = self._settings
        return ClientSpec(contender.name, "", broker.address, settings.channels, settings.size)

    @contextlib.contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        """A round that fails is reported; the others go on."""
        try:
            yield
        except BenchmarkFailed as error:
            self.failures.append(f"{name} failed: {error}")
            print_progress(self.failures[-1])


def run_bus_benchmark(
    settings: BusBenchmarkSettings, command: str
) -> tuple[report.BusReport, bool]:
    """Returns the report, and whether it is complete: Ctrl-C ends a run early and cleanly.

    Raises BenchmarkFailed when a broker does not start.
    """
    machine = machine_report.machine()
    run = BusRun(settings)
    interrupted: list[str] = []
    try:
        with terminable(), contextlib.ExitStack() as stack:
            kinds = dict.fromkeys(contender.broker for contender in settings.contenders)
            run.measure({kind: stack.enter_context(_broker(kind, settings)) for kind in kinds})
    except KeyboardInterrupt:
        interrupted.append("the run was interrupted; the last rows have fewer rounds")
    throughput = [each for each in run.throughput.values() if each.samples]
    relay = [each for each in run.relay.values() if each.samples]
    notes = [*report.LIMITATIONS, *([report.RELAY_LIMITATION] if relay else []), *interrupted]
    found = report.BusReport(command, machine, throughput, relay, notes, run.failures)
    return found, not interrupted


def _broker(
    kind: str, settings: BusBenchmarkSettings
) -> contextlib.AbstractContextManager[brokers.RunningBroker]:
    if kind == "redis" and settings.redis is not None:
        return brokers.running_redis(settings.redis)
    return brokers.BROKERS[kind]()
