# SPDX-License-Identifier: Apache-2.0
"""Simulate very many queues over very many pools, routed by the code that routes them.

    python -m benchmarks.simulation --seed 1
    python -m benchmarks.simulation --queues 20000 --pools 100 --plot scale.png

Queues are created, one pool in a hundred fails, is drained and deleted, and twice as many are
added and take their share. `storage/pools/router.py` places each queue, `rebalance.py` chooses
what moves, `buses/sharded.py` hashes channels; stores, catalogue and mover are simulated, in
memory, without messages. Their times are those that were measured (`zaqar_redis/sizing/costs.py`).

What it does not show: requests, races, a control store that is slow, two failures in a row.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import time
from pathlib import Path

from benchmarks.simulation import report
from benchmarks.simulation.scenario import Simulation, SimulationSettings, channel_imbalance
from benchmarks.support.rounds import print_progress
from zaqar_redis.cli.base import bounded_int
from zaqar_redis.storage.control import POOLS_MAX


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add, number = parser.add_argument, bounded_int
    add("--seed", type=int, default=random.randrange(2**32), help="(a random one)")
    add("--queues", type=number(4, 10_000_000), default=1_000_000, metavar="N", help="(1000000)")
    add("--pools", type=number(4, POOLS_MAX), default=POOLS_MAX, metavar="N", help="(1000)")
    add(
        "--messages",
        type=number(0, 10**12),
        default=100_000_000,
        metavar="N",
        help="that wait in all queues (100000000)",
    )
    add("--plot", type=Path, metavar="FILE", help="also draw the figures, e.g. to scale.png")
    given = parser.parse_args()
    if given.queues < given.pools:
        parser.error("--queues: there must be one for each pool at least")
    settings = SimulationSettings(given.queues, given.pools, given.messages, given.seed)
    start = time.process_time()
    found = asyncio.run(Simulation(settings).run(print_progress))
    print(report.text(found, channel_imbalance(settings)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print_progress(f"{time.process_time() - start:.0f} s of CPU, {memory:.0f} MB")
    if given.plot:
        report.plot(found, given.plot)


if __name__ == "__main__":
    main()
