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

from benchmarks.support import deployment
from benchmarks.support.processes import cpu_seconds
from benchmarks.support.rounds import figures, in_turns, print_progress
from tests.support import servers
from zaqar_redis.benchmarks import report
from zaqar_redis.benchmarks.load import WrkLoad
from zaqar_redis.benchmarks.service import BenchmarkFailed, MeasuredService

_CONNECTIONS = 32
#: Messages for each second of claims: more than one worker hands out.
_BACKLOG = 90_000
#: Of a round: µs of the worker, µs of Redis, requests a second.
Costs = tuple[float, float, float]


class CheckoutService:
    def __init__(self, stack: contextlib.ExitStack, checkout: Path, label: str) -> None:
        store = deployment.redis_server(stack)
        # Its package, and not the one in the present folder.
        environment = {"PYTHONPATH": str(checkout), "PYTHONSAFEPATH": "1"}
        running = stack.enter_context(servers.service(store.uri, environment=environment))
        self.label = label
        self._service = MeasuredService(running.url)
        stack.callback(self._service.close)
        self._processes = (*running.workers(), store.pid)
        self._load = WrkLoad(_CONNECTIONS)

    def post(self, seconds: int, count: int) -> Costs:
        queue = self._service.queue()
        costs = self._costs("post", f"/v2/queues/{queue}/messages", seconds, count)
        self._service.delete_queue(queue)
        return costs

    def claim(self, seconds: int) -> Costs:
        """Claims ten messages, and deletes them by their ids: two requests."""
        queue = self._service.queue()
        self._service.fill(queue, _BACKLOG * seconds)
        costs = self._costs("claim", f"/v2/queues/{queue}", seconds, 10, "delete")
        self._service.delete_queue(queue)
        return costs

    def list(self, seconds: int) -> Costs:
        queue = self._service.queue()
        self._service.fill(queue, 1000)
        return self._costs("get", f"/v2/queues/{queue}/messages?limit=10&echo=true", seconds)

    def get(self, seconds: int) -> Costs:
        queue = self._service.queue()
        [message] = self._service.fill(queue, 1)
        return self._costs("get", f"/v2/queues/{queue}/messages/{message}", seconds)

    def path(self, path: str, seconds: int) -> Costs:
        return self._costs("get", path, seconds)

    def _costs(self, script: str, path: str, seconds: int, *arguments: object) -> Costs:
        before = [cpu_seconds(process) for process in self._processes]
        url = self._service.url + path
        sample = self._load.run(script, url, self._service.headers, seconds, *arguments)
        if sample.dry or sample.errors:
            raise BenchmarkFailed(f"{script}: {sample.errors} errors, or nothing left to claim")
        used = [
            cpu_seconds(each) - start for each, start in zip(self._processes, before, strict=True)
        ]
        self._service.wait_until_idle()
        worker, redis = (each / sample.work * 1e6 for each in used)
        return worker, redis, sample.rate


WORKLOADS: dict[str, Callable[[CheckoutService, int], Costs]] = {
    "post-1": lambda side, seconds: side.post(seconds, 1),
    "post-100": lambda side, seconds: side.post(seconds, 100),
    "claim-delete": CheckoutService.claim,
    "list-10": CheckoutService.list,
    "get": CheckoutService.get,
    "stats": lambda side, seconds: side.path("/v2/queues/none/stats", seconds),
    "ping": lambda side, seconds: side.path("/v2/ping", seconds),
}


def run(beside: Path, names: list[str], rounds: int, seconds: int) -> str:
    with contextlib.ExitStack() as stack:
        sides = [
            CheckoutService(stack, beside.resolve(), "beside"),
            CheckoutService(stack, Path.cwd(), "here"),
        ]
        rows = [row for name in names for row in _measured(name, sides, rounds, seconds)]
    head = ["of", "measured", "beside", "here", "here : beside", "least", "greatest"]
    return report.table(head, rows)


def _measured(
    name: str, sides: list[CheckoutService], rounds: int, seconds: int
) -> list[list[str]]:
    measure = WORKLOADS[name]
    costs: dict[str, list[Costs]] = {side.label: [] for side in sides}
    for number, order in in_turns(sides, rounds, first=0):
        for side in order:
            found = measure(side, seconds if number else 1)
            if number:
                costs[side.label].append(found)
                print_progress(f"{name}, {side.label}: {found[0]:.1f} µs of the worker")
    rows = []
    for place, what in enumerate(("worker, CPU µs", "Redis, CPU µs", "done/s")):
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
