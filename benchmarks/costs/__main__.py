# SPDX-License-Identifier: Apache-2.0
"""What each act costs a worker and Redis, and what messages, queues and their routes take.

    python -m benchmarks.costs
    python -m benchmarks.costs --part memory --rounds 1

starts one worker and Redis in temporary folders, loads them over loopback, and stops them, also
after Ctrl-C. Costs are CPU time for each act, not rates: other work on the machine changes them
little. `zaqar_redis/sizing/costs.py` has the medians, for doc/scale.md and `cluster plan`; what a
delivery and an idle socket cost, `python -m benchmarks.channels` measures.

The part `clusters` makes some acts on a cluster of three primaries and on one Redis, in turns.

What it does not show: TLS, a network, replicas, the append-only file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
from collections.abc import Mapping

import uvloop

from benchmarks.costs import long_polls, memory, publications
from benchmarks.support.figures import Figures
from benchmarks.support.program import MeasurePart, PartsProgram
from benchmarks.support.request_costs import COSTS, Costs, CountedService
from benchmarks.support.rounds import print_progress
from tests.support import servers
from tests.support.redis_cluster import RedisCluster, redis_cluster

#: Acts by HTTP; a claim counts with the deletion of what it got.
_REQUESTS = {
    "post of 1": lambda side, seconds: side.post(seconds, 1),
    "post of 100": lambda side, seconds: side.post(seconds, 100),
    "claim of 1, and deletion": lambda side, seconds: side.claim(seconds, 1),
    "claim of 10, and deletion": lambda side, seconds: side.claim(seconds, 10),
    "list of 10": CountedService.list,
    "get of 1": CountedService.get,
}

#: Acts that are compared with those of a cluster.
_IN_CLUSTERS = ("post of 1", "post of 100", "claim of 10, and deletion")

#: A long poll looks itself every five seconds: by default, it waits for twice as long.
_WAITS = 5


def _requests(figures: Figures, rounds: int, seconds: int) -> None:
    kept = {name: [figures.figure(name, what, "µs") for what in COSTS[:2]] for name in _REQUESTS}
    with contextlib.ExitStack() as stack:
        counted = _counted(stack, "service", stack.enter_context(servers.redis_server()))
        for number in range(1, rounds + 1):
            for name, measure in _REQUESTS.items():
                found: Costs = measure(counted, seconds)
                for values, value in zip(kept[name], found, strict=False):
                    values.append(value)
                print_progress(f"{name}: round {number} of {rounds}, {found[0]:.1f} µs")


def _clusters(figures: Figures, rounds: int, seconds: int) -> None:
    """Compares a cluster of three primaries with one Redis, in turns."""
    with contextlib.ExitStack() as stack:
        single = _counted(stack, "one Redis", stack.enter_context(servers.redis_server()))
        cluster = _counted(stack, "cluster", stack.enter_context(redis_cluster()))
        kept = {
            (name, side): [
                figures.figure(f"{name}, {side.label}", what, "µs") for what in COSTS[:2]
            ]
            for name in _IN_CLUSTERS
            for side in (single, cluster)
        }
        for number in range(1, rounds + 1):
            for (name, side), values in kept.items():
                found: Costs = _REQUESTS[name](side, seconds)
                for value, into in zip(found, values, strict=False):
                    into.append(value)
                print_progress(
                    f"{name}, {side.label}: round {number} of {rounds}, {found[1]:.1f} µs"
                )


def _counted(
    stack: contextlib.ExitStack,
    label: str,
    store: servers.RedisServer | RedisCluster,
) -> CountedService:
    running = stack.enter_context(servers.service(store.uri))
    counted = CountedService(label, running, store)
    stack.callback(counted.close)
    counted.post(1, 1)  # to warm up
    return counted


def main() -> int:
    parts = ("requests", "clusters", "long-polls", "publications", "memory")
    program = PartsProgram("costs", __doc__, parts)
    program.add_seconds(2)
    program.add_number("--polls", 1, 5000, 1000, "long polls that wait at a time")
    program.add_number("--queues", 100, 1_000_000, 100_000, "in memory")
    program.add_number("--messages", 1000, 1_000_000, 100_000, "in memory, of each size")
    figures = Figures()

    def prepare(
        given: argparse.Namespace, stack: contextlib.ExitStack
    ) -> Mapping[str, MeasurePart]:
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        rounds, seconds = given.rounds, given.seconds
        return {
            "requests": lambda: _requests(figures, rounds, math.ceil(seconds)),
            "clusters": lambda: _clusters(figures, rounds, math.ceil(seconds)),
            "long-polls": lambda: long_polls.measure(
                figures, runner, rounds, given.polls, _WAITS * seconds
            ),
            "publications": lambda: publications.measure(figures, rounds, seconds),
            "memory": lambda: memory.measure(figures, runner, rounds, given.queues, given.messages),
        }

    return program.run(prepare, figures)


if __name__ == "__main__":
    raise SystemExit(main())
