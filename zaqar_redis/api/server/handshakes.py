# SPDX-License-Identifier: Apache-2.0
"""WebSockets begin one after the other, so that requests do not wait for thousands of them.

After a reload or an outage all clients come back at once.  One connection is accepted in each
iteration of the event loop, in a tenth of the time that a socket takes until it has subscribed: a
new connection for requests would wait for all sockets that came before it.  With 1 500 of them on a
busy machine that was 6 to 8 s, and is 10 ms for half of the requests, 0.2 to 0.8 s for one in a
hundred; the sockets are back as soon.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

#: Iterations of the loop, or else CPU seconds, that others have after each socket.
_ITERATIONS, _SECONDS = 8, 0.002
#: Sockets that begin in one iteration, when the one before took long.
_AT_ONCE = 8


class Handshakes:
    """Those of a process that wait for their turn."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        #: when the last one began (CPU seconds of the thread), and the iterations since then
        self._began_at, self._iterations = 0.0, 0

    def add(self, begin: Callable[[], None]) -> None:
        """Calls *begin* in its turn."""
        self._waiting.append(begin)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        now = time.thread_time()
        self._iterations += 1
        due = int((now - self._began_at) / _SECONDS) or self._iterations // _ITERATIONS
        loop = asyncio.get_running_loop()
        for _ in range(min(due, _AT_ONCE, len(self._waiting))):
            self._began_at, self._iterations = now, 0
            loop.call_soon(self._waiting.popleft())
        if self._waiting:
            loop.call_soon(self._go_on)
