# SPDX-License-Identifier: Apache-2.0
"""Batches that are put aside in chunks, and published when all of them are there.

Tasks `put` their chunks under a token of each attempt.  The driver, when it knows
which attempts won, says `begin`, `publish` for every chunk, and `end`; after a crash
anywhere it does all of this again, with whatever tokens, and nothing comes in twice.
What waits is in one hash of the queue, forgotten a day after the last write, or with
the queue.  While it is there the queue does not move to another store.

Needs a Redis of its own process: ``memory://`` cannot pack.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Argument, Script, Steps, verb
from zaqar_redis.storage.drivers.redis import posting
from zaqar_redis.storage.drivers.redis.ledger import WINDOW
from zaqar_redis.storage.drivers.redis.queues import enlist

_PUT = Script("stage_put")
_BEGIN = Script("stage_begin")
_PUBLISH = Script("stage_publish")
_LIST = Script("stage_list")
_END = Script("stage_end")

#: Milliseconds for which chunks wait after the last write: a job that failed at night
#: can be started again in the morning, and one that never is keeps memory, and the
#: queue where it is, for a day.
_LIFE = 24 * 3600 * 1000


class Stages:
    def __init__(self, client: Any, now: Clock) -> None:
        self.client = client
        self._now = now

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
        """Put a chunk of an attempt aside; the same again replaces it.

        *messages* as `Ledger.post` takes them.  *token* is of letters, digits, dots and
        dashes, unlike any other attempt's of any batch; chunks count from 0.
        """
        rest: list[Argument] = [part for message in messages for part in message]
        yield _PUT(
            keys.of_queue(project, queue),
            *rest,
            field=_attempt(name, token) + str(chunk),
            life=_LIFE,
        )

    @verb
    def begin(
        self, project: str, queue: str, name: str, batch: int, tokens: Sequence[str]
    ) -> Steps[Sequence[str]]:
        """Note which attempts' chunks are published for a batch: which, in order.

        These are *tokens*, or, when a commit of the same batch was begun before and not
        ended, that one's; `end` forgets the others.  None at all when the batch is done:
        then the chunks of *tokens* are forgotten at once.
        """
        answer = yield _BEGIN(
            keys.of_queue(project, queue),
            now=self._now(),
            entry=keys.ledger(name),
            batch=batch,
            tokens=",".join(tokens),
            life=_LIFE,
        )
        return tuple(answer.decode().split(",")) if answer else ()

    @verb
    def chunks(self, project: str, queue: str, name: str, token: str) -> Steps[Sequence[int]]:
        """Numbers of the chunks of an attempt that wait, in order: what is left to publish.

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
        sealed: bool,
    ) -> Steps[bool]:
        """Append a chunk that waits, in one step; False: it does not wait (any more).

        Raises as `Ledger.post` does, and then it still waits.
        """
        ask = functools.partial(
            _PUBLISH,
            keys.of_queue(project, queue),
            now=self._now(),
            size=size,
            default_ttl=default_ttl,
            sealed=int(sealed),
            field=_attempt(name, token) + str(chunk),
        )
        outcome, *unlisted = yield from posting.appended(ask)
        if unlisted == [1]:
            yield from enlist(project, queue)
        return bool(outcome == b"posted")

    @verb
    def end(self, project: str, queue: str, name: str, batch: int) -> Steps[None]:
        """Say in the ledger that a batch is done, and forget what else *name* put aside.

        Nothing happens when it was done before: a process that was given up, and comes
        late, takes nothing from a batch that follows.
        """
        yield _END(
            keys.of_queue(project, queue),
            now=self._now(),
            entry=keys.ledger(name),
            batch=batch,
            window=WINDOW,
        )


def _attempt(name: str, token: str) -> str:
    """What the fields of an attempt begin with; names may have spaces, their digests not."""
    return f"{keys.ledger(name)} {token} "
