# SPDX-License-Identifier: Apache-2.0
"""What pools cost a post: a queue in a pool, compared with a service without pools.

The difference is no larger than that between two identical processes: on a busy machine,
two identical services have differed in CPU time by factors of 0.97 to 1.02. So compare
several runs.
"""

from __future__ import annotations

import asyncio
import contextlib

from benchmarks.support import deployment
from benchmarks.support.rounds import (
    CPU,
    TIME,
    BenchmarkTarget,
    CpuContender,
    Measurements,
    print_progress,
)
from tests.support import servers
from zaqar_redis.benchmarks.load import WrkLoad
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.benchmarks.workloads import WORKLOADS, BenchmarkPlan

_POOLS = 2
_CONNECTIONS = 32
_TARGETS = (BenchmarkTarget(CPU, "≤", 1.05), BenchmarkTarget(TIME, "≤", 1.05))


def measure(
    measurements: Measurements, runner: asyncio.Runner, rounds: int, seconds: float
) -> None:
    """Measures services of one worker each, over servers of their own."""
    with contextlib.ExitStack() as stack:
        pools = deployment.PooledDeployment(stack, runner, _POOLS)
        plain = stack.enter_context(servers.redis_server())
        started = {
            "plain": deployment.service(stack, plain, pooling=False),
            "pools": deployment.service(stack, pools.default_store),
        }
        services = {label: service for label, (service, _) in started.items()}
        post = WORKLOADS["post-1"]
        # Of a plan, post-1 needs only the load generator and the services. It posts to a new
        # queue each round: for one request of some ten thousand the route is not cached.
        plan = BenchmarkPlan(WrkLoad(_CONNECTIONS), services, None, 0, 0, print_progress)
        first, second = (
            CpuContender(one.label, one.measure, started[one.label][1])
            for one in post.contenders(plan)
        )
        measurements.take_turns(
            post.name,
            post.what,
            post.unit,
            _TARGETS,
            (first, second),
            rounds=rounds,
            seconds=seconds,
        )
        counts = [pools.run(pools.driver.control.catalogue.count(name)) for name in pools.pools]
        if not any(counts):  # catalogue entries of deleted queues are stored for a minute
            raise BenchmarkFailed("no queue was in a pool")
