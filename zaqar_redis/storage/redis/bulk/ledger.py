# SPDX-License-Identifier: Apache-2.0
"""Posts of batches that are written again after a crash, and appended once.

A writer has an entry in the ledger of each queue it writes to: its last chunk that was
appended.  Chunk and entry are written in one step, and an entry moves with the queue, and
is deleted with it.
"""

from __future__ import annotations

import functools
import hashlib
from array import array
from collections.abc import Sequence

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Argument, Script, Steps, verb
from zaqar_redis.storage.redis import posting
from zaqar_redis.storage.redis.resource import RedisResource

_END = Script("ledger_end")
_GET = Script("ledger_get")

#: Milliseconds for which an entry is kept after its last write: a job restarted from a
#: checkpoint of the last quarter still writes nothing twice, and entries of abandoned jobs
#: do not stay for ever.
LEDGER_WINDOW_MS = 90 * 24 * 3600 * 1000


class ChunkMismatch(Exception):
    """A chunk that a writer repeats differs from the one that was appended.

    To skip it as known would lose messages, and to write it would duplicate some.
    """


class BatchDigest:
    """A digest of what a writer has sent to a queue in a batch: all chunks, in their order."""

    def __init__(self) -> None:
        self._sum = hashlib.blake2b(digest_size=8)

    def __str__(self) -> str:
        """Returns the digest in hexadecimal."""
        return self._sum.hexdigest()

    def add(self, messages: Sequence[tuple[int, int, bytes]]) -> str:
        """Adds a chunk; returns the digest of all chunks up to this one."""
        times = array("q", [time for ttl, delay, _ in messages for time in (ttl, delay)])
        # Each tail contains its length; their number is added here.
        self._sum.update(len(messages).to_bytes(8, "big"))
        self._sum.update(times)
        self._sum.update(b"".join([tail for _, _, tail in messages]))
        return str(self)


class RedisLedger(RedisResource):
    @verb
    def post(
        self,
        project: str,
        queue: str,
        messages: Sequence[tuple[int, int, bytes]],
        *,
        name: str,
        batch: int,
        chunk: int,
        digest: str,
        size: int,
        default_ttl: int,
        encrypted: bool,
    ) -> Steps[bool]:
        """Appends a chunk unless this one, or a later one, of the writer *name* was appended.

        *messages* are (ttl in seconds or -1, delay in seconds or -1, `envelope.tail`);
        *size* is the bytes of the chunk, for queues that limit a request.  Chunks are in
        the order of (batch, chunk), both from 0; *digest* is a `BatchDigest` of those of the
        batch up to this one.  Returns whether it was appended now.  When a later one was
        appended, a difference is noticed only when that one is repeated.

        Raises ChunkMismatch, BadRequest when it is too large for the queue,
        EncryptionRequired when the queue wants bodies encrypted, and MoveLocked while the
        queue moves.
        """
        rest: list[Argument] = [part for message in messages for part in message]
        build_call = functools.partial(
            posting.POST_NUMBERED,
            keys.of_queue(project, queue),
            *rest,
            now=self._now(),
            size=size,
            default_ttl=default_ttl,
            encrypted=int(encrypted),
            entry=keys.ledger(name),
            batch=batch,
            chunk=chunk,
            digest=digest,
            window=LEDGER_WINDOW_MS,
        )
        outcome, *_ = yield from posting.run_append(project, queue, build_call)
        if outcome == b"other":
            raise ChunkMismatch
        return bool(outcome == b"posted")

    @verb
    def end(
        self, project: str, queue: str, *, name: str, batch: int, chunk: int, digest: str
    ) -> Steps[None]:
        """Records that the writer has no more in this batch than the chunks before *chunk*.

        *digest* is that of all of them.  Raises ChunkMismatch when more were appended, or
        it ended with others before, and MoveLocked while the queue moves.
        """
        outcome = yield _END(
            keys.of_queue(project, queue),
            now=self._now(),
            entry=keys.ledger(name),
            batch=batch,
            chunk=chunk,
            digest=digest,
            window=LEDGER_WINDOW_MS,
        )
        if outcome == b"other":
            raise ChunkMismatch

    @verb
    def append(
        self,
        project: str,
        queue: str,
        messages: Sequence[tuple[int, int, bytes]],
        *,
        size: int,
        default_ttl: int,
        encrypted: bool,
    ) -> Steps[None]:
        """Appends a chunk without an entry: a repeated one is appended again."""
        rest: list[Argument] = [part for message in messages for part in message]
        build_call = functools.partial(
            posting.POST_RULED,
            keys.of_queue(project, queue),
            *rest,
            now=self._now(),
            size=size,
            default_ttl=default_ttl,
            encrypted=int(encrypted),
            idempotency_key="",
            fingerprint="",
            window=0,
            dedups=posting.NEVER_DUPLICATES,
        )
        yield from posting.run_append(project, queue, build_call)

    @verb
    def last(self, project: str, queue: str, name: str) -> Steps[tuple[int, int] | None]:
        """Returns (batch, chunk) of the last chunk of *name*; None: no entry."""
        answer = yield _GET(keys.of_queue(project, queue), now=self._now(), entry=keys.ledger(name))
        return (int(answer[0]), int(answer[1])) if answer else None


def ledger_entry(name: str, epoch: str, chunk: int, now: int) -> list[Argument]:
    """Returns the entry of *name* for a ledger chunk: this chunk of batch 0 was appended.

    For a queue that is imported as a whole: see `Transfer.import_chunk`.  *now* in ms.
    """
    return [keys.ledger(name), now + LEDGER_WINDOW_MS, f"{epoch} 0 0 {chunk}"]
