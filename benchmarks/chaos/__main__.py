# SPDX-License-Identifier: Apache-2.0
"""Lets processes, networks and disks fail, and checks that nothing is lost that was promised.

    python -m benchmarks.chaos
    python -m benchmarks.chaos --topology sentinel --seconds 120 --seed 7

A store, a service with two workers, a notifier and clients run on loopback for the time of
the run. Clients record each act, faults strike by a schedule that the seed decides, and in
the end the records are compared with what is stored. Exits with 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from benchmarks.chaos import report, run, schedule
from benchmarks.chaos.faults import FAULTS
from benchmarks.chaos.settings import ChaosSettings
from benchmarks.chaos.topologies import TOPOLOGIES
from benchmarks.support.program import ReportProgram
from zaqar_redis import errors
from zaqar_redis.cli.base import bounded_int

#: All acts are in memory for the check: some 300 a second with the default rate, 0.6 KB each.
_LONGEST_SECONDS = 3600
_FAULTS = "\n".join(f"  {name:<10}{kind.what}" for name, kind in FAULTS.items())
_TARGETS = "\n".join(
    f"  {name:<10}{' '.join(map(str, kind.faults))}" for name, kind in TOPOLOGIES.items()
)


def main() -> int:
    text = f"{__doc__}\nfaults:\n{_FAULTS}\n\nof a topology:\n{_TARGETS}"
    program = ReportProgram("chaos", text, report)
    add, add_number = program.add, program.add_number
    add("--topology", choices=list(TOPOLOGIES), default="single", help="(single)")
    add_number("--seconds", 10, _LONGEST_SECONDS, 60, "of the run", "S")
    add("--seed", type=bounded_int(0, 2**31), metavar="N", help="of the schedule (a random one)")
    add(
        "--faults",
        nargs="+",
        default=[],
        metavar="NAME",
        help="kill, or kill:primary (all of the topology)",
    )
    add(
        "--ack-replicas",
        type=bounded_int(0, 2),
        metavar="N",
        help="replicas that must have a change before it is acknowledged (1); with fewer than "
        "there are, some losses by a failover are expected, counted and shown",
    )
    add_number("--rate", 1, 100, 15, "of each client, a second")
    add("--plan", action="store_true", help="only show the schedule")
    add("--folder", type=Path, metavar="NEW", help="keep records, logs and stores there")

    def measure(given: argparse.Namespace) -> int:
        if given.plan and (given.json or given.plot):
            raise errors.BadConfiguration(
                "--plan only shows the schedule: leave out --json and --plot"
            )
        settings = _settings(given)
        plan = run.plan(settings)
        sys.stdout.write(report.plan_text(settings.topology, settings.seed, plan))
        if given.plan:
            return 0
        if given.folder and given.folder.exists():
            raise errors.BadConfiguration(f"--folder {given.folder} exists: name a new one")
        found, code = program.measure(given, lambda command: run.run_chaos(settings, plan, command))
        return 1 if found.violations else code

    return program.run(measure)


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


if __name__ == "__main__":
    raise SystemExit(main())
