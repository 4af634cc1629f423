# SPDX-License-Identifier: Apache-2.0
"""What processes of this machine use: CPU time, memory, and processes of their own."""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from pathlib import Path


def cpu_seconds(process: int) -> float:
    """Returns the CPU time that a process has used.

    It reads the clock of clock_getcpuclockid(3): /proc counts in ticks of 10 ms, which is more
    than a few idle connections take in a second.
    """
    return time.clock_gettime(~process << 3 | 2)


def cpu_seconds_with_children(process: int) -> float:
    """Returns the CPU time of a process and of all its descendants, also of those that ended.

    Of descendants that ended it counts in ticks of 10 ms.
    """
    used = 0.0
    for each in (process, *descendants(process)):
        with contextlib.suppress(OSError):  # it has ended meanwhile, and counts for its parent
            stat = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            used += cpu_seconds(each) + sum(map(int, stat[13:15])) / os.sysconf("SC_CLK_TCK")
    return used


def resident_bytes(process: int) -> int:
    """Returns the resident memory of a process, shared pages included; 0 when it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def descendants(process: int) -> list[int]:
    """Returns the pids of all descendants of a process."""
    children: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children[parent].append(int(stat.parent.name))
    found = [process]
    for each in found:  # the list grows meanwhile
        found += children[each]
    return found[1:]
