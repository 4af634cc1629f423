# SPDX-License-Identifier: Apache-2.0
"""What this process uses, and how late its event loop is."""

from __future__ import annotations

import resource
import sys
import time
from collections import deque
from pathlib import Path

#: Ticks of the node over which CPU and lag are reported: ten seconds.
_TICKS = 20
_STATM = Path("/proc/self/statm")


class ProcessLoad:
    """Figures of the last ten seconds; `tick` is called twice a second."""

    def __init__(self) -> None:
        self._lags: deque[float] = deque(maxlen=_TICKS)
        self._times: deque[tuple[float, float]] = deque(
            [(time.monotonic(), time.process_time())], maxlen=_TICKS
        )

    def tick(self, lag: float) -> None:
        """*lag*: seconds by which the tick came late."""
        self._lags.append(max(0.0, lag))
        self._times.append((time.monotonic(), time.process_time()))

    @property
    def loop_lag(self) -> float:
        """The longest delay of the event loop, in milliseconds."""
        return 1000 * max(self._lags, default=0.0)

    @property
    def cpu(self) -> float:
        """The share of one core."""
        began, used = self._times[0]
        passed = time.monotonic() - began
        return (time.process_time() - used) / passed if passed > 0 else 0.0

    @property
    def memory(self) -> int:
        """Resident memory in bytes; where the system does not tell, its maximum."""
        try:
            return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()
        except OSError:
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return most if sys.platform == "darwin" else 1024 * most
