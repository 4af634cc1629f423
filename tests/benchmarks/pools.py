# SPDX-License-Identifier: Apache-2.0
"""What pools cost, what many queues cost, and how fast a pool is drained.

    python -m tests.benchmarks.pools
    python -m tests.benchmarks.pools --part routing --rounds 9

starts servers of its own in temporary folders, loads them over loopback and unix
sockets only, and stops them, also after Ctrl-C. It prints Markdown: ratios of
contenders that were measured in turn, round by round. It needs redis-server and wrk on
PATH, and an idle machine: on a busy one rates mean little, and CPU times vary too.

A round of draining is a complete drain, however many seconds that takes. All of it is
with one worker, on one machine, without network and append-only file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shlex
import signal
import sys
from collections.abc import Iterator
from types import FrameType

import uvloop

from tests.benchmarks import draining, queues, routing
from tests.benchmarks.rounds import Measurement, cpu_table, print_progress, targets_table
from zaqar_redis.bench import report
from zaqar_redis.cli.base import bounded_int

PARTS = ("routing", "queues", "draining")


def main() -> int:
    assert __doc__
    given = _arguments(__doc__)
    machine = report.machine()
    measurements: list[Measurement] = []
    notes: list[str] = []
    try:
        with _terminable(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            for part in given.part or PARTS:
                _measure(part, given, measurements, runner)
    except KeyboardInterrupt:
        notes.append("the run was interrupted; the last rows have fewer rounds")
    if any(any(measured.cpu.values()) for measured in measurements):
        print(_text(measurements, machine, notes))
    return 130 if notes else 0


def _measure(
    part: str, given: argparse.Namespace, measurements: list[Measurement], runner: asyncio.Runner
) -> None:
    print_progress(f"part: {part}")
    if part == "routing":
        routing.measure(measurements, runner, given.rounds, given.seconds)
    elif part == "queues":
        queues.measure(measurements, runner, given.rounds, given.seconds, given.queues)
    else:
        draining.measure(measurements, runner, given.rounds, given.messages)


def _text(measurements: list[Measurement], machine: dict[str, str], notes: list[str]) -> str:
    findings = [measured.finding for measured in measurements]
    notes = report.warnings(findings) + notes
    command = shlex.join(["python", "-m", "tests.benchmarks.pools", *sys.argv[1:]])
    rates = report.text(report.BenchmarkReport(command, machine, findings, {}, notes))
    return f"{targets_table(measurements)}\n\n{cpu_table(measurements)}\n\n{rates}".rstrip()


def _arguments(text: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.pools",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, number = parser.add_argument, bounded_int
    add("--part", action="append", choices=PARTS, help="which to measure, may be repeated (all)")
    add("--rounds", type=number(1, 100), default=5, metavar="N", help="of each (5)")
    add("--seconds", type=number(1, 60), default=3, metavar="S", help="of a round (3)")
    add(
        "--queues",
        type=number(2 * queues.FEW, 1_000_000),
        default=100_000,
        metavar="N",
        help=f"of the project that is compared with one of {queues.FEW} (100000)",
    )
    add(
        "--messages",
        type=number(1, 200_000),
        default=25_000,
        metavar="N",
        help="in each large queue that is drained (25000)",
    )
    return parser.parse_args()


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Makes SIGTERM clean up as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        # Not KeyboardInterrupt: raised within uvloop it may be lost. At SIGINT asyncio
        # cancels the task that runs.
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    raise SystemExit(main())
