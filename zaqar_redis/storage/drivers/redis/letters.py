# SPDX-License-Identifier: Apache-2.0
"""Dead letters go back to the queue that they came from, each once.

A letter is known there by its id for a day: whoever died between the post and the
deletion in the dead-letter queue does both again, and the post is recognised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Argument, Script, Steps, verb
from zaqar_redis.storage.drivers.redis.queues import enlist

_POST = Script("letter_post")

#: Milliseconds for which a letter is recognised, as on its way to the dead-letter queue.
WINDOW = 24 * 3600 * 1000


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
            keys.of_queue(project, queue), *rest, now=self._now(), window=WINDOW
        )
        if outcome == b"missing":
            return None
        posted, unlisted = answer
        if unlisted:
            yield from enlist(project, queue)
        return int(posted)
