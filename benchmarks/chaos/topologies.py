# SPDX-License-Identifier: Apache-2.0
"""The stores on which a run of chaos works: one Redis with pools, Sentinel, and a cluster.

A proxy is before each server, so that a fault can be one of the network.
"""

from __future__ import annotations

import abc
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import redis

from benchmarks.chaos.schedule import FaultTarget
from tests.support.redis_cluster import ClusterNode, RedisCluster, redis_cluster
from tests.support.redis_node import PLAIN, RedisNode
from tests.support.redis_sentinel import RedisSentinel, redis_sentinel
from tests.support.servers import wait_for
from tests.support.tcp_proxy import ProxyThread
from zaqar_redis.benchmarks.service import BenchmarkFailed
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import RedisCommand

#: Options of servers that lose nothing when they are killed, and of those with copies, which are
#: what their promise rests on.
_ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")
_EVERY_SECOND = ("--appendonly", "yes", "--appendfsync", "everysec")
#: Milliseconds after which sentinels take a silent primary for dead.
_DOWN_AFTER_MS = 1000
#: Seconds in which a store must be well again after a fault.
_SETTLE_SECONDS = 90.0
#: Faults of every server, and of processes that are in every topology.
_OF_NETWORK = ("cut", "hold", "delay", "reorder")
_OF_PROCESSES = (
    *("kill:worker", "pause:worker", "kill:notifier", "pause:notifier"),
    *("kill:clients", "kill:channels"),
)


def _choices(*names: str) -> list[FaultTarget]:
    return [FaultTarget(*name.split(":")) for name in names]


class Topology(abc.ABC):
    """A store that runs, and the faults that may strike it."""

    #: fault:target; `node` knows the targets that are no processes of the service
    faults: Sequence[FaultTarget]
    #: as `settle` has read them last
    _primaries: Set[int] = frozenset()
    #: that `settle` has seen, and not returned yet: it was interrupted
    _replacements = 0

    @property
    @abc.abstractmethod
    def uri(self) -> str:
        """Of the store of the service."""

    @abc.abstractmethod
    def node(self, target: str) -> RedisNode | None:
        """Returns the server that has a role now; None: the target is none of the store."""

    @abc.abstractmethod
    def is_settled(self) -> bool:
        """Returns whether all servers work, and all replicas follow."""

    def pools(self) -> Mapping[str, str]:
        """Returns URIs of pools by name."""
        return {}

    def primaries(self) -> Set[int]:
        """Returns the ports of those that have replicas."""
        return set()

    def replaced(self, node: RedisNode) -> bool:
        """Returns whether a replica has taken the place of a dead primary, if there is one."""
        return True

    def fail_over(self) -> None:
        """Promotes a replica while all servers are well."""
        raise BenchmarkFailed(f"{self.uri} has no replicas")

    def move_slots(self, project: str, queue: str, stop: threading.Event) -> None:
        """Moves the slot of a queue again and again, until *stop*."""
        raise BenchmarkFailed(f"{self.uri} has no slots")

    def settle(self) -> int:
        """Waits until all servers work, and all replicas follow.

        Returns how often another server has become a primary since the last time. It may be the
        same as before in the end: a busy machine lets sentinels replace one that is well.

        Raises TimeoutError when the store does not get well.
        """

        def is_settled() -> bool:
            try:
                found = self.primaries()
                self._replacements += len(found - self._primaries)
                self._primaries = found
                return self.is_settled()
            except (redis.RedisError, OSError, RuntimeError):
                return False

        wait_for(is_settled, "the store to be well", _SETTLE_SECONDS)
        count, self._replacements = self._replacements, 0
        return count


class SingleTopology(Topology):
    """A Redis with the default pool and the control store, and one for each of two pools."""

    faults = _choices(
        *_OF_PROCESSES,
        *(f"{fault}:{pool}" for fault in ("kill", "pause", "disk") for pool in ("default", "one")),
        *(f"{fault}:default" for fault in _OF_NETWORK),
        *("kill:two", "cut:one", "hold:two", "kill:mover", "pause:mover"),
    )

    def __init__(self, nodes: Mapping[str, RedisNode]) -> None:
        self._nodes = nodes

    @property
    def uri(self) -> str:
        return _redis_uri(self._nodes["default"])

    def pools(self) -> Mapping[str, str]:
        return {name: _redis_uri(self._nodes[name]) for name in ("one", "two")}

    def node(self, target: str) -> RedisNode | None:
        return self._nodes.get(target)

    def is_settled(self) -> bool:
        return all(node.answers() for node in self._nodes.values())


def _redis_uri(node: RedisNode) -> str:
    return f"redis://127.0.0.1:{node.public_port}/0"


class SentinelTopology(Topology):
    """A primary, two replicas and three sentinels."""

    faults = _choices(
        *_OF_PROCESSES,
        *(f"{fault}:primary" for fault in ("kill", "pause", "disk", *_OF_NETWORK)),
        *("kill:replica", "pause:replica", "hold:replica", "cut:replica"),
        *("kill:sentinel", "pause:sentinel", "failover:primary"),
    )

    def __init__(self, found: RedisSentinel) -> None:
        self._found = found

    @property
    def uri(self) -> str:
        return self._found.uri

    def primaries(self) -> Set[int]:
        return {self._found.primary().public_port}

    def node(self, target: str) -> RedisNode | None:
        if target == "sentinel":
            return self._found.sentinels[0]
        if target not in ("primary", "replica"):
            return None
        primary = self._found.primary()
        if target == "primary":
            return primary
        return next(each for each in self._found.servers if each is not primary)

    def replaced(self, node: RedisNode) -> bool:
        is_server = node in self._found.servers
        return not is_server or self._found.primary() is not node

    def fail_over(self) -> None:
        self._found.fail_over()

    def is_settled(self) -> bool:
        primary = self._found.primary()
        others = [each for each in self._found.servers if each is not primary]
        return (
            primary.role() == "master"
            and all(each.role() == "slave" and each.has_copy() for each in others)
            and self._found.is_calm()
        )


class ClusterTopology(Topology):
    """Three primaries with a replica each; ``primary`` is that of the first queue."""

    faults = _choices(
        *_OF_PROCESSES,
        *(f"{fault}:primary" for fault in ("kill", "pause", "disk", *_OF_NETWORK)),
        *("kill:replica", "pause:replica", "kill:other-primary", "pause:other-primary"),
        *("failover:primary", "slots:primary"),
    )

    def __init__(self, found: RedisCluster, slot: int) -> None:
        """*slot*: of the first queue."""
        self._found = found
        self._slot = slot

    @property
    def uri(self) -> str:
        return self._found.uri

    def primaries(self) -> Set[int]:
        return {each.public_port for each in self._primary_nodes()}

    def node(self, target: str) -> RedisNode | None:
        if target == "primary":
            return self._found.node_of(self._slot)
        if target == "replica":
            return self._replica_of(self._found.node_of(self._slot))
        if target == "other-primary":
            own = self._found.node_of(self._slot)
            return next(each for each in self._primary_nodes() if each is not own)
        return None

    def _primary_nodes(self) -> list[ClusterNode]:
        return [each for each in self._found.nodes() if each.role() == "master"]

    def _replica_of(self, primary: ClusterNode) -> ClusterNode:
        for each in self._found.nodes():
            role = each.command("ROLE")
            if role[0] == b"slave" and role[2] == primary.public_port:
                return each
        raise RuntimeError("the primary has no replica")

    def replaced(self, node: RedisNode) -> bool:
        """Its replica has its slots."""
        others = [each for each in self._found.nodes() if each is not node]
        with contextlib.suppress(redis.RedisError, OSError):
            masters = sum(each.role() == "master" for each in others)
            return masters == len(self._found.primaries)
        return False

    def fail_over(self) -> None:
        self._found.fail_over(self._replica_of(self._found.node_of(self._slot)))

    def move_slots(self, project: str, queue: str, stop: threading.Event) -> None:
        slot = RedisCommand("GET", keys.of_queue(project, queue).queue).slot()
        while slot is not None and not stop.wait(0.2):
            source = self._found.node_of(slot)
            primaries = self._primary_nodes()
            target = primaries[primaries.index(source) - 1]
            self._found.move_slot(slot, source, target, 0.002)

    def is_settled(self) -> bool:
        nodes = self._found.nodes()
        primaries = self._primary_nodes()
        return (
            all(each.info()["cluster_state"] == "ok" for each in nodes)
            and len(primaries) == len(self._found.primaries)
            and all(each.copies() == 1 for each in primaries)
            and all(each.has_copy() for each in nodes if each not in primaries)
        )


@contextlib.contextmanager
def _single(proxies: ProxyThread, folder: Path, slot: int) -> Iterator[Topology]:
    with contextlib.ExitStack() as stop:
        nodes = {}
        for name in ("default", "one", "two"):
            nodes[name] = RedisNode(folder / name, [*PLAIN, *_ALWAYS], proxies.add)
            stop.callback(nodes[name].kill)
            nodes[name].start()
        yield SingleTopology(nodes)


@contextlib.contextmanager
def _sentinel(proxies: ProxyThread, folder: Path, slot: int) -> Iterator[Topology]:
    with redis_sentinel(2, 3, _DOWN_AFTER_MS, _EVERY_SECOND, proxies.add, folder) as found:
        yield SentinelTopology(found)


@contextlib.contextmanager
def _cluster(proxies: ProxyThread, folder: Path, slot: int) -> Iterator[Topology]:
    with redis_cluster(3, _EVERY_SECOND, proxies.add, folder) as found:
        yield ClusterTopology(found, slot)


class TopologyKind(NamedTuple):
    #: of the class
    faults: Sequence[FaultTarget]
    #: how many replicas a primary has
    replicas: int
    #: in a folder that is there; with the slot of the first queue
    run: Callable[[ProxyThread, Path, int], contextlib.AbstractContextManager[Topology]]


TOPOLOGIES = {
    "single": TopologyKind(SingleTopology.faults, 0, _single),
    "sentinel": TopologyKind(SentinelTopology.faults, 2, _sentinel),
    "cluster": TopologyKind(ClusterTopology.faults, 1, _cluster),
}
