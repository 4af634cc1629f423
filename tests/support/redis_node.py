# SPDX-License-Identifier: Apache-2.0
"""A Redis server, or a sentinel, on a free port of loopback, which can fail in many ways."""

from __future__ import annotations

import contextlib
import resource
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import redis

from tests.support.servers import RestartableServer, free_port, wait_for
from zaqar_redis.keyspace import embedded

#: Puts something before a port, e.g. a proxy; returns the port that others use.
Front = Callable[[int], int]
#: Options of all nodes: no snapshots, and replicas that are copied to at once.
PLAIN = (
    *("--save", "", "--repl-diskless-sync-delay", "0"),
    # A cluster lists a replica when that has received something.
    *("--repl-ping-replica-period", "1"),
)
_REPLY_SECONDS = 5


class RedisNode(RestartableServer):
    """A server or a sentinel, which can be killed, paused and started again."""

    #: the option that names the port that others use
    announces_by = "--replica-announce-port"

    def __init__(self, folder: Path, words: Sequence[str], front: Front | None = None) -> None:
        """*words*: of its command line; *folder*: its own, which is created."""
        folder.mkdir()
        self.port = free_port()
        #: the port that others use
        self.public_port = front(self.port) if front else self.port
        self._folder = folder
        announced = [self.announces_by, str(self.public_port)] if front else []
        self._words = [*words, *announced]

    def start(self) -> None:
        """Starts it unless it runs.  Raises RuntimeError when it ends, and TimeoutError."""
        if not self.is_alive:
            self._process = self._opened()
        wait_for(self.answers, "a server to start")

    def _opened(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                shutil.which("redis-server") or embedded.binary(),
                *self._words,
                *("--port", str(self.port), "--bind", "127.0.0.1"),
                *("--dir", str(self._folder), "--logfile", str(self._folder / "redis.log")),
            ],
            start_new_session=True,
            # SIGXFSZ stays ignored, as Python has it: a file that has reached its limit is an
            # error of the write, like a full disk.
            restore_signals=False,
        )

    def answers(self) -> bool:
        if not self.is_alive:
            raise RuntimeError("a server has ended: its port was taken")
        with contextlib.suppress(redis.RedisError, OSError), self.client() as client:
            return bool(client.ping())
        return False

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, socket_timeout=_REPLY_SECONDS)

    def command(self, *words: object) -> Any:
        with self.client() as client:
            return client.execute_command(*words)

    def role(self) -> str:
        return str(self.command("ROLE")[0].decode())

    def has_copy(self) -> bool:
        """Returns whether the replica has all that its primary had when it connected."""
        with self.client() as client:
            found: Any = client.info("replication")
        return bool(found.get("master_link_status") == "up")

    def copies(self) -> int:
        """Returns how many replicas follow this primary."""
        with self.client() as client:
            found: Any = client.info("replication")
        return sum(
            isinstance(each, dict) and each.get("state") == "online" for each in found.values()
        )

    def fill_disk(self) -> None:
        """Makes its files unable to grow, as on a full disk, until `empty_disk`."""
        longest = max(
            (each.stat().st_size for each in self._folder.rglob("*.aof")),
            default=0,
        )
        self._limit_files(longest)

    def empty_disk(self) -> None:
        self._limit_files(resource.RLIM_INFINITY)

    def _limit_files(self, size: int) -> None:
        _, most = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, most))
