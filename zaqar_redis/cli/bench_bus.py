# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis bench bus``: compare buses on this machine."""

from __future__ import annotations

import argparse

from zaqar_redis.benchmarks.bus import report, run
from zaqar_redis.benchmarks.bus.contenders import CONTENDERS, select_contenders
from zaqar_redis.cli.api import print_warning
from zaqar_redis.cli.base import INCOMPLETE, bounded_int
from zaqar_redis.cli.bench_results import BenchmarkCommand, Drawing

_CONTENDERS = "\n".join(f"  {each.name:<18}{each.what}" for each in CONTENDERS.values())


class RunBusBenchmark(BenchmarkCommand):
    """Compare buses: publishers and subscribers of each in turn, round by round.

    Each client is a process that publishes to channels at random, as fast as it can, and one
    that subscribes to all of them. Brokers and clients run on loopback for the time of the
    run. Example:

        zaqar-redis bench bus --contender redis redis-py --clients 1 2 --rounds 1
    """

    drawing = Drawing(report.plot, "bus.svg")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.epilog = f"contenders:\n{_CONTENDERS}"
        add, number = parser.add_argument, bounded_int
        add("--contender", nargs="+", default=[], metavar="NAME", help="buses (all installed)")
        add(
            "--clients",
            type=number(1, 16),
            nargs="+",
            default=[1, 2, 4],
            metavar="N",
            help="numbers of clients, each 1 to 16 (1 2 4)",
        )
        add("--channels", type=number(1, 10_000), default=50, metavar="N", help="1 to 10000 (50)")
        add(
            "--size",
            type=number(1, 65_536),
            default=20,
            metavar="BYTES",
            help="size of a message, 1 to 65536 (20)",
        )
        add(
            "--seconds",
            type=number(2, 60),
            default=10,
            metavar="S",
            help="length of a round, 2 to 60 (10)",
        )
        add("--rounds", type=number(1, 100), default=3, metavar="N", help="rounds, 1 to 100 (3)")
        add("--redis", metavar="URI", help="a Redis on loopback (one for the time of the run)")
        add(
            "--relay",
            action="store_true",
            help="also measure the time from node to node, at half the maximum rate of our buses",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        settings = run.BusBenchmarkSettings(
            select_contenders(parsed_args.contender),
            clients=sorted(set(parsed_args.clients)),
            channels=parsed_args.channels,
            size=parsed_args.size,
            seconds=parsed_args.seconds,
            rounds=parsed_args.rounds,
            redis=parsed_args.redis,
            relay=parsed_args.relay,
        )
        found, code = self.measure(
            parsed_args,
            lambda command: run.run_bus_benchmark(settings, command, print_warning),
            report,
        )
        if found.failures:
            self.exit_code = INCOMPLETE
        return code
