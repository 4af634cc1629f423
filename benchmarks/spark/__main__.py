# SPDX-License-Identifier: Apache-2.0
"""The Spark data source, compared with what Redis can do and with other implementations.

    python -m benchmarks.spark
    python -m benchmarks.spark --part read --part write --rounds 9

starts a redis-server and a Spark session of its own with two cores, and posts messages of
200 bytes.  In a round each contender makes a whole pass over them; they take turns, and the
first round does not count.  Targets are compared with the median of the rounds.
The run stops what it started, also after Ctrl-C, and prints Markdown.  It needs
redis-server and Java 17, 1 GB of memory for each million messages, and an idle machine with
two cores.

All is on one machine, over a unix socket.  *latency* has one run instead of rounds.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping

import pyspark

from benchmarks.spark import read, stream, write
from benchmarks.spark.testbed import SparkTestbed
from benchmarks.support.figures import Figures
from benchmarks.support.program import MeasurePart, PartsProgram

PARTS = ("read", "write", "stream", "latency")


def main() -> int:
    program = PartsProgram("spark", __doc__, PARTS)
    program.add_number("--messages", 10_000, 1_000_000, 1_000_000, "in the queue")
    program.add_number("--seconds", 3, 600, 60, "for which latency is measured")
    figures = Figures()

    def prepare(
        given: argparse.Namespace, stack: contextlib.ExitStack
    ) -> Mapping[str, MeasurePart]:
        testbed = SparkTestbed(stack, given.messages)
        rounds, seconds = given.rounds, given.seconds
        return {
            "read": lambda: read.measure(testbed, figures, rounds),
            "write": lambda: write.measure(testbed, figures, rounds),
            "stream": lambda: stream.measure(testbed, figures, rounds),
            "latency": lambda: stream.measure_latency(testbed, figures, seconds),
        }

    return program.run(prepare, figures, pyspark=pyspark.__version__)


if __name__ == "__main__":
    raise SystemExit(main())
