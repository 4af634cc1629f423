# SPDX-License-Identifier: Apache-2.0
"""Posts to the service, alone and while a job reads another queue at full speed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.spark.passes import RATE, RATIO
from benchmarks.spark.testbed import QUEUE, SparkTestbed
from benchmarks.support import deployment
from benchmarks.support.figures import Figures
from benchmarks.support.rounds import print_progress
from zaqar_redis.benchmarks.load import WrkLoad
from zaqar_redis.benchmarks.service import BenchmarkFailed

_CONNECTIONS = 64
#: Seconds that the job reads before posts are counted.
_AHEAD = 1.0
#: Timeout for the end of a session.
_EXIT_TIMEOUT_SECONDS = 30.0


def measure(testbed: SparkTestbed, figures: Figures, rounds: int, seconds: int) -> None:
    alone = figures.figure("together", "posts alone", "posts/s")
    beside = figures.figure("together", "posts beside a job", "posts/s")
    reading = figures.figure("together", "the job beside posts", RATE)
    ratios = figures.figure("together", "posts beside a job : alone", RATIO, ("≥", 0.6))
    testbed.fill(QUEUE, testbed.messages)
    with contextlib.ExitStack() as stack:
        posts = _posts(stack, testbed, seconds)
        reader = ReadingJob(stack, testbed)
        for number in range(rounds + 1):
            # The order alternates.
            free = posts() if number % 2 else 0.0
            busy, read = reader.measure_during(posts)
            free = free or posts()
            print_progress(
                f"together: round {number} of {rounds}: {free:.0f} posts/s alone, "
                f"{busy:.0f} beside {read:.0f} {RATE}"
            )
            if number:  # the first is cold
                alone.append(free)
                beside.append(busy)
                reading.append(read)
                ratios.append(busy / free)


def _posts(stack: contextlib.ExitStack, testbed: SparkTestbed, seconds: int) -> Callable[[], float]:
    """Returns a function that loads a service of one worker; it returns posts per second.

    Each post is one message of 150 bytes.
    """
    service, _ = deployment.service(stack, testbed.store)
    load = WrkLoad(_CONNECTIONS)

    def run() -> float:
        queue = service.queue()
        url = f"{service.url}/v2/queues/{queue}/messages"
        sample = load.run("post", url, service.headers, seconds, 1)
        if sample.errors:
            raise BenchmarkFailed(f"{sample.errors} of {sample.work} posts failed")
        service.delete_queue(queue)
        return sample.rate

    return run


class ReadingJob:
    """The job, in a process of its own session, as cron or systemd would start it."""

    def __init__(self, stack: contextlib.ExitStack, testbed: SparkTestbed) -> None:
        command = [sys.executable, "-m", "benchmarks.spark.reader"]
        self._process = subprocess.Popen(
            [*command, testbed.store.uri, QUEUE, str(testbed.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        stack.callback(self._stop)
        self._read_line()

    def measure_during(self, posts: Callable[[], float]) -> tuple[float, float]:
        """Returns the result of *posts* while the job reads, and the job's rows per second."""
        self._write_line("begin")
        time.sleep(_AHEAD)
        rate = posts()
        self._write_line("end")
        return rate, float(self._read_line())

    def _write_line(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _read_line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkFailed("the job has ended")
        return line

    def _stop(self) -> None:
        # To the process group: Java alone would end only after its current pass.
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.communicate(timeout=_EXIT_TIMEOUT_SECONDS)  # until Java has ended too
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
