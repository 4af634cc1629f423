# SPDX-License-Identifier: Apache-2.0
"""Posts of batches that are written again after a crash, and come in once.

A writer has an entry in the ledger of each queue it writes to: the last chunk of it
that came in.  Chunk and entry are written in one step, and an entry goes wherever the
queue goes, and with it.
"""

from __future__ import annotations

import functools
import hashlib
from array import array
from collections.abc import Sequence
from typing import Any

from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Argument, Script, Steps, verb
from zaqar_redis.storage.drivers.redis import posting
from zaqar_redis.storage.drivers.redis.queues import enlist

_POST = Script("ledger_post")
_END = Script("ledger_end")
_GET = Script("ledger_get")

#: Milliseconds for which an entry is kept after its last write: who restarts a job from
#: a checkpoint of the last quarter still has nothing twice, and entries of jobs that
#: nobody runs any more do not stay for ever.
WINDOW = 90 * 24 * 3600 * 1000


class ChunkDiffers(Exception):
    """What comes again from a writer is not what came in.

    To pass over it as known would lose messages, and to write it would double some.
    """


class Digest:
    """Tells what a writer has sent to a queue in a batch: every chunk, and their order."""

    def __init__(self) -> None:
        self._sum = hashlib.blake2b(digest_size=8)

    def __str__(self) -> str:
        """Hexadecimal."""
        return self._sum.hexdigest()

    def add(self, messages: Sequence[tuple[int, int, bytes]]) -> str:
        """Of all chunks up to this one."""
        times = array("q", [time for ttl, delay, _ in messages for time in (ttl, delay)])
        # Each tail says itself how long it is; how many there are, nothing else says.
        self._sum.update(len(messages).to_bytes(8, "big"))
        self._sum.update(times)
        self._sum.update(b"".join([tail for _, _, tail in messages]))
        return str(self)


class Ledger:
    def __init__(self, client: Any, now: Clock) -> None:
        self.client = client
        self._now = now

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
        sealed: bool,
    ) -> Steps[bool]:
        """Append a chunk unless this one, or a later one, of the writer *name* came in.

        *messages* are (ttl in seconds or -1, delay in seconds or -1, `envelope.tail`);
        *size* the bytes of the chunk, for queues that limit a request.  Chunks are in
        the order of (batch, chunk), both from 0; *digest* is a `Digest` of those of the
        batch up to this one.  Whether it was appended now.  When a later one came in,
        that is told apart only when that one comes again.

        Raises ChunkDiffers, BadRequest when it is too large for the queue, NeedsSealing
        when the queue wants bodies encrypted, and Gated while the queue moves.
        """
        rest: list[Argument] = [part for message in messages for part in message]
        ask = functools.partial(
            _POST,
            keys.of_queue(project, queue),
            *rest,
            now=self._now(),
            size=size,
            default_ttl=default_ttl,
            sealed=int(sealed),
            entry=keys.ledger(name),
            batch=batch,
            chunk=chunk,
            digest=digest,
            window=WINDOW,
        )
        outcome, *unlisted = yield from posting.appended(ask)
        if outcome == b"other":
            raise ChunkDiffers
        if unlisted == [1]:
            yield from enlist(project, queue)
        return bool(outcome == b"posted")

    @verb
    def end(
        self, project: str, queue: str, *, name: str, batch: int, chunk: int, digest: str
    ) -> Steps[None]:
        """Note that the writer has no more in this batch than the chunks before *chunk*.

        *digest* is that of all of them.  Raises ChunkDiffers when more came in, or when it
        ended with others before, and Gated while the queue moves.
        """
        outcome = yield _END(
            keys.of_queue(project, queue),
            now=self._now(),
            entry=keys.ledger(name),
            batch=batch,
            chunk=chunk,
            digest=digest,
            window=WINDOW,
        )
        if outcome == b"other":
            raise ChunkDiffers

    @verb
    def append(
        self,
        project: str,
        queue: str,
        messages: Sequence[tuple[int, int, bytes]],
        *,
        size: int,
        default_ttl: int,
        sealed: bool,
    ) -> Steps[None]:
        """The same without an entry: whatever was written before, it comes in once more."""
        rest: list[Argument] = [part for message in messages for part in message]
        ask = functools.partial(
            posting.POST,
            keys.of_queue(project, queue),
            *rest,
            now=self._now(),
            size=size,
            default_ttl=default_ttl,
            sealed=int(sealed),
            retry="",
            fingerprint="",
            window=0,
        )
        *_, unlisted = yield from posting.appended(ask)
        if unlisted:
            yield from enlist(project, queue)

    @verb
    def last(self, project: str, queue: str, name: str) -> Steps[tuple[int, int] | None]:
        """(batch, chunk) of what came in last from *name*; None: nothing that is known of."""
        answer = yield _GET(keys.of_queue(project, queue), now=self._now(), entry=keys.ledger(name))
        return (int(answer[0]), int(answer[1])) if answer else None


def entry(name: str, epoch: str, chunk: int, now: int) -> list[Argument]:
    """The entry of *name* as a portion of the ledger has it: the chunk of batch 0 came in.

    For a queue that is taken in whole: see `Transfer.take_in`.  *now* in ms.
    """
    return [keys.ledger(name), now + WINDOW, f"{epoch} 0 0 {chunk}"]
