# SPDX-License-Identifier: Apache-2.0
"""Whose clock the store goes by.

A clock returns milliseconds since the epoch, or 0 for "the store's own":
then every decision about time is made by Redis, and hosts whose clocks
disagree cannot move each other's claims.  Tests hand in a clock they own.
"""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]


def process() -> int:
    """Of this process, for what nobody else sees."""
    return round(time.time() * 1000)


def store() -> int:
    """Let the store read its own clock."""
    return 0
