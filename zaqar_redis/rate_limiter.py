# SPDX-License-Identifier: Apache-2.0
"""Limits how fast commands and jobs write."""

from __future__ import annotations

import time


class RateLimiter:
    """Limits its owner to so many messages a second; None: no limit."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._next = 0.0

    def wait(self) -> None:
        """Waits until more may be written."""
        time.sleep(max(0.0, self._next - time.monotonic()))

    def advance(self, messages: int) -> None:
        """Counts written messages.  Time lost to delays is not caught up."""
        if self._rate is not None:
            self._next = max(time.monotonic(), self._next) + messages / self._rate
