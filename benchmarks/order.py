# SPDX-License-Identifier: Apache-2.0
"""What claims cost in queues with priorities and with ordered groups, beside a plain queue.

    python -m benchmarks.order --groups 10 10000 1000000 --rounds 15

One process claims ten messages at a time and deletes them, with 8 calls at once; each round of a
queue is compared with the adjacent round of the plain one, over one Redis.  Pairs a second, and
CPU time of Redis for each pair.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from benchmarks.support.processes import cpu_seconds
from benchmarks.support.rounds import figures, in_turns, print_progress
from tests.support import servers
from zaqar_redis import formats, message_fields
from zaqar_redis.benchmarks import report
from zaqar_redis.records import Attributes, Lease, NewMessage
from zaqar_redis.storage.load import load

_CLIENT = "5f0c6f5e-9a0b-4c0e-8a55-0d5d3c1f7a10"
_BODY = b'"' + b"x" * 100 + b'"'
#: Messages of each queue at least, and calls at once.
_MESSAGES, _TOGETHER = 20_000, 8
#: Pairs in a round, each of ten messages.
_PAIRS = 960


class OrderedQueue:
    """A queue that keeps its size: what is deleted in a round is posted again after it."""

    def __init__(self, driver: Any, redis: int, label: str, groups: int, **metadata: Any) -> None:
        self.label = label
        self._driver = driver
        self._redis = redis
        self._groups = groups
        self._metadata = metadata
        self._number = 0

    async def fill(self) -> None:
        await self._driver.queues.create("bench", self.label, self._metadata)
        await self._post(max(_MESSAGES, self._groups))

    async def round(self) -> tuple[float, float]:
        """Returns pairs a second, and microseconds of Redis' CPU time for each."""
        started, before = time.perf_counter(), cpu_seconds(self._redis)
        await asyncio.gather(*(self._pairs(_PAIRS // _TOGETHER) for _ in range(_TOGETHER)))
        spent = cpu_seconds(self._redis) - before
        seconds = time.perf_counter() - started
        await self._post(10 * _PAIRS)
        return _PAIRS / seconds, spent / _PAIRS * 1e6

    async def _pairs(self, number: int) -> None:
        for _ in range(number):
            taken: Any = None
            while taken is None or not taken.messages:  # with few groups others hold all of them
                taken = await self._driver.claims.create(
                    "bench", self.label, Lease(300, 60), limit=10
                )
            ids = [each.id for each in taken.messages]
            claims = [taken.claim_id]
            await self._driver.messages.delete("bench", self.label, ids, claims=claims, force=False)

    async def _post(self, number: int) -> None:
        for _ in range(number // 100):
            drafts = [
                NewMessage(body=_BODY, ttl=86400, attributes=self._attributes()) for _ in range(100)
            ]
            await self._driver.messages.post(
                "bench", self.label, drafts, client=_CLIENT, default_ttl=60, size=0
            )

    def _attributes(self) -> Attributes:
        self._number += 1
        if not self._groups:  # of the plain queue, too: it only shows them
            return {message_fields.PRIORITY: self._number % (message_fields.PRIORITY_MAX + 1)}
        return {message_fields.GROUP: f"customer-{self._number % self._groups}"}


async def run(uri: str, redis: int, groups: list[int], rounds: int) -> str:
    driver = load(uri, {"timeout": 60.0})
    await driver.start()
    assert driver.ownership
    await driver.ownership.format.raise_to(formats.CURRENT.version, formats.CURRENT.needs)
    plain = OrderedQueue(driver, redis, "plain", 0)
    others = [OrderedQueue(driver, redis, "priorities", 0, _priorities="strict")]
    for number in groups:
        label = f"groups-{number}"
        others.append(OrderedQueue(driver, redis, label, number, _group_mode="ordered"))
    await plain.fill()
    rows = []
    for other in others:
        await other.fill()
        print_progress(f"{other.label}: filled")
        rows += await _measured([plain, other], rounds)
        await driver.queues.delete("bench", other.label)
    await driver.close()
    head = ["of", "measured", "plain", "here", "here : plain", "least", "greatest"]
    return report.table(head, rows)


async def _measured(sides: list[OrderedQueue], rounds: int) -> list[list[str]]:
    found: dict[str, list[tuple[float, float]]] = {side.label: [] for side in sides}
    for side in sides:
        await side.round()  # the warm-up
    for _, order in in_turns(sides, rounds):
        for side in order:
            found[side.label].append(await side.round())
    rows = []
    for place, what in enumerate(("pairs/s", "CPU µs of Redis")):
        plain, here = ([each[place] for each in one] for one in found.values())
        ratios = [one / other for other, one in zip(plain, here, strict=True)]
        medians = [f"{report.spread(each).median:.0f}" for each in (plain, here)]
        rows.append([sides[1].label, what, *medians, *figures(ratios, 2)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, nargs="*", default=[10, 10_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    with servers.redis_server() as server:
        print(asyncio.run(run(server.uri, server.pid, args.groups, args.rounds)))


if __name__ == "__main__":
    main()
