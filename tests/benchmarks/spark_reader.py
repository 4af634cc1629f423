# SPDX-License-Identifier: Apache-2.0
"""A job that reads a queue over and over while it is told to; part of another benchmark.

    python -m tests.benchmarks.spark_reader URI QUEUE FOLDER

It has the priority that jobs have, and its files in the folder.  A line says that it is
ready; a line to it begins, and the next one ends; then it prints how many rows it had in a
second.
"""

from __future__ import annotations

import select
import sys
import time

from pyspark.sql import DataFrame

from tests.benchmarks.spark_site import MASTER, drain, read_options, spark_settings
from zaqar_redis.spark.jobs import session


def main() -> int:
    _, uri, queue, folder = sys.argv
    with session.session("benchmark reader", MASTER, spark_settings(folder)) as spark:
        frame = spark.read.format("zaqar").options(**read_options(uri, queue)).load()
        rows = frame.count()  # that was cold
        print("ready", flush=True)
        while sys.stdin.readline():
            print(_reading(frame, rows), flush=True)
            sys.stdin.readline()
    return 0


def _reading(frame: DataFrame, rows: int) -> float:
    """Rows a second until somebody has something to say, or is not there any more."""
    passes, start = 0, time.monotonic()
    while not select.select([sys.stdin], [], [], 0)[0]:
        drain(frame)
        passes += 1
    return passes * rows / (time.monotonic() - start)


if __name__ == "__main__":
    raise SystemExit(main())
