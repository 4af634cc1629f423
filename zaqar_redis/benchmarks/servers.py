# SPDX-License-Identifier: Apache-2.0
"""Servers that benchmarks start, and their logs."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

from zaqar_redis.benchmarks.service import BenchmarkFailed

#: A traceback; a socket that was closed twice; a line of ours without its reason.
_WRONG = re.compile(
    r"^.*(?:Traceback \(most recent call last\)|Error while closing socket|Bad file descriptor)"
    r"|^\[[^\n]*\] [^\n]*: *$",
    re.M,
)
#: Characters shown before and behind a match.
_BEFORE, _BEHIND = 500, 4000
#: Seconds that a server may take to start, and to stop before it is killed.
_START_SECONDS, _STOP_SECONDS = 60.0, 10.0


def check_log(server: str, log: str) -> None:
    """Raises BenchmarkFailed when a server's log shows a bug."""
    found = _WRONG.search(log)
    if found is not None:
        shown = log[max(0, found.start() - _BEFORE) : found.end() + _BEHIND]
        raise BenchmarkFailed(f"the log of {server} shows a bug:\n{shown}")


@contextlib.contextmanager
def running(
    server: str, command: Callable[[int], Sequence[str]], environment: Mapping[str, str]
) -> Iterator[tuple[int, int]]:
    """Runs the command for a free port; yields its process id and the port once it listens.

    Raises BenchmarkFailed when it does not start, or its log shows a bug.
    """
    port = free_port()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command(port),
            stdout=log,
            stderr=log,
            env=os.environ | environment,
            start_new_session=True,
        )
        try:
            if not _listens(process, port):
                raise BenchmarkFailed(f"{server} did not start: {_text(log)[-1000:]}")
            yield process.pid, port
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        check_log(server, _text(log))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    end = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        time.sleep(0.05)
    return False


def _text(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode("utf-8", "replace").strip()
