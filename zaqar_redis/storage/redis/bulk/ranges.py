# SPDX-License-Identifier: Apache-2.0
"""Watermarks and ranks of queues, for readers of ranges.

Nothing here settles or changes a queue, and no answer grows with its length.
"""

from __future__ import annotations

from collections.abc import Sequence

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Script, Steps, verb
from zaqar_redis.records import Record, Watermarks
from zaqar_redis.storage.redis import claims, identity
from zaqar_redis.storage.redis.resource import RedisResource

_WATERMARKS = Script("range_watermarks")
_SEEK = Script("range_seek")


class RawClaim(Record, frozen=True):
    """What a live claim holds, as it is stored; the three sequences go in step."""

    #: when the claim was read
    now: int
    epoch: str
    #: the end of the claim
    until: int
    ranks: Sequence[bytes]
    envelopes: Sequence[bytes]
    #: claim id and how often the message was claimed
    holds: Sequence[bytes]


class RedisRanges(RedisResource):
    @verb
    def watermarks(self, project: str, queue: str) -> Steps[Watermarks | None]:
        """Returns ranks, count and size of a queue's messages; None: there is no such queue.

        Raises MoveLocked while the queue moves, as all verbs here do.
        """
        answer = yield _WATERMARKS(keys.of_queue(project, queue))
        if answer is None:
            return None
        epoch, first, last, count, size = answer
        next_rank = int(last) + 1
        return Watermarks(
            epoch=epoch.decode(),
            first=next_rank if first is None else int(first),
            next_rank=next_rank,
            count=count,
            size=size,
        )

    @verb
    def seek(self, project: str, queue: str, created: int) -> Steps[int | None]:
        """Returns the rank of the first message created at *created* (ms) or later.

        When there is none, returns the rank that the next message will get; None: there is
        no such queue.  It is a binary search, which relies on posts being in order of
        time: where the clock was set back, it may be a rank nearby.
        """
        answer = yield _SEEK(keys.of_queue(project, queue), created=created)
        if answer is None:
            return None
        found, last = answer
        return int(last) + 1 if found is None else int(found)

    @verb
    def raw_claim(self, project: str, queue: str, claim: str) -> Steps[RawClaim | None]:
        """Returns what a claim holds, as it is stored; None: there is no such live claim."""
        known = identity.parse_claim(claim)
        if known is None:
            return None
        answer = yield claims.GET(keys.of_queue(project, queue), now=self._now(), claim=known)
        if answer is None:
            return None
        now, epoch, _, lease, *flat = answer
        return RawClaim(
            now=now,
            epoch=epoch.decode(),
            until=int(lease),
            ranks=flat[::3],
            envelopes=flat[1::3],
            holds=flat[2::3],
        )
