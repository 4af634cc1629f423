# SPDX-License-Identifier: Apache-2.0
"""Alarms about stores and nodes, in plain words, each with what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from zaqar_redis.figures import SEVERITIES, Alarm, Severity, StoreStatus
from zaqar_redis.realtime.node.control import NodeReport
from zaqar_redis.service.queue_alarms import duration
from zaqar_redis.service.stores import StoreReport

#: Shares of its memory limit, or of the machine's memory, that a store may use.
_MEMORY_WARNING, _MEMORY_CRITICAL = 0.8, 0.95
#: Milliseconds by which clocks may differ.  Claims end by the store's; tokens and signatures by
#: those of the nodes.
_SKEW_MAX = 2000.0
#: Milliseconds: a healthy store in the same data centre takes less than one.
_LATENCY_MAX = 200.0
#: Milliseconds for which the event loop of a node may stand still.
_LAG_MAX = 500.0
_STORES = {"queues": "Store", "control": "The control store", "channels": "The store of channels"}


def sort_alarms(alarms: Iterable[Alarm]) -> list[Alarm]:
    """Returns the alarms, the most urgent first."""
    return sorted(alarms, key=lambda alarm: SEVERITIES.index(alarm.severity))


def store_alarms(report: StoreReport) -> Iterator[Alarm]:
    name = f"{_STORES[report.kind]} {report.name}" if report.kind == "queues" else ""
    name = name or _STORES[report.kind]

    def alarm(severity: Severity, what: str, remedy: str) -> Alarm:
        return Alarm(severity, f"store {report.name}", f"{name} {what}", remedy)

    if not report.available:
        what = {
            "queues": "requests for its queues get 503 until it is back.",
            "control": "queues that this node has not used yet cannot be found, and neither pools "
            "nor access keys can be changed.",
            "channels": "clients of channels get nothing.",
        }[report.kind]
        yield alarm(
            "critical",
            f"is away: {what} ({report.error})",
            "Look whether its Redis runs and can be reached from here, and whether it is busy with "
            "a slow command (SLOWLOG GET). The service connects by itself when it is back.",
        )
        return
    if report.latency is not None and report.latency > _LATENCY_MAX:
        yield alarm(
            "warning",
            f"took {report.latency:.0f} ms to answer.",
            "Look for slow commands (SLOWLOG GET), swapping and other users of its machine.",
        )
    if report.clock_skew is not None and abs(report.clock_skew) > _SKEW_MAX:
        side = "ahead of" if report.clock_skew > 0 else "behind"
        yield alarm(
            "warning",
            f"has a clock that is {abs(report.clock_skew) / 1000:.0f} s {side} this node's.",
            "Synchronize the clocks of all machines (NTP).",
        )
    if report.status is not None:
        for severity, what, remedy in _status_alarms(report.status):
            yield alarm(severity, what, remedy)


def _status_alarms(status: StoreStatus) -> Iterator[tuple[Severity, str, str]]:
    yield from _memory_alarms(status)
    if not status.aof and status.snapshots is False:
        yield (
            "warning",
            "does not persist anything: all queues are lost when it stops.",
            "Turn on the append-only file (CONFIG SET appendonly yes, and in redis.conf).",
        )
    if status.aof and not status.aof_works:
        yield (
            "critical",
            "cannot write its append-only file, and so refuses all writes.",
            "Look at its log, and whether its disk is full.",
        )
    if not status.rdb_works:
        yield (
            "critical" if not status.aof else "warning",
            "could not write its last snapshot, and perhaps refuses all writes.",
            "Look at its log: mostly the disk is full, or memory for the fork is missing.",
        )
    if status.role == "slave":
        yield (
            "critical",
            "is a replica: it accepts no writes.",
            "Let its URI name the master, or promote it (REPLICAOF NO ONE).",
        )
        if not status.has_master:
            yield (
                "critical",
                "is a replica without a connection to its master.",
                "Look whether the master runs, and at the log of the replica.",
            )
    if status.replicas_lagging:
        yield (
            "warning",
            f"has {status.replicas_lagging} of {status.replicas} replicas that lag behind.",
            "Look at the log of the replica, and at the network between them.",
        )


def _memory_alarms(status: StoreStatus) -> Iterator[tuple[Severity, str, str]]:
    limit, noun = status.memory_max, "limit"
    if not limit:
        limit, noun = status.memory_machine, "machine's memory"
    share = status.memory_used / limit if limit else 0.0
    if share > _MEMORY_WARNING:
        severity: Severity = "critical" if share > _MEMORY_CRITICAL else "warning"
        after = (
            "When it is full, posts get 503."
            if status.memory_max
            else "When that is full, the system ends it."
        )
        yield (
            severity,
            f"uses {share:.0%} of its {noun} of {_size(limit)}. {after}",
            "Consume or purge the largest queues, raise maxmemory, or move queues to another pool.",
        )
    if status.memory_max and status.memory_policy not in ("noeviction", ""):
        yield (
            "critical" if status.evicted else "warning",
            f"evicts keys when it is full (maxmemory-policy {status.memory_policy}): messages "
            f"vanish; {status.evicted} keys have so far.",
            "Set maxmemory-policy noeviction.",
        )


def node_alarms(
    nodes: Sequence[NodeReport], missing: Sequence[tuple[str, float]], away: Collection[str] = ()
) -> Iterator[Alarm]:
    """*missing*: names of nodes that do not answer any more, and seconds since they did.

    *away*: stores that this node cannot reach either: they have an alarm of their own.
    """
    for node in nodes:
        subject = f"node {node.name}"
        stores = ", ".join(name for name in node.unavailable if name not in away)
        if stores:
            yield Alarm(
                "critical",
                subject,
                f"Node {node.name} cannot reach the store {stores}.",
                "Look whether the store runs. If other nodes reach it, look at the network of this "
                "node, and restart it.",
            )
        if node.loop_lag is not None and node.loop_lag > _LAG_MAX:
            yield Alarm(
                "warning",
                subject,
                f"Node {node.name} stood still for {node.loop_lag:.0f} ms: its requests waited.",
                "Its machine has too little CPU, or swaps: run fewer workers than cores, or more "
                "machines.",
            )
    for name, seconds in missing:
        yield Alarm(
            "warning",
            f"node {name}",
            f"Node {name} answered {duration(seconds)} ago, and does not now: it was stopped, "
            "stands still or has lost its store.",
            "If it should run, look at its log, and restart it.",
        )


def _size(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"
