# SPDX-License-Identifier: Apache-2.0
"""Which fault begins when, and for how long: the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import msgspec

from zaqar_redis import errors

#: Seconds before the first fault, and of calm after the last one.
WARM_UP, COOL_DOWN = 3.0, 4.0
#: Seconds between the end of a fault and the next one, at least and at most.
_CALM = (1.5, 4.0)


class FaultTarget(msgspec.Struct, frozen=True):
    """A fault and what it strikes: ``kill:primary``."""

    fault: str
    target: str

    def __str__(self) -> str:
        return f"{self.fault}:{self.target}"


class PlannedFault(msgspec.Struct, frozen=True):
    """A fault of the schedule; times are seconds."""

    #: from the beginning of the run
    at: float
    what: FaultTarget
    seconds: float


def plan(
    seed: int,
    seconds: float,
    choices: Sequence[FaultTarget],
    durations: Mapping[str, tuple[float, float]],
) -> list[PlannedFault]:
    """Returns the faults of a run of *seconds*, in the order of their times.

    All *choices* come once, in a random order, before any comes again. *durations*: how long a
    fault lasts, at least and at most, by its name.
    """
    chosen = random.Random(seed)
    found: list[PlannedFault] = []
    left: list[FaultTarget] = []
    at = WARM_UP
    while True:
        left = left or chosen.sample(choices, len(choices))
        what = left.pop()
        lasts = chosen.uniform(*durations[what.fault])
        if at + lasts + COOL_DOWN > seconds:
            return found
        found.append(PlannedFault(round(at, 2), what, round(lasts, 2)))
        at += lasts + chosen.uniform(*_CALM)


def select(names: Sequence[str], choices: Sequence[FaultTarget]) -> Sequence[FaultTarget]:
    """Returns the *choices* that names ask for: ``kill``, or ``kill:primary``; all without names.

    Raises BadConfiguration for a name that there is not.
    """
    for name in names:
        if not any(name in (each.fault, str(each)) for each in choices):
            known = ", ".join(map(str, choices))
            raise errors.BadConfiguration(f"there is no fault {name} here; choose from: {known}")
    return [each for each in choices if not names or {each.fault, str(each)} & set(names)]
