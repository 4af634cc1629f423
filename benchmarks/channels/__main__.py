# SPDX-License-Identifier: Apache-2.0
"""What channels cost: publications, subscribers, connections, and recovery of all clients.

    python -m benchmarks.channels
    python -m benchmarks.channels --part fanout --rounds 9

starts servers of its own in temporary folders, loads them over loopback and unix sockets
only, and stops them, also after Ctrl-C. It prints Markdown. It needs redis-server on PATH,
20 000 open files for *idle*, and an idle machine with two cores.

Clients share the machine with the measured servers. They are plain sockets that count
deliveries; no SDK, no TLS, no network, no append-only file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
from collections.abc import Mapping

import uvloop

from benchmarks.channels import fanout, idle, publish, recovery, websocket_peers
from benchmarks.support.figures import Figures
from benchmarks.support.program import MeasurePart, PartsProgram

#: Open files of a process beside its connections.
_OTHER_FILES = 200


def main() -> int:
    program = PartsProgram("channels", __doc__, ("fanout", "publish", "idle", "recovery"))
    program.add_seconds(5)
    program.add_number("--subscribers", 2, 4000, 1000, "of one channel in fanout")
    program.add_number("--idle", 2, 16_000, 10_000, "connections in idle")
    program.add_number("--returning", 2, 8000, 5000, "clients in recovery")
    figures = Figures()

    def prepare(
        given: argparse.Namespace, stack: contextlib.ExitStack
    ) -> Mapping[str, MeasurePart]:
        websocket_peers.raise_open_files_limit(
            2 * given.subscribers + given.idle + given.returning + _OTHER_FILES
        )
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        rounds, seconds = given.rounds, given.seconds
        return {
            "fanout": lambda: fanout.measure(figures, runner, rounds, seconds, given.subscribers),
            "publish": lambda: publish.measure(figures, runner, rounds, seconds),
            "idle": lambda: idle.measure(figures, rounds, math.ceil(seconds), given.idle),
            "recovery": lambda: recovery.measure(figures, runner, rounds, given.returning),
        }

    return program.run(prepare, figures)


if __name__ == "__main__":
    raise SystemExit(main())
