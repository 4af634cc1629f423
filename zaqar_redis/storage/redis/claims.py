# SPDX-License-Identifier: Apache-2.0
"""Claims in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zaqar_redis import clock, formats
from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Script, Steps, verb
from zaqar_redis.records import Claim, ClaimResult, Lease
from zaqar_redis.storage.contract import PostDeadLetter
from zaqar_redis.storage.redis import dead_letters, decoding, format_gate, identity
from zaqar_redis.storage.redis.ownership import RedisFormatMark
from zaqar_redis.storage.redis.resource import RedisResource

_CREATE = Script("claim_create")
#: also used to read a claim as it is stored
GET = Script("claim_get")
_UPDATE = Script("claim_update")
_DELETE = Script("claim_delete")
_CONSUME = Script("claim_consume")
#: Scripts take no name for all messages: this stands for none.
_NO_MESSAGE = ""


class RedisClaims(RedisResource):
    def __init__(
        self,
        client: Any,
        now: Clock,
        dead_letter: PostDeadLetter,
        mark: RedisFormatMark | None = None,
    ) -> None:
        super().__init__(client, now)
        self.dead_letter_route = dead_letter
        self._mark = mark

    @verb
    def create(
        self,
        project: str,
        queue: str,
        lease: Lease,
        *,
        limit: int,
        client: str = "",
    ) -> Steps[ClaimResult]:
        notes_first = self._mark is not None and self._mark.needs >= formats.ORDER
        claim, dead_letter_claim = identity.new_claim(), identity.new_claim()
        messages, next_visible_ms = yield from dead_letters.take(
            self.dead_letter_route,
            project,
            queue,
            now := self._now(),
            _CREATE(
                keys.of_queue(project, queue),
                now=now,
                claim=claim,
                client=identity.stored_client(client),
                ttl=lease.ttl,
                least=lease.ttl_min,
                grace=lease.grace,
                limit=limit,
                dead_letter_claim=dead_letter_claim,
                traced=int(notes_first),
            ),
            dead_letter_claim,
        )
        return ClaimResult(
            messages=tuple(messages),
            claim_id=claim if messages else None,
            next_visible_ms=next_visible_ms,
        )

    @verb
    def get(self, project: str, queue: str, claim: str) -> Steps[Claim | None]:
        known = identity.parse_claim(claim)
        if known is None:
            return None
        answer = yield GET(keys.of_queue(project, queue), now=self._now(), claim=known)
        if answer is None:
            return None
        now, epoch, ttl, lease, *flat = answer
        return Claim(
            id=known,
            ttl=ttl,
            age=clock.age(now, int(lease) - ttl * 1000),
            messages=tuple(decoding.messages(now, epoch, flat)),
        )

    @verb
    def update(
        self,
        project: str,
        queue: str,
        claim: str,
        lease: Lease,
        *,
        ids: Sequence[str] | None = None,
    ) -> Steps[Sequence[str] | None]:
        known = identity.parse_claim(claim)
        if known is None:
            return None
        outcome, *renewed = yield _UPDATE(
            keys.of_queue(project, queue),
            *_named(ids),
            now=self._now(),
            claim=known,
            ttl=lease.ttl,
            least=lease.ttl_min,
            grace=lease.grace,
        )
        if outcome == b"short":
            raise dead_letters.claim_ttl_too_short(renewed[0])
        return _ids(renewed) if outcome == b"renewed" else None

    @verb
    def release(
        self,
        project: str,
        queue: str,
        claim: str,
        *,
        ids: Sequence[str] | None = None,
        delay: int | None = None,
        reason: str = "",
    ) -> Steps[Sequence[str] | None]:
        known = identity.parse_claim(claim)
        if known is None:
            return None
        if reason:
            yield from format_gate.require(formats.ORDER, 'A "reason" is')
        released = yield _DELETE(
            keys.of_queue(project, queue),
            *_named(ids),
            now=self._now(),
            claim=known,
            delay=-1 if delay is None else delay * 1000,
            reason=reason,
        )
        return None if released is None else _ids(released)

    @verb
    def delete(self, project: str, queue: str, claim: str) -> Steps[None]:
        yield self.release(project, queue, claim)

    @verb
    def consume(self, project: str, queue: str, claim: str) -> Steps[int | None]:
        """Deletes every message that a live claim still holds, and the claim, in one step.

        Returns how many messages; None when there is no such live claim, as when it was
        consumed before.  For batches of Spark: not in the contract of storage, since
        no other caller acknowledges a whole claim.
        """
        known = identity.parse_claim(claim)
        if known is None:
            return None
        count = yield _CONSUME(keys.of_queue(project, queue), now=self._now(), claim=known)
        return None if count is None else int(count)


def _named(ids: Sequence[str] | None) -> list[Any]:
    return [] if ids is None else identity.pairs(ids or (_NO_MESSAGE,))


def _ids(answer: Sequence[Any]) -> tuple[str, ...]:
    """Returns message ids by epoch and ranks."""
    epoch, *ranks = answer
    return identity.message_ids(epoch.decode(), map(int, ranks))
