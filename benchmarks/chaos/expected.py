# SPDX-License-Identifier: Apache-2.0
"""Which acts a fault may have undone although they were acknowledged, as the documents say."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.chaos.checker import IsAtRisk
from benchmarks.chaos.history import Act
from benchmarks.chaos.report import AppliedFault


def _killed(fault: AppliedFault) -> int:
    """Returns how many primaries the fault has killed."""
    return int(str(fault.planned.what) in ("kill:primary", "kill:other-primary"))


def at_risk(
    faults: Sequence[AppliedFault], ack_replicas: int, replicas: int, lag: float
) -> IsAtRisk:
    """Returns whether what an act has changed may be lost.

    Only when a primary has been replaced, and not all of its *replicas* confirm changes. When some
    do, only if the old primary lives on: with the others it goes on for a moment. When none is
    waited for, also if it was killed. *lag*: seconds before the fault that count, too.
    """
    doubtful = [
        each
        for each in faults
        if ack_replicas < replicas and each.replacements > (_killed(each) if ack_replicas else 0)
    ]

    def is_at_risk(act: Act) -> bool:
        # One that was not answered may have been done at any time since it began.
        first = act.end if act.is_ok else act.begin
        return any(first <= each.settled and each.begin - lag <= act.end for each in doubtful)

    return is_at_risk


def while_replaced(faults: Sequence[AppliedFault], margin: float) -> IsAtRisk:
    """Returns whether an act ended while a primary was being replaced, or *margin* seconds off."""
    replacing = [each for each in faults if each.replacements]

    def is_replaced(act: Act) -> bool:
        return any(each.begin - margin <= act.end <= each.settled + margin for each in replacing)

    return is_replaced
