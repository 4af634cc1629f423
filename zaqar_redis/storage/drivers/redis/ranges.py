# SPDX-License-Identifier: Apache-2.0
"""Queues by rank, for readers of whole ranges: where they begin and end.

Nothing here settles or changes anything, and nothing is as long as the queue.
"""

from __future__ import annotations

from typing import Any

from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Script, Steps, verb
from zaqar_redis.records import Held, Top
from zaqar_redis.storage.drivers.redis import claims, identity

_TOP = Script("range_top")
_SEEK = Script("range_seek")


class Ranges:
    def __init__(self, client: Any, now: Clock) -> None:
        self.client = client
        self._now = now

    @verb
    def top(self, project: str, queue: str) -> Steps[Top | None]:
        """Ranks, number and size of a queue's messages; None: there is no such queue.

        Raises Gated while the queue moves, as all verbs here do.
        """
        answer = yield _TOP(keys.of_queue(project, queue))
        if answer is None:
            return None
        epoch, first, last, count, size = answer
        following = int(last) + 1
        return Top(
            epoch=epoch.decode(),
            first=following if first is None else int(first),
            following=following,
            count=count,
            size=size,
        )

    @verb
    def seek(self, project: str, queue: str, created: int) -> Steps[int | None]:
        """Rank of the first message created at *created* (ms) or later.

        The rank that the next message will get when there is none; None: there is no
        such queue.  It is found by halving, which relies on posts being in order of
        time: where the clock was set back, it may be a rank nearby.
        """
        answer = yield _SEEK(keys.of_queue(project, queue), created=created)
        if answer is None:
            return None
        found, last = answer
        return int(last) + 1 if found is None else int(found)

    @verb
    def of_claim(self, project: str, queue: str, claim: str) -> Steps[Held | None]:
        """What a claim holds, as it is stored; None: there is no such live claim."""
        known = identity.parse_claim(claim)
        if known is None:
            return None
        answer = yield claims.GET(keys.of_queue(project, queue), now=self._now(), claim=known)
        if answer is None:
            return None
        now, epoch, _, lease, *flat = answer
        return Held(
            now=now,
            epoch=epoch.decode(),
            until=int(lease),
            ranks=flat[::3],
            envelopes=flat[1::3],
            holds=flat[2::3],
        )
