# SPDX-License-Identifier: Apache-2.0
"""How long a window of time is."""

from __future__ import annotations

import re

from zaqar_redis import errors

#: Windows of one report: each comes to the driver, and a plot can show no more.
MOST = 2000
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
#: Lengths in seconds that people understand at a glance.
_LADDER = (
    *(1, 5, 10, 30, 60, 300, 600, 900, 1800),
    *(3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400, 30 * 86_400),
)


def seconds(text: str) -> int:
    """Of a window like ``10 minutes``.  Raises BadConfiguration."""
    found = re.fullmatch(r"([0-9]{1,5})\s*(second|minute|hour|day)s?", text.strip().lower())
    if not found or int(found[1]) == 0:
        raise errors.BadConfiguration(
            f'--window "{text}": it must be a time like 30 seconds, 1 minute, 6 hours or 1 day, '
            "at most 99999 of them"
        )
    return int(found[1]) * _UNITS[found[2]]


def widened(wanted: int, span: float) -> int:
    """A window of at least the *wanted* seconds, of which not too many make up the span."""
    if _number(wanted, span) <= MOST:
        return wanted
    for length in _LADDER:
        if length > wanted and _number(length, span) <= MOST:
            return length
    longest = max(wanted, _LADDER[-1])
    while _number(longest, span) > MOST:
        longest *= 2
    return longest


def _number(length: int, span: float) -> int:
    # Two more: neither end of the span need be an end of a window.
    return int(span // length) + 2


def shown(length: int) -> str:
    """In words."""
    for unit, size in reversed(_UNITS.items()):
        if length % size == 0:
            return f"{length // size} {unit}{'s' if length > size else ''}"
    return f"{length} seconds"
