# SPDX-License-Identifier: Apache-2.0
"""What verbs cost Redis in this checkout and in another one, in turns, over the same Redis.

    python -m benchmarks.posting --beside ../other --rounds 30

CPU time of Redis for each call, networking included, as the kernel counts it in nanoseconds;
each round of one checkout is compared with the adjacent round of the other.  Each checkout
runs its verbs in a process of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.support.processes import cpu_seconds
from benchmarks.support.rounds import figures, in_turns, print_progress
from tests.support import servers
from zaqar_redis.benchmarks import report

#: Code for a process of each checkout: it depends only on the contract of storage.
_PROCESS = """
import asyncio, sys
from zaqar_redis import records
from zaqar_redis.storage.load import load

CLIENT = "5f0c6f5e-9a0b-4c0e-8a55-0d5d3c1f7a10"
QUEUES, TOGETHER = 32, 32
# An older revision may be compared too, in which the class had another name.
NewMessage = getattr(records, "NewMessage", None) or records.Draft
MESSAGE = NewMessage(body=b'"' + b"x" * 150 + b'"', ttl=3600)

async def main(uri, side):
    driver = load(uri, {"timeout": 60.0})
    await driver.start()

    def post(number, messages):
        return driver.messages.post(
            side, f"q{number % QUEUES}", messages, client=CLIENT, default_ttl=60, size=0
        )

    async def claim(number):
        queue = f"q{number % QUEUES}"
        taken = await driver.claims.create(side, queue, records.Lease(300, 60), limit=1)
        await driver.messages.delete(
            side, queue, [taken.messages[0].id], claims=[taken.claim_id], force=False
        )

    work = {
        "post-1": lambda number: post(number, [MESSAGE]),
        "post-100": lambda number: post(number, [MESSAGE] * 100),
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


class CheckoutProcess:
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
        self._await_reply()

    def round(self, name: str) -> float:
        """Runs one round; returns the microseconds of Redis' CPU time per call."""
        calls = _CALLS[name]
        self._command("clear", calls if name == "claim-delete" else 320)
        before = cpu_seconds(self._redis)
        self._command(name, calls)
        return (cpu_seconds(self._redis) - before) / calls * 1e6

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _command(self, name: str, calls: int) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{name} {calls}\n")
        self._process.stdin.flush()
        self._await_reply()

    def _await_reply(self) -> None:
        assert self._process.stdout
        if not self._process.stdout.readline():
            raise SystemExit(f"the process of {self.label} ended")


def run(beside: Path, names: list[str], rounds: int) -> str:
    rows = []
    with servers.redis_server() as server:
        sides: list[CheckoutProcess] = []
        try:
            sides.append(CheckoutProcess(beside.resolve(), server, "beside"))
            sides.append(CheckoutProcess(Path.cwd(), server, "here"))
            rows = [_measured(name, sides, rounds) for name in names]
        finally:
            for side in sides:
                side.stop()
    head = ["CPU µs of Redis", "beside", "here", "here : beside", "least", "greatest"]
    return report.table(head, rows)


def _measured(name: str, sides: list[CheckoutProcess], rounds: int) -> list[str]:
    costs: dict[str, list[float]] = {side.label: [] for side in sides}
    for side in sides:
        side.round(name)  # the warm-up
    for _, order in in_turns(sides, rounds):
        for side in order:
            costs[side.label].append(side.round(name))
        print_progress(
            f"{name}: " + ", ".join(f"{label} {own[-1]:.2f}" for label, own in costs.items())
        )
    ratios = [here / beside for beside, here in zip(*costs.values(), strict=True)]
    medians = [f"{report.spread(own).median:.2f}" for own in costs.values()]
    return [name, *medians, *figures(ratios, 3)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=Path, required=True, help="folder of another checkout")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--workload", nargs="*", choices=_CALLS, default=list(_CALLS))
    args = parser.parse_args()
    print(run(args.beside, args.workload, args.rounds))


if __name__ == "__main__":
    main()
