# SPDX-License-Identifier: Apache-2.0
"""A token bucket: so many requests a second, and some at once."""

from __future__ import annotations

#: Seconds for which an idle bucket saves up: clients send in bursts.
_BURST_SECONDS = 2.0
#: Seconds until a bucket without a rate is to be tried again: its rate may have changed.
_CLOSED_SECONDS = 60.0


class TokenBucket:
    """Full at first.  Times are in seconds, by one clock of the caller's."""

    __slots__ = ("_at", "_rate", "_size", "_tokens")

    def __init__(self, rate: float, now: float) -> None:
        """*rate*: tokens a second."""
        self._at = now
        self._tokens = 0.0
        self.set_rate(rate)
        self._tokens = self._size

    def set_rate(self, rate: float) -> None:
        """Changes the rate; what was saved up stays, as far as it fits."""
        self._rate = rate
        # A low rate lets single requests through, too.
        self._size = max(1.0, rate * _BURST_SECONDS) if rate > 0 else 0.0
        self._tokens = min(self._tokens, self._size)

    def take(self, now: float) -> float:
        """Takes a token and returns 0.0, or returns the seconds until there is one."""
        tokens = self._filled(now)
        self._at = now
        if tokens >= 1.0:
            self._tokens = tokens - 1.0
            return 0.0
        self._tokens = tokens
        return (1.0 - tokens) / self._rate if self._rate > 0 else _CLOSED_SECONDS

    def is_full(self, now: float) -> bool:
        """Returns whether the bucket is as good as a new one."""
        return self._filled(now) >= self._size

    def _filled(self, now: float) -> float:
        return min(self._size, self._tokens + (now - self._at) * self._rate)
