# SPDX-License-Identifier: Apache-2.0
"""Spark drivers as processes that tests control and kill."""

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

from tests.support import servers

#: The root for imports of tests and of Spark's workers.
ROOT = Path(__file__).parents[2]
#: Generous: machines are shared.
TIMEOUT_SECONDS = 300.0

#: Command lines of the parents of processes that run tasks.
_TASKS = b"pyspark.daemon\0pyspark.worker\0"


def environment() -> dict[str, str]:
    """Returns the environment for all Spark processes."""
    return os.environ | {
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


@dataclass
class QueryOutcome:
    """The outcome of a query."""

    error: str | None
    #: number of failed tasks
    failures: int
    #: of a batch write in a cluster: number of completed tasks by executor
    executors: Mapping[str, int] = field(default_factory=dict)


@dataclass
class CopyQuery:
    """A stream from queue to queue that may run more than once."""

    name: str
    checkpoint: Path
    read: Mapping[str, str]
    write: Mapping[str, str]
    #: processing-time trigger of a query that never ends by itself
    trigger: str | None = None

    @property
    def order(self) -> dict[str, Any]:
        order: dict[str, Any] = {"name": self.name, "read": self.read, "write": self.write}
        order["checkpoint"] = str(self.checkpoint)
        return order | ({"trigger": self.trigger} if self.trigger else {})

    def finished(self) -> int:
        """Returns the number of batches in the commit log."""
        numbers = [name for name in self._log("commits") if name.isdigit()]
        return len(numbers)

    def forget_last(self) -> int:
        """Deletes the last batch from the commit log; returns its number."""
        last = max(int(name) for name in self._log("commits") if name.isdigit())
        (self.checkpoint / "commits" / str(last)).unlink()
        (self.checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
        return last

    def _log(self, name: str) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return os.listdir(self.checkpoint / name)
        return []


class SparkDriver:
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
        self._events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read_events)
        self._reader.start()

    def begin(self) -> None:
        """Waits for its session."""
        servers.wait_for(
            lambda: bool(self._events) or self._is_over(), "a session", TIMEOUT_SECONDS
        )
        assert self._events, self._log.read_text()[-4000:]

    def _read_events(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._events.append(json.loads(line))

    def _is_over(self) -> bool:
        return self._process.poll() is not None

    def send_order(self, order: Mapping[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def start(self, query: CopyQuery) -> None:
        self.send_order(query.order)

    def run(self, query: CopyQuery) -> QueryOutcome:
        """Starts a query, and waits for its end."""
        ended = self.expect_end(query.name)
        self.start(query)
        return ended()

    def stop(self, query: CopyQuery) -> None:
        ended = self.expect_end(query.name)
        self.send_order({"stop": query.name})
        assert ended().error is None

    def expect_end(self, name: str) -> Callable[[], QueryOutcome]:
        """Returns a function that waits for the next end of a query from now on."""
        before = len(self._ends(name))

        def wait() -> QueryOutcome:
            servers.wait_for(
                lambda: len(self._ends(name)) > before or self._is_over(),
                f"{name} to end",
                TIMEOUT_SECONDS,
            )
            assert len(self._ends(name)) > before, self._log.read_text()[-4000:]
            return self._ends(name)[before]

        return wait

    def has_ended(self, name: str) -> bool:
        return bool(self._ends(name))

    def _ends(self, name: str) -> list[QueryOutcome]:
        return [
            QueryOutcome(each["error"], each["failures"], each.get("executors", {}))
            for each in tuple(self._events)
            if each["name"] == name and "error" in each
        ]

    def workers(self) -> list[int]:
        """Returns the processes that run tasks, or did."""
        daemons = [pid for pid in self._session() if _TASKS in _read_proc(pid, "cmdline") + b"\0"]
        return [pid for pid in self._session() if _parent(pid) in daemons]

    def signal_workers(self, number: int) -> None:
        for pid in self.workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """Kills Python and the JVM by SIGKILL; workers notice by themselves."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        for pid in self._session():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        assert self._process.stdout
        self._process.stdout.close()

    def _session(self) -> list[int]:
        return of_session(self._process.pid)


def of_session(leader: int) -> list[int]:
    """Returns all processes of the session of *leader*."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in numbers if (stat := _stat(pid)) and int(stat[3]) == leader]


def _read_proc(pid: int, name: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


def _stat(pid: int) -> list[bytes]:
    """Returns the fields after the process name: state, parent, group, session."""
    return _read_proc(pid, "stat").rpartition(b")")[2].split()


def _parent(pid: int) -> int:
    stat = _stat(pid)
    return int(stat[1]) if stat else 0


@contextlib.contextmanager
def driver(master: str, log: Path) -> Iterator[SparkDriver]:
    spark_driver = SparkDriver(master, log)
    try:
        spark_driver.begin()
        yield spark_driver
    finally:
        spark_driver.close()
