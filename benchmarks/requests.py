# SPDX-License-Identifier: Apache-2.0
"""What requests cost a worker and Redis in this checkout and in another one, in turns.

    python -m benchmarks.requests --beside ../other --rounds 9

Each checkout serves with one worker over a Redis of its own, and wrk sends over 32 connections.
CPU time of the worker and of Redis for each request (of claim-delete for both of its two), as the
kernel counts it in nanoseconds, and how many were done in a second; each round of one checkout is
compared with the adjacent round of the other.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from pathlib import Path

from benchmarks.support.request_costs import COSTS, Costs, CountedService
from benchmarks.support.rounds import figures, in_turns, print_progress
from tests.support import servers
from zaqar_redis.benchmarks import report


def _checkout(stack: contextlib.ExitStack, checkout: Path, label: str) -> CountedService:
    store = stack.enter_context(servers.redis_server())
    # Its package, and not the one in the present folder.
    environment = {"PYTHONPATH": str(checkout), "PYTHONSAFEPATH": "1"}
    running = stack.enter_context(servers.service(store.uri, environment=environment))
    counted = CountedService(label, running, store)
    stack.callback(counted.close)
    return counted


WORKLOADS: dict[str, Callable[[CountedService, int], Costs]] = {
    "post-1": lambda side, seconds: side.post(seconds, 1),
    "post-100": lambda side, seconds: side.post(seconds, 100),
    "claim-delete": CountedService.claim,
    "list-10": CountedService.list,
    "get": CountedService.get,
    "stats": lambda side, seconds: side.path("/v2/queues/none/stats", seconds),
    "ping": lambda side, seconds: side.path("/v2/ping", seconds),
}


def run(beside: Path, names: list[str], rounds: int, seconds: int) -> str:
    with contextlib.ExitStack() as stack:
        sides = [
            _checkout(stack, beside.resolve(), "beside"),
            _checkout(stack, Path.cwd(), "here"),
        ]
        rows = [row for name in names for row in _measured(name, sides, rounds, seconds)]
    head = ["of", "measured", "beside", "here", "here : beside", "least", "greatest"]
    return report.table(head, rows)


def _measured(name: str, sides: list[CountedService], rounds: int, seconds: int) -> list[list[str]]:
    measure = WORKLOADS[name]
    costs: dict[str, list[Costs]] = {side.label: [] for side in sides}
    for number, order in in_turns(sides, rounds, first=0):
        for side in order:
            found = measure(side, seconds if number else 1)
            if number:
                costs[side.label].append(found)
                print_progress(f"{name}, {side.label}: {found[0]:.1f} µs of the worker")
    rows = []
    for place, what in enumerate(COSTS):
        own = {label: [each[place] for each in found] for label, found in costs.items()}
        ratios = [here / other for other, here in zip(*own.values(), strict=True)]
        medians = [f"{report.spread(each).median:.1f}" for each in own.values()]
        rows.append([name, what, *medians, *figures(ratios, 2)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=Path, required=True, help="folder of another checkout")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=2, help="of each round")
    parser.add_argument("--workload", nargs="*", choices=WORKLOADS, default=list(WORKLOADS))
    args = parser.parse_args()
    print(run(args.beside, args.workload, args.rounds, args.seconds))


if __name__ == "__main__":
    main()
