# SPDX-License-Identifier: Apache-2.0
"""The move of one queue from one store to another, whoever asks for it.

At every moment the queue is complete in one of the two stores.  `states` says what a mover
that dies leaves, and how that is settled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol, cast

from zaqar_redis import errors
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.records import LockKind, MoveLock
from zaqar_redis.storage.move.copy import CopyLive, VerifyCopy, copy_frozen
from zaqar_redis.storage.move.states import BY_SOURCE_LOCK, Settlement
from zaqar_redis.storage.transfer import Transfer, TransferTarget

LOG = logging.getLogger(__name__)


class QueueGone(Exception):
    """The queue was deleted before it could be moved."""


class MoveRecord(Protocol):
    """What else knows where the queue is.  Every method is idempotent."""

    def commit(self) -> Awaitable[bool]:
        """Records that the queue is in the target; called when the move is sealed.

        Returns False when the move was withdrawn.
        """

    def withdraw(self) -> Awaitable[bool]:
        """Records that the queue stays in the source; returns False when it is committed."""

    def end(self) -> Awaitable[object]:
        """Called when the queue is gone from the source."""

    def undo(self, imported: bool) -> Awaitable[object]:
        """Called when the queue stays in the source; *imported*: a part was in the target."""


class QueueMove(ComposedVerbs):
    """One move of one queue."""

    def __init__(
        self,
        project: str,
        queue: str,
        source: Transfer,
        target: TransferTarget,
        record: MoveRecord,
        *,
        token: str,
        import_prefix: str = "",
        target_name: str = "the target",
    ) -> None:
        """*import_prefix*: `IMPORT_PREFIX` when the stores share no catalogue.

        *target_name* is for errors.
        """
        self._key = (project, queue)
        self._source = source
        self._target = target
        self._record = record
        self._token = token
        self._into_token = import_prefix + token
        self._is_foreign = bool(import_prefix)
        self._target_name = target_name

    @verb
    def run(self, copy: CopyLive, verify: VerifyCopy | None, *, keep: bool = False) -> Steps[int]:
        """Moves the queue; returns how many messages it had.

        *copy* does the long part, while the queue is in use, and *verify* is called before
        the queue is sealed.  With *keep* the queue stays in the source as well.

        Raises CannotMove when the target has a queue of this name or a write is being staged
        in the queue, QueueGone, and MoveLocked when another mover interfered.  Unless the
        move is sealed, it is undone then.
        """
        try:
            count: int = yield from self._copy(copy, verify)
            if keep:
                if not (yield self._target.commit_import(*self._key, self._into_token)):
                    raise errors.MoveLocked
                yield self._source.unlock(*self._key, MoveLock(LockKind.OUT, self._token))
                return count
            if not (yield self._source.seal(*self._key, self._token)):
                raise errors.MoveLocked
            if not (yield from self._finish()):
                raise errors.MoveLocked
        except (Exception, asyncio.CancelledError, KeyboardInterrupt):
            yield from self.settle_if_possible()
            raise
        return count

    @verb
    def settle(self, *, committed: bool = False) -> Steps[bool]:
        """Finishes or undoes a move whose mover is gone, or is to be stopped.

        *committed*: its record says that the queue is in the target.  Returns False when it
        is in the source.
        """
        lock = yield self._source.move_lock(*self._key)
        kind = lock.kind if lock is not None and lock.token == self._token else None
        is_sealed = committed or BY_SOURCE_LOCK[kind] is Settlement.FINISH
        if not is_sealed and (yield self._record.withdraw()):
            yield from self._undo()
            return False
        # It is sealed, or its mover lives, and was faster.
        return (yield from self._finish())

    def _copy(self, copy: CopyLive, verify: VerifyCopy | None) -> Steps[int]:
        source, target, into = self._source, self._target, self._into_token
        if not (yield target.begin_import(*self._key, into)):
            why = f"{self._target_name} has a queue of this name"
            raise errors.CannotMove(queue=self._key[1], why=why)
        copied_rank = yield copy(*self._key, into, source, target)
        if not (yield source.freeze(*self._key, self._token)):
            raise QueueGone
        count = yield from copy_frozen(
            *self._key, copied_rank, (source, self._token), (target, into)
        )
        if verify is not None:
            yield verify(*self._key, copied_rank)
        return count

    def _finish(self) -> Steps[bool]:
        """Returns False when another process has withdrawn the move, or has taken the copy.

        Then it is undone.
        """
        if not (yield self._record.commit()):
            yield from self._undo()
            return False
        released = yield self._target.commit_import(*self._key, self._into_token)
        # Stores of one installation have its catalogue: nobody else imports the queue.
        if self._is_foreign and not released and not (yield from self._is_committed()):
            yield from self._undo()
            return False
        yield self._source.tombstone(*self._key, self._token)
        yield self._record.end()
        return True

    def _is_committed(self) -> Steps[bool]:
        """Returns whether the target has the queue, by an earlier try to finish the move.

        It may be moving on already, from pool to pool.
        """
        target = cast(Transfer, self._target)  # another installation's is a store
        lock = yield target.move_lock(*self._key)
        mine = yield self._source.epoch(*self._key)
        theirs = yield target.epoch(*self._key)
        is_import = lock is not None and lock.is_import
        return not is_import and bool(theirs) and mine in ("", theirs)

    def _undo(self) -> Steps[None]:
        """Undoes a move that cannot be committed any more."""
        for kind in (LockKind.OUT, LockKind.GONE):
            yield self._source.unlock(*self._key, MoveLock(kind, self._token))
        imported = yield self._target.abort_import(*self._key, self._into_token)
        yield self._record.undo(imported)

    def settle_if_possible(self) -> Steps[None]:
        """Finishes or undoes the move, unless a store is away: then the next mover does."""
        try:
            yield self.settle()
        except errors.Unavailable:
            LOG.warning(
                "the move of %s was interrupted, the next mover settles it",
                self._key[1],
                extra={"action": "move_interrupted"},
            )


def transfer_of(store: object, name: str, queue: str = "") -> Transfer:
    """Returns the transfer verbs of the store *name*.  Raises CannotMove when it has none."""
    transfer: Transfer | None = getattr(store, "transfer", None)
    if transfer is None:
        raise errors.CannotMove(queue=queue, why=f'the store of "{name}" has no way to move queues')
    return transfer
