# SPDX-License-Identifier: Apache-2.0
"""A whole run: rounds in turn, cleaned up behind, however it ends."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import signal
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

import msgspec

from zaqar_redis import errors
from zaqar_redis.bench import floor, memory, report
from zaqar_redis.bench.load import Load, Sample
from zaqar_redis.bench.service import Failed, Service, local_store
from zaqar_redis.bench.workloads import WORKLOADS, Contender, Plan, Progress, Workload

#: Labels of the services compared.
HERE, THERE = "url", "against"
#: Seconds of the round that nobody counts: it warms caches and tells how much to prepare.
_WARM_UP = 1


class Settings(msgspec.Struct, frozen=True):
    url: str
    against: str | None = None
    workloads: Sequence[str] = ()
    rounds: int = 5
    seconds: int = 3
    connections: int = 32
    #: Redis for the floor
    floor: str | None = None
    #: Redis of each service, where its memory is read
    store: str | None = None
    against_store: str | None = None
    #: messages posted for each look at the memory
    memory_messages: int = 50_000
    preload: int = 1_000_000
    claimed: int = 20_000


def bench(settings: Settings, command: str, tell: Progress) -> tuple[report.Report, bool]:
    """The report, and whether it is complete: Ctrl-C ends a run early and cleanly."""
    told: dict[str, float] = {}
    findings: list[report.Finding] = []
    notes: list[str] = []
    machine = report.machine()
    complete = False
    with contextlib.ExitStack() as stack:
        plan = _plan(settings, tell, stack)
        stack.enter_context(_terminable())
        try:
            _memory(settings, plan, told)
            for name in settings.workloads:
                _workload(WORKLOADS[name], settings, plan, findings, notes)
            complete = True
        except KeyboardInterrupt:
            notes.append("the run was interrupted; the last workload has fewer rounds")
            tell("interrupted; cleaning up")
        finally:
            _clean(plan, notes)
    shown = [finding for finding in findings if any(finding.samples.values())]
    notes = [*report.warnings(shown), *notes]
    return report.Report(command, machine, shown, told, notes), complete


def _plan(settings: Settings, tell: Progress, stack: contextlib.ExitStack) -> Plan:
    services = {HERE: Service(settings.url)}
    if settings.against:
        services[THERE] = Service(settings.against)
    for service in services.values():
        stack.callback(service.close)
    for uri in (settings.floor, settings.store, settings.against_store):
        if uri is not None:
            local_store(uri)
    load = Load(settings.connections)
    for service in services.values():
        service.check()
    bottom = None
    if settings.floor and "post-1" in settings.workloads:
        bottom = Service(stack.enter_context(floor.running(settings.floor)))
    return Plan(load, services, bottom, settings.claimed, settings.preload, tell)


def _workload(
    workload: Workload,
    settings: Settings,
    plan: Plan,
    findings: list[report.Finding],
    notes: list[str],
) -> None:
    plan.tell(f"{workload.name}: {workload.what}")
    seconds = settings.seconds * workload.longer
    try:
        contenders = workload.contenders(plan)
        samples: dict[str, list[Sample]] = {contender.label: [] for contender in contenders}
        findings.append(report.Finding(workload.name, workload.what, workload.unit, samples))
        for label, sample in _rounds(contenders, settings.rounds, seconds):
            samples[label].append(sample)
            plan.tell(
                f"{workload.name}: round {len(samples[label])} of {settings.rounds}, {label}: "
                f"{sample.rate:.0f} {workload.unit}, generator {100 * sample.generator:.0f} %"
            )
    except (OSError, http.client.HTTPException, Failed) as error:
        notes.append(f"{workload.name} was given up: {error}")
        plan.tell(notes[-1])
    finally:
        for service in plan.services.values():
            service.drop_all()  # what will not go now is tried again at the end


def _rounds(
    contenders: Sequence[Contender], rounds: int, seconds: int
) -> Iterator[tuple[str, Sample]]:
    """A B A B …: whatever else happens on the machine happens to all alike."""
    for contender in contenders:
        contender.measure(_WARM_UP)
    for _, contender in itertools.product(range(rounds), contenders):
        yield contender.label, contender.measure(seconds)


def _memory(settings: Settings, plan: Plan, told: dict[str, float]) -> None:
    for label, store in ((HERE, settings.store), (THERE, settings.against_store)):
        if store is not None and label in plan.services:
            service = plan.services[label]
            plan.tell(f"{service.url}: posting {settings.memory_messages} messages for memory")
            told[label] = memory.bytes_per_message(service, store, settings.memory_messages)


def _clean(plan: Plan, notes: list[str]) -> None:
    for service in plan.services.values():
        left = service.drop_all()
        if left:
            notes.append(f"{service.url}: queues that could not be deleted: {', '.join(left)}")


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Being told to terminate cleans up as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def chosen(names: Sequence[str]) -> Sequence[str]:
    """The workloads to run.  Raises BadConfiguration for a name that is none."""
    for name in names:
        if name not in WORKLOADS:
            known = ", ".join(WORKLOADS)
            raise errors.BadConfiguration(f"no workload {name}; there are: {known}")
    return names or tuple(WORKLOADS)
