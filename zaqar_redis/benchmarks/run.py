# SPDX-License-Identifier: Apache-2.0
"""A benchmark run: rounds of all contenders in turn, and the cleanup, however it ends."""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

import msgspec

from zaqar_redis import errors
from zaqar_redis.benchmarks import floor, memory, report
from zaqar_redis.benchmarks.load import LoadSample, WrkLoad
from zaqar_redis.benchmarks.service import BenchmarkFailed, MeasuredService, local_store
from zaqar_redis.benchmarks.workloads import WORKLOADS, BenchmarkPlan, Contender, Progress, Workload

#: Labels of the services compared.
URL_LABEL, AGAINST_LABEL = "url", "against"
#: Seconds of the warm-up round: it fills caches and shows how much to prepare.
_WARM_UP = 1


class BenchmarkSettings(msgspec.Struct, frozen=True):
    url: str
    against: str | None = None
    workloads: Sequence[str] = ()
    rounds: int = 5
    seconds: int = 3
    connections: int = 32
    #: URI of a Redis for the floor
    floor: str | None = None
    #: URI of each service's Redis, to measure its memory
    store: str | None = None
    against_store: str | None = None
    #: messages posted to measure the memory
    memory_messages: int = 50_000
    preload: int = 1_000_000
    claimed: int = 20_000


def run_benchmark(
    settings: BenchmarkSettings, command: str, progress: Progress
) -> tuple[report.BenchmarkReport, bool]:
    """Returns the report, and whether it is complete: Ctrl-C ends a run early and cleanly."""
    message_bytes: dict[str, float] = {}
    findings: list[report.WorkloadResult] = []
    notes: list[str] = []
    machine = report.machine()
    complete = False
    with contextlib.ExitStack() as stack:
        plan = _plan(settings, progress, stack)
        stack.enter_context(terminable())
        try:
            _memory(settings, plan, message_bytes)
            for name in settings.workloads:
                _workload(WORKLOADS[name], settings, plan, findings, notes)
            complete = True
        except KeyboardInterrupt:
            notes.append("the run was interrupted; the last workload has fewer rounds")
            progress("interrupted; cleaning up")
        finally:
            _clean(plan, notes)
    shown = [finding for finding in findings if any(finding.samples.values())]
    notes = [*report.warnings(shown), *notes]
    return report.BenchmarkReport(command, machine, shown, message_bytes, notes), complete


def _plan(
    settings: BenchmarkSettings, progress: Progress, stack: contextlib.ExitStack
) -> BenchmarkPlan:
    services = {URL_LABEL: MeasuredService(settings.url)}
    if settings.against:
        services[AGAINST_LABEL] = MeasuredService(settings.against)
    for service in services.values():
        stack.callback(service.close)
    for uri in (settings.floor, settings.store, settings.against_store):
        if uri is not None:
            local_store(uri)
    load = WrkLoad(settings.connections)
    for service in services.values():
        service.check()
    floor_service = None
    if settings.floor and "post-1" in settings.workloads:
        floor_service = MeasuredService(stack.enter_context(floor.running(settings.floor)))
    return BenchmarkPlan(
        load, services, floor_service, settings.claimed, settings.preload, progress
    )


def _workload(
    workload: Workload,
    settings: BenchmarkSettings,
    plan: BenchmarkPlan,
    findings: list[report.WorkloadResult],
    notes: list[str],
) -> None:
    plan.progress(f"{workload.name}: {workload.what}")
    seconds = settings.seconds * workload.longer
    try:
        contenders = workload.contenders(plan)
        samples: dict[str, list[LoadSample]] = {contender.label: [] for contender in contenders}
        findings.append(report.WorkloadResult(workload.name, workload.what, workload.unit, samples))
        for label, sample in _rounds(contenders, settings.rounds, seconds):
            samples[label].append(sample)
            plan.progress(
                f"{workload.name}: round {len(samples[label])} of {settings.rounds}, {label}: "
                f"{sample.rate:.0f} {workload.unit}, generator {100 * sample.generator:.0f} %"
            )
    except (OSError, BenchmarkFailed) as error:
        notes.append(f"{workload.name} was aborted: {error}")
        plan.progress(notes[-1])
    finally:
        for service in plan.services.values():
            service.delete_queues()  # failed deletions are retried at the end


def _rounds(
    contenders: Sequence[Contender], rounds: int, seconds: int
) -> Iterator[tuple[str, LoadSample]]:
    """Yields rounds A B A B …: other load of the machine affects all contenders alike."""
    for contender in contenders:
        contender.measure(_WARM_UP)
    for _, contender in itertools.product(range(rounds), contenders):
        yield contender.label, contender.measure(seconds)


def _memory(
    settings: BenchmarkSettings, plan: BenchmarkPlan, message_bytes: dict[str, float]
) -> None:
    for label, store in ((URL_LABEL, settings.store), (AGAINST_LABEL, settings.against_store)):
        if store is not None and label in plan.services:
            service = plan.services[label]
            plan.progress(f"{service.url}: posting {settings.memory_messages} messages for memory")
            message_bytes[label] = memory.bytes_per_message(
                service, store, settings.memory_messages
            )


def _clean(plan: BenchmarkPlan, notes: list[str]) -> None:
    for service in plan.services.values():
        left = service.delete_queues()
        if left:
            notes.append(f"{service.url}: queues that could not be deleted: {', '.join(left)}")


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Makes SIGTERM clean up as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        # Not KeyboardInterrupt: raised within an event loop it may be lost. At SIGINT asyncio
        # cancels the task that runs.
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def select_workloads(names: Sequence[str]) -> Sequence[str]:
    """Returns the workloads to run.  Raises BadConfiguration for an unknown name."""
    for name in names:
        if name not in WORKLOADS:
            known = ", ".join(WORKLOADS)
            raise errors.BadConfiguration(f"there is no workload {name}; choose from: {known}")
    return names or tuple(WORKLOADS)
