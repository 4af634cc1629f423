# SPDX-License-Identifier: Apache-2.0
"""What channels cost: publications, subscribers, connections, and recovery of all clients.

    python -m tests.benchmarks.channels
    python -m tests.benchmarks.channels --part fanout --rounds 9

starts servers of its own in temporary folders, loads them over loopback and unix sockets
only, and stops them, also after Ctrl-C. It prints Markdown. It needs redis-server on PATH,
python-socketio for the part *fanout*, 20 000 open files for *idle*, and an idle machine
with two cores.

Clients share the machine with the measured servers. They are plain sockets that count
deliveries; no SDK, no TLS, no network, no append-only file.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import signal
import sys

import uvloop

from tests.benchmarks import (
    channels_fanout,
    channels_idle,
    channels_publish,
    channels_recovery,
    websocket_peers,
)
from tests.benchmarks.figures import Figures
from tests.benchmarks.rounds import print_progress
from zaqar_redis.bench import report
from zaqar_redis.cli.base import bounded_int

PARTS = ("fanout", "publish", "idle", "recovery")
#: Open files of a process beside its connections.
_OTHER_FILES = 200


def main() -> int:
    assert __doc__
    given = _arguments(__doc__)
    machine = report.machine()
    figures = Figures()
    notes: list[str] = []
    # SIGTERM cleans up as Ctrl-C does.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    websocket_peers.raise_open_files_limit(
        3 * given.subscribers + given.idle + given.returning + _OTHER_FILES
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            for part in given.part or PARTS:
                print_progress(f"part: {part}")
                _measure(part, given, figures, runner)
    except KeyboardInterrupt:
        notes.append("the run was interrupted; the last rows have fewer rounds")
    finally:
        signal.signal(signal.SIGTERM, before)
    if figures:
        print(_text(figures, machine, notes))
    return 130 if notes else 0


def _measure(
    part: str, given: argparse.Namespace, figures: Figures, runner: asyncio.Runner
) -> None:
    match part:
        case "fanout":
            channels_fanout.measure(figures, runner, given.rounds, given.seconds, given.subscribers)
        case "publish":
            channels_publish.measure(figures, runner, given.rounds, given.seconds)
        case "idle":
            channels_idle.measure(figures, given.rounds, given.seconds, given.idle)
        case "recovery":
            channels_recovery.measure(figures, runner, given.rounds, given.returning)


def _text(figures: Figures, machine: dict[str, str], notes: list[str]) -> str:
    command = shlex.join(["python", "-m", "tests.benchmarks.channels", *sys.argv[1:]])
    about = report.text(report.BenchmarkReport(command, machine, [], {}, notes))
    return "\n\n".join(part for part in (*figures.tables(), about) if part).rstrip()


def _arguments(text: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.channels",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, number = parser.add_argument, bounded_int
    add("--part", action="append", choices=PARTS, help="which to measure, may be repeated (all)")
    add("--rounds", type=number(1, 100), default=5, metavar="N", help="of each (5)")
    add("--seconds", type=number(1, 60), default=5, metavar="S", help="of a round (5)")
    for name, default, most, what in (
        ("--subscribers", 1000, 4000, "of one channel in fanout"),
        ("--idle", 10_000, 16_000, "connections in idle"),
        ("--returning", 5000, 8000, "clients in recovery"),
    ):
        add(name, type=number(2, most), default=default, metavar="N", help=f"{what} ({default})")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
