# SPDX-License-Identifier: Apache-2.0
"""A Redis Cluster on loopback: servers in folders of their own, stopped by their pids."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.redis_node import PLAIN, Front, RedisNode
from tests.support.servers import free_port, wait_for

_SLOTS = 16384


class ClusterNode(RedisNode):
    """A server of a cluster, which can be killed."""

    announces_by = "--cluster-announce-port"

    def __init__(self, folder: Path, words: Sequence[str] = (), front: Front | None = None) -> None:
        self.bus_port = free_port()
        of_cluster = {
            "--cluster-enabled": "yes",
            "--cluster-port": str(self.bus_port),
            "--cluster-node-timeout": "1500",
        }
        super().__init__(folder, [*PLAIN, *chain.from_iterable(of_cluster.items()), *words], front)

    def info(self) -> dict[str, str]:
        return self.command("CLUSTER INFO")  # type: ignore[no-any-return]  # a dict

    def id(self) -> str:
        found: bytes = self.command("CLUSTER", "MYID")
        return found.decode()

    def slots(self) -> list[Any]:
        with self.client() as client:
            client.response_callbacks.clear()
            found: list[Any] = client.execute_command("CLUSTER SLOTS")
        return found


class RedisCluster:
    def __init__(self, primaries: Sequence[ClusterNode], replicas: Sequence[ClusterNode]) -> None:
        self.primaries = primaries
        self.replicas = replicas

    @property
    def uri(self) -> str:
        hosts = ",".join(f"127.0.0.1:{node.public_port}" for node in self.primaries)
        return f"redis+cluster://{hosts}"

    @property
    def pids(self) -> Sequence[int]:
        return [node.pid for node in self.nodes()]

    def join(self) -> None:
        first, *others = self.nodes()
        for number, node in enumerate(self.primaries):
            begin, end = (_SLOTS * each // len(self.primaries) for each in (number, number + 1))
            node.command("CLUSTER", "ADDSLOTSRANGE", begin, end - 1)
        for node in others:
            first.command("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus_port)
        everyone = [first, *others]
        size = str(len(everyone))
        wait_for(
            lambda: all(node.info()["cluster_known_nodes"] == size for node in everyone),
            "the nodes to know each other",
        )
        for primary, replica in zip(self.primaries, self.replicas, strict=False):
            replica.command("CLUSTER", "REPLICATE", primary.id())
        wait_for(
            lambda: all(node.has_copy() for node in self.replicas),
            "the replicas to have a copy",
        )
        # A node lists a replica when it has heard how much that has.
        expected = len(self.replicas)
        wait_for(
            lambda: all(
                sum(len(replicas) for _, _, _, *replicas in node.slots()) == expected
                for node in everyone
            ),
            "the replicas to be listed",
        )
        wait_for(
            lambda: all(node.info()["cluster_state"] == "ok" for node in everyone),
            "the cluster to work",
        )

    def nodes(self) -> list[ClusterNode]:
        """Returns all, primaries or not."""
        return [*self.primaries, *self.replicas]

    def node_of(self, slot: int) -> ClusterNode:
        """Returns the primary that has a slot."""
        for node in self.nodes():
            if not node.is_alive:
                continue
            for first, last, (_, port, *_), *_replicas in node.slots():
                if first <= slot <= last:
                    return next(each for each in self.nodes() if each.public_port == port)
        raise RuntimeError("no node has the slot")

    def fail_over(self, replica: ClusterNode) -> None:
        """Promotes a replica, while its primary is well; returns when it is a primary."""
        replica.command("CLUSTER", "FAILOVER")
        wait_for(lambda: replica.role() == "master", "the replica to be promoted")

    def move_slot(
        self, slot: int, source: ClusterNode, target: ClusterNode, pause: float = 0
    ) -> None:
        """Moves a slot with its keys; *pause*: seconds after each of them."""
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id())
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id())
        while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 1):
            source.command("MIGRATE", "127.0.0.1", target.port, *keys, 0, 5000)
            time.sleep(pause)
        for node in (target, source):
            node.command("CLUSTER", "SETSLOT", slot, "NODE", target.id())


@contextlib.contextmanager
def redis_cluster(
    replicas: int = 0,
    words: Sequence[str] = (),
    front: Front | None = None,
    folder: Path | None = None,
) -> Iterator[RedisCluster]:
    """Runs three primaries; *replicas*: how many of them have one; *words*: of the command lines
    of all nodes; *front*: puts something before each of them; *folder*: of their files, which
    stay."""
    with contextlib.ExitStack() as stop:
        own = folder or Path(stop.enter_context(TemporaryDirectory(prefix="zr-cluster-")))
        nodes = []
        for number in range(3 + replicas):
            nodes.append(ClusterNode(own / str(number), words, front))
            stop.callback(nodes[-1].kill)
            nodes[-1].start()
        cluster = RedisCluster(nodes[:3], nodes[3:])
        cluster.join()
        yield cluster
