# SPDX-License-Identifier: Apache-2.0
"""Drivers of Spark's as processes, and what is done to them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import servers

#: What imports of tests and of Spark's workers go by.
ROOT = Path(__file__).parents[2]
#: Seconds for whatever Spark does: machines are shared.
PATIENCE = 300.0

#: What the processes are that run tasks: children of these.
_TASKS = b"pyspark.daemon\0pyspark.worker\0"


def environment() -> dict[str, str]:
    """Of everything that is Spark's."""
    return os.environ | {
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


@dataclass
class End:
    """What became of a query."""

    error: str | None
    #: tasks that failed
    failures: int
    #: of a write in a cluster: the tasks that each executor has run
    executors: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Query:
    """A stream from queue to queue, which may run more than once."""

    name: str
    checkpoint: Path
    read: Mapping[str, str]
    write: Mapping[str, str]
    #: how often to look, if it goes on for ever
    trigger: str | None = None

    @property
    def order(self) -> dict[str, Any]:
        order: dict[str, Any] = {"name": self.name, "read": self.read, "write": self.write}
        order["checkpoint"] = str(self.checkpoint)
        return order | ({"trigger": self.trigger} if self.trigger else {})

    def finished(self) -> int:
        """How many batches are in the commit log."""
        numbers = [name for name in self._log("commits") if name.isdigit()]
        return len(numbers)

    def forget_last(self) -> int:
        """Let the commit log not know of the last batch; its number."""
        last = max(int(name) for name in self._log("commits") if name.isdigit())
        (self.checkpoint / "commits" / str(last)).unlink()
        (self.checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
        return last

    def _log(self, name: str) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return os.listdir(self.checkpoint / name)
        return []


class Driver:
    """A running `query`, its JVM, and its workers."""

    def __init__(self, master: str, log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark_faults.query", master],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
                cwd=ROOT,
                env=environment(),
            )
        self._told: list[dict[str, Any]] = []
        self._hearing = threading.Thread(target=self._hear)
        self._hearing.start()

    def begin(self) -> None:
        """Wait for its session."""
        servers.wait_for(lambda: bool(self._told) or self._is_over(), "a session", PATIENCE)
        assert self._told, self._log.read_text()[-4000:]

    def _hear(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._told.append(json.loads(line))

    def _is_over(self) -> bool:
        return self._process.poll() is not None

    def tell(self, order: Mapping[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def start(self, query: Query) -> None:
        self.tell(query.order)

    def run(self, query: Query) -> End:
        """Start it, and wait for its end."""
        ended = self.waiting(query.name)
        self.start(query)
        return ended()

    def stop(self, query: Query) -> None:
        ended = self.waiting(query.name)
        self.tell({"stop": query.name})
        assert ended().error is None

    def waiting(self, name: str) -> Callable[[], End]:
        """Waits for the next end of a query, counted from now."""
        before = len(self._ends(name))

        def wait() -> End:
            servers.wait_for(
                lambda: len(self._ends(name)) > before or self._is_over(),
                f"{name} to end",
                PATIENCE,
            )
            assert len(self._ends(name)) > before, self._log.read_text()[-4000:]
            return self._ends(name)[before]

        return wait

    def has_ended(self, name: str) -> bool:
        return bool(self._ends(name))

    def _ends(self, name: str) -> list[End]:
        return [
            End(each["error"], each["failures"], each.get("executors", {}))
            for each in tuple(self._told)
            if each["name"] == name and "error" in each
        ]

    def workers(self) -> list[int]:
        """Processes that run tasks, or did."""
        daemons = [pid for pid in self._session() if _TASKS in _told(pid, "cmdline") + b"\0"]
        return [pid for pid in self._session() if _parent(pid) in daemons]

    def signal_workers(self, number: int) -> None:
        for pid in self.workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """As ``kill -9`` does: Python and JVM, at once; workers see what becomes of them."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        for pid in self._session():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._hearing.join()
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        assert self._process.stdout
        self._process.stdout.close()

    def _session(self) -> list[int]:
        return of_session(self._process.pid)


def of_session(leader: int) -> list[int]:
    """All processes of the session that one began."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in numbers if (stat := _stat(pid)) and int(stat[3]) == leader]


def _told(pid: int, name: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


def _stat(pid: int) -> list[bytes]:
    """What follows the name of the process: its state, parent, group, session."""
    return _told(pid, "stat").rpartition(b")")[2].split()


def _parent(pid: int) -> int:
    stat = _stat(pid)
    return int(stat[1]) if stat else 0


@contextlib.contextmanager
def driver(master: str, log: Path) -> Iterator[Driver]:
    made = Driver(master, log)
    try:
        made.begin()
        yield made
    finally:
        made.close()
