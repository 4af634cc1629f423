# SPDX-License-Identifier: Apache-2.0
"""Clocks: one that only a test advances, and one that stands still with the machine."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

#: Seconds: how often a process shows that it runs, and a gap that no busy machine makes.
_TICK, _LONGEST = 0.05, 0.5


class ManualClock:
    """A clock in milliseconds that only a test advances."""

    def __init__(self, start: int = 1_800_000_000_000) -> None:
        self.now = start

    def __call__(self) -> int:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


@contextlib.contextmanager
def running_clock() -> Iterator[Callable[[], float]]:
    """Yields a clock of seconds that stands still while all processes of a run do.

    For promises in seconds: a service that was stopped together with its test did not break one.
    """
    stood_still, last = 0.0, time.monotonic()
    ends, lock = threading.Event(), threading.Lock()

    def clock() -> float:
        nonlocal stood_still, last
        with lock:
            now = time.monotonic()
            if now - last > _LONGEST:
                stood_still += now - last
            last = now
            return now - stood_still

    def tick() -> None:
        while not ends.wait(_TICK):
            clock()

    ticks = threading.Thread(target=tick)
    ticks.start()
    try:
        yield clock
    finally:
        ends.set()
        ticks.join()
