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

from zaqar_redis.spark.jobs.archiving.files import BOOKS, Files
from zaqar_redis.spark.jobs.running import Refused

_LOCK = f"{BOOKS}/lock"
#: Seconds between two signs of life, and after how many without one a holder is dead:
#: enough for a pause of the machine, and short enough to wait for after a crash.
_RENEW, _DEAD = 5.0, 30.0

#: Raises Refused when the lock is not ours any more.
Held = Callable[[], None]


@contextlib.contextmanager
def held(files: Files) -> Iterator[Held]:
    """Nobody else archives there while the block runs.  Raises Refused.

    On this machine the system keeps the lock, which ends with the process.  Elsewhere a
    file is renewed: whoever finds it waits until it sees that nobody does.
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
        os.makedirs(os.path.join(folder, BOOKS), exist_ok=True)
        file = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise Refused(f"TARGET: {folder} cannot be written to: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        raise Refused(f"another process archives to {folder}") from error
    try:
        yield
    finally:
        os.close(file)


@contextlib.contextmanager
def leased(files: Files, renew: float = _RENEW, dead: float = _DEAD) -> Iterator[Held]:
    """The same by a file that is renewed every *renew* seconds."""
    _wait_for_the_dead(files, renew, dead)
    lease = _Lease(files)
    lease.renew()
    ended = threading.Event()
    renewer = threading.Thread(target=_renew, args=(lease, renew, ended), daemon=True)
    renewer.start()
    try:
        yield lease.check
    finally:
        ended.set()
        renewer.join()
        if lease.mine():
            files.remove(_LOCK)


def _wait_for_the_dead(files: Files, renew: float, dead: float) -> None:
    # Clocks of machines differ: what counts is whether it changes under our eyes.
    seen = files.read(_LOCK)
    end = time.monotonic() + dead
    while seen is not None and time.monotonic() < end:
        time.sleep(renew / 5)
        now = files.read(_LOCK)
        # None is also what one reads while the holder writes it.
        if now is not None and now != seen:
            raise Refused(f"another process archives to {files.root}: {now['who']}")


def _renew(lease: _Lease, seconds: float, ended: threading.Event) -> None:
    while not ended.wait(seconds):
        if not lease.mine():
            return
        lease.renew()


class _Lease:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._id = uuid.uuid4().hex
        self._count = 0
        self._who = f"process {os.getpid()} on {socket.gethostname()}"

    def renew(self) -> None:
        self._count += 1
        self._files.write(_LOCK, {"id": self._id, "count": self._count, "who": self._who})

    def mine(self) -> bool:
        found = self._files.read(_LOCK)
        return found is not None and found["id"] == self._id

    def check(self) -> None:
        if not self.mine():
            raise Refused("another process has taken the archive over; nothing was lost")
