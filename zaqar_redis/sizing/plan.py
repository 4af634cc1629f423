# SPDX-License-Identifier: Apache-2.0
"""What a load needs: Redis, workers, memory, nodes, network and connections.

CPU is counted at the peak, memory at the average rate: what waits adds up over the time that it
stays.  Everything is plain arithmetic over `costs`; doc/scale.md shows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from zaqar_redis import errors, rules
from zaqar_redis.sizing import costs
from zaqar_redis.sizing.costs import ActCost

#: Of a core's time, and of `maxmemory`: more, and requests queue, or a peak is refused.
_UTILISATION_MAX = 0.9
#: Above what is asked for, in any number: the arithmetic holds, nobody runs it.
_MOST = 1e12
#: Of `maxmemory`: the rest is for consumers that are away as long again, and for buffers.
DATA_SHARE = 0.5
#: GB of `maxmemory` of a Redis at least.
_MAXMEMORY_MIN = 1
#: Times `maxmemory`: a fork for a snapshot or a rewrite copies what changes meanwhile.
FORK_FACTOR = 2


def plain(number: float) -> str:
    """Returns a number in digits, at most two of them behind the point."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


class ClusterLoad(msgspec.Struct, frozen=True):
    """What is asked of a cluster; rates are averages.

    Raises BadConfiguration for a value that is out of its bounds.
    """

    #: messages a second that are posted
    messages: float = 0.0
    #: bytes of a message's body
    size: int = 1000
    #: seconds from post to deletion or expiry
    retention: float = 3600.0
    queues: int = 1
    #: how often a message is claimed, and deleted afterwards if it is not the last time
    claims: float = 1.0
    #: messages in a post and in a claim
    batch: int = 1
    #: long polls that wait at a time
    long_polls: int = 0
    #: WebSockets that are open at a time
    sockets: int = 0
    #: sockets and long polls of a worker at most: as many as were measured, and fewer than
    #: `max_connections` allows by default
    worker_sockets: int = 10_000
    #: publications to channels a second
    publications: float = 0.0
    #: sockets that get a publication
    fan_out: float = 1.0
    #: copies of each Redis besides the primary
    replicas: int = 1
    #: the busiest minute to the average
    peak: float = 2.0
    #: share of a core that is used at the peak
    utilisation: float = 0.5
    #: GB of `maxmemory` of a Redis, at most
    maxmemory: float = 16.0
    #: cores and GB of memory of a node
    cores: int = 8
    memory: float = 64.0

    def __post_init__(self) -> None:
        bounds: dict[str, tuple[float, float]] = {
            "messages": (0, _MOST),
            "size": (1, 2**29),  # what the option for the size of a post allows at most
            "retention": (1, 100 * 365 * 86400),
            "queues": (1, _MOST),
            "claims": (0, 1000),
            "batch": (1, costs.MANY_POSTED),
            "long_polls": (0, _MOST),
            "sockets": (0, _MOST),
            "worker_sockets": (1, 1_000_000),
            "publications": (0, _MOST),
            "fan_out": (0, _MOST),
            "replicas": (0, 5),
            "peak": (1, 1000),
            "utilisation": (0.05, _UTILISATION_MAX),
            "maxmemory": (_MAXMEMORY_MIN, 4096),
            "cores": (1, 1024),
            "memory": (1, 65_536),
        }
        for name, (least, most) in bounds.items():
            value = getattr(self, name)
            if not least <= value <= most:  # of NaN, neither holds
                option = "--" + name.replace("_", "-")
                raise errors.BadConfiguration(
                    f"{option}: it must be {plain(least)} to {plain(most)}"
                )
        if not any((self.messages, self.publications, self.sockets, self.long_polls)):
            raise errors.BadConfiguration(
                "there is no load: give --messages, --publications, --sockets or --long-polls"
            )
        if self.maxmemory * FORK_FACTOR > self.memory:
            raise errors.BadConfiguration(
                f"--memory: a Redis with maxmemory {plain(self.maxmemory)} GB needs a node with "
                f"{plain(self.maxmemory * FORK_FACTOR)} GB, because it forks"
            )


class ClusterPlan(msgspec.Struct, frozen=True):
    """What a load needs, and where that comes from."""

    #: cores at the peak
    worker_cores: float
    redis_cores: float
    workers: int
    #: primaries that the CPU, and that the memory needs; the greater one counts
    primaries_by_cpu: int
    primaries_by_memory: int
    replicas: int
    #: bytes of all queues and messages, of one primary, and of the catalogue
    data_bytes: float
    primary_bytes: float
    #: GB of each Redis
    maxmemory: int
    catalogue_bytes: float
    #: bytes of all workers, sockets included
    worker_bytes: float
    #: one of them is spare
    nodes: int
    #: bytes a second at the peak: of clients, of Redis, and of its replication
    client_network: float
    redis_network: float
    replication_network: float
    #: of a worker: WebSockets and long polls
    sockets_per_worker: int
    #: of clients to one Redis
    redis_connections: int
    #: what the arithmetic cannot help
    warnings: Sequence[str]

    @property
    def primaries(self) -> int:
        return max(self.primaries_by_cpu, self.primaries_by_memory)


def plan(load: ClusterLoad) -> ClusterPlan:
    """Returns what the load needs."""
    rate, publications = load.messages * load.peak, load.publications * load.peak
    posted, claimed = _posted(load.batch), _claimed(load.batch)
    redis = (
        rate * (posted.redis + load.claims * claimed.redis)
        + publications * costs.PUBLICATION.redis
        + load.long_polls * costs.WAITING.redis
    ) / 1e6
    deliveries = publications * load.fan_out
    worker = (
        rate * (posted.worker + load.claims * claimed.worker)
        + publications * costs.PUBLICATION.worker
        + deliveries * costs.DELIVERY.worker
        + load.long_polls * costs.WAITING.worker
        + load.sockets / costs.PING_INTERVAL * costs.PING.worker
    ) / 1e6
    workers = _workers(load, worker, publications)
    worker += publications * min(workers, load.fan_out) * costs.RECEIPT.worker / 1e6
    message = load.size + costs.MESSAGE + (costs.CLAIMED if load.claims else 0)
    data = load.messages * load.retention * message + load.queues * costs.QUEUE
    by_cpu = max(1, math.ceil(redis / load.utilisation))
    by_memory = max(1, math.ceil(data / (load.maxmemory * 1e9 * DATA_SHARE)))
    primaries = max(by_cpu, by_memory)
    maxmemory = max(_MAXMEMORY_MIN, math.ceil(data / primaries / 1e9 / DATA_SHARE))
    worker_bytes = workers * costs.WORKER + load.sockets * costs.SOCKET
    worker_bytes += load.long_polls * costs.POLL
    redis_bytes = primaries * (1 + load.replicas) * maxmemory * FORK_FACTOR * 1e9
    requests = rate * (1 + load.claims * 2) / load.batch
    content = rate * (load.size + costs.ENVELOPE_BYTES) * (1 + load.claims)
    published = publications * (load.size + costs.ENVELOPE_BYTES)
    return ClusterPlan(
        worker_cores=worker,
        redis_cores=redis,
        workers=workers,
        primaries_by_cpu=by_cpu,
        primaries_by_memory=by_memory,
        replicas=primaries * load.replicas,
        data_bytes=data,
        primary_bytes=data / primaries,
        maxmemory=maxmemory,
        catalogue_bytes=load.queues * costs.ROUTE if primaries > 1 else 0,
        worker_bytes=worker_bytes,
        nodes=_nodes(load, worker, primaries, worker_bytes + redis_bytes) + 1,
        client_network=requests * costs.HTTP_BYTES + content + published * (1 + load.fan_out),
        redis_network=content + published * (1 + min(workers, load.fan_out)),
        replication_network=(rate * (load.size + costs.ENVELOPE_BYTES) + published) * load.replicas,
        sockets_per_worker=math.ceil((load.sockets + load.long_polls) / workers),
        redis_connections=workers * costs.REDIS_CONNECTIONS,
        warnings=_warnings(load, primaries),
    )


def _posted(batch: int) -> ActCost:
    """Returns the cost of a message that is posted with others."""
    return _shared(costs.POST_1, costs.POST_100, costs.MANY_POSTED, batch)


def _claimed(batch: int) -> ActCost:
    """Returns the cost of a message that is claimed and deleted with others."""
    limit = min(batch, rules.Limits().max_messages_per_claim_or_pop)
    return _shared(costs.CLAIM_1, costs.CLAIM_10, costs.MANY_CLAIMED, limit)


def _shared(one: ActCost, many: ActCost, count: int, batch: int) -> ActCost:
    """Returns what each of *batch* costs, on the line through an act of 1 and one of *count*."""

    def each(of_one: float, of_many: float) -> float:
        more = (of_many - of_one) / (count - 1)
        return (of_one + more * (batch - 1)) / batch

    return ActCost(each(one.worker, many.worker), each(one.redis, many.redis))


def _workers(load: ClusterLoad, cores: float, publications: float) -> int:
    """Returns how many workers; each that has subscribers receives every publication."""
    workers = max(1, math.ceil((load.sockets + load.long_polls) / load.worker_sockets))
    while True:
        received = publications * min(workers, load.fan_out) * costs.RECEIPT.worker / 1e6
        needed = max(1, math.ceil((cores + received) / load.utilisation))
        if needed <= workers:
            return workers
        workers = needed


def _nodes(load: ClusterLoad, worker: float, primaries: int, memory: float) -> int:
    """Returns how many nodes; a core for each Redis, and no two copies on one node."""
    by_cores = (worker / load.utilisation + primaries * (1 + load.replicas)) / load.cores
    by_memory = memory / (load.memory * 1e9)
    return max(1 + load.replicas, math.ceil(max(by_cores, by_memory)))


def _warnings(load: ClusterLoad, primaries: int) -> list[str]:
    found = []
    if load.messages and load.queues < primaries:
        found.append(
            f"A queue is in one Redis: {load.queues} queues cannot use {primaries} primaries. Use "
            "more queues, or larger batches."
        )
    if not load.replicas:
        found.append("Without replicas, queues of a Redis that fails are away until it is back.")
    return found


class PlanRow(NamedTuple):
    what: str
    needed: float
    unit: str
    because: str


def rows(load: ClusterLoad, found: ClusterPlan) -> list[PlanRow]:
    """Returns what is needed, how much of it, and from what that follows."""
    share = f"{load.utilisation:.0%} of a core each"
    memory = (
        f"{_gb(found.data_bytes)} GB of data, {DATA_SHARE:.0%} of {plain(load.maxmemory)} GB each"
    )
    fork = FORK_FACTOR * found.maxmemory
    return [
        PlanRow(
            "primaries",
            found.primaries,
            "Redis",
            f"CPU: {found.primaries_by_cpu} ({found.redis_cores:.2f} cores, {share}); "
            f"memory: {found.primaries_by_memory} ({memory})",
        ),
        PlanRow("replicas", found.replicas, "Redis", f"{load.replicas} of each primary"),
        PlanRow("workers", found.workers, "processes", f"{found.worker_cores:.2f} cores, {share}"),
        PlanRow("data of a primary", _gb(found.primary_bytes), "GB", "messages, and queues"),
        PlanRow(
            "maxmemory",
            found.maxmemory,
            "GB",
            f"of each Redis, noeviction; its machine needs {fork} GB for it, because it forks",
        ),
        PlanRow("catalogue", _gb(found.catalogue_bytes), "GB", "in the control store, with pools"),
        PlanRow("memory of workers", _gb(found.worker_bytes), "GB", "with all their sockets"),
        PlanRow(
            "nodes",
            found.nodes,
            "machines",
            f"{load.cores} cores, {plain(load.memory)} GB; one is spare",
        ),
        PlanRow("network of clients", _mbit(found.client_network), "Mbit/s", "at the peak"),
        PlanRow("network of Redis", _mbit(found.redis_network), "Mbit/s", "without replication"),
        PlanRow("replication", _mbit(found.replication_network), "Mbit/s", "at the peak"),
        PlanRow("sockets of a worker", found.sockets_per_worker, "", "WebSockets, long polls"),
        PlanRow("connections of a Redis", found.redis_connections, "", "of all workers"),
    ]


def _gb(count: float) -> float:
    return round(count / 1e9, 2)


def _mbit(bytes_a_second: float) -> float:
    return round(bytes_a_second * 8 / 1e6, 1)
