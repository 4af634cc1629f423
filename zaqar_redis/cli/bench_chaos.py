# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis bench chaos``: faults by schedule on this machine, and a check of all promises."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from zaqar_redis import errors
from zaqar_redis.benchmarks.chaos import report, run, schedule
from zaqar_redis.benchmarks.chaos.faults import FAULTS
from zaqar_redis.benchmarks.chaos.settings import ChaosSettings
from zaqar_redis.benchmarks.chaos.topologies import TOPOLOGIES
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.cli.api import CommandFailed, print_warning
from zaqar_redis.cli.base import bounded_int
from zaqar_redis.cli.bench_results import BenchmarkCommand, Drawing

#: All acts are in memory for the check: some 300 a second with the default rate, 0.6 KB each.
_LONGEST_SECONDS = 3600
_FAULTS = "\n".join(f"  {name:<10}{kind.what}" for name, kind in FAULTS.items())
_TARGETS = "\n".join(
    f"  {name:<10}{' '.join(map(str, kind.faults))}" for name, kind in TOPOLOGIES.items()
)


class RunChaos(BenchmarkCommand):
    """Let processes, networks and disks fail, and check that all promises hold.

    A store, a service with two workers, a notifier and clients run on loopback for the time of
    the run. Clients record each act, faults strike by a schedule from the seed, and in the end the
    command compares the records with the store. Exits with 1 if a promise is broken.
    Example:

        zaqar-redis bench chaos --topology sentinel --seconds 120 --seed 7
    """

    drawing = Drawing(report.plot, "chaos.svg")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.epilog = f"faults:\n{_FAULTS}\n\nof a topology:\n{_TARGETS}"
        add, number = parser.add_argument, bounded_int
        add("--topology", choices=list(TOPOLOGIES), default="single", help="kind of store (single)")
        add(
            "--seconds",
            type=number(10, _LONGEST_SECONDS),
            default=60,
            metavar="S",
            help="length of the run (60)",
        )
        add("--seed", type=number(0, 2**31), metavar="N", help="seed of the schedule (random)")
        add(
            "--faults",
            nargs="+",
            default=[],
            metavar="NAME",
            help="kill, or kill:primary (all of the topology)",
        )
        add(
            "--ack-replicas",
            type=number(0, 2),
            metavar="N",
            help="replicas that must confirm a change (1); with fewer than all, some losses by a "
            "failover are expected, counted and shown",
        )
        add("--rate", type=number(1, 100), default=15, metavar="N", help="acts of a client (15/s)")
        add("--plan", action="store_true", help="only show the schedule")
        add("--folder", type=Path, metavar="NEW", help="folder for records, logs and stores")

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.plan and (parsed_args.json or parsed_args.plot):
            raise CommandFailed("--plan only shows the schedule: leave out --json and --plot")
        settings = _settings(parsed_args)
        plan = run.plan(settings)
        sys.stdout.write(report.plan_text(settings.topology, settings.seed, plan))
        if parsed_args.plan:
            return 0
        if parsed_args.folder and parsed_args.folder.exists():
            raise CommandFailed(f"--folder {parsed_args.folder} exists: name a new one")
        found, code = self.measure(
            parsed_args,
            lambda command: _run(settings, plan, command),
            report,
        )
        return 1 if found.violations else code


def _run(
    settings: ChaosSettings, plan: Sequence[schedule.PlannedFault], command: str
) -> tuple[report.ChaosReport, bool]:
    try:
        return run.run_chaos(settings, plan, command, print_warning)
    except TimeoutError as error:
        raise BenchmarkFailed(f"waited too long for {error}") from error


def _settings(given: argparse.Namespace) -> ChaosSettings:
    kind = TOPOLOGIES[given.topology]
    seed = random.randrange(2**31) if given.seed is None else given.seed
    ack_replicas = min(1, kind.replicas) if given.ack_replicas is None else given.ack_replicas
    if ack_replicas > kind.replicas:
        raise errors.BadConfiguration(
            f"--ack-replicas {ack_replicas}: a primary of {given.topology} has {kind.replicas} "
            "replicas"
        )
    faults = schedule.select(given.faults, kind.faults)
    return ChaosSettings(
        *(given.topology, given.seconds, seed, faults, ack_replicas, given.rate, given.folder)
    )
