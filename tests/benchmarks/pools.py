# SPDX-License-Identifier: Apache-2.0
"""What pools cost, what many queues cost, and how fast a pool is emptied.

    python -m tests.benchmarks.pools
    python -m tests.benchmarks.pools --part routing --rounds 9

starts servers of its own in temporary folders, loads them over loopback and unix
sockets only, and stops them, also after Ctrl-C. It prints Markdown: all of it is
ratios of what was measured side by side, round by round in turn. It wants
redis-server and wrk on PATH, and a machine that does nothing else: rates say little
otherwise, and CPU times a bit less.

A round of draining is a whole drain, however many seconds that takes. What takes
part: one worker, one machine, no network, no append-only file.
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
from tests.benchmarks.rounds import Measured, cpu_table, targets_table, tell
from zaqar_redis.bench import report
from zaqar_redis.cli.arguments import between

PARTS = ("routing", "queues", "draining")


def main() -> int:
    assert __doc__
    given = _arguments(__doc__)
    machine = report.machine()
    found: list[Measured] = []
    notes: list[str] = []
    try:
        with _terminable(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            for part in given.part or PARTS:
                _measure(part, given, found, runner)
    except KeyboardInterrupt:
        notes.append("the run was interrupted; the last rows have fewer rounds")
    if any(any(measured.cpu.values()) for measured in found):
        print(_text(found, machine, notes))
    return 130 if notes else 0


def _measure(
    part: str, given: argparse.Namespace, found: list[Measured], runner: asyncio.Runner
) -> None:
    tell(f"part: {part}")
    if part == "routing":
        routing.measure(found, runner, given.rounds, given.seconds)
    elif part == "queues":
        queues.measure(found, runner, given.rounds, given.seconds, given.queues)
    else:
        draining.measure(found, runner, given.rounds, given.messages)


def _text(found: list[Measured], machine: dict[str, str], notes: list[str]) -> str:
    findings = [measured.finding for measured in found]
    notes = report.warnings(findings) + notes
    command = shlex.join(["python", "-m", "tests.benchmarks.pools", *sys.argv[1:]])
    rates = report.text(report.Report(command, machine, findings, {}, notes))
    return f"{targets_table(found)}\n\n{cpu_table(found)}\n\n{rates}".rstrip()


def _arguments(text: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.pools",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, number = parser.add_argument, between
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
    """Being told to terminate cleans up as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        # Not KeyboardInterrupt here: in the midst of uvloop it may be lost. What
        # asyncio does at a Ctrl-C is to cancel what runs.
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    raise SystemExit(main())
