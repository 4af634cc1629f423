# SPDX-License-Identifier: Apache-2.0
"""What pools cost, what many queues cost, and how fast a pool is drained.

    python -m benchmarks.pools
    python -m benchmarks.pools --part routing --rounds 9

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
from collections.abc import Mapping

import uvloop

from benchmarks.pools import draining, queues, routing
from benchmarks.support.program import MeasurePart, PartsProgram
from benchmarks.support.rounds import Measurements


def main() -> int:
    program = PartsProgram("pools", __doc__, ("routing", "queues", "draining"))
    program.add_seconds(3)
    few = f"of the project that is compared with one of {queues.FEW}"
    program.add_number("--queues", 2 * queues.FEW, 1_000_000, 100_000, few)
    program.add_number("--messages", 1, 200_000, 25_000, "in each large queue that is drained")
    measured = Measurements()

    def prepare(
        given: argparse.Namespace, stack: contextlib.ExitStack
    ) -> Mapping[str, MeasurePart]:
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        rounds, seconds = given.rounds, given.seconds
        return {
            "routing": lambda: routing.measure(measured, runner, rounds, seconds),
            "queues": lambda: queues.measure(measured, runner, rounds, seconds, given.queues),
            "draining": lambda: draining.measure(measured, runner, rounds, given.messages),
        }

    return program.run(prepare, measured)


if __name__ == "__main__":
    raise SystemExit(main())
