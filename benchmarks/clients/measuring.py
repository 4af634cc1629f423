# SPDX-License-Identifier: Apache-2.0
"""A round of one contender: its client, and its workers, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.clients.brokers import RunningServer
from benchmarks.support.processes import tree_cpu_seconds
from tests.support import servers
from zaqar_redis.benchmarks.service import BenchmarkFailed

_CHECKOUT = Path(__file__).parents[2]
#: Messages that a client sends in a round at most: more than any does in a few seconds.
_MOST = 100_000
#: Share of a round for workers to start all their processes and threads, after the first job.
_WARM_UP = 0.3


class Cost(msgspec.Struct, frozen=True):
    count: int
    #: a second
    rate: float
    #: µs of CPU for each, of all its processes
    client: float
    servers: float


class Round:
    """*python* has the libraries of clients and frameworks; *folder* is for its files."""

    def __init__(self, python: str, server: RunningServer, seconds: float, folder: Path) -> None:
        queue = f"benchmark-{uuid.uuid4().hex}"
        self._python, self._server, self._seconds = python, server, seconds
        self._done, self._log = folder / f"{queue}.done", folder / f"{queue}.log"
        self._done.touch()
        self._environment = {
            "BENCHMARK_ADDRESS": server.address,
            "BENCHMARK_QUEUE": queue,
            "BENCHMARK_DONE": str(self._done),
            "PYTHONPATH": f"{_CHECKOUT}{os.pathsep}{_CHECKOUT / 'client'}",
        }

    def acts(self, client: str, together: int, *acts: str) -> list[Cost]:
        """Lets a process of `benchmarks.clients.process` do these; returns what each cost."""
        found: list[Cost] = []
        with subprocess.Popen(
            [self._python, "-m", "benchmarks.clients.process", client, str(together)],
            cwd=_CHECKOUT,
            env=os.environ | self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                _answer(process)
                for act in acts:
                    most = found[-1].count if found else _MOST
                    line = f"{act} {most} {self._seconds}\n"
                    found.append(self._cost(process.pid, partial(_do, process, line)))
                process.communicate(timeout=30)
            finally:
                process.kill()
        return found

    def work(self, words: Sequence[str], jobs: int) -> Cost:
        """Lets the workers of a framework do up to so many jobs; *words*: their command."""
        words = [word.format(**self._environment) for word in words]
        command = [self._python, "-m", *words]
        process = servers.start_logged(command, self._log, self._environment, _CHECKOUT)

        def done() -> int:
            if process.poll() is not None:
                raise BenchmarkFailed(f"{words[0]} ended:\n{self._log.read_text()}")
            return self._done.stat().st_size

        def until(count: int, seconds: float) -> tuple[int, float]:
            first, begin = done(), time.perf_counter()
            while (last := done()) < count and time.perf_counter() - begin < seconds:
                time.sleep(0.005)
            return last - first, time.perf_counter() - begin

        with servers.stopping(process):
            until(1, 60)
            until(jobs // 4, _WARM_UP * self._seconds)
            return self._cost(process.pid, lambda: until(jobs, self._seconds))

    def _cost(self, process: int, act: Callable[[], tuple[int, float]]) -> Cost:
        """*act* returns how many messages were done, and the seconds that it took."""
        sides = (process,), self._server.processes
        before = [sum(map(tree_cpu_seconds, side)) for side in sides]
        count, seconds = act()
        used = [sum(map(tree_cpu_seconds, side)) for side in sides]
        if not count:
            raise BenchmarkFailed(f"nothing was done in {self._seconds:g} seconds")
        client, server = (
            (after - cpu) / count * 1e6 for after, cpu in zip(used, before, strict=True)
        )
        return Cost(count, count / seconds, client, server)


def _do(process: subprocess.Popen[str], line: str) -> tuple[int, float]:
    assert process.stdin
    process.stdin.write(line)
    process.stdin.flush()
    count, seconds = _answer(process).split()
    return int(count), float(seconds)


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    line = process.stdout.readline()
    if not line:
        raise BenchmarkFailed("a client ended")
    return line
