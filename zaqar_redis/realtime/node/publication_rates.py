# SPDX-License-Identifier: Apache-2.0
"""How many publications a second a channel has, as a node receives them.

All channels of a node share their windows of time: none has a timer, and a publication costs a
comparison and an addition, however many subscribers get it.
"""

from __future__ import annotations

import time

#: Seconds of a window. Rates cover this one and the one before: long enough for a channel with a
#: publication every few seconds, short enough to see that one has stopped.
_WINDOW = 5.0
#: Seconds that a node must have received a channel for: one publication is no rate yet.
_SECONDS_MIN = 1.0


class RateWindows:
    """The current window of a node, and when it and the one before it began."""

    __slots__ = ("before", "began", "number")

    def __init__(self) -> None:
        self.number = 0
        self.began = self.before = time.monotonic()

    def advance(self) -> None:
        """Begins the next window if the current one is over."""
        now = time.monotonic()
        if now - self.began >= _WINDOW:
            self.number += 1
            self.before, self.began = self.began, now


class PublicationCounter:
    """Counts the publications of one channel in the current window and the one before it."""

    __slots__ = ("_before", "_count", "_since", "_window", "_windows")

    def __init__(self, windows: RateWindows) -> None:
        self._windows = windows
        self._window = windows.number
        self._count = self._before = 0
        self._since = time.monotonic()

    def add(self) -> None:
        if self._window != self._windows.number:
            self._enter_window()
        self._count += 1

    def rate(self) -> float | None:
        """Returns publications a second; None: the node has not received it for long enough."""
        if self._window != self._windows.number:
            self._enter_window()
        seconds = time.monotonic() - max(self._since, self._windows.before)
        return (self._before + self._count) / seconds if seconds >= _SECONDS_MIN else None

    def _enter_window(self) -> None:
        number = self._windows.number
        self._before = self._count if number == self._window + 1 else 0
        self._window, self._count = number, 0
