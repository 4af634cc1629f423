# SPDX-License-Identifier: Apache-2.0
"""What this process uses, and how late its event loop is: for its metrics, and for its node."""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections import deque
from pathlib import Path

from zaqar_redis.metrics.definitions import LOOP_LAG

#: Seconds over which `ProcessLoad` looks back; its samples come some ten times a second.
_WINDOW = 10.0
_STATM = Path("/proc/self/statm")


class ProcessLoad:
    """Figures of the last ten seconds."""

    def __init__(self) -> None:
        #: of each sample when it was, the CPU time until then, and how late it was
        self._samples: deque[tuple[float, float, float]] = deque()

    async def sleep(self, seconds: float) -> None:
        """Sleeps, and notes by how much longer than wanted."""
        due = time.monotonic() + seconds
        await asyncio.sleep(seconds)
        self.note(time.monotonic() - due)

    def note(self, lag: float) -> None:
        """Notes that a timer came *lag* seconds late."""
        now, lag = time.monotonic(), max(0.0, lag)
        LOOP_LAG.observe(lag)
        self._samples.append((now, time.process_time(), lag))
        while self._samples[0][0] < now - _WINDOW:
            self._samples.popleft()

    @property
    def loop_lag(self) -> float:
        """The longest delay of the event loop, in milliseconds."""
        return 1000 * max((lag for _, _, lag in self._samples), default=0.0)

    @property
    def cpu(self) -> float:
        """The share of one core."""
        now = time.monotonic()
        began, used, _ = self._samples[0] if self._samples else (now, 0.0, 0.0)
        return (time.process_time() - used) / (now - began) if now > began else 0.0


#: That of this process.
LOAD = ProcessLoad()


def resident_memory() -> int:
    """Returns the resident memory in bytes; where the system does not tell, its highest value."""
    try:
        return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most
