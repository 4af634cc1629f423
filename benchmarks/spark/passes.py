# SPDX-License-Identifier: Apache-2.0
"""Whole passes over the same messages, by several contenders in turn.

The machine's other load changes from minute to minute: so the result is the median of the
ratios within a round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from benchmarks.support.figures import Figures
from benchmarks.support.rounds import in_turns, print_progress

#: Unit of figures: messages per second.
RATE = "rows/s"


class PassContender(msgspec.Struct, frozen=True):
    label: str
    #: runs a whole pass; returns its seconds, without its preparation
    run: Callable[[], float]
    #: target for the speed of the first contender, as a multiple of this one's
    min_ratio: float = 0.0


def timed(action: Callable[[], object]) -> float:
    """Returns the seconds that the action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def take_turns(
    figures: Figures, part: str, messages: int, contenders: Sequence[PassContender], rounds: int
) -> None:
    """Runs rounds of all in turn; the first is a warm-up of Java, caches and files."""
    first, *others = contenders
    rates = {each.label: figures.figure(part, each.label, RATE) for each in contenders}
    ratios = {
        each.label: figures.figure(
            part, f"{first.label} : {each.label}", "ratio", ("≥", each.min_ratio)
        )
        for each in others
    }
    for number, order in in_turns(contenders, rounds, first=0):
        seconds: dict[str, float] = {}
        for each in order:
            seconds[each.label] = each.run()
            rate = messages / seconds[each.label]
            print_progress(f"{part}: round {number} of {rounds}, {each.label}: {rate:.0f} {RATE}")
        if number:
            for label, took in seconds.items():
                rates[label].append(messages / took)
                if label in ratios:
                    ratios[label].append(took / seconds[first.label])
