# SPDX-License-Identifier: Apache-2.0
"""Posts of dead letters to their queue, and back to the one that they came from, each once.

A queue recognises a dead letter by its id for a while: a process that died between the post
and the deletion in the other queue is followed by one that does both again, and the post is
recognised.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.script import Argument, Script, Steps, verb
from zaqar_redis.records import IdempotencyKey, NewMessage
from zaqar_redis.storage.redis import posting
from zaqar_redis.storage.redis.queues import add_to_list

_POST = Script("dead_letter_post")

#: Milliseconds for which a dead letter is recognised at least.  The next claim repeats an
#: interrupted move, a minute later at the earliest; a day is for queues that are seldom
#: claimed from, and for jobs that are restarted the next morning.
DEAD_LETTER_WINDOW_MS = 24 * 3600 * 1000


def post_dead_letter(
    now: int,
    project: str,
    queue: str,
    dead_letter: NewMessage,
    client: bytes,
    idempotency_key: IdempotencyKey,
) -> Steps[None]:
    """See `contract.Messages.dead_letter`."""
    tail = envelope.tail(dead_letter, client)
    build_call = functools.partial(
        _POST,
        keys.of_queue(project, queue),
        *(keys.idempotency_key(idempotency_key.key), dead_letter.ttl or 0, tail),
        now=now,
        window=idempotency_key.window,
    )
    _, _, unlisted = yield from posting.run_append(build_call)
    if unlisted:
        yield from add_to_list(project, queue)


class RedisDeadLetters:
    def __init__(self, client: Any, now: Clock) -> None:
        self.client = client
        self._now = now

    @verb
    def post(
        self, project: str, queue: str, letters: Sequence[tuple[str, int, bytes]]
    ) -> Steps[int | None]:
        """Returns how many of the dead letters were new; None: there is no such queue.

        *letters* are (id, ttl in seconds, `envelope.tail`), at most 1000; they are posted as
        they are, encrypted or not, whatever their size.  Raises MoveLocked while the queue
        moves.
        """
        rest: list[Argument] = []
        for id, ttl, tail in letters:
            rest += (keys.idempotency_key(f"redrive {id}"), ttl, tail)
        outcome, *answer = yield _POST(
            keys.of_queue(project, queue),
            *rest,
            now=self._now(),
            epoch="",
            window=DEAD_LETTER_WINDOW_MS,
        )
        if outcome == b"missing":
            return None
        posted, unlisted = answer
        if unlisted:
            yield from add_to_list(project, queue)
        return int(posted)
