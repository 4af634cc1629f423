# SPDX-License-Identifier: Apache-2.0
"""Whole passes over the same messages, by several contenders in turn.

What the machine does beside it changes from minute to minute: so what counts are ratios
within a round, and of those the median.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from tests.benchmarks.rounds import Target, tell
from zaqar_redis.bench import report

#: Units of figures: a ratio of speeds, and messages in a second.
RATIO, RATE = "ratio", "rows/s"


class Figure(msgspec.Struct, frozen=True):
    """Something that was measured, round by round."""

    part: str
    what: str
    unit: str
    #: None: it is only told
    target: Target | None
    values: list[float]


class Found:
    """What is found; it has what there is so far, however a run ends."""

    def __init__(self) -> None:
        self._figures: list[Figure] = []

    def figure(
        self, part: str, what: str, unit: str, target: tuple[str, float] | None = None
    ) -> list[float]:
        """Where to put the values.  *target* is a sign and a limit."""
        limit = Target(unit, *target) if target else None
        made = Figure(part, what, unit, limit, [])
        self._figures.append(made)
        return made.values

    def __bool__(self) -> bool:
        return any(figure.values for figure in self._figures)

    def tables(self) -> list[str]:
        """Markdown: what has a target, and what is only told."""
        return [self._targets(), self._told()]

    def _targets(self) -> str:
        rows = [
            [
                *_row(figure),
                f"{figure.target.sign} {figure.target.limit:g}",
                "met" if figure.target.is_met(report.spread(figure.values).median) else "missed",
            ]
            for figure in self._figures
            if figure.target and figure.values
        ]
        return report.table([*_HEAD, "target", "is"], rows) if rows else ""

    def _told(self) -> str:
        rows = [
            [*_row(figure), str(len(figure.values))]
            for figure in self._figures
            if figure.values and not figure.target
        ]
        return report.table([*_HEAD, "rounds"], rows) if rows else ""


_HEAD = ("part", "measured", "in", "median", "min", "max")


def _row(figure: Figure) -> list[str]:
    spread = report.spread(figure.values)
    digits = 2 if spread.median < 100 else 0
    figures = [f"{value:.{digits}f}" for value in (spread.median, spread.min, spread.max)]
    return [figure.part, figure.what, figure.unit, *figures]


class Contender(msgspec.Struct, frozen=True):
    label: str
    #: a whole pass: its seconds, without those of preparing it
    run: Callable[[], float]
    #: how much faster than it the first contender has to be
    times: float = 0.0
    #: rounds at most, for one that takes very long
    most: int = 100


def timed(action: Callable[[], object]) -> float:
    """Seconds that it takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def take_turns(
    found: Found, part: str, messages: int, contenders: Sequence[Contender], rounds: int
) -> None:
    """A B C, B C A, …; the first round does not count: Java, caches and files are cold."""
    first, *others = contenders
    rates = {each.label: found.figure(part, each.label, RATE) for each in contenders}
    ratios = {
        each.label: found.figure(part, f"{first.label} : {each.label}", RATIO, ("≥", each.times))
        for each in others
    }
    order = deque(contenders)
    for number in range(rounds + 1):
        seconds: dict[str, float] = {}
        for each in order:
            if number <= each.most:
                seconds[each.label] = each.run()
                rate = messages / seconds[each.label]
                tell(f"{part}: round {number} of {rounds}, {each.label}: {rate:.0f} {RATE}")
        order.rotate(-1)
        if number:
            for label, took in seconds.items():
                rates[label].append(messages / took)
                if label in ratios:
                    ratios[label].append(took / seconds[first.label])
