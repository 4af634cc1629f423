# SPDX-License-Identifier: Apache-2.0
"""Whether a store answers: no attempt begins while its outcome could not be settled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

#: Seconds after which a store that has not answered is away.
_AWAY_SECONDS = 1.0


class StoreWatch:
    def __init__(self) -> None:
        #: what is delivered now would come again
        self.is_away = False

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """While the block waits for the store: it is away as soon as that takes long."""
        late = asyncio.get_running_loop().call_later(_AWAY_SECONDS, self.note_away)
        try:
            yield
        finally:
            late.cancel()

    def note_away(self) -> None:
        self.is_away = True

    def note_answer(self) -> bool:
        """Returns whether it was away."""
        was_away, self.is_away = self.is_away, False
        return was_away


class StoreClock:
    """The store's clock, as far as its last answer tells."""

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
