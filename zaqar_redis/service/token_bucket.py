# SPDX-License-Identifier: Apache-2.0
"""A token bucket: so many requests a second, and some at once."""

from __future__ import annotations

from collections.abc import Callable

#: Seconds for which a bucket saves up: clients send in bursts.
_BURST_SECONDS = 1.0
#: Seconds until a bucket without a rate is to be tried again: its rate may have changed.
_CLOSED_SECONDS = 60.0


class TokenBucket:
    """Full at first.

    It looks at the clock only when it is empty, for that costs as much as all else: so it may let
    through at once what it has, and what it has saved up since it was filled last.
    """

    __slots__ = ("_filled_at", "_now", "_rate", "_size", "tokens")

    def __init__(self, rate: float, now: Callable[[], float]) -> None:
        """*rate*: tokens a second.  *now*: the clock, in seconds."""
        self._now = now
        self._filled_at = now()
        self.tokens = 0.0
        self.set_rate(rate)
        self.tokens = self._size

    def set_rate(self, rate: float) -> None:
        """Changes the rate; what was saved up stays, as far as it fits."""
        self._rate = rate
        # A low rate lets single requests through, too.
        self._size = max(1.0, rate * _BURST_SECONDS) if rate > 0 else 0.0
        self.tokens = min(self.tokens, self._size)

    def take(self) -> float:
        """Takes a token and returns 0.0, or returns the seconds until there is one."""
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return 0.0
        now = self._now()
        tokens = min(self._size, self.tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if tokens >= 1.0:
            self.tokens = tokens - 1.0
            return 0.0
        self.tokens = tokens
        return (1.0 - tokens) / self._rate if self._rate > 0 else _CLOSED_SECONDS

    def is_full(self) -> bool:
        """Returns whether the bucket is as good as a new one."""
        return self.tokens + (self._now() - self._filled_at) * self._rate >= self._size
