# SPDX-License-Identifier: Apache-2.0
"""What verbs cost Redis here and in another checkout, in turns, over the same Redis.

    python -m tests.benchmarks.posting --beside ../other --rounds 30

CPU time of Redis for each call, networking and all, as the kernel counts it in nanoseconds;
a round of one checkout is compared with that of the other next to it.  Each checkout runs
its verbs in a process of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests import servers
from tests.benchmarks.rounds import cpu_seconds, tell
from zaqar_redis.bench import report

#: What a process of each checkout runs: it knows nothing but the contract of storage.
_PROCESS = """
import asyncio, sys
from zaqar_redis.records import Draft
from zaqar_redis.storage.load import load

CLIENT = "5f0c6f5e-9a0b-4c0e-8a55-0d5d3c1f7a10"
QUEUES, TOGETHER = 32, 32
DRAFT = Draft(body=b'"' + b"x" * 150 + b'"', ttl=3600)

async def main(uri, side):
    driver = load(uri, {"timeout": 60.0})
    await driver.start()

    def post(number, drafts):
        return driver.messages.post(
            side, f"q{number % QUEUES}", drafts, client=CLIENT, default_ttl=60, size=0
        )

    async def claim(number):
        queue = f"q{number % QUEUES}"
        taken = await driver.claims.create(side, queue, ttl=300, grace=60, limit=1)
        await driver.messages.delete(
            side, queue, [taken.messages[0].id], claims=[taken.claim_id], force=False
        )

    work = {
        "post-1": lambda number: post(number, [DRAFT]),
        "post-100": lambda number: post(number, [DRAFT] * 100),
        "claim-delete": claim,
    }

    async def do(work, calls):
        async def some(first):
            for number in range(first, calls, TOGETHER):
                await work(number)
        await asyncio.gather(*map(some, range(TOGETHER)))

    await do(work["post-1"], 10 * QUEUES)
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        name, calls = line.split()
        if name == "clear":
            for number in range(QUEUES):
                await driver.queues.purge(side, f"q{number}")
            await do(work["post-1"], int(calls))
        else:
            await do(work[name], int(calls))
        print("done", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""

#: Calls in a round: about a third of a second each.
_CALLS = {"post-1": 8000, "post-100": 400, "claim-delete": 4000}


class Side:
    def __init__(self, checkout: Path, server: servers.RedisServer, label: str) -> None:
        self.label = label
        self._redis = server.pid
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROCESS, server.uri, label],
            cwd=checkout,
            env={"PYTHONPATH": str(checkout), "PATH": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answered()

    def round(self, name: str) -> float:
        """Microseconds of Redis' CPU time for a call."""
        calls = _CALLS[name]
        self._ask("clear", calls if name == "claim-delete" else 320)
        before = cpu_seconds(self._redis)
        self._ask(name, calls)
        return (cpu_seconds(self._redis) - before) / calls * 1e6

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _ask(self, name: str, calls: int) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{name} {calls}\n")
        self._process.stdin.flush()
        self._answered()

    def _answered(self) -> None:
        assert self._process.stdout
        if not self._process.stdout.readline():
            raise SystemExit(f"the process of {self.label} ended")


def run(beside: Path, names: list[str], rounds: int) -> str:
    rows = []
    with servers.redis_server() as server:
        sides: list[Side] = []
        try:
            sides.append(Side(beside.resolve(), server, "beside"))
            sides.append(Side(Path.cwd(), server, "here"))
            rows = [_measured(name, sides, rounds) for name in names]
        finally:
            for side in sides:
                side.stop()
    head = ["CPU µs of Redis", "beside", "here", "here : beside", "least", "greatest"]
    return report.table(head, rows)


def _measured(name: str, sides: list[Side], rounds: int) -> list[str]:
    costs: dict[str, list[float]] = {side.label: [] for side in sides}
    for side in sides:
        side.round(name)  # which nobody counts
    for number in range(rounds):
        for side in sides if number % 2 else reversed(sides):
            costs[side.label].append(side.round(name))
        tell(f"{name}: " + ", ".join(f"{label} {own[-1]:.2f}" for label, own in costs.items()))
    ratios = [here / there for there, here in zip(*costs.values(), strict=True)]
    spread = report.spread(ratios)
    medians = [f"{report.spread(own).median:.2f}" for own in costs.values()]
    return [name, *medians, *(f"{x:.3f}" for x in (spread.median, spread.min, spread.max))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=Path, required=True, help="folder of another checkout")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--workload", nargs="*", choices=_CALLS, default=list(_CALLS))
    asked = parser.parse_args()
    print(run(asked.beside, asked.workload, asked.rounds))


if __name__ == "__main__":
    main()
