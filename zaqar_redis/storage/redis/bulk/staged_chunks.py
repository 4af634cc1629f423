# SPDX-License-Identifier: Apache-2.0
"""Batches that are staged in chunks, and published when they are complete.

Tasks `put` their chunks under a token of each attempt.  The driver, when it knows
which attempts won, calls `begin`, `publish` for every chunk, and `end`; after a crash
anywhere it does all of this again, with whatever tokens, and nothing is appended twice.
Staged chunks are in one hash of the queue, which expires a day after the last write, and
is deleted with the queue.  While it exists the queue does not move to another store.

Needs a real Redis: ``memory://`` has no ``cmsgpack``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Argument, Script, Steps, verb
from zaqar_redis.storage.redis import posting
from zaqar_redis.storage.redis.bulk.ledger import LEDGER_WINDOW_MS
from zaqar_redis.storage.redis.resource import RedisResource

_PUT = Script("stage_put")
_BEGIN = Script("stage_begin")
_PUBLISH = Script("stage_publish")
_LIST = Script("stage_list")
_END = Script("stage_end")

#: Milliseconds for which chunks wait after the last write: a job that failed at night
#: can be started again in the morning, and one that never is uses memory, and keeps the
#: queue from moving, for a day.
_STAGED_CHUNK_TTL_MS = 24 * 3600 * 1000


class RedisStagedChunks(RedisResource):
    @verb
    def put(
        self,
        project: str,
        queue: str,
        name: str,
        token: str,
        chunk: int,
        messages: Sequence[tuple[int, int, bytes]],
    ) -> Steps[None]:
        """Stages a chunk of an attempt; the same again replaces it.

        *messages* as `Ledger.post` takes them.  *token* is of letters, digits, dots and
        dashes, and unique among all attempts of all batches; chunks count from 0.
        """
        rest: list[Argument] = [part for message in messages for part in message]
        yield _PUT(
            keys.of_queue(project, queue),
            *rest,
            field=_attempt(name, token) + str(chunk),
            ttl_ms=_STAGED_CHUNK_TTL_MS,
        )

    @verb
    def begin(
        self, project: str, queue: str, name: str, batch: int, tokens: Sequence[str]
    ) -> Steps[Sequence[str]]:
        """Records which attempts' chunks are published for a batch; returns them in order.

        These are *tokens*, or, when a commit of the same batch was begun before and not
        ended, that one's; `end` deletes the others.  Empty when the batch is done: then
        the chunks of *tokens* are deleted at once.
        """
        answer = yield _BEGIN(
            keys.of_queue(project, queue),
            now=self._now(),
            entry=keys.ledger(name),
            batch=batch,
            tokens=",".join(tokens),
            ttl_ms=_STAGED_CHUNK_TTL_MS,
        )
        return tuple(answer.decode().split(",")) if answer else ()

    @verb
    def chunks(self, project: str, queue: str, name: str, token: str) -> Steps[Sequence[int]]:
        """Returns the numbers of the chunks of an attempt that wait to be published, in order.

        Before a batch is begun these are all: fewer than were put means that the queue
        was deleted meanwhile, or that they waited for longer than a day.
        """
        numbers = yield _LIST(keys.of_queue(project, queue), attempt=_attempt(name, token))
        return sorted(numbers)

    @verb
    def publish(
        self,
        project: str,
        queue: str,
        name: str,
        token: str,
        chunk: int,
        *,
        size: int,
        default_ttl: int,
        encrypted: bool,
    ) -> Steps[bool]:
        """Appends a chunk that waits, in one step; returns False when it does not (any more).

        Raises as `Ledger.post` does, and then it still waits.
        """
        build_call = functools.partial(
            _PUBLISH,
            keys.of_queue(project, queue),
            now=self._now(),
            size=size,
            default_ttl=default_ttl,
            encrypted=int(encrypted),
            field=_attempt(name, token) + str(chunk),
        )
        outcome, *_ = yield from posting.run_append(project, queue, build_call)
        return bool(outcome == b"posted")

    @verb
    def end(self, project: str, queue: str, name: str, batch: int) -> Steps[None]:
        """Records in the ledger that a batch is done, and deletes what else *name* staged.

        Nothing happens when it was done before: a late process that was given up cannot
        delete chunks of a later batch.
        """
        yield _END(
            keys.of_queue(project, queue),
            now=self._now(),
            entry=keys.ledger(name),
            batch=batch,
            window=LEDGER_WINDOW_MS,
        )


def _attempt(name: str, token: str) -> str:
    """Returns the prefix of an attempt's fields; names may have spaces, their digests not."""
    return f"{keys.ledger(name)} {token} "
