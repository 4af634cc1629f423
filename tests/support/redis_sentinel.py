# SPDX-License-Identifier: Apache-2.0
"""A primary with replicas and sentinels on loopback, stopped by their pids."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import redis

from tests.support.redis_node import PLAIN, Front, RedisNode
from tests.support.servers import wait_for

SERVICE = "mymaster"
#: Milliseconds for which a sentinel trusts nothing after it has stood still for two seconds.  Its
#: own 30 s would put off each failover on a busy machine, again and again.
_TILT_MS = 1000


class RedisSentinel:
    def __init__(self, servers: Sequence[RedisNode], sentinels: Sequence[RedisNode]) -> None:
        self.servers = servers
        self.sentinels = sentinels

    @property
    def uri(self) -> str:
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}"

    def primary(self) -> RedisNode:
        """Returns the server that the sentinels name."""
        for sentinel in self.sentinels:
            with contextlib.suppress(redis.RedisError, OSError), sentinel.client() as client:
                _, port = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
                return next(each for each in self.servers if each.public_port == int(port))
        raise RuntimeError("no sentinel answers")

    def is_calm(self) -> bool:
        """Returns whether no sentinel doubts the primary, or replaces it."""
        return all(_told(each)["flags"] == "master" for each in self.sentinels)

    def fail_over(self) -> None:
        """Promotes a replica, while the primary is well; returns when it is the primary.

        Raises TimeoutError after two minutes.
        """
        before = self.primary()
        wait_for(lambda: self._has_replaced(before), "the sentinels to name another primary", 120.0)

    def _has_replaced(self, primary: RedisNode) -> bool:
        """Begins a failover, unless one is under way or has succeeded."""
        # The sentinel gives one up when the replica is not promoted in time.
        if self.primary() is not primary:
            return True
        with self.sentinels[0].client() as client:
            try:
                client.execute_command("SENTINEL", "FAILOVER", SERVICE)
            except redis.ResponseError as refusal:
                # It has not heard of the replica's state yet, or another failover ends.
                if not str(refusal).startswith(("NOGOODSLAVE", "INPROG")):
                    raise
        return False


class _StartedNodes:
    """Starts nodes in folders of their own, and stops them with *stop*."""

    def __init__(self, folder: Path, stop: contextlib.ExitStack) -> None:
        self._folder = folder
        self._stop = stop

    def start(self, name: str, *words: str, front: Front | None = None) -> RedisNode:
        node = RedisNode(self._folder / name, words, front)
        self._stop.callback(node.kill)
        node.start()
        return node

    def sentinel(self, name: str, primary: int, quorum: int, down_after_ms: int) -> RedisNode:
        """*primary*: its port."""
        config = self._folder / f"{name}.conf"
        config.write_text(
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary} {quorum}\n"
            f"sentinel down-after-milliseconds {SERVICE} {down_after_ms}\n"
            f"sentinel failover-timeout {SERVICE} {down_after_ms * 5}\n"
        )
        node = self.start(name, str(config), "--sentinel")
        with contextlib.suppress(redis.ResponseError):  # Redis 6.2 cannot
            node.command("SENTINEL", "DEBUG", "TILT-PERIOD", _TILT_MS)
        return node


@contextlib.contextmanager
def redis_sentinel(
    replicas: int = 1,
    sentinels: int = 3,
    down_after_ms: int = 1000,
    words: Sequence[str] = (),
    front: Front | None = None,
    folder: Path | None = None,
) -> Iterator[RedisSentinel]:
    """Runs a primary, *replicas* and *sentinels*; *words*: of the command lines of the servers;
    *front*: puts something before each of these; *folder*: of their files, which stay."""
    with contextlib.ExitStack() as stop:
        own = folder or Path(stop.enter_context(TemporaryDirectory(prefix="zr-sentinel-")))
        nodes = _StartedNodes(own, stop)
        servers: list[RedisNode] = []
        for number in range(1 + replicas):
            of = ["--replicaof", f"127.0.0.1 {servers[0].public_port}"] if servers else []
            servers.append(nodes.start(f"server-{number}", *PLAIN, *words, *of, front=front))
        for each in servers[1:]:
            wait_for(each.has_copy, "a replica to have a copy")
        watching = [
            nodes.sentinel(
                f"sentinel-{number}", servers[0].public_port, sentinels // 2 + 1, down_after_ms
            )
            for number in range(sentinels)
        ]
        for each in watching:
            wait_for(
                partial(_knows, each, replicas, sentinels - 1),
                "the sentinels to know each other and the replicas",
            )
        yield RedisSentinel(servers, watching)


def _knows(sentinel: RedisNode, replicas: int, others: int) -> bool:
    told = _told(sentinel)
    return (int(told["num-slaves"]), int(told["num-other-sentinels"])) == (replicas, others)


def _told(sentinel: RedisNode) -> dict[str, str]:
    """Returns what a sentinel tells of the primary."""
    flat = sentinel.command("SENTINEL", "MASTER", SERVICE)
    told = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
    return {_text(name): _text(value) for name, value in told.items()}


def _text(given: object) -> str:
    return given.decode() if isinstance(given, bytes) else str(given)
