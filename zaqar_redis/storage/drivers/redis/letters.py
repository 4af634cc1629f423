# SPDX-License-Identifier: Apache-2.0
"""Dead letters come to their queue, and go back to the one that they came from, each once.

A letter is known by its id where it came in, for a while: whoever died between the post
and the deletion where it was does both again, and the post is recognised.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.script import Argument, Script, Steps, verb
from zaqar_redis.records import Draft, Retry
from zaqar_redis.storage.drivers.redis import posting
from zaqar_redis.storage.drivers.redis.queues import enlist

_POST = Script("letter_post")

#: Milliseconds for which a letter is recognised at least.  Who claims next does an
#: interrupted move again, a minute later at the earliest; a day is for queues that are
#: seldom claimed from, and for jobs that are begun again the next morning.
WINDOW = 24 * 3600 * 1000


def bury(
    now: int, project: str, queue: str, letter: Draft, client: bytes, retry: Retry
) -> Steps[None]:
    """See `driver.Messages.bury`."""
    tail = envelope.tail(letter, client)
    ask = functools.partial(
        _POST,
        keys.of_queue(project, queue),
        *(keys.retry(retry.key), letter.ttl or 0, tail),
        now=now,
        window=retry.window,
    )
    _, _, unlisted = yield from posting.appended(ask)
    if unlisted:
        yield from enlist(project, queue)


class Letters:
    def __init__(self, client: Any, now: Clock) -> None:
        self.client = client
        self._now = now

    @verb
    def post(
        self, project: str, queue: str, letters: Sequence[tuple[str, int, bytes]]
    ) -> Steps[int | None]:
        """How many of the letters the queue had not had; None: there is no such queue.

        *letters* are (id, ttl in seconds, `envelope.tail`), at most 1000; they go as they
        are, encrypted or not, whatever their size.  Raises Gated while the queue moves.
        """
        rest: list[Argument] = []
        for id, ttl, tail in letters:
            rest += (keys.retry(f"redrive {id}"), ttl, tail)
        outcome, *answer = yield _POST(
            keys.of_queue(project, queue), *rest, now=self._now(), epoch="", window=WINDOW
        )
        if outcome == b"missing":
            return None
        posted, unlisted = answer
        if unlisted:
            yield from enlist(project, queue)
        return int(posted)
