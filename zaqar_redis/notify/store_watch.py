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
