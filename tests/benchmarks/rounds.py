# SPDX-License-Identifier: Apache-2.0
"""Two contenders in turn, and what the second costs beside the first.

Rates depend on whatever else the machine does; the CPU time that a process used
for each unit of work hardly does. So both are kept, round by round.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from zaqar_redis.bench import report
from zaqar_redis.bench.load import Sample
from zaqar_redis.bench.service import Failed

#: Seconds of the round that nobody counts.
_WARM_UP = 1

#: What a target is about: the rate of the second contender, or what it costs beside
#: the first, in time or in CPU time.
RATE, TIME, CPU = "rate", "time", "CPU time"


class Contender(msgspec.Struct, frozen=True):
    label: str
    #: for so many seconds
    measure: Callable[[int], Sample]
    #: the process whose CPU time counts
    process: int


class Target(msgspec.Struct, frozen=True):
    kind: str
    sign: str
    limit: float

    def is_met(self, value: float) -> bool:
        signs = {"<": value < self.limit, "≤": value <= self.limit, "≥": value >= self.limit}
        return signs[self.sign]


class Measured(msgspec.Struct, frozen=True):
    """One thing that was measured: its rounds, by contender."""

    finding: report.Finding
    targets: Sequence[Target]
    #: microseconds of CPU time for a unit of work
    cpu: Mapping[str, list[float]]

    def values(self, kind: str) -> list[float]:
        """Round by round, as far as there are rounds of both contenders."""
        first, second = self.cpu
        if kind == RATE:
            return [sample.rate for sample in self.finding.samples[second]]
        if kind == TIME:
            return self.finding.ratios(second)
        pairs = zip(self.cpu[first], self.cpu[second], strict=False)
        return [there / here for here, there in pairs if here]


def take_turns(
    found: list[Measured],
    name: str,
    what: str,
    unit: str,
    targets: Sequence[Target],
    contenders: tuple[Contender, Contender],
    *,
    rounds: int,
    seconds: int,
) -> None:
    """A B B A A B …, after a round of each that does not count.

    Who comes second would be at a disadvantage of one or two percent.

    *found* gets what is measured when that begins, so that it is there however it ends.
    """
    samples: dict[str, list[Sample]] = {contender.label: [] for contender in contenders}
    cpu: dict[str, list[float]] = {contender.label: [] for contender in contenders}
    found.append(Measured(report.Finding(name, what, unit, samples), targets, cpu))
    tell(f"{name}: {what}")
    for contender in contenders:
        contender.measure(_WARM_UP)
    for number, turn in itertools.product(range(1, rounds + 1), (0, 1)):
        contender = contenders[(number + 1 + turn) % 2]
        before = cpu_seconds(contender.process)
        sample = contender.measure(seconds)
        used = cpu_seconds(contender.process) - before
        samples[contender.label].append(sample)
        cpu[contender.label].append(used / max(sample.work, 1) * 1e6)
        tell(
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
) -> Sample:
    """Out of the nanoseconds that each of so many things took, or *work* in all.

    *generator* stays 0 when what is measured happens in this very process.
    """
    if not delays:
        raise Failed(f"nothing was done, and {errors} failed")
    delays.sort()
    work = len(delays) if work is None else work
    return Sample(
        rate=work / passed,
        p50=delays[len(delays) // 2] / 1e6,
        p99=delays[len(delays) * 99 // 100] / 1e6,
        generator=generator,
        errors=errors,
        work=work,
    )


def cpu_seconds(process: int) -> float:
    """CPU time that a process has used.

    Of the clock that clock_getcpuclockid(3) gives for it: /proc counts in ticks of 10 ms, which
    is more than a few idle connections take in a second.
    """
    return time.clock_gettime(~process << 3 | 2)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def targets_table(found: Sequence[Measured]) -> str:
    head = ["measured", "of", "", "median", "min", "max", "target", "is"]
    return report.table(head, [row for measured in found for row in _target_rows(measured)])


def _target_rows(measured: Measured) -> list[list[str]]:
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


def cpu_table(found: Sequence[Measured]) -> str:
    rows = []
    for measured in found:
        for label, values in measured.cpu.items():
            if values:
                spread = report.spread(values)
                figures = [f"{value:.1f}" for value in (spread.median, spread.min, spread.max)]
                rows.append([measured.finding.name, label, *figures])
    return report.table(["CPU µs for each", "of", "median", "min", "max"], rows)
