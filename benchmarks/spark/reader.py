# SPDX-License-Identifier: Apache-2.0
"""A job that reads a queue repeatedly between two commands; part of another benchmark.

    python -m benchmarks.spark.reader URI QUEUE FOLDER

It has the priority of jobs, and its files in the folder.  It prints a line when it is ready.
A line on standard input starts the reading, and the next one ends it; then it prints the
rows per second.
"""

from __future__ import annotations

import select
import sys
import time

from pyspark.sql import DataFrame

from benchmarks.spark.testbed import MASTER, drain, read_options, spark_settings
from zaqar_redis.spark.jobs import session


def main() -> int:
    _, uri, queue, folder = sys.argv
    with session.session("benchmark reader", MASTER, spark_settings(folder)) as spark:
        frame = spark.read.format("zaqar").options(**read_options(uri, queue)).load()
        rows = frame.count()  # also the warm-up
        print("ready", flush=True)
        while sys.stdin.readline():
            print(_reading(frame, rows), flush=True)
            sys.stdin.readline()
    return 0


def _reading(frame: DataFrame, rows: int) -> float:
    """Reads until there is a line, or the end, of standard input; returns rows per second."""
    passes, start = 0, time.monotonic()
    while not select.select([sys.stdin], [], [], 0)[0]:
        drain(frame)
        passes += 1
    return passes * rows / (time.monotonic() - start)


if __name__ == "__main__":
    raise SystemExit(main())
