# SPDX-License-Identifier: Apache-2.0
"""Servers that benchmarks start, and their logs."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
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
#: The system gives none of them to a connection, also not while a server is being restarted.
_PORTS = range(10_000, 32_768)
#: One in some thousand ports is in use.
_PORT_ATTEMPTS = 10
#: Ports are held until so many others have been asked for: their servers listen by then.
_PORTS_HELD = 64
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
    server: str,
    command: Callable[[int], Sequence[str]],
    environment: Mapping[str, str],
    ports: int = 1,
) -> Iterator[tuple[int, int]]:
    """Runs the command for a free port; yields its process id and the port once it listens.

    *ports*: how many it needs: those after the first are free, too.  Raises BenchmarkFailed when
    it does not start, or its log shows a bug.
    """
    port = free_ports(ports)
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


class RestartableServer:
    """A process that can be killed, and started again where it was."""

    _process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._started.pid

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the server was not started")
        return self._process

    def signal(self, number: int) -> None:
        """Sends a signal, e.g. SIGKILL, SIGSTOP, SIGCONT.

        Returns when the process is gone, or does not run any more.
        """
        self._started.send_signal(number)
        if number == signal.SIGKILL:
            self._started.wait()
        elif number == signal.SIGSTOP and hasattr(os, "waitid"):  # macOS: from Python 3.13 on
            with contextlib.suppress(ChildProcessError):  # it had ended
                os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self.is_alive:
            self.signal(signal.SIGKILL)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self) -> int | None:
        """Kills it; returns the exit code, None: it was never started."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        return self._process.wait() if self._process else None


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Polls until *condition* holds.  Raises TimeoutError naming *what*."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.02)


def config_text(options: Mapping[str, Mapping[str, object]]) -> str:
    """Returns a configuration file of *options*: group -> name -> value."""
    lines = []
    for group, values in options.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in values.items())]
    return "\n".join(lines) + "\n"


def worker_pids(service: int) -> list[int]:
    """Returns the pids of the worker processes of ``zaqar-redis serve``, whose pid is given."""
    children = Path(f"/proc/{service}/task/{service}/children")
    pids = [int(pid) for pid in children.read_text().split()]
    return [pid for pid in pids if b"zaqar_redis.cli.main" in _command_line(pid)]


def _command_line(pid: int) -> bytes:
    """Returns the command line of a process; empty: it has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


#: the sockets that hold ports, by their descriptors
_held: deque[int] = deque()


def free_port() -> int:
    """Returns a port of 127.0.0.1 at which nobody listens.  Raises BenchmarkFailed.

    On Linux a socket holds it: nobody is given it any more, and only a server that sets
    SO_REUSEADDR, as most do, can listen there.
    """
    return free_ports(1)


def free_ports(count: int) -> int:
    """Returns the first one of *count* consecutive ports, see `free_port`."""
    for _ in range(_PORT_ATTEMPTS):
        first = secrets.choice(_PORTS)
        with contextlib.suppress(OSError, OverflowError), contextlib.ExitStack() as stack:
            for port in range(first, first + count):
                probe = stack.enter_context(socket.socket())
                probe.bind(("127.0.0.1", port))
                # After it is bound: so it shares the port with a server, and with no other probe.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if sys.platform == "linux":  # elsewhere the server could not bind
                    _hold(probe.detach())
            return first
    what = "no port is" if count == 1 else f"no {count} consecutive ports are"
    raise BenchmarkFailed(f"{what} free on 127.0.0.1")


def _hold(descriptor: int) -> None:
    _held.append(descriptor)
    if len(_held) > _PORTS_HELD:
        os.close(_held.popleft())


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
