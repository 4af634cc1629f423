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

from tests.benchmarks import house
from tests.benchmarks.found import Found
from tests.benchmarks.rounds import tell
from tests.benchmarks.spark_passes import RATE, RATIO
from tests.benchmarks.spark_site import QUEUE, Site
from zaqar_redis.bench.load import Load
from zaqar_redis.bench.service import Failed

_CONNECTIONS = 64
#: Seconds that the job reads before posts are counted.
_AHEAD = 1.0
#: Seconds for a session to end.
_PATIENCE = 30.0


def measure(site: Site, found: Found, rounds: int, seconds: int) -> None:
    alone = found.figure("together", "posts alone", "posts/s")
    beside = found.figure("together", "posts beside a job", "posts/s")
    reading = found.figure("together", "the job beside posts", RATE)
    ratios = found.figure("together", "posts beside a job : alone", RATIO, ("≥", 0.6))
    site.fill(QUEUE, site.messages)
    with contextlib.ExitStack() as stack:
        posts = _posts(stack, site, seconds)
        reader = Reader(stack, site)
        for number in range(rounds + 1):
            # First one, then the other way round.
            free = posts() if number % 2 else 0.0
            busy, read = reader.during(posts)
            free = free or posts()
            tell(
                f"together: round {number} of {rounds}: {free:.0f} posts/s alone, "
                f"{busy:.0f} beside {read:.0f} {RATE}"
            )
            if number:  # the first is cold
                alone.append(free)
                beside.append(busy)
                reading.append(read)
                ratios.append(busy / free)


def _posts(stack: contextlib.ExitStack, site: Site, seconds: int) -> Callable[[], float]:
    """Posts of one message of 150 bytes to a service of one worker, in a second."""
    service, _ = house.service(stack, site.store)
    load = Load(_CONNECTIONS)

    def run() -> float:
        queue = service.queue()
        url = f"{service.url}/v2/queues/{queue}/messages"
        sample = load.run("post", url, service.headers, seconds, 1)
        if sample.errors:
            raise Failed(f"{sample.errors} of {sample.work} posts failed")
        service.drop(queue)
        return sample.rate

    return run


class Reader:
    """The job, in a process that leads a session, as one that cron or systemd starts."""

    def __init__(self, stack: contextlib.ExitStack, site: Site) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.spark_reader"]
        self._process = subprocess.Popen(
            [*command, site.store.uri, QUEUE, str(site.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        stack.callback(self._stop)
        self._hear()

    def during(self, posts: Callable[[], float]) -> tuple[float, float]:
        """What *posts* gives while the job reads, and the job's rows a second."""
        self._say("begin")
        time.sleep(_AHEAD)
        rate = posts()
        self._say("end")
        return rate, float(self._hear())

    def _say(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise Failed("the job has ended")
        return line

    def _stop(self) -> None:
        # To all of it: Java would end by itself, but only when its pass is done.
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.communicate(timeout=_PATIENCE)  # until Java has ended too
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
