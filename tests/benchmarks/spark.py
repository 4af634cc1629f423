# SPDX-License-Identifier: Apache-2.0
"""The Spark data source, compared with what Redis can do and with other implementations.

    python -m tests.benchmarks.spark
    python -m tests.benchmarks.spark --part read --part write --rounds 9

starts a redis-server and a Spark session of its own with two cores, and posts messages of
200 bytes.  In a round each contender makes a whole pass over them; they take turns, and the
first round does not count.  Targets are compared with the median of the rounds.
The run stops what it started, also after Ctrl-C, and prints Markdown.  It needs
redis-server, wrk and Java 17, 1 GB of memory for each million messages, ten times that for
the part *memory*, and an idle machine with two cores.

All is on one machine, over a unix socket.  *latency* has one run instead of rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import signal
import sys

import pyspark

from tests.benchmarks import (
    spark_memory,
    spark_read,
    spark_stream,
    spark_together,
    spark_write,
)
from tests.benchmarks.figures import Figures
from tests.benchmarks.rounds import print_progress
from tests.benchmarks.spark_testbed import SparkTestbed
from zaqar_redis.bench import report
from zaqar_redis.cli.base import bounded_int

#: The parts in the order in which they run, whatever the order of the options: workers keep
#: the memory of earlier parts, so *memory* runs first.
PARTS = ("memory", "read", "write", "stream", "latency", "together")


def _measure(part: str, testbed: SparkTestbed, figures: Figures, given: argparse.Namespace) -> None:
    match part:
        case "memory":
            spark_memory.measure(testbed, figures, given.rounds)
        case "read":
            spark_read.measure(testbed, figures, given.rounds)
        case "write":
            spark_write.measure(testbed, figures, given.rounds)
        case "stream":
            spark_stream.measure(testbed, figures, given.rounds)
        case "latency":
            spark_stream.measure_latency(testbed, figures, given.seconds)
        case "together":
            spark_together.measure(testbed, figures, given.rounds, max(1, given.seconds // 6))


def main() -> int:
    assert __doc__
    given = _arguments(__doc__)
    machine = report.machine() | {"pyspark": pyspark.__version__}
    notes: list[str] = []
    figures = Figures()
    # SIGTERM cleans up as Ctrl-C does.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with contextlib.ExitStack() as stack:
            testbed = SparkTestbed(stack, given.messages)
            for part in PARTS:
                if part in (given.part or PARTS):
                    print_progress(f"part: {part}")
                    _measure(part, testbed, figures, given)
    except KeyboardInterrupt:
        notes.append("the run was interrupted; the last rows have fewer rounds")
    finally:
        signal.signal(signal.SIGTERM, before)
    if figures:
        print(_text(figures, machine, notes))
    return 130 if notes else 0


def _text(figures: Figures, machine: dict[str, str], notes: list[str]) -> str:
    command = shlex.join(["python", "-m", "tests.benchmarks.spark", *sys.argv[1:]])
    about = report.text(report.BenchmarkReport(command, machine, [], {}, notes))
    return "\n\n".join(part for part in (*figures.tables(), about) if part).rstrip()


def _arguments(text: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.spark",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, number = parser.add_argument, bounded_int
    add("--part", action="append", choices=PARTS, help="which to measure, may be repeated (all)")
    add("--rounds", type=number(1, 100), default=5, metavar="N", help="of each (5)")
    add(
        "--messages",
        type=number(10_000, 1_000_000),
        default=1_000_000,
        metavar="N",
        help="in the queue (1000000)",
    )
    add(
        "--seconds",
        type=number(3, 600),
        default=60,
        metavar="S",
        help="for which latency is measured; *together* measures posts for a sixth of it (60)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
