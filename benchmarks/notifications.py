# SPDX-License-Identifier: Apache-2.0
"""What subscriptions cost a post, and how fast messages are forwarded and fanned out.

    python -m benchmarks.notifications --rounds 5

posts: wrk posts single messages to a service of one worker, to a queue without subscriptions, with
one, and with many. No notifier runs: what it costs beside the post is measured by the other parts;
a loop empties the entries as it would, so that posts tell notifiers as often as can be.
forward: a notifier in this process forwards messages from a queue to another, compared with posts
of the same messages in hundreds. fanout: it forwards one message to many queues, compared with a
post to each.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from benchmarks.support import deployment
from benchmarks.support.processes import cpu_seconds
from benchmarks.support.program import MeasurePart, PartsProgram
from benchmarks.support.request_costs import COSTS, Costs, CountedService
from benchmarks.support.rounds import figures, in_turns, print_progress
from tests.support import servers
from zaqar_redis import rules
from zaqar_redis.benchmarks import report
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.notify.notifier import Notifier, NotifierSettings
from zaqar_redis.notify.target import TargetContext
from zaqar_redis.notify.targets import Targets
from zaqar_redis.records import NewMessage
from zaqar_redis.service.long_polls import LongPoll
from zaqar_redis.service.messages import MessageService
from zaqar_redis.storage.redis import RedisDriver

T = TypeVar("T")

PARTS = ("posts", "forward", "fanout")
_PROJECT = "notified"
_CLIENT = "5f0c6f5e-9a0b-4c0e-8a55-0d5d3c1f7a10"
_TTL = 3600
_BODY = b'"' + b"x" * 254 + b'"'
_MESSAGE = NewMessage(body=_BODY, ttl=_TTL)
#: Calls at a time, as a notifier makes them.
_TOGETHER = 32


class NotifiedStore:
    """A driver over a Redis, and a notifier of this process."""

    def __init__(self, runner: asyncio.Runner, server: servers.RedisServer) -> None:
        self._runner = runner
        self.client = keyspace.client(server.uri, BatchSettings(timeout=60))
        self.driver = RedisDriver(self.client)
        self.run(self.driver.start())

    def run(self, awaitable: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await awaitable

        return self._runner.run(awaited())

    def close(self) -> None:
        self.run(self.driver.close())

    async def create(self, queue: str) -> None:
        await self.driver.queues.create(_PROJECT, queue, {})

    async def subscribe(self, queue: str, *targets: str) -> None:
        await self.create(queue)
        await self.each(
            [
                self.driver.subscriptions.create(
                    _PROJECT, queue, f"queue:{target}", ttl=_TTL, options={}, delivers=True
                )
                for target in targets
            ]
        )

    async def post(self, queue: str, number: int = 1) -> None:
        await self.driver.messages.post(
            _PROJECT, queue, [_MESSAGE] * number, client=_CLIENT, default_ttl=_TTL, size=0
        )

    async def each(self, calls: Sequence[Awaitable[object]]) -> None:
        for at in range(0, len(calls), _TOGETHER):
            await asyncio.gather(*calls[at : at + _TOGETHER])

    def notifier(self) -> Notifier:
        messages = MessageService(self.driver, rules.Limits(), None, LongPoll(self.driver.feed, 1))
        targets = Targets(TargetContext(messages, self.driver.messages.dead_letter))
        return Notifier(self.driver, messages, targets, NotifierSettings())

    async def delivered(self, queue: str) -> None:
        """Waits until all that was posted to the queue is delivered."""
        entries = keys.of_queue(_PROJECT, queue).deliveries
        while await self.client.command("XLEN", entries):  # noqa: ASYNC110  # a key of Redis
            await asyncio.sleep(0.005)

    async def delete(self, *queues: str) -> None:
        await self.each([self.driver.queues.delete(_PROJECT, queue) for queue in queues])


#: Returns how many messages it has posted or delivered, and in how many seconds.
MeasuredPart = Callable[[], Awaitable[tuple[int, float]]]


class NotificationBenchmark:
    """The parts, and their results."""

    def __init__(self) -> None:
        self._rows: list[list[str]] = []

    def __bool__(self) -> bool:
        return bool(self._rows)

    def tables(self) -> list[str]:
        head = ["part", "measured", "first", "second", "second : first", "least", "greatest"]
        return [report.table(head, self._rows)]

    def findings(self) -> Sequence[report.WorkloadResult]:
        return []

    def prepare(self, given: Namespace, stack: contextlib.ExitStack) -> Mapping[str, MeasurePart]:
        return {
            "posts": lambda: self._posts(given),
            "forward": lambda: self._compare(given, "forward", self._forwarding),
            "fanout": lambda: self._compare(given, "fanout", self._fanning_out),
        }

    def _add(self, part: str, what: str, first: list[float], second: list[float]) -> None:
        ratios = [theirs / ours for ours, theirs in zip(first, second, strict=True)]
        medians = [f"{report.spread(each).median:.1f}" for each in (first, second)]
        self._rows.append([part, what, *medians, *figures(ratios, 2)])

    def _posts(self, given: Namespace) -> None:
        with contextlib.ExitStack() as stack:
            redis = deployment.redis_server(stack)
            options = {"notification": {"in_service": False}}
            running = stack.enter_context(servers.service(redis.uri, options=options))
            service = CountedService("posts", running, redis)
            stack.callback(service.close)
            runner = stack.enter_context(asyncio.Runner())
            store = NotifiedStore(runner, redis)
            stack.callback(store.close)
            numbers = {"none": 0, "one": 1, "many": given.subscriptions}
            project = service.project
            for label, number in numbers.items():
                targets = [f"queue:target-{n}" for n in range(number)]
                store.run(store.driver.queues.create(project, label, {}))
                store.run(
                    store.each(
                        [
                            store.driver.subscriptions.create(
                                project, label, each, ttl=_TTL, options={}, delivers=True
                            )
                            for each in targets
                        ]
                    )
                )
            entries = [keys.of_queue(project, label).deliveries for label in numbers]
            stack.enter_context(_emptied(redis, entries))
            costs: dict[str, list[Costs]] = {label: [] for label in numbers}
            for number, order in in_turns([*numbers], given.rounds, first=0):
                for label in order:
                    cost = service.post_to(label, max(1, round(given.seconds)))
                    if number:
                        costs[label].append(cost)
                        print_progress(f"posts, {label}: {cost[0]:.1f} µs of the worker")
        for label in ("one", "many"):
            for place, what in enumerate(COSTS):
                pairs = [[cost[place] for cost in costs[each]] for each in ("none", label)]
                self._add("posts", f"{label}: {what}", *pairs)

    def _compare(
        self,
        given: Namespace,
        part: str,
        prepare: Callable[[NotifiedStore, Namespace], tuple[MeasuredPart, MeasuredPart]],
    ) -> None:
        with contextlib.ExitStack() as stack:
            redis = deployment.redis_server(stack)
            store = NotifiedStore(stack.enter_context(asyncio.Runner()), redis)
            stack.callback(store.close)
            contenders = prepare(store, given)
            rates: list[list[float]] = [[], []]
            costs: list[list[float]] = [[], []]
            for number, order in in_turns([0, 1], given.rounds, first=0):
                for place in order:
                    before = cpu_seconds(os.getpid())
                    done, seconds = store.run(contenders[place]())
                    if number:
                        rates[place].append(done / seconds)
                        costs[place].append((cpu_seconds(os.getpid()) - before) / done * 1e6)
                        print_progress(f"{part}, {place}: {rates[place][-1]:.0f}/s")
        self._add(part, "messages/s", *rates)
        self._add(part, "CPU µs of this process", *costs)

    def _forwarding(
        self, store: NotifiedStore, given: Namespace
    ) -> tuple[MeasuredPart, MeasuredPart]:
        hundreds = round(given.seconds * 300)

        async def straight() -> tuple[int, float]:
            begun = time.perf_counter()
            await store.each([store.post("straight", 100) for _ in range(hundreds)])
            passed = time.perf_counter() - begun
            await store.delete("straight")
            return 100 * hundreds, passed

        async def forwarded() -> tuple[int, float]:
            await store.subscribe("source", "copy")
            await store.each([store.post("source", 100) for _ in range(hundreds)])
            notifier = store.notifier()
            begun = time.perf_counter()
            await notifier.start()
            await store.delivered("source")
            passed = time.perf_counter() - begun
            await notifier.close()
            await store.delete("source", "copy")
            return 100 * hundreds, passed

        return straight, forwarded

    def _fanning_out(
        self, store: NotifiedStore, given: Namespace
    ) -> tuple[MeasuredPart, MeasuredPart]:
        targets = [f"target-{number}" for number in range(given.subscriptions)]
        store.run(store.subscribe("source", *targets))
        store.run(store.each([store.create(target) for target in targets]))

        async def straight() -> tuple[int, float]:
            begun = time.perf_counter()
            await store.each([store.post(target) for target in targets])
            return len(targets), time.perf_counter() - begun

        notifier = store.notifier()

        async def fanned_out() -> tuple[int, float]:
            await notifier.start()
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


def main() -> int:
    program = PartsProgram("notifications", __doc__, PARTS)
    program.add_seconds(2)
    program.add_number("--subscriptions", 1, 100_000, 10_000, "of the queue with many")
    benchmark = NotificationBenchmark()
    return program.run(benchmark.prepare, benchmark)


if __name__ == "__main__":
    raise SystemExit(main())
