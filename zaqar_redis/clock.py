# SPDX-License-Identifier: Apache-2.0
"""The clock that a store uses.

A clock returns milliseconds since the epoch, or 0 for "the store's own":
then Redis makes every decision about time, and hosts whose clocks disagree
cannot affect each other's claims.  Tests pass their own clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

Clock = Callable[[], int]


def process() -> int:
    """Returns the time of this process, for values that no other process sees."""
    return round(time.time() * 1000)


def age(now: int, since: int) -> int:
    """Returns how many whole seconds ago *since* was; 0 when the clock was set back behind it."""
    return (now - since) // 1000 if now > since else 0


def later(moment: datetime, seconds: int) -> datetime:
    """Returns the time *seconds* after another; at most the last that Python has, of year 9999."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=moment.tzinfo)


def store() -> int:
    """Returns 0: the store reads its own clock."""
    return 0
