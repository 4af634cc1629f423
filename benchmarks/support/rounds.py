# SPDX-License-Identifier: Apache-2.0
"""Rounds of two contenders in turn, and what the second costs compared with the first.

Rates depend on the machine's other load; the CPU time of a process per unit of work
hardly does. So both are recorded, round by round.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from benchmarks.support.processes import cpu_seconds
from zaqar_redis.benchmarks import report
from zaqar_redis.benchmarks.load import LoadSample
from zaqar_redis.benchmarks.service import BenchmarkFailed

T = TypeVar("T")

#: Seconds of the warm-up round, unless rounds are shorter.
_WARM_UP = 1

#: Kinds of targets: the rate of the second contender, or its cost compared with the
#: first, in time or in CPU time.
RATE, TIME, CPU = "rate", "time", "CPU time"


class CpuContender(msgspec.Struct, frozen=True):
    label: str
    #: runs a round of so many seconds
    measure: Callable[[float], LoadSample]
    #: the process whose CPU time counts
    process: int


class BenchmarkTarget(msgspec.Struct, frozen=True):
    kind: str
    sign: str
    limit: float

    def is_met(self, value: float) -> bool:
        signs = {"<": value < self.limit, "≤": value <= self.limit, "≥": value >= self.limit}
        return signs[self.sign]


class Measurement(msgspec.Struct, frozen=True):
    """One measured workload: its rounds, by contender."""

    finding: report.WorkloadResult
    targets: Sequence[BenchmarkTarget]
    #: microseconds of CPU time per unit of work
    cpu: Mapping[str, list[float]]

    def values(self, kind: str) -> list[float]:
        """Returns the values for a kind of target, for rounds that both contenders have."""
        first, second = self.cpu
        if kind == RATE:
            return [sample.rate for sample in self.finding.samples[second]]
        if kind == TIME:
            return self.finding.ratios(second)
        pairs = zip(self.cpu[first], self.cpu[second], strict=False)
        return [theirs / ours for ours, theirs in pairs if ours]


class Measurements:
    """All measurements of a run, as far as it has come."""

    def __init__(self) -> None:
        self._all: list[Measurement] = []

    def __bool__(self) -> bool:
        return any(any(measured.cpu.values()) for measured in self._all)

    def take_turns(
        self,
        name: str,
        what: str,
        unit: str,
        targets: Sequence[BenchmarkTarget],
        contenders: tuple[CpuContender, CpuContender],
        *,
        rounds: int,
        seconds: float,
    ) -> None:
        """Runs rounds of both in turn, after a warm-up round of each."""
        samples: dict[str, list[LoadSample]] = {contender.label: [] for contender in contenders}
        cpu: dict[str, list[float]] = {contender.label: [] for contender in contenders}
        # First, so that it is reported however the run ends.
        self._all.append(
            Measurement(report.WorkloadResult(name, what, unit, samples), targets, cpu)
        )
        print_progress(f"{name}: {what}")
        for contender in contenders:
            contender.measure(min(_WARM_UP, seconds))
        for number, order in in_turns(contenders, rounds):
            for contender in order:
                before = cpu_seconds(contender.process)
                sample = contender.measure(seconds)
                used = cpu_seconds(contender.process) - before
                samples[contender.label].append(sample)
                cpu[contender.label].append(used / max(sample.work, 1) * 1e6)
                print_progress(
                    f"{name}: round {number} of {rounds}, {contender.label}: "
                    f"{sample.rate:.0f} {unit}, {cpu[contender.label][-1]:.1f} µs of CPU each"
                )

    def findings(self) -> list[report.WorkloadResult]:
        return [measured.finding for measured in self._all]

    def tables(self) -> list[str]:
        return [self._targets(), self._cpu_ratios(), self._cpu()]

    def _targets(self) -> str:
        head = ["measured", "of", "", "median", "min", "max", "target", "is"]
        return report.table(head, [row for measured in self._all for row in _target_rows(measured)])

    def _cpu_ratios(self) -> str:
        rows = []
        for measured in self._all:
            if ratios := measured.values(CPU):
                first, second = measured.cpu
                rows.append([measured.finding.name, f"{second} : {first}", *figures(ratios, 2)])
        return report.table(["CPU time of the process", "of", "median", "min", "max"], rows)

    def _cpu(self) -> str:
        rows = [
            [measured.finding.name, label, *figures(values, 1)]
            for measured in self._all
            for label, values in measured.cpu.items()
            if values
        ]
        return report.table(["CPU µs for each", "of", "median", "min", "max"], rows)


def in_turns(
    contenders: Sequence[T], rounds: int, *, first: int = 1
) -> Iterator[tuple[int, Sequence[T]]]:
    """Yields the number of each round, and the contenders in its order: A B C, B C A, …

    Always second, a contender would be at a disadvantage of one or two percent.  *first*: the
    number of the first round; 0 adds a warm-up round.
    """
    order = deque(contenders)
    for number in range(first, rounds + 1):
        yield number, tuple(order)
        order.rotate(-1)


def figures(values: Sequence[float], digits: int) -> list[str]:
    """Returns cells: median, minimum and maximum."""
    spread = report.spread(values)
    return [f"{value:.{digits}f}" for value in (spread.median, spread.min, spread.max)]


def sample(
    delays: list[int],
    errors: int,
    passed: float,
    *,
    work: int | None = None,
    generator: float = 0.0,
) -> LoadSample:
    """Returns a sample from the nanoseconds of each operation; *work* is the units done.

    *generator* stays 0 when the measured code runs in this process.  Raises
    BenchmarkFailed when no operation succeeded.
    """
    if not delays:
        raise BenchmarkFailed(f"nothing was done, and {errors} failed")
    delays.sort()
    work = len(delays) if work is None else work
    return LoadSample(
        rate=work / passed,
        p50=delays[len(delays) // 2] / 1e6,
        p99=delays[len(delays) * 99 // 100] / 1e6,
        generator=generator,
        errors=errors,
        work=work,
    )


def print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _target_rows(measured: Measurement) -> list[list[str]]:
    first, second = measured.cpu
    rows = []
    for target in measured.targets:
        values = measured.values(target.kind)
        if not values:
            continue
        rows.append(
            [
                measured.finding.name,
                second if target.kind == RATE else f"{second} : {first}",
                measured.finding.unit if target.kind == RATE else target.kind,
                *figures(values, 0 if target.kind == RATE else 2),
                f"{target.sign} {target.limit:g}",
                "met" if target.is_met(report.spread(values).median) else "missed",
            ]
        )
    return rows
