# SPDX-License-Identifier: Apache-2.0
"""Lengths of time windows."""

from __future__ import annotations

import re

from zaqar_redis import errors

#: Windows of one report: each comes to the driver, and a plot can show no more.
MAX_WINDOWS = 2000
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
#: Lengths in seconds that are easy to read.
_ROUND_LENGTHS = (
    *(1, 5, 10, 30, 60, 300, 600, 900, 1800),
    *(3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400, 30 * 86_400),
)


def seconds(text: str) -> int:
    """Returns the length of a window like ``10 minutes``.  Raises BadConfiguration."""
    found = re.fullmatch(r"([0-9]{1,5})\s*(second|minute|hour|day)s?", text.strip().lower())
    if not found or int(found[1]) == 0:
        raise errors.BadConfiguration(
            f'--window "{text}": it must be a time like 30 seconds, 1 minute, 6 hours or 1 day, '
            "at most 99999 of them"
        )
    return int(found[1]) * _UNITS[found[2]]


def widen(wanted: int, span: float) -> int:
    """Returns a length of at least *wanted* s, so that MAX_WINDOWS cover the *span* in s."""
    if _number(wanted, span) <= MAX_WINDOWS:
        return wanted
    for length in _ROUND_LENGTHS:
        if length > wanted and _number(length, span) <= MAX_WINDOWS:
            return length
    longest = max(wanted, _ROUND_LENGTHS[-1])
    while _number(longest, span) > MAX_WINDOWS:
        longest *= 2
    return longest


def _number(length: int, span: float) -> int:
    # Two more: neither end of the span need be an end of a window.
    return int(span // length) + 2


def describe(length: int) -> str:
    """Returns the length in words."""
    for unit, size in reversed(_UNITS.items()):
        if length % size == 0:
            return f"{length // size} {unit}{'s' if length > size else ''}"
    return f"{length} seconds"
