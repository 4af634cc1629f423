# SPDX-License-Identifier: Apache-2.0
"""Rounds of two contenders in turn, and what the second costs compared with the first.

Rates depend on the machine's other load; the CPU time of a process per unit of work
hardly does. So both are recorded, round by round.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from zaqar_redis.bench import report
from zaqar_redis.bench.load import LoadSample
from zaqar_redis.bench.service import BenchmarkFailed

#: Seconds of the warm-up round.
_WARM_UP = 1

#: Kinds of targets: the rate of the second contender, or its cost compared with the
#: first, in time or in CPU time.
RATE, TIME, CPU = "rate", "time", "CPU time"


class CpuContender(msgspec.Struct, frozen=True):
    label: str
    #: runs a round of so many seconds
    measure: Callable[[int], LoadSample]
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


def take_turns(
    measurements: list[Measurement],
    name: str,
    what: str,
    unit: str,
    targets: Sequence[BenchmarkTarget],
    contenders: tuple[CpuContender, CpuContender],
    *,
    rounds: int,
    seconds: int,
) -> None:
    """Runs rounds A B B A A B …, after a warm-up round of each.

    Always second, a contender would be at a disadvantage of one or two percent.

    The measurement is added to *measurements* first, so that it is reported however the
    run ends.
    """
    samples: dict[str, list[LoadSample]] = {contender.label: [] for contender in contenders}
    cpu: dict[str, list[float]] = {contender.label: [] for contender in contenders}
    measurements.append(Measurement(report.WorkloadResult(name, what, unit, samples), targets, cpu))
    print_progress(f"{name}: {what}")
    for contender in contenders:
        contender.measure(_WARM_UP)
    for number, turn in itertools.product(range(1, rounds + 1), (0, 1)):
        contender = contenders[(number + 1 + turn) % 2]
        before = cpu_seconds(contender.process)
        sample = contender.measure(seconds)
        used = cpu_seconds(contender.process) - before
        samples[contender.label].append(sample)
        cpu[contender.label].append(used / max(sample.work, 1) * 1e6)
        print_progress(
            f"{name}: round {number} of {rounds}, {contender.label}: {sample.rate:.0f} {unit}, "
            f"{cpu[contender.label][-1]:.1f} µs of CPU each"
        )


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


def cpu_seconds(process: int) -> float:
    """Returns the CPU time that a process has used.

    It reads the clock of clock_getcpuclockid(3): /proc counts in ticks of 10 ms, which is more
    than a few idle connections take in a second.
    """
    return time.clock_gettime(~process << 3 | 2)


def print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def targets_table(measurements: Sequence[Measurement]) -> str:
    head = ["measured", "of", "", "median", "min", "max", "target", "is"]
    return report.table(head, [row for measured in measurements for row in _target_rows(measured)])


def _target_rows(measured: Measurement) -> list[list[str]]:
    first, second = measured.cpu
    rows = []
    for target in measured.targets:
        values = measured.values(target.kind)
        if not values:
            continue
        spread = report.spread(values)
        digits = 0 if target.kind == RATE else 2
        rows.append(
            [
                measured.finding.name,
                second if target.kind == RATE else f"{second} : {first}",
                measured.finding.unit if target.kind == RATE else target.kind,
                *(f"{value:.{digits}f}" for value in (spread.median, spread.min, spread.max)),
                f"{target.sign} {target.limit:g}",
                "met" if target.is_met(spread.median) else "missed",
            ]
        )
    return rows


def cpu_table(measurements: Sequence[Measurement]) -> str:
    rows = []
    for measured in measurements:
        for label, values in measured.cpu.items():
            if values:
                spread = report.spread(values)
                figures = [f"{value:.1f}" for value in (spread.median, spread.min, spread.max)]
                rows.append([measured.finding.name, label, *figures])
    return report.table(["CPU µs for each", "of", "median", "min", "max"], rows)
