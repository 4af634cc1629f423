# SPDX-License-Identifier: Apache-2.0
"""The import of a queue from another installation, completely or not at all.

Clients never see a part: the queue has a move lock until all of it is there.  An import that
is killed leaves the lock, by which the next one recognizes the partial copy and begins anew.
"""

from __future__ import annotations

import secrets
from enum import Enum

from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.pool_records import TransferChunk
from zaqar_redis.records import IMPORT_PREFIX, LockKind, MoveLock
from zaqar_redis.storage.transfer import Transfer


class ImportObstacle(Enum):
    """Why a queue cannot be imported."""

    EXISTS = "a queue of this name exists"
    BEING_MOVED = "a queue of this name is being moved"


class QueueImport(ComposedVerbs):
    """One try to import one queue into one store."""

    def __init__(
        self, transfer: Transfer, project: str, queue: str, token: str | None = None
    ) -> None:
        """*token*: of a try that has begun; None: of a new one."""
        self._transfer = transfer
        self._key = (project, queue)
        # One for each try: of two at once, the earlier one fails.
        self.token = token or IMPORT_PREFIX + secrets.token_hex(16)

    @verb
    def begin(self) -> Steps[ImportObstacle | None]:
        """Takes the move lock, and deletes what an earlier try left; None: it has begun."""
        if obstructs((yield self._transfer.move_lock(*self._key))):
            return ImportObstacle.BEING_MOVED
        if not (yield self._transfer.begin_import(*self._key, self.token)):
            return ImportObstacle.EXISTS
        return None

    @verb
    def add(self, chunk: TransferChunk) -> Steps[None]:
        """Stores a chunk.  Raises MoveLocked when another try has begun."""
        yield self._transfer.import_chunk(*self._key, self.token, chunk)

    @verb
    def commit(self) -> Steps[None]:
        """Ends an import that is complete: now clients see the queue.  Idempotent."""
        yield self._transfer.commit_import(*self._key, self.token)

    @verb
    def abort(self) -> Steps[bool]:
        """Deletes what was imported; returns False when another try has begun."""
        aborted: bool = yield self._transfer.abort_import(*self._key, self.token)
        return aborted


def obstructs(lock: MoveLock | None) -> bool:
    """Returns whether a move lock belongs to a move; those of imports are taken over."""
    return lock is not None and not lock.is_import and lock.kind is not LockKind.CLOSED
