# SPDX-License-Identifier: Apache-2.0
"""The store's clock, as far as its last answer tells."""

from __future__ import annotations

import asyncio


class StoreClock:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        #: the store's time less the event loop's, ms
        self._offset = 0.0

    def set(self, now: int) -> None:
        """*now*: what the store has just told, ms."""
        self._offset = now - self._loop.time() * 1000

    def now(self) -> int:
        """Returns the store's time, ms."""
        return round(self._loop.time() * 1000 + self._offset)

    def loop_time(self, time: int) -> float:
        """Returns the event loop's time, s, at a time of the store."""
        return (time - self._offset) / 1000
