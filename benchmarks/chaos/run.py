# SPDX-License-Identifier: Apache-2.0
"""A run of chaos: service, clients, faults by schedule, and the check."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tqdm import tqdm

from benchmarks.chaos import expected, history, report, schedule
from benchmarks.chaos.channel_checker import ChannelHistory, check_channel
from benchmarks.chaos.checker import (
    ChaosFinding,
    LeftMessage,
    QueueHistory,
    check_copies,
    check_queue,
    check_return,
)
from benchmarks.chaos.client_process import ChaosClientSpec
from benchmarks.chaos.faults import (
    FAULTS,
    ChaosTargets,
    Fault,
    StruckProcess,
    StruckWorker,
)
from benchmarks.chaos.history import Act
from benchmarks.chaos.report import AppliedFault, ChaosReport
from benchmarks.chaos.schedule import FaultTarget, PlannedFault
from benchmarks.chaos.settings import PAGE_MESSAGES, ChaosSettings
from benchmarks.chaos.topologies import TOPOLOGIES, Topology
from benchmarks.support.rounds import print_progress
from tests.support import servers
from tests.support.notifiers import NotifierProcess
from tests.support.processes import PYTHON, ZAQAR_REDIS, LoggedProcess, started
from tests.support.tcp_proxy import ProxyThread
from zaqar_redis.benchmarks import report as machine_report
from zaqar_redis.benchmarks.run import terminable
from zaqar_redis.benchmarks.service import BenchmarkFailed, MeasuredService
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import RedisCommand

#: One project for all queues: their slots, and with it what a seed does, are the same in each run.
_PROJECT = "chaos"
#: The first is forwarded to `_COPIES`, the second one moves from pool to pool, or its slot does.
QUEUES = ("orders", "moving", "bills", "mails")
_COPIES = "copies"
_CHANNEL = "news"
_WORKERS = 2
#: Seconds in which all must be forwarded that waits when the faults are over.
_FORWARD_SECONDS = 45.0
#: Seconds before a failover in which an acknowledged change may be lost, when no replica is waited
#: for: replicas are milliseconds behind. What is forwarded comes later than its post.
_LAG_SECONDS, _FORWARD_LAG_SECONDS = 2.0, 15.0
#: Seconds around a failover in which subscribers of a channel notice it.
_NOTICE_SECONDS = 2.0
#: Seconds after the last fault in which all must be served again: clients may wait for an answer.
_RETURN_SECONDS = 10.0
#: What must be acknowledged then.
_ASKED: dict[str, Sequence[str]] = {
    **dict.fromkeys(QUEUES, ("post", "claim")),
    _CHANNEL: ("publish", "receive"),
}
_ASKED_OF_MOVED = ("post", "claim", "move")
_UNASKED_FAILOVER = FaultTarget("failover", "unasked")
#: Seconds before what is stored is read again when the store is away.
_READ_PAUSE_SECONDS = 0.5


class _BegunFault:
    """A fault that is to be ended."""

    def __init__(self, planned: PlannedFault, fault: Fault) -> None:
        self.planned = planned
        self.fault = fault
        self.begin = time.monotonic()


class ChaosRun:
    """A store, a service and clients that run; what is done to them is noted."""

    def __init__(
        self, settings: ChaosSettings, folder: Path, stack: contextlib.ExitStack, slot: int
    ) -> None:
        """Starts all of it.  Raises BenchmarkFailed."""
        self._settings = settings
        self._folder = folder
        self.applied: list[AppliedFault] = []
        self._begun: _BegunFault | None = None
        self.findings: list[ChaosFinding] = []
        self.leftovers = 0
        proxies = stack.enter_context(ProxyThread().running())
        run = TOPOLOGIES[settings.topology].run
        self._topology: Topology = stack.enter_context(
            run(proxies, _created(folder / "stores"), slot)
        )
        self._config = folder / "zaqar_redis.conf"
        options = settings.service_options()
        self._config.write_text(servers.config_text(options))
        self._serving = stack.enter_context(contextlib.ExitStack())
        self._service = self._serving.enter_context(
            servers.service(self._topology.uri, workers=_WORKERS, options=options)
        )
        self._client = MeasuredService(self._service.url, {"X-Project-ID": _PROJECT})
        stack.callback(self._client.close)
        self._prepare()
        self._topology.settle()  # from which on primaries are compared
        self._processes: dict[str, LoggedProcess] = {}
        for process in self._others():
            self._processes[process.name] = stack.enter_context(started(process))
        moving = (_PROJECT, QUEUES[1])
        self._targets = ChaosTargets(self._topology, proxies, self._process, moving)
        self._chosen = random.Random(settings.seed)
        #: when all worked, or the last fault was over and the store well
        self._calm_since = time.monotonic()

    def _store_words(self) -> list[str]:
        return ["--storage", self._topology.uri, "--config-file", str(self._config)]

    def _prepare(self) -> None:
        """Creates pools, queues, and the subscription that forwards."""
        ask = self._client.expect
        for name, uri in self._topology.pools().items():
            ask(201, "PUT", f"/v2/pools/{name}", msgspec.json.encode({"uri": uri, "weight": 1}))
        for queue in (*QUEUES, _COPIES):
            ask(201, "PUT", f"/v2/queues/{queue}", b"{}")
        subscription = {"subscriber": f"queue:{_COPIES}", "ttl": 86_400}
        path = f"/v2/queues/{QUEUES[0]}/subscriptions"
        ask(201, "POST", path, msgspec.json.encode(subscription))

    def _others(self) -> Iterator[LoggedProcess]:
        def process(name: str, command: Callable[[int], Sequence[str]]) -> LoggedProcess:
            return LoggedProcess(name, command, self._folder / f"{name}.log")

        def clients(role: str, name: str, *places: str) -> LoggedProcess:
            return process(name, lambda starts: self._clients(role, f"{name}-{starts}", places))

        yield NotifierProcess(self._topology.uri, self._config, self._folder / "notifier.log")
        if self._topology.pools():
            words = [self._topology.uri, _PROJECT, QUEUES[1], self._acts_file("mover")]
            module = "benchmarks.chaos.mover"
            yield process("mover", lambda starts: [*PYTHON, module, *words, f"mover-{starts}"])
        yield clients("queues", "clients", *QUEUES[:2])
        yield clients("queues", "other-clients", *QUEUES[2:])
        yield clients("channels", "channels", _CHANNEL)

    def _clients(self, role: str, name: str, places: Sequence[str]) -> list[str]:
        settings, port = self._settings, self._service.port
        file = self._acts_file(name)
        spec = ChaosClientSpec(
            *(role, name, port, _PROJECT, file, places, settings.seed, settings.rate)
        )
        module = "benchmarks.chaos.client_process"
        return [*PYTHON, module, msgspec.json.encode(spec).decode()]

    def _acts_file(self, name: str) -> str:
        return str(self._folder / f"{name}.acts")

    def _process(self, target: str) -> StruckProcess:
        if target != "worker":
            return self._processes[target]
        workers = self._service.workers
        servers.wait_for(lambda: len(workers()) == _WORKERS, "dead workers to be replaced")
        return StruckWorker(self._chosen.choice(workers()))

    def apply(self, plan: Sequence[PlannedFault]) -> None:
        """Lets all faults happen; later than planned where the store is not well in time."""
        begun = time.monotonic()
        end = begun + self._settings.seconds - schedule.COOL_DOWN
        with tqdm(plan, unit=" faults", desc=f"chaos, seed {self._settings.seed}") as faults:
            for planned in faults:
                faults.set_postfix_str(str(planned.what))
                time.sleep(max(0.0, begun + planned.at - time.monotonic()))
                self._note_failover()
                if time.monotonic() + planned.seconds > end:
                    print_progress(f"the time is over: {planned.what} and what follows is left out")
                    break
                self._apply(planned)
        time.sleep(max(0.0, end + schedule.COOL_DOWN - time.monotonic()))
        self._wait_for_return()
        self._note_failover()

    def _apply(self, planned: PlannedFault) -> None:
        fault = FAULTS[planned.what.fault].create(self._targets, planned.what.target)
        self._begun = _BegunFault(planned, fault)
        fault.begin()
        time.sleep(planned.seconds)
        self.end_fault()

    def end_fault(self) -> None:
        """Ends the fault that has begun, if there is one, and notes it when the store is well."""
        if (begun := self._begun) is None:
            return
        begun.fault.end()
        over = time.monotonic()
        replacements = self._topology.settle()
        self._calm_since = time.monotonic()
        self.applied.append(
            AppliedFault(begun.planned, begun.begin, over, self._calm_since, replacements)
        )
        self._begun = None

    def _note_failover(self) -> None:
        """Notes it as a fault when a primary was replaced that no fault has struck.

        A machine that stalls lets the other servers take it for dead.
        """
        since = self._calm_since
        if replacements := self._topology.settle():
            now = self._calm_since = time.monotonic()
            planned = PlannedFault(0, _UNASKED_FAILOVER, 0)
            self.applied.append(AppliedFault(planned, since, now, now, replacements))

    def finish(self) -> list[Act]:
        """Ends clients and mover when they had time to return; returns what clients did."""
        self._wait_for_return()
        for name in ("clients", "other-clients", "channels", "mover"):
            if name in self._processes:
                self._finish(name)
        return history.read(sorted(self._folder.glob("*.acts")))

    def _wait_for_return(self) -> None:
        time.sleep(max(0.0, self._calm_since + _RETURN_SECONDS - time.monotonic()))

    def _finish(self, name: str) -> None:
        with self._noting(name):
            self._processes[name].finish()

    @contextlib.contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        """A process that has failed, or whose log shows a bug, is a finding."""
        try:
            yield
        except BenchmarkFailed as error:
            self.findings.append(ChaosFinding("process", name, str(error)))

    def stop_service(self) -> None:
        with self._noting("service"):
            self._serving.close()

    def check(self, acts: Sequence[Act]) -> None:
        """Compares what clients saw with what is stored, and with what is promised."""
        found = self.findings
        waits, replicas = self._settings.ack_replicas, TOPOLOGIES[self._settings.topology].replicas
        lag = 0 if waits else _LAG_SECONDS
        is_at_risk = expected.at_risk(self.applied, waits, replicas, lag)
        is_forwarding_at_risk = expected.at_risk(
            self.applied, waits, replicas, _FORWARD_LAG_SECONDS
        )
        is_replaced = expected.while_replaced(self.applied, _NOTICE_SECONDS)
        asked = dict(_ASKED)
        if self._topology.pools():
            asked[QUEUES[1]] = _ASKED_OF_MOVED
        found += check_return(acts, asked, self._calm_since)
        by_place: dict[str, list[Act]] = {place: [] for place in (*QUEUES, _CHANNEL)}
        for act in acts:
            by_place[act.place].append(act)
        for queue in QUEUES:
            queue_history = QueueHistory(queue, by_place[queue], self._listing(queue))
            found += check_queue(queue_history, is_at_risk)
            if queue == QUEUES[0]:
                copies = self._copies(queue_history)
                found += check_copies(queue_history, copies, is_forwarding_at_risk)
        channel = ChannelHistory(_CHANNEL, by_place[_CHANNEL])
        found += check_channel(channel, is_at_risk, is_replaced)
        self._finish("notifier")
        found += self._check_store()

    def _listing(self, queue: str) -> list[LeftMessage]:
        found: list[LeftMessage] = []
        path = f"/v2/queues/{queue}/messages?limit={PAGE_MESSAGES}&echo=true&include_claimed=true"
        while True:
            page = self._get(path)
            if not page["messages"]:
                return found
            found += [LeftMessage(each["id"], each["body"]) for each in page["messages"]]
            path = page["links"][0]["href"]

    def _get(self, path: str) -> Any:
        # On a busy machine sentinels may take a primary for dead that is not.
        end = time.monotonic() + _RETURN_SECONDS
        while True:
            try:
                return self._client.get(path)
            except BenchmarkFailed:
                if time.monotonic() > end:
                    raise
            time.sleep(_READ_PAUSE_SECONDS)

    def _copies(self, source: QueueHistory) -> list[LeftMessage]:
        """Returns what was forwarded, once that is all."""
        acknowledged = {body for body, post in source.posts.items() if post.is_ok}
        copies: list[LeftMessage] = []

        def is_complete() -> bool:
            nonlocal copies
            copies = self._listing(_COPIES)
            return acknowledged <= {each.body for each in copies}

        with contextlib.suppress(TimeoutError):
            servers.wait_for(is_complete, "all to be forwarded", _FORWARD_SECONDS)
        return copies

    def _check_store(self) -> list[ChaosFinding]:
        command = [*ZAQAR_REDIS, "check", "-f", "json", *self._store_words()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not done.stdout:
            raise BenchmarkFailed(f"zaqar-redis check failed: {done.stderr}")
        rows: list[dict[str, Any]] = json.loads(done.stdout)
        self.leftovers = sum(row["kind"] == "leftover" for row in rows)
        return [
            ChaosFinding("damage", f"{row['queue']}", f"{row['what']}")
            for row in rows
            if row["kind"] == "damage"
        ]


def _created(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def plan(settings: ChaosSettings) -> list[PlannedFault]:
    """Returns the schedule of a run."""
    durations = {name: kind.lasts for name, kind in FAULTS.items()}
    return schedule.plan(settings.seed, settings.seconds, settings.faults, durations)


def run_chaos(
    settings: ChaosSettings, planned: Sequence[PlannedFault], command: str
) -> tuple[ChaosReport, bool]:
    """Returns the report, and whether the run is complete: after Ctrl-C what was done is checked.

    Raises BenchmarkFailed and TimeoutError when something does not start, or not end.
    """
    machine = machine_report.machine()
    slot = RedisCommand("GET", keys.of_queue(_PROJECT, QUEUES[0]).queue).slot()
    notes: list[str] = []
    with terminable(), contextlib.ExitStack() as stack:
        folder = settings.folder or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="zr-chaos-"))
        )
        run = ChaosRun(settings, folder, stack, slot or 0)
        try:
            run.apply(planned)
        except TimeoutError as late:  # what was done until then is checked
            run.findings.append(ChaosFinding("away", "store", f"waited too long for {late}"))
        except KeyboardInterrupt:
            notes.append("the run was interrupted; what was done until then was checked")
            print_progress("interrupted: the fault is ended, and what was done is checked")
            run.end_fault()
        print_progress("the faults are over; checking what was stored")
        acts = run.finish()
        try:
            run.check(acts)
        except (BenchmarkFailed, TimeoutError) as error:
            run.findings.append(ChaosFinding("away", "store", f"it cannot be checked: {error}"))
        run.stop_service()
    found = report.ChaosReport(
        *(command, machine, settings.topology, settings.seed, settings.ack_replicas, planned),
        faults=report.fault_rows(run.applied, acts),
        acts=report.act_rows(acts),
        rates=report.rates(acts),
        findings=run.findings,
        leftovers=run.leftovers,
        notes=notes,
    )
    return found, not notes
