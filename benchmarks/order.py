# SPDX-License-Identifier: Apache-2.0
"""What claims cost in queues with priorities and with groups, beside a plain queue.

    python -m benchmarks.order --groups 10 10000 1000000 --rounds 15

One service with one worker over one Redis; over eight connections wrk claims ten messages and
deletes them by their ids.  Each round of a queue is compared with the adjacent round of the plain
one, whose messages have the same fields.  Pairs of requests a second, and CPU time of the worker
and of Redis for each pair.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any

from benchmarks.support.request_costs import COSTS, Costs, CountedService
from benchmarks.support.rounds import figures, in_turns, print_progress
from tests.support import servers
from zaqar_redis import message_fields
from zaqar_redis.benchmarks import report
from zaqar_redis.keyspace import blocking, keys
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.records import Attributes, NewMessage
from zaqar_redis.storage.redis.blocking import BlockingRedisStore

_CLIENT = "5f0c6f5e-9a0b-4c0e-8a55-0d5d3c1f7a10"
_BODY = b'"' + b"x" * 100 + b'"'
#: Messages of each queue: more than a round takes.
_MESSAGES = 100_000
_CONNECTIONS = 8


@dataclass
class MeasuredQueue:
    """A queue that keeps its size: what a round has taken is posted again after it."""

    service: CountedService
    driver: BlockingRedisStore
    label: str
    #: 0: there are priorities
    groups: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    _posted: int = 0

    def create(self) -> None:
        self.driver.queues.create(self.service.project, self.label, self.metadata).run()

    def round(self) -> Costs:
        where = self.service.project, self.label
        # What a round has left claimed would hold up groups in the next one.
        for claim in self.driver.client.command("ZRANGE", keys.of_queue(*where).leases, 0, -1):
            self.driver.claims.delete(*where, claim.decode()).run()
        size = self.driver.queues.size(*where).run()
        self._post(max(_MESSAGES, self.groups) - size.messages)
        return self.service.claim_from(self.label, 1)

    def _post(self, number: int) -> None:
        for _ in range(number // 100):
            drafts = [
                NewMessage(body=_BODY, ttl=86400, attributes=self._attributes()) for _ in range(100)
            ]
            self.driver.messages.post(
                self.service.project, self.label, drafts, client=_CLIENT, default_ttl=60, size=0
            ).run()

    def _attributes(self) -> Attributes:
        self._posted += 1
        if self.groups:
            return {message_fields.GROUP: f"customer-{self._posted % self.groups}"}
        return {message_fields.PRIORITY: self._posted % (message_fields.PRIORITY_MAX + 1)}


def run(uri: str, service: CountedService, groups: list[int], rounds: int) -> str:
    driver = BlockingRedisStore(blocking.client(uri, BatchSettings(timeout=60.0)))
    rows = []
    limited = {"_group_mode": "fair", "_group_concurrency": 100}
    kinds: list[tuple[str, int, dict[str, Any]]] = [
        ("priorities", 0, {"_priorities": "strict"}),
        *((f"ordered-{each}", each, {"_group_mode": "ordered"}) for each in groups),
        *((f"fair-{each}", each, {"_group_mode": "fair"}) for each in groups),
        *((f"limited-{each}", each, limited) for each in groups),
    ]
    for label, number, metadata in kinds:
        sides = [
            MeasuredQueue(service, driver, f"plain-beside-{label}", number),
            MeasuredQueue(service, driver, label, number, metadata),
        ]
        rows += _measured(sides, rounds)
        for side in sides:
            driver.queues.delete(service.project, side.label).run()
    driver.close().run()
    head = ["of", "measured", "plain", "here", "here : plain", "least", "greatest"]
    return report.table(head, rows)


def _measured(sides: list[MeasuredQueue], rounds: int) -> list[list[str]]:
    found: dict[str, list[Costs]] = {side.label: [] for side in sides}
    for side in sides:
        side.create()
        side.round()  # the warm-up
    for _, order in in_turns(sides, rounds):
        for side in order:
            found[side.label].append(side.round())
            print_progress(f"{side.label}: {found[side.label][-1][2]:.0f} pairs/s")
    rows = []
    for place, what in enumerate(COSTS):
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
    with servers.redis_server() as server, servers.service(server.uri) as running:
        service = CountedService("here", running, server, _CONNECTIONS)
        print(run(server.uri, service, args.groups, args.rounds))
        service.close()


if __name__ == "__main__":
    main()
