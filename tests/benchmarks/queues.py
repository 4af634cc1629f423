# SPDX-License-Identifier: Apache-2.0
"""Does it matter how many queues there are? Few beside many, each over eight pools.

Two houses of servers that are alike but for their queues: what is looked at is
asked of one and of the other in turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
from collections.abc import Callable

import httpx

from tests.benchmarks import asking, house
from tests.benchmarks.rounds import CPU, TIME, Contender, Measured, Target, take_turns, tell
from zaqar_redis.bench.load import Sample
from zaqar_redis.bench.service import Failed

FEW = 100
_POOLS = 8
_PAGE = 20
_TARGETS = (Target(TIME, "<", 2), Target(CPU, "<", 2))


class Many:
    """A project with so many queues, in a service of its own."""

    def __init__(self, stack: contextlib.ExitStack, runner: asyncio.Runner, count: int) -> None:
        self._count = count
        self._house = house.House(stack, runner, _POOLS)
        self._service, self._worker = house.service(stack, self._house.home)
        self._project = self._service.headers["X-Project-ID"]
        self._label = f"{count:,}".replace(",", " ")
        tell(f"making {count} queues")
        create = self._house.driver.queues.create
        self._house.make(lambda number: create(self._project, _name(number), {}), count)
        page = httpx.get(f"{self._service.url}{self._page()}", headers=self._service.headers)
        if len(page.json()["queues"]) != _PAGE:
            raise Failed(f"the page in the middle is not full: {page.text}")

    def listing(self) -> Contender:
        return self._reading(self._page)

    def showing_any(self) -> Contender:
        return self._reading(lambda: f"/v2/queues/{self._any()}")

    def showing_one(self) -> Contender:
        return self._reading(lambda: f"/v2/queues/{_name(self._count // 2)}")

    def locating(self) -> Contender:
        places = self._house.driver.places

        async def located() -> bool:
            # Asks the catalogue whether or not the place is remembered.
            return (await places.find(self._project, self._any())).pool is not None

        return Contender(self._label, lambda seconds: self._located(located, seconds), os.getpid())

    def _located(self, located: asking.Ask, seconds: int) -> Sample:
        return self._house.run(asking.of_driver(located, seconds))

    def _reading(self, path: Callable[[], str]) -> Contender:
        def measure(seconds: int) -> Sample:
            return self._house.run(asking.of_service(self._service, path, seconds))

        return Contender(self._label, measure, self._worker)

    def _page(self) -> str:
        return f"/v2/queues?limit={_PAGE}&marker={_name(self._count // 2)}"

    def _any(self) -> str:
        return _name(random.randrange(self._count))


def _name(number: int) -> str:
    return f"queue-{number:07}"


def measure(
    found: list[Measured], runner: asyncio.Runner, rounds: int, seconds: int, count: int
) -> None:
    with contextlib.ExitStack() as stack:
        few, many = Many(stack, runner, FEW), Many(stack, runner, count)
        turns = functools.partial(take_turns, found, rounds=rounds, seconds=seconds)
        for name, what, unit, of in (
            ("list-queues", "list 20 queues from the middle", "requests/s", Many.listing),
            ("locate", "find the place of any queue", "lookups/s", Many.locating),
            ("show-any", "show any queue", "requests/s", Many.showing_any),
            ("show-one", "show the same queue", "requests/s", Many.showing_one),
        ):
            turns(name, what, unit, _TARGETS, (of(few), of(many)))
