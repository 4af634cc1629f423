# SPDX-License-Identifier: Apache-2.0
"""Stock Zaqar with its own Redis driver, compared with ours.

    python -m benchmarks.stock
    python -m benchmarks.stock --part plain --rounds 9

starts, for each driver, a redis-server of its own and two processes with stock's WSGI
application: one that is measured, and one for the preparation, which is not counted.
They are configured as by an operator, without authentication, and take turns. The run
stops what it started, also after Ctrl-C, and prints Markdown. It needs redis-server on
PATH, and an idle machine.

One call at a time, within the process: no HTTP server, no network, no append-only file.
A server in front would add the same to both, and bring the ratios nearer to 1; a network
would add more to the driver with more commands. Behind so many claimed messages stock's
driver takes seconds for one listing: its rounds of those have few samples.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.stock.worker import CLAIMED, StockWorker
from benchmarks.support.program import MeasurePart, PartsProgram
from benchmarks.support.rounds import (
    TIME,
    BenchmarkTarget,
    CpuContender,
    Measurements,
    print_progress,
)
from tests.support import servers
from zaqar_redis.benchmarks.load import LoadSample
from zaqar_redis.benchmarks.service import BenchmarkFailed

#: Names of the drivers in stock's configuration, ours first, and their URIs.
_DRIVERS = {
    "zaqar-redis": "unix://{socket}",
    # Its default timeout of 0.1 s is too short for the slow commands that are measured.
    "redis": "redis://{socket}?socket_timeout=10",
}
_CONFIGURATION = """\
[DEFAULT]
log_file = {home}/zaqar.log

[drivers]
message_store = {name}
management_store = {name}

[drivers:message_store:{name}]
uri = {uri}

[drivers:management_store:{name}]
uri = {uri}
"""
#: Messages prepared to claim, and to claim and delete, for each second of a round.
_TO_CLAIM = 20_000
_TO_DELETE = 5000
#: Messages in the listed queue, and behind claimed messages.
_FEW = 1000


class StockZaqar:
    """Stock Zaqar with one of the drivers."""

    def __init__(self, stack: contextlib.ExitStack, name: str) -> None:
        self.name = name
        store = stack.enter_context(servers.redis_server())
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zr-stock-")))
        uri = _DRIVERS[name].format(socket=store.socket)
        (home / ".zaqar").mkdir()
        settings = _CONFIGURATION.format(name=name, uri=uri, home=home)
        (home / ".zaqar" / "zaqar.conf").write_text(settings)
        self._measured, self._helper = (_worker(stack, home) for _ in range(2))
        _pin(self._measured.pid, store.pid)

    def fill(self, queue: str, count: int) -> None:
        self._helper.call("fill", queue, count)

    def hold(self, queue: str, count: int) -> None:
        print_progress(f"{self.name}: claiming {count} messages")
        self._helper.call("fill", queue, count)
        self._helper.call("hold", queue, count)
        if (claimed := self._helper.call("claimed", queue)) != count:
            raise BenchmarkFailed(f"{self.name}: {claimed} messages are claimed, not {count}")

    def contender_for(self, workload: str, queue: str) -> CpuContender:
        return self._contender(lambda seconds: self._measure(workload, queue, seconds))

    def claim_delete_contender(self, workload: str, queue: str) -> CpuContender:
        """Returns a contender that claims and deletes; messages are refilled before a round."""
        left = 0

        def measure(seconds: float) -> LoadSample:
            nonlocal left
            wanted = int(_TO_DELETE * seconds)
            self.fill(queue, wanted - left)
            found = self._measure(workload, queue, seconds)
            left = max(left, wanted) - found.work * CLAIMED
            return found

        return self._contender(measure)

    def claim_contender(self, queue: str) -> CpuContender:
        """Returns a contender that only claims; claims are released before the next round."""
        filled = 0

        def measure(seconds: float) -> LoadSample:
            nonlocal filled
            self._helper.call("release", self._measured.call("made"))
            wanted = int(_TO_CLAIM * seconds)
            self.fill(queue, wanted - filled)
            filled = max(filled, wanted)
            return self._measure("claim_some", queue, seconds)

        return self._contender(measure)

    def _measure(self, workload: str, queue: str, seconds: float) -> LoadSample:
        found: LoadSample = self._measured.call("measure", workload, queue, seconds)
        return found

    def _contender(self, measure: Callable[[float], LoadSample]) -> CpuContender:
        return CpuContender(self.name, measure, self._measured.pid)


def _worker(stack: contextlib.ExitStack, home: Path) -> StockWorker:
    worker = StockWorker(home)
    stack.callback(worker.stop)
    return worker


def _pin(process: int, store: int) -> None:
    """Pins the measured process and its store to separate cores.

    Else they share a core in some rounds, in which waking each other is much cheaper.
    """
    first, *_, last = 2 * sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(process, {first})
    os.sched_setaffinity(store, {last})


class StockComparison:
    """The measurements of both drivers."""

    def __init__(
        self, sides: Sequence[StockZaqar], found: Measurements, rounds: int, seconds: float
    ) -> None:
        self._sides = sides
        self._measurements = found
        self._rounds = rounds
        self._seconds = seconds

    def plain(self) -> None:
        for side in self._sides:
            side.fill("listed", _FEW)
        self._compare(
            "post-1",
            "post 1 message of 150 bytes",
            "posts/s",
            1.5,
            _contender_for("post_one", "posted"),
        )
        self._compare(
            "claim-delete",
            "claim 10, delete those by their ids",
            "claims/s",
            3,
            lambda side: side.claim_delete_contender("claim_delete", "taken"),
        )
        self._compare(
            "claim-delete-each",
            "claim 10, delete one after the other",
            "claims/s",
            None,
            lambda side: side.claim_delete_contender("claim_delete_each", "taken-each"),
        )
        self._compare(
            "list-10",
            "list 10 of 1000 messages",
            "listings/s",
            5,
            _contender_for("list_some", "listed"),
        )

    def claimed(self, count: int) -> None:
        for side in self._sides:
            side.hold("held", count)
            side.fill("held", _FEW)
        behind = "10 behind claimed messages"
        self._compare(
            f"list-{count}",
            f"list {behind}",
            "listings/s",
            100,
            _contender_for("list_some", "held"),
        )
        self._compare(
            f"claim-{count}",
            f"claim {behind}",
            "claims/s",
            30,
            lambda side: side.claim_contender("held"),
        )

    def _compare(
        self,
        name: str,
        what: str,
        unit: str,
        times: float | None,
        contender: Callable[[StockZaqar], CpuContender],
    ) -> None:
        """Measures both.  *times*: target for stock's time per unit of ours; None: no target."""
        ours, stock = map(contender, self._sides)
        self._measurements.take_turns(
            name,
            what,
            unit,
            [BenchmarkTarget(TIME, "≥", times)] if times else [],
            (ours, stock),
            rounds=self._rounds,
            seconds=self._seconds,
        )


def _contender_for(workload: str, queue: str) -> Callable[[StockZaqar], CpuContender]:
    return lambda side: side.contender_for(workload, queue)


def main() -> int:
    program = PartsProgram("stock", __doc__, ("plain", "claimed"))
    program.add_seconds(3)
    before = "claimed messages before those that are listed and claimed"
    program.add_number("--claimed", 20, 50_000, 20_000, before)
    measured = Measurements()

    def prepare(
        given: argparse.Namespace, stack: contextlib.ExitStack
    ) -> Mapping[str, MeasurePart]:
        sides = [StockZaqar(stack, name) for name in _DRIVERS]
        run = StockComparison(sides, measured, given.rounds, given.seconds)
        return {"plain": run.plain, "claimed": lambda: run.claimed(given.claimed)}

    return program.run(prepare, measured)


if __name__ == "__main__":
    raise SystemExit(main())
