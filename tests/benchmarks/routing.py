# SPDX-License-Identifier: Apache-2.0
"""What pools cost a post: a queue in a pool beside one of a service without pools.

The difference is of the size of what differs between two processes anyhow: on a busy
machine, a service beside its like has come out at 0.97 to 1.02 in CPU time. So look at
several runs.
"""

from __future__ import annotations

import asyncio
import contextlib

from tests.benchmarks import house
from tests.benchmarks.rounds import CPU, TIME, Contender, Measured, Target, take_turns, tell
from zaqar_redis.bench.load import Load
from zaqar_redis.bench.service import Failed
from zaqar_redis.bench.workloads import WORKLOADS, Plan

_POOLS = 2
_CONNECTIONS = 32
_TARGETS = (Target(CPU, "≤", 1.05), Target(TIME, "≤", 1.05))


def measure(found: list[Measured], runner: asyncio.Runner, rounds: int, seconds: int) -> None:
    """One worker each, over servers of their own."""
    with contextlib.ExitStack() as stack:
        pools = house.House(stack, runner, _POOLS)
        plain = house.redis_server(stack)
        started = {
            "plain": house.service(stack, plain, pooling=False),
            "pools": house.service(stack, pools.home),
        }
        services = {label: service for label, (service, _) in started.items()}
        post = WORKLOADS["post-1"]
        # Of a plan post-1 needs what to load and with what. Each round it makes a new
        # queue: one request of some ten thousand finds no place remembered.
        plan = Plan(Load(_CONNECTIONS), services, None, 0, 0, tell)
        first, second = (
            Contender(one.label, one.measure, started[one.label][1])
            for one in post.contenders(plan)
        )
        take_turns(
            found,
            post.name,
            post.what,
            post.unit,
            _TARGETS,
            (first, second),
            rounds=rounds,
            seconds=seconds,
        )
        counts = [pools.run(pools.driver.control.catalogue.count(name)) for name in pools.pools]
        if not any(counts):  # the places of deleted queues are kept for a minute
            raise Failed("no queue was in a pool")
