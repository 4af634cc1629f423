# SPDX-License-Identifier: Apache-2.0
"""The workloads by name.

A workload creates its contenders: labelled measurements that take turns; the others
are compared with the first.  For most workloads these are the services; for the
``deep`` ones, a short and a long queue of the same service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from zaqar_redis.benchmarks import mixed
from zaqar_redis.benchmarks.load import LoadSample, WrkLoad
from zaqar_redis.benchmarks.service import MeasuredService

Measure = Callable[[float], LoadSample]
Progress = Callable[[str], None]

#: Claims per second that the first, unmeasured round prepares messages for.
_FIRST_GUESS = 300.0
#: Messages prepared for a round, as a multiple of those that the last round needed.
_SPARE = 1.5
#: Maximum number of messages prepared for a round.
_MOST = 500_000
#: Queues that take posts in turn, so that each stays short while measured.
_SHORT_QUEUES = 200
#: Messages in a short queue.
SHORT = 100


class BenchmarkPlan(msgspec.Struct, frozen=True):
    """The services that a run measures, and its parameters."""

    load: WrkLoad
    services: Mapping[str, MeasuredService]
    floor: MeasuredService | None
    claimed: int
    preload: int
    progress: Progress

    def run(
        self, service: MeasuredService, script: str, path: str, seconds: float, *arguments: object
    ) -> LoadSample:
        url = f"{service.url}/v2/queues/{path}"
        sample = self.load.run(script, url, service.headers, seconds, *arguments)
        service.wait_until_idle()
        return sample


class Contender(msgspec.Struct, frozen=True):
    label: str
    measure: Measure


class Workload(msgspec.Struct, frozen=True):
    name: str
    what: str
    #: of its rate
    unit: str
    contenders: Callable[[BenchmarkPlan], Sequence[Contender]]
    #: its rounds last so many times longer: stock Zaqar answers one request a second
    longer: int = 1


def _each(
    start: Callable[[BenchmarkPlan, MeasuredService], Measure],
) -> Callable[[BenchmarkPlan], Sequence[Contender]]:
    return lambda plan: [
        Contender(label, start(plan, service)) for label, service in plan.services.items()
    ]


def _post(count: int) -> Callable[[BenchmarkPlan, MeasuredService], Measure]:
    def start(plan: BenchmarkPlan, service: MeasuredService) -> Measure:
        def measure(seconds: float) -> LoadSample:
            queue = service.queue()
            sample = plan.run(service, "post", f"{queue}/messages", seconds, count)
            service.delete_queue(queue)
            return msgspec.structs.replace(sample, rate=sample.rate * count)

        return measure

    return start


def _post_one(plan: BenchmarkPlan) -> Sequence[Contender]:
    contenders = list(_each(_post(1))(plan))
    floor = plan.floor
    if floor is not None:
        contenders.append(
            Contender(
                "floor", lambda seconds: plan.run(floor, "post", "floor/messages", seconds, 1)
            )
        )
    return contenders


def _list(plan: BenchmarkPlan, service: MeasuredService) -> Measure:
    queue = service.queue()
    service.fill(queue, 1000)
    return lambda seconds: plan.run(service, "get", _page(queue), seconds)


def _page(queue: str, marker: str = "") -> str:
    return f"{queue}/messages?limit=10&echo=true" + (f"&marker={marker}" if marker else "")


class _Backlog:
    """Messages to claim: enough for the next round, judged by the last one."""

    def __init__(self, service: MeasuredService, queue: str) -> None:
        self._service = service
        self._queue = queue
        self._rate = _FIRST_GUESS
        self._left = 0

    def refill(self, seconds: float) -> None:
        wanted = min(int(self._rate * 10 * seconds * _SPARE), _MOST)
        if wanted > self._left:
            self._service.fill(self._queue, wanted - self._left)
            self._left = wanted

    def record_round(self, sample: LoadSample) -> None:
        # The rate of a round that ran dry is valid: its clock stopped when it did.
        self._rate = sample.rate
        self._left = 0 if sample.dry else max(0, self._left - sample.work * 10)


def _claim(plan: BenchmarkPlan, service: MeasuredService, queue: str, then: str) -> Measure:
    backlog = _Backlog(service, queue)

    def measure(seconds: float) -> LoadSample:
        backlog.refill(seconds)
        sample = plan.run(service, "claim", queue, seconds, 10, then)
        backlog.record_round(sample)
        return sample

    return measure


def _claim_delete(plan: BenchmarkPlan, service: MeasuredService) -> Measure:
    return _claim(plan, service, service.queue(), "delete")


def _claimed_queue(plan: BenchmarkPlan, service: MeasuredService) -> str:
    queue = service.queue()
    plan.progress(f"{service.url}: claiming {plan.claimed} messages")
    service.fill(queue, plan.claimed)
    service.claim_messages(queue, plan.claimed)
    return queue


def _claim_behind_claimed(plan: BenchmarkPlan, service: MeasuredService) -> Measure:
    return _claim(plan, service, _claimed_queue(plan, service), "keep")


def _list_behind_claimed(plan: BenchmarkPlan, service: MeasuredService) -> Measure:
    queue = _claimed_queue(plan, service)
    service.fill(queue, 100)
    return lambda seconds: plan.run(service, "get", _page(queue), seconds)


def _mixed(plan: BenchmarkPlan, service: MeasuredService) -> Measure:
    def measure(seconds: float) -> LoadSample:
        queue = service.queue()
        sample = mixed.measure(service, queue, seconds, plan.load.connections)
        service.wait_until_idle()
        service.delete_queue(queue)
        return sample

    return measure


def _compare_depths(plan: BenchmarkPlan, short: Measure, deep: Measure) -> Sequence[Contender]:
    return [
        Contender(_thousands(SHORT), short),
        Contender(_thousands(plan.preload), deep),
    ]


def _deep_queue(plan: BenchmarkPlan) -> tuple[MeasuredService, str, str]:
    """Returns the service, its long queue, and the id of a message in the middle."""
    service = next(iter(plan.services.values()))
    queue = service.queue()
    plan.progress(f"{service.url}: posting {plan.preload} messages")
    firsts = service.fill(queue, plan.preload)
    return service, queue, firsts[len(firsts) // 2]


def _post_deep(plan: BenchmarkPlan) -> Sequence[Contender]:
    service, queue, _ = _deep_queue(plan)
    numbers = [str(number) for number in range(1, _SHORT_QUEUES + 1)]
    family = service.queue(*numbers)
    for number in numbers:
        service.fill(f"{family}-{number}", SHORT)

    def short(seconds: float) -> LoadSample:
        return plan.run(service, "post", f"{family}/messages", seconds, 1, _SHORT_QUEUES)

    return _compare_depths(
        plan,
        short,
        lambda seconds: plan.run(service, "post", f"{queue}/messages", seconds, 1),
    )


def _claim_deep(plan: BenchmarkPlan) -> Sequence[Contender]:
    service, deep, _ = _deep_queue(plan)
    short = service.queue()
    service.fill(short, SHORT)

    def measure_queue(queue: str) -> Measure:
        return lambda seconds: plan.run(service, "claim", queue, seconds, 1, "release")

    return _compare_depths(plan, measure_queue(short), measure_queue(deep))


def _list_deep(plan: BenchmarkPlan) -> Sequence[Contender]:
    service, deep, middle = _deep_queue(plan)
    short = service.queue()
    service.fill(short, SHORT)
    early = service.first_ids(short, 10)[-1]

    def measure_queue(queue: str, marker: str) -> Measure:
        return lambda seconds: plan.run(service, "get", _page(queue, marker), seconds)

    return _compare_depths(plan, measure_queue(short, early), measure_queue(deep, middle))


def _thousands(number: int) -> str:
    return f"{number:,}".replace(",", " ")


_ALL = (
    Workload("post-1", "post 1 message of 150 bytes", "requests/s", _post_one),
    Workload("post-100", "post 100 messages per request", "messages/s", _each(_post(100))),
    Workload("claim-delete", "claim 10, delete them by their ids", "pairs/s", _each(_claim_delete)),
    Workload("list-10", "list 10 of 1000 messages", "requests/s", _each(_list)),
    Workload(
        "claim-20000", "claim 10 behind claimed messages", "claims/s", _each(_claim_behind_claimed)
    ),
    Workload(
        "list-20000",
        "list 10 behind claimed messages",
        "requests/s",
        _each(_list_behind_claimed),
        longer=5,
    ),
    Workload("post-deep", "post 1 to a short and a long queue", "requests/s", _post_deep),
    Workload("claim-deep", "claim 1 and release it, likewise", "pairs/s", _claim_deep),
    Workload("list-deep", "list 10 from a marker, likewise", "requests/s", _list_deep),
    Workload(
        "mixed",
        "half the connections post, half claim 10 and delete; ms from post to claim",
        "messages/s",
        _each(_mixed),
    ),
)
WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in _ALL}
