# SPDX-License-Identifier: Apache-2.0
"""One process at a time writes an archive."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from zaqar_redis.spark.jobs.archiving.files import LOG_FOLDER, HadoopFolder
from zaqar_redis.spark.jobs.running import JobRefused

_LOCK = f"{LOG_FOLDER}/lock"
#: Seconds between two renewals, and seconds without one after which a holder is dead:
#: enough for a pause of the machine, and short enough to wait for after a crash.
_RENEW, _DEAD = 5.0, 30.0

#: Raises JobRefused when the lock is no longer ours.
LockCheck = Callable[[], None]


@contextlib.contextmanager
def held(files: HadoopFolder) -> Iterator[LockCheck]:
    """Holds the lock of the archive while the block runs.  Raises JobRefused.

    On this machine it is a lock of the system, which ends with the process.  Elsewhere it is
    a file that the holder renews: a process that finds it waits until nobody does.
    """
    if files.local is not None:
        with _local(files.local):
            yield lambda: None
    else:
        with leased(files) as held:
            yield held


@contextlib.contextmanager
def _local(folder: str) -> Iterator[None]:
    try:
        os.makedirs(os.path.join(folder, LOG_FOLDER), exist_ok=True)
        file = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise JobRefused(f"TARGET: {folder} cannot be written to: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        raise JobRefused(f"another process archives to {folder}") from error
    try:
        yield
    finally:
        os.close(file)


@contextlib.contextmanager
def leased(files: HadoopFolder, renew: float = _RENEW, dead: float = _DEAD) -> Iterator[LockCheck]:
    """Holds the lock by a file that is renewed every *renew* seconds."""
    _wait_for_expired_lease(files, renew, dead)
    lease = _Lease(files)
    lease.take()
    ended = threading.Event()
    renewer = threading.Thread(target=_renew, args=(lease, renew, ended), daemon=True)
    renewer.start()
    try:
        yield lease.check
    finally:
        ended.set()
        renewer.join()
        lease.release()


def _wait_for_expired_lease(files: HadoopFolder, renew: float, dead: float) -> None:
    # Clocks of machines differ: what counts is whether the file changes while we wait.
    seen: dict[str, Any] | None = None
    end = time.monotonic() + dead
    while files.exists(_LOCK) and time.monotonic() < end:
        # None: the holder is just writing it.
        now = files.read(_LOCK)
        if seen and now and now != seen:
            raise JobRefused(f"another process archives to {files.root}: {now['who']}")
        seen = seen or now
        time.sleep(renew / 5)


def _renew(lease: _Lease, seconds: float, ended: threading.Event) -> None:
    while not ended.wait(seconds) and lease.renew():
        pass


class _Lease:
    def __init__(self, files: HadoopFolder) -> None:
        self._files = files
        self._id = uuid.uuid4().hex
        self._count = 0
        self._who = f"process {os.getpid()} on {socket.gethostname()}"
        #: A read while the file is written finds none.
        self._access = threading.Lock()

    def take(self) -> None:
        self._count += 1
        self._files.write(_LOCK, {"id": self._id, "count": self._count, "who": self._who})

    def renew(self) -> bool:
        """Renews the file; returns False when another process has it."""
        with self._access:
            if not self._is_ours():
                return False
            self.take()
            return True

    def check(self) -> None:
        with self._access:
            if not self._is_ours():
                raise JobRefused("another process has taken the archive over; nothing was lost")

    def release(self) -> None:
        if self._is_ours():
            self._files.remove(_LOCK)

    def _is_ours(self) -> bool:
        found = self._files.read(_LOCK)
        return found is not None and found["id"] == self._id
