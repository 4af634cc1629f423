# SPDX-License-Identifier: Apache-2.0
"""The rate of a subscription: its messages go out at even distances."""

from __future__ import annotations

import asyncio


class Pace:
    __slots__ = ("_loop", "_next", "_rate")

    def __init__(self, rate: float) -> None:
        """*rate*: messages a second; 0: as many as can be."""
        self._rate = rate
        self._loop = asyncio.get_running_loop()
        #: event loop's time when the next message may be sent
        self._next = 0.0

    def set_rate(self, rate: float) -> None:
        """Changes the rate, from the next message on."""
        self._rate = rate

    def wait(self) -> float:
        """Returns the seconds until the next message may be sent; 0: at once."""
        return max(0.0, self._next - self._loop.time()) if self._rate else 0.0

    def note(self, number: int) -> None:
        """Notes that so many messages are sent now."""
        if self._rate:
            self._next = max(self._next, self._loop.time()) + number / self._rate
