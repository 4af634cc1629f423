# SPDX-License-Identifier: Apache-2.0
"""Posts of dead letters back to the queue that they came from, each once, many at a time."""

from __future__ import annotations

from collections.abc import Sequence

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Argument, Steps, verb
from zaqar_redis.storage.redis import dead_letters
from zaqar_redis.storage.redis.queues import add_to_list
from zaqar_redis.storage.redis.resource import RedisResource


class RedisDeadLetters(RedisResource):
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
            rest += (keys.idempotency_key(dead_letters.move_key(id).key), ttl, tail)
        outcome, *answer = yield dead_letters.POST(
            keys.of_queue(project, queue),
            *rest,
            now=self._now(),
            epoch="",
            window=dead_letters.DEAD_LETTER_WINDOW_MS,
        )
        if outcome == b"missing":
            return None
        posted, unlisted = answer
        if unlisted:
            yield from add_to_list(project, queue)
        return int(posted)
