# SPDX-License-Identifier: Apache-2.0
"""Compares buses: publishers and subscribers of each in turn, round by round.

    python -m benchmarks.bus
    python -m benchmarks.bus --contender redis redis-py --clients 1 2 --rounds 1

Each client is a process that publishes to channels at random, as fast as it can, and one
that subscribes to all of them. Brokers and clients run on loopback for the time of the
run. Exits with 5 when some rounds failed.
"""

from __future__ import annotations

import argparse

from benchmarks.bus import report, run
from benchmarks.bus.contenders import CONTENDERS, select_contenders
from benchmarks.support.program import ReportProgram
from zaqar_redis.cli.base import INCOMPLETE, bounded_int

_CONTENDERS = "\n".join(f"  {each.name:<18}{each.what}" for each in CONTENDERS.values())


def main() -> int:
    program = ReportProgram("bus", f"{__doc__}\ncontenders:\n{_CONTENDERS}", report)
    add, add_number = program.add, program.add_number
    add("--contender", nargs="+", default=[], metavar="NAME", help="(all that are installed)")
    add(
        "--clients",
        type=bounded_int(1, 16),
        nargs="+",
        default=[1, 2, 4],
        metavar="N",
        help="how many at a time, each 1 to 16 (1 2 4)",
    )
    add_number("--channels", 1, 10_000, 50, "1 to 10000")
    add_number("--size", 1, 65_536, 20, "of a message, 1 to 65536", "BYTES")
    add_number("--seconds", 2, 60, 10, "of a round, 2 to 60", "S")
    add_number("--rounds", 1, 100, 3, "of each, 1 to 100")
    add("--redis", metavar="URI", help="a Redis on loopback (one for the time of the run)")
    add(
        "--relay",
        action="store_true",
        help="also measure the time from node to node, at half of what our buses can",
    )

    def measure(given: argparse.Namespace) -> int:
        settings = run.BusBenchmarkSettings(
            select_contenders(given.contender),
            clients=sorted(set(given.clients)),
            channels=given.channels,
            size=given.size,
            seconds=given.seconds,
            rounds=given.rounds,
            redis=given.redis,
            relay=given.relay,
        )
        found, code = program.measure(
            given, lambda command: run.run_bus_benchmark(settings, command)
        )
        return code or (INCOMPLETE if found.failures else 0)

    return program.run(measure)


if __name__ == "__main__":
    raise SystemExit(main())
