# SPDX-License-Identifier: Apache-2.0
"""The contract of a store whose queues can move to another store.

Errors and times are those of `zaqar_redis.storage.contract`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from zaqar_redis.pool_records import TransferChunk
from zaqar_redis.records import MoveLock


class TransferTarget(Protocol):
    """Takes queues in, each completely or not at all."""

    def begin_import(self, project: str, queue: str, token: str) -> Awaitable[bool]:
        """Begins to import the queue; returns False when it exists in this store already."""

    def abort_import(self, project: str, queue: str, token: str) -> Awaitable[bool]:
        """Aborts the import, and deletes what was imported; returns False when it is another's.

        The queue stays locked for some minutes, unless it came from another installation: it
        may have been in this store before, and old routes lead here.
        """

    def import_chunk(
        self, project: str, queue: str, token: str, chunk: TransferChunk
    ) -> Awaitable[None]:
        """Stores a chunk that was exported from a store of the same kind."""

    def commit_import(self, project: str, queue: str, token: str) -> Awaitable[bool]:
        """Releases the move lock of a completely imported queue.  Idempotent.

        Returns False when the lock is not this one: it was released, or another import has it.
        """


class Transfer(TransferTarget, Protocol):
    """Moves queues to another store of the same kind, for stores that can.

    A `MoveLock` keeps everybody but the mover out of a queue: other callers get
    `errors.MoveLocked` and nothing is changed.
    """

    def unlock(self, project: str, queue: str, move_lock: MoveLock) -> Awaitable[bool]:
        """Releases the move lock; returns False when it is not this one any more."""

    def lock_missing(self, project: str, queue: str) -> Awaitable[bool]:
        """Locks a queue that does not exist for some minutes; returns False when it exists."""

    def move_lock(self, project: str, queue: str) -> Awaitable[MoveLock | None]:
        """Returns the move lock; None: there is none."""

    def epoch(self, project: str, queue: str) -> Awaitable[str]:
        """Returns the epoch of the queue, whatever its move lock; empty: it does not exist."""

    def reserve_epoch(self, project: str, queue: str, epoch: str, seconds: int) -> Awaitable[None]:
        """Reserves the epoch of the queue if it is created within *seconds*; empty: any."""

    def export_messages(self, project: str, queue: str, after: int) -> Awaitable[TransferChunk]:
        """Returns messages behind a rank, while the queue is in use."""

    def freeze(self, project: str, queue: str, token: str) -> Awaitable[bool]:
        """Takes the move lock for ten seconds; returns False when there is no such queue.

        Raises CannotMove when work in progress in the queue cannot move with it.
        """

    def export_frozen(
        self, project: str, queue: str, token: str, copied_rank: int, at: str
    ) -> Awaitable[TransferChunk]:
        """Returns a chunk of the frozen queue, from `TransferChunk.next_cursor` on; first "".

        *copied_rank* is that of the last message from `export_messages`.  Raises MoveLocked
        when the move lock expired; otherwise renews it for ten seconds.
        """

    def seal(self, project: str, queue: str, token: str) -> Awaitable[bool]:
        """Locks the frozen queue for good; returns False when the move lock expired."""

    def tombstone(self, project: str, queue: str, token: str) -> Awaitable[None]:
        """Deletes a sealed queue; its move lock stays for some minutes.  Idempotent."""
