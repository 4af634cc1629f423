# SPDX-License-Identifier: Apache-2.0
"""What processes of this machine use: CPU time and memory."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path


def cpu_seconds(process: int) -> float:
    """Returns the CPU time that a process has used.

    It reads the clock of clock_getcpuclockid(3): /proc counts in ticks of 10 ms, which is more
    than a few idle connections take in a second.
    """
    return time.clock_gettime(~process << 3 | 2)


def resident_bytes(process: int) -> int:
    """Returns the resident memory of a process, shared pages included; 0 when it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0
