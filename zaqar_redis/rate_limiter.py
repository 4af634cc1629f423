# SPDX-License-Identifier: Apache-2.0
"""Limits how fast messages are written, or delivered."""

from __future__ import annotations

import time


class RateLimiter:
    """Limits its owner to so many messages a second, at even distances; None, 0: no limit."""

    def __init__(self, rate: float | None) -> None:
        self.rate = rate
        self._next = 0.0

    def delay(self) -> float:
        """Returns the seconds until the next message; 0: at once."""
        return max(0.0, self._next - time.monotonic()) if self.rate else 0.0

    def wait(self) -> None:
        """Waits until the next message."""
        time.sleep(self.delay())

    def advance(self, messages: int) -> None:
        """Counts messages.  Time lost to delays is not caught up."""
        if self.rate:
            self._next = max(time.monotonic(), self._next) + messages / self.rate
