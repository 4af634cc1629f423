# SPDX-License-Identifier: Apache-2.0
"""Memory of Python workers that read a queue, and one that is ten times as long."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from pyspark.sql import SparkSession

from benchmarks.spark.passes import timed
from benchmarks.spark.testbed import QUEUE, SparkTestbed, drain
from benchmarks.support.figures import Figures
from benchmarks.support.processes import descendants, resident_bytes
from benchmarks.support.rounds import print_progress

#: Length of the other queue, as a multiple of the first.
TIMES = 10
#: Seconds between two readings: short enough to catch planners.
_POLL_INTERVAL_SECONDS = 0.1
_LONG = "long"


def measure(testbed: SparkTestbed, figures: Figures, rounds: int) -> None:
    lengths = {QUEUE: testbed.messages, _LONG: TIMES * testbed.messages}
    memory = {
        queue: figures.figure("memory", f"largest worker, {length} messages", "MB", ("≤", 200))
        for queue, length in lengths.items()
    }
    times = figures.figure("memory", f"time for {TIMES} times as many", "ratio", ("≤", 11.5))
    try:
        for queue, length in lengths.items():
            testbed.fill(queue, length)
        for number in range(rounds + 1):
            seconds = {}
            for queue in lengths:
                largest, seconds[queue] = _read(testbed, queue)
                print_progress(
                    f"memory: round {number} of {rounds}, {lengths[queue]} messages: "
                    f"{largest:.0f} MB, {seconds[queue]:.1f} s"
                )
                if number:  # the first is cold
                    memory[queue].append(largest)
            if number:
                times.append(seconds[_LONG] / seconds[QUEUE])
    finally:
        testbed.remove(_LONG)


def _read(testbed: SparkTestbed, queue: str) -> tuple[float, float]:
    """Returns the megabytes of the largest worker, planners included, and the seconds."""
    with _largest(testbed.spark) as sizes:
        seconds = timed(lambda: drain(testbed.frame(queue)))
    return max(sizes), seconds


@contextlib.contextmanager
def _largest(spark: SparkSession) -> Iterator[list[float]]:
    """Yields a list, to which megabytes of the largest worker are added while the block runs."""
    java = java_pid(spark)
    sizes: list[float] = []
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(_POLL_INTERVAL_SECONDS):
            sizes.append(max(map(resident_bytes, descendants(java)), default=0) / 1e6)

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        yield sizes
    finally:
        ended.set()
        polling.join()


def java_pid(spark: SparkSession) -> int:
    java = spark.sparkContext._jvm
    assert java is not None
    return int(java.java.lang.ProcessHandle.current().pid())
