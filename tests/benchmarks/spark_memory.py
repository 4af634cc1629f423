# SPDX-License-Identifier: Apache-2.0
"""Python workers while a queue is read, and one that is ten times as long."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from tests.benchmarks.found import Found
from tests.benchmarks.rounds import tell
from tests.benchmarks.runs import descendants
from tests.benchmarks.spark_passes import timed
from tests.benchmarks.spark_site import QUEUE, Site, drain

#: How much longer the other queue is.
TIMES = 10
#: Seconds between two looks: a planner lives for longer.
_LOOK = 0.1
_LONG = "long"


def measure(site: Site, found: Found, rounds: int) -> None:
    lengths = {QUEUE: site.messages, _LONG: TIMES * site.messages}
    memory = {
        queue: found.figure("memory", f"largest worker, {length} messages", "MB", ("≤", 200))
        for queue, length in lengths.items()
    }
    times = found.figure("memory", f"time for {TIMES} times as many", "ratio", ("≤", 11.5))
    try:
        for queue, length in lengths.items():
            site.fill(queue, length)
        for number in range(rounds + 1):
            seconds = {}
            for queue in lengths:
                largest, seconds[queue] = _read(site, queue)
                tell(
                    f"memory: round {number} of {rounds}, {lengths[queue]} messages: "
                    f"{largest:.0f} MB, {seconds[queue]:.1f} s"
                )
                if number:  # the first is cold
                    memory[queue].append(largest)
            if number:
                times.append(seconds[_LONG] / seconds[QUEUE])
    finally:
        site.remove(_LONG)


def _read(site: Site, queue: str) -> tuple[float, float]:
    """Megabytes of the largest worker, planners among them; seconds."""
    with _largest(site.spark) as sizes:
        seconds = timed(lambda: drain(site.frame(queue)))
    return max(sizes), seconds


@contextlib.contextmanager
def _largest(spark: SparkSession) -> Iterator[list[float]]:
    """Megabytes of the largest worker at each look while the block runs."""
    java = java_pid(spark)
    sizes: list[float] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK):
            sizes.append(max(map(_resident, descendants(java)), default=0.0))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield sizes
    finally:
        ended.set()
        looking.join()


def java_pid(spark: SparkSession) -> int:
    java = spark.sparkContext._jvm
    assert java is not None
    return int(java.java.lang.ProcessHandle.current().pid())


def _resident(process: int) -> float:
    """Megabytes; 0 for one that has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
    return 0.0
