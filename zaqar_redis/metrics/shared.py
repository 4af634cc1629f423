# SPDX-License-Identifier: Apache-2.0
"""Memory that a worker shares with its parent: there it writes what it has counted.

The memory belongs to no file: it is gone with the processes, however they end.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import tempfile
import time

import msgspec

from zaqar_redis.metrics.values import Labels, Row, Snapshot

#: Bytes of one snapshot: a thousand queues with the longest names take most of it.  What is not
#: used takes no memory.
_SNAPSHOT_MAX = 5 * 1024 * 1024
_HEAD = struct.Struct("=dI")
_PART = _HEAD.size + _SNAPSHOT_MAX
#: Which part is complete, and the worker's process id.
_START = struct.Struct("=BI")
_DECODER = msgspec.msgpack.Decoder(dict[str, list[tuple[Labels, Row]]])


class SnapshotTooLarge(Exception):
    """What was counted does not fit; the snapshot before remains."""


class WorkerLock:
    """A lock that at most one worker has; it is free again when that one is gone."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the service

    def close(self) -> None:
        self._file.close()

    def acquire(self) -> bool:
        """Returns whether this process has the lock."""
        try:
            # Of the process: unlike flock's, children that inherit the file do not share it.
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


class WorkerSlot:
    """The memory of one worker: two snapshots, of which one is complete at any moment."""

    def __init__(self, number: int) -> None:
        """*number*: names the worker; one that replaces it gets the same."""
        self.number = number
        self._memory = mmap.mmap(-1, _START.size + 2 * _PART)

    def begin(self) -> None:
        """Notes that this process is the worker."""
        _START.pack_into(self._memory, 0, 0, os.getpid())

    @property
    def is_own(self) -> bool:
        """Whether this process is the worker."""
        return bool(_START.unpack_from(self._memory)[1] == os.getpid())

    @property
    def has_ended(self) -> bool:
        """Whether the worker is gone, and was waited for."""
        _, pid = _START.unpack_from(self._memory)
        try:
            os.kill(pid or os.getpid(), 0)  # without a process id it is about to begin
        except ProcessLookupError:
            return True
        return False

    def close(self) -> None:
        self._memory.close()

    def write(self, snapshot: Snapshot) -> None:
        """Raises SnapshotTooLarge."""
        data = msgspec.msgpack.encode(snapshot)
        if len(data) > _SNAPSHOT_MAX:
            raise SnapshotTooLarge
        part = 1 - self._memory[0]
        at = _START.size + part * _PART
        _HEAD.pack_into(self._memory, at, time.monotonic(), len(data))
        self._memory[at + _HEAD.size : at + _HEAD.size + len(data)] = data
        self._memory[0] = part  # one byte: whoever is killed before leaves the other part

    def read(self) -> tuple[Snapshot, float]:
        """Returns the last snapshot, empty before the first, and its age in seconds."""
        while True:
            part = self._memory[0]
            at = _START.size + part * _PART
            written_at, size = _HEAD.unpack_from(self._memory, at)
            data = self._memory[at + _HEAD.size : at + _HEAD.size + size]
            # The worker writes to the other part: only if it did so twice, this one has changed.
            if self._memory[0] == part:
                break
        if not size:
            return {}, 0.0
        return _DECODER.decode(data), time.monotonic() - written_at
