# SPDX-License-Identifier: Apache-2.0
"""How costs depend on the number of queues: few and many, each over eight pools.

Two deployments that differ only in their number of queues get the same requests in turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
from collections.abc import Callable

from benchmarks.pools import request_load
from benchmarks.support import deployment
from benchmarks.support.rounds import (
    CPU,
    TIME,
    BenchmarkTarget,
    CpuContender,
    Measurements,
    print_progress,
)
from zaqar_redis.benchmarks.load import LoadSample
from zaqar_redis.benchmarks.service import BenchmarkFailed

FEW = 100
_POOLS = 8
_PAGE = 20
_TARGETS = (BenchmarkTarget(TIME, "<", 2), BenchmarkTarget(CPU, "<", 2))


class ProjectWithQueues:
    """A project with *count* queues, in a service of its own."""

    def __init__(self, stack: contextlib.ExitStack, runner: asyncio.Runner, count: int) -> None:
        self._count = count
        self._deployment = deployment.PooledDeployment(stack, runner, _POOLS)
        self._service, self._worker = deployment.service(stack, self._deployment.default_store)
        self._project = self._service.headers["X-Project-ID"]
        self._label = f"{count:,}".replace(",", " ")
        print_progress(f"creating {count} queues")
        create = self._deployment.driver.queues.create
        self._deployment.run_for_each(
            lambda number: create(self._project, _name(number), {}), count
        )
        page = self._service.get(self._page())
        if len(page["queues"]) != _PAGE:
            raise BenchmarkFailed(f"the page in the middle is not full: {page}")

    def listing(self) -> CpuContender:
        return self._reading(self._page)

    def showing_any(self) -> CpuContender:
        return self._reading(lambda: f"/v2/queues/{self._any()}")

    def showing_one(self) -> CpuContender:
        return self._reading(lambda: f"/v2/queues/{_name(self._count // 2)}")

    def locating(self) -> CpuContender:
        router = self._deployment.driver.router

        async def located() -> bool:
            # Reads the catalogue, whether or not the route is cached.
            return (await router.find(self._project, self._any())).pool is not None

        return CpuContender(
            self._label, lambda seconds: self._located(located, seconds), os.getpid()
        )

    def _located(self, located: request_load.RequestSender, seconds: float) -> LoadSample:
        return self._deployment.run(request_load.load_driver(located, seconds))

    def _reading(self, path: Callable[[], str]) -> CpuContender:
        def measure(seconds: float) -> LoadSample:
            return self._deployment.run(request_load.load_service(self._service, path, seconds))

        return CpuContender(self._label, measure, self._worker)

    def _page(self) -> str:
        return f"/v2/queues?limit={_PAGE}&marker={_name(self._count // 2)}"

    def _any(self) -> str:
        return _name(random.randrange(self._count))


def _name(number: int) -> str:
    return f"queue-{number:07}"


def measure(
    measurements: Measurements, runner: asyncio.Runner, rounds: int, seconds: float, count: int
) -> None:
    with contextlib.ExitStack() as stack:
        few, many = ProjectWithQueues(stack, runner, FEW), ProjectWithQueues(stack, runner, count)
        turns = functools.partial(measurements.take_turns, rounds=rounds, seconds=seconds)
        for name, what, unit, of in (
            (
                "list-queues",
                "list 20 queues from the middle",
                "requests/s",
                ProjectWithQueues.listing,
            ),
            ("locate", "find the pool of any queue", "lookups/s", ProjectWithQueues.locating),
            ("show-any", "show any queue", "requests/s", ProjectWithQueues.showing_any),
            ("show-one", "show the same queue", "requests/s", ProjectWithQueues.showing_one),
        ):
            turns(name, what, unit, _TARGETS, (of(few), of(many)))
