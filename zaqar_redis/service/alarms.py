# SPDX-License-Identifier: Apache-2.0
"""Alarms about stores and nodes, in plain words, each with what to do."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Collection, Iterable, Iterator, Sequence

from zaqar_redis.figures import (
    SEVERITIES,
    Alarm,
    LargeQueue,
    Severity,
    StoreSettings,
    StoreStatus,
)
from zaqar_redis.realtime.node.control import NodeReport
from zaqar_redis.rules import described
from zaqar_redis.service.queue_alarms import duration
from zaqar_redis.service.stores import StoreReport

#: Our scripts need ZMSCORE, and LPOP with a count.
_VERSION_MIN = (6, 2)
#: Shares of its memory limit, or of the machine's memory, that a store may use.
_MEMORY_WARNING, _MEMORY_CRITICAL = 0.8, 0.95
#: The share of its connections that may be in use.
_CLIENTS_WARNING = 0.8
#: Milliseconds by which clocks may differ.  Claims end by the store's; tokens and signatures by
#: those of the nodes: a signature is good for a minute.
_SKEW_WARNING, _SKEW_CRITICAL = 2000.0, 30_000.0
#: Milliseconds of a round trip: in the same data centre it takes less than one.
_LATENCY_INFO, _LATENCY_WARNING = 10.0, 100.0
#: Seconds since the last snapshot of a store that has no other persistence.
_SNAPSHOT_OLD = 2 * 3600
#: Milliseconds for which the event loop of a node may stand still.
_LAG_MAX = 500.0
#: Queues with late deliveries that an alarm names.
_LATE_NAMED = 3
_STORES = {"queues": "Store", "control": "The control store", "channels": "The store of channels"}

#: What is wrong with a store, behind its name, and what to do.
_Finding = tuple[Severity, str, str]


def sort_alarms(alarms: Iterable[Alarm]) -> list[Alarm]:
    """Returns the alarms, the most urgent first."""
    return sorted(alarms, key=lambda alarm: SEVERITIES.index(alarm.severity))


def store_alarms(report: StoreReport, largest: Sequence[LargeQueue] = ()) -> Iterator[Alarm]:
    """Yields what is wrong with a store, and what operators should know about it.

    *largest*: its largest queues, as far as they are known.
    """
    name = _STORES[report.kind]
    if report.kind == "queues":
        name += f" {report.name}"
    for severity, what, remedy in _findings(report, largest):
        yield Alarm(severity, f"store {report.name}", f"{name} {what}", remedy)


def _findings(report: StoreReport, largest: Sequence[LargeQueue]) -> Iterator[_Finding]:
    if report.misconfigured:
        yield (
            "critical",
            f"cannot be used: {report.error}",
            "Correct its URI in the configuration, or that of a pool by `zaqar-redis pool update`.",
        )
        return
    if not report.available:
        what = {
            "queues": "requests for its queues get 503 until it is back.",
            "control": "queues that this node has not used yet cannot be found, and neither pools "
            "nor access keys can be changed.",
            "channels": "clients of channels get nothing.",
        }[report.kind]
        yield (
            "critical",
            f"is away: {what} ({report.error})",
            "Look whether its Redis runs and can be reached from here with the password of its "
            "URI, and whether it is busy with a slow command (SLOWLOG GET). The service connects "
            "by itself when it is back.",
        )
        return
    yield from _times(report)
    if report.late:
        yield (
            "warning",
            f"has deliveries to subscribers that nobody has made for more than a minute, of "
            f"{_late_queues(report.late)}.",
            "Start `zaqar-redis notify`, or look at the log of the notifiers that should run, and "
            "whether they reach this store; see doc/notifications.md.",
        )
    status = report.status
    if status is None:
        return
    if status.version and _numbers(status.version) < _VERSION_MIN:
        yield (
            "critical",
            f"has Redis {status.version}, which is too old.",
            "Upgrade to Redis 6.2 or newer, or to Valkey.",
        )
    yield from _replication(status)
    yield from _confirmations(status)
    yield from _memory(status, largest)
    yield from _persistence(status)
    yield from _clients(status)
    if status.settings is None:
        yield (
            "info",
            "does not tell its settings (CONFIG or ACL is not allowed).",
            "Look yourself at save, bind, protected-mode, requirepass and tls-port.",
        )
    else:
        yield from _exposure(status.settings)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def _times(report: StoreReport) -> Iterator[_Finding]:
    if report.latency is not None and report.latency >= _LATENCY_INFO:
        yield (
            "warning" if report.latency >= _LATENCY_WARNING else "info",
            f"took {report.latency:.0f} ms to answer.",
            "Look for slow commands (SLOWLOG GET), swapping and other users of its machine, and "
            "run it near the service (`redis-cli --latency`).",
        )
    skew = report.clock_skew or 0.0
    if abs(skew) >= _SKEW_WARNING:
        side = "ahead of" if skew > 0 else "behind"
        yield (
            "critical" if abs(skew) >= _SKEW_CRITICAL else "warning",
            f"has a clock that is {abs(skew) / 1000:.0f} s {side} this machine's.",
            "Synchronize the clocks of all machines (chrony or ntpd).",
        )


def _replication(status: StoreStatus) -> Iterator[_Finding]:
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
    if status.loading:
        yield "warning", "is still loading its data.", "Wait until it has loaded them."


def _confirmations(status: StoreStatus) -> Iterator[_Finding]:
    replicas, owner = status.cluster_replicas, "a primary with "
    if replicas is None:
        replicas, owner = status.replicas, ""
    if status.role != "slave" and replicas < status.ack_replicas:
        yield (
            "critical",
            f"has {owner}{replicas} connected replicas, and [redis] ack_replicas is "
            f"{status.ack_replicas}: posts, and all else that writes there, get 503.",
            "Start the replicas that are missing, and look at their logs, or lower ack_replicas.",
        )
    elif status.cluster_replicas == 0:
        yield (
            "warning",
            "has a primary without a connected replica: when that fails, its queues are away until "
            "it is back.",
            "Give each primary a replica (redis-cli --cluster check shows who has none), and look "
            "at the logs of those that are missing.",
        )


def _memory(status: StoreStatus, largest: Sequence[LargeQueue]) -> Iterator[_Finding]:
    limit, noun = status.memory_max, "limit"
    if not limit:
        limit, noun = status.memory_machine, "machine's memory"
        yield (
            "info",
            "has no memory limit: the system ends it when memory is short.",
            "CONFIG SET maxmemory, to three quarters of the machine's memory at most, and the same "
            "in redis.conf.",
        )
    share = status.memory_used / limit if limit else 0.0
    if share >= _MEMORY_WARNING:
        after = (
            "When it is full, posts get 507."
            if status.memory_max
            else "When that is full, the system ends it."
        )
        if largest:
            after += f" Its largest queues: {', '.join(map(_large_queue, largest))}."
        yield (
            "critical" if share >= _MEMORY_CRITICAL else "warning",
            f"uses {share:.0%} of its {noun} of {_size(limit)}. {after}",
            "Consume or purge the largest queues (`zaqar-redis top` shows them), raise maxmemory, "
            "or move queues to another pool.",
        )
    if status.memory_policy not in ("noeviction", ""):
        urgent: Severity = "critical" if status.evicted else "warning"
        yield (
            urgent if status.memory_max else "info",  # without a limit it evicts nothing
            f"evicts keys when it is full (maxmemory-policy {status.memory_policy}): messages "
            f"vanish; {status.evicted} keys have so far.",
            "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf.",
        )
    elif status.evicted:
        yield (
            "warning",
            f"has evicted {status.evicted} keys since it started: messages may be lost.",
            "Run `zaqar-redis check --repair`, then CONFIG RESETSTAT.",
        )


def _persistence(status: StoreStatus) -> Iterator[_Finding]:
    settings = status.settings
    if not status.aof and settings is not None:
        remedy = "Turn on the append-only file (CONFIG SET appendonly yes, and in redis.conf)."
        if not settings.snapshots:
            yield (
                "critical",
                "does not persist anything: all messages are lost when it stops.",
                remedy,
            )
        else:
            yield (
                "info",
                "persists by snapshots alone: a crash loses what came after the last one.",
                remedy,
            )
            age = time.time() - status.last_snapshot
            if status.not_in_snapshot and age > _SNAPSHOT_OLD:
                yield (
                    "warning",
                    f"took its last snapshot {duration(age)} ago; {status.not_in_snapshot} changes "
                    "have come since.",
                    "BGSAVE now, and lower the times of `save`.",
                )
    elif status.aof and settings is not None and settings.appendfsync == "no":
        yield (
            "info",
            "leaves it to the system when its append-only file is written (appendfsync no): a "
            "power failure loses up to half a minute.",
            "CONFIG SET appendfsync everysec, and the same in redis.conf.",
        )
    if not status.aof_works:
        yield (
            "critical",
            "cannot write its append-only file, and so refuses all writes.",
            "Look at its log, and whether its disk is full.",
        )
    if not status.aof_rewrite_works:
        yield (
            "warning",
            "could not rewrite its append-only file, which grows.",
            "Look at its log: mostly the disk is full, or memory for the fork is missing.",
        )
    if not status.rdb_works:
        yield (
            "critical" if not status.aof else "warning",
            "could not write its last snapshot, and perhaps refuses all writes.",
            "Look at its log: mostly the disk is full, or memory for the fork is missing.",
        )


def _clients(status: StoreStatus) -> Iterator[_Finding]:
    if status.clients_max and status.clients >= _CLIENTS_WARNING * status.clients_max:
        yield (
            "warning",
            f"has {status.clients} of {status.clients_max} connections in use.",
            "Raise maxclients.",
        )
    if status.clients_rejected:
        yield (
            "warning",
            f"has rejected {status.clients_rejected} connections since it started.",
            "Raise maxclients, then CONFIG RESETSTAT.",
        )


def _exposure(settings: StoreSettings) -> Iterator[_Finding]:
    if not settings.port:
        return
    where = " ".join(settings.bind) or "all addresses"
    is_open = not settings.bind or not all(map(_is_loopback, settings.bind))
    if not settings.password and not settings.protected:
        if is_open:
            yield (
                "warning",
                f"listens on {where} without a password: whoever reaches it can read all.",
                "Set requirepass or users (ACL), bind it to 127.0.0.1, or turn protected-mode on.",
            )
        else:
            yield (
                "info",
                "has protected-mode off, and no password.",
                "CONFIG SET protected-mode yes, and the same in redis.conf.",
            )
    if is_open and settings.password and not settings.tls_port:
        yield (
            "info",
            f"listens on {where} without TLS: passwords and messages can be read on the way.",
            "Use tls-port and rediss:// URIs, or a network of its own.",
        )


def _is_loopback(address: str) -> bool:
    try:
        # A minus: it may be missing on the machine.
        return ipaddress.ip_address(address.removeprefix("-")).is_loopback
    except ValueError:
        return address == "localhost"


def reached_by_others(stores: Collection[str], nodes: Sequence[NodeReport], own: str) -> set[str]:
    """Returns those of the *stores* that another node than *own* reaches."""
    return {
        store
        for store in stores
        for node in nodes
        # Nodes of an older version do not tell, nor their load.
        if node.node != own and node.cpu is not None and store not in node.unavailable
    }


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


def _late_queues(late: Sequence[tuple[str, str]]) -> str:
    named = [f"{described(queue)} of {project}" for project, queue in late[:_LATE_NAMED]]
    more = len(late) - len(named)
    return ", ".join(named) + (f" and at least {more} more" if more else "")


def _large_queue(queue: LargeQueue) -> str:
    noun = "message" if queue.messages == 1 else "messages"
    return f"{queue.name} of {queue.project} ({queue.messages} {noun}, about {_size(queue.memory)})"


def _size(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"
