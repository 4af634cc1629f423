# SPDX-License-Identifier: Apache-2.0
"""What subscriptions cost a post, and how fast messages go from queue to queue."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator, Sequence

from benchmarks.notifications.pairs import PairedFigures
from benchmarks.notifications.store import NotifiedStore
from benchmarks.support.processes import cpu_seconds
from benchmarks.support.request_costs import COSTS, Costs, CountedService
from benchmarks.support.rounds import in_turns, print_progress
from tests.support import servers
from zaqar_redis.keyspace import keys

#: Returns how many messages it has posted or delivered, and in how many seconds.
MeasuredPart = Callable[[], Awaitable[tuple[int, float]]]
_LIMITS = {COSTS[0]: ("≤", 1.15)}
_FORWARDED = ("≥", 0.4)


class QueueDelivery:
    """The parts without endpoints."""

    def __init__(self, given: Namespace, found: PairedFigures) -> None:
        self._given = given
        self._found = found

    def forward(self) -> None:
        self._compare("forward", self._forwarding)

    def fanout(self) -> None:
        self._compare("fanout", self._fanning_out)

    def posts(self) -> None:
        with contextlib.ExitStack() as stack:
            redis = stack.enter_context(servers.redis_server())
            options = {"notification": {"in_service": False}}
            running = stack.enter_context(servers.service(redis.uri, options=options))
            service = CountedService("posts", running, redis)
            stack.callback(service.close)
            store = NotifiedStore(stack, redis, service.project)
            numbers = {"none": 0, "one": 1, "many": self._given.subscriptions}
            for label, number in numbers.items():
                targets = [f"queue:target-{n}" for n in range(number)]
                store.run(store.subscribe(label, targets))
            entries = [keys.of_queue(service.project, label).deliveries for label in numbers]
            stack.enter_context(_emptied(redis, entries))
            costs: dict[str, list[Costs]] = {label: [] for label in numbers}
            for number, order in in_turns([*numbers], self._given.rounds, first=0):
                for label in order:
                    cost = service.post_to(label, max(1, round(self._given.seconds)))
                    if number:
                        costs[label].append(cost)
                        print_progress(f"posts, {label}: {cost[0]:.1f} µs of the worker")
        for label in ("one", "many"):
            for place, what in enumerate(COSTS):
                pairs = [[cost[place] for cost in costs[each]] for each in ("none", label)]
                self._found.add("posts", f"{label}: {what}", pairs, target=_LIMITS.get(what))

    def _compare(
        self,
        part: str,
        prepare: Callable[[NotifiedStore], tuple[MeasuredPart, MeasuredPart]],
    ) -> None:
        with contextlib.ExitStack() as stack:
            redis = stack.enter_context(servers.redis_server())
            store = NotifiedStore(stack, redis)
            contenders = prepare(store)
            rates: list[list[float]] = [[], []]
            costs: list[list[float]] = [[], []]
            for number, order in in_turns([0, 1], self._given.rounds, first=0):
                for place in order:
                    before = cpu_seconds(os.getpid())
                    done, seconds = store.run(contenders[place]())
                    if number:
                        rates[place].append(done / seconds)
                        costs[place].append((cpu_seconds(os.getpid()) - before) / done * 1e6)
                        print_progress(f"{part}, {place}: {rates[place][-1]:.0f}/s")
        self._found.add(part, "messages/s", rates, target=_FORWARDED)
        self._found.add(part, "CPU µs of this process", costs)

    def _forwarding(self, store: NotifiedStore) -> tuple[MeasuredPart, MeasuredPart]:
        hundreds = round(self._given.seconds * 300)

        async def straight() -> tuple[int, float]:
            begun = time.perf_counter()
            await store.each([store.post("straight", 100) for _ in range(hundreds)])
            passed = time.perf_counter() - begun
            await store.delete("straight")
            return 100 * hundreds, passed

        async def forwarded() -> tuple[int, float]:
            await store.subscribe("source", ["queue:copy"])
            await store.each([store.post("source", 100) for _ in range(hundreds)])
            notifier = store.notifier()
            # Else it begins seconds later: that of the last round has just looked what is due.
            await store.client.command("DEL", keys.NOTIFIER)
            begun = time.perf_counter()
            await notifier.start()
            await store.delivered("source")
            passed = time.perf_counter() - begun
            await notifier.close()
            await store.delete("source", "copy")
            return 100 * hundreds, passed

        return straight, forwarded

    def _fanning_out(self, store: NotifiedStore) -> tuple[MeasuredPart, MeasuredPart]:
        targets = [f"target-{number}" for number in range(self._given.subscriptions)]
        store.run(store.subscribe("source", [f"queue:{target}" for target in targets]))
        store.run(store.each([store.create(target) for target in targets]))

        async def straight() -> tuple[int, float]:
            begun = time.perf_counter()
            await store.each([store.post(target) for target in targets])
            return len(targets), time.perf_counter() - begun

        store.run(store.notifier().start())

        async def fanned_out() -> tuple[int, float]:
            begun = time.perf_counter()
            await store.post("source")
            await store.delivered("source")
            return len(targets), time.perf_counter() - begun

        return straight, fanned_out


@contextlib.contextmanager
def _emptied(redis: servers.RedisServer, entries: Sequence[bytes]) -> Iterator[None]:
    """Empties streams of entries again and again, as a notifier would."""
    ended = threading.Event()

    def empty() -> None:
        with redis.client() as client:
            while not ended.wait(0.005):
                for each in entries:
                    client.xtrim(each, maxlen=0, approximate=False)

    thread = threading.Thread(target=empty)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
