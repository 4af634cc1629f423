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

from tests.benchmarks.found import Found
from tests.benchmarks.rounds import tell

#: Units of figures: a ratio of speeds, and messages in a second.
RATIO, RATE = "ratio", "rows/s"


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
