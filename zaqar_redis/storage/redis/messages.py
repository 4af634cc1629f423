# SPDX-License-Identifier: Apache-2.0
"""Messages in Redis."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import msgspec

from zaqar_redis import errors
from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.script import Argument, Script, Steps, Verb, verb
from zaqar_redis.records import (
    ClaimResult,
    Forwarding,
    IdempotencyKey,
    Message,
    MessageListing,
    NewMessage,
    Page,
    PostResult,
)
from zaqar_redis.storage.contract import PostDeadLetter
from zaqar_redis.storage.redis import dead_letters, decoding, identity, posting
from zaqar_redis.storage.redis.resource import RedisResource

_LIST = Script("message_list")
#: Calls of one request for a page; each looks at 500 messages, or settles a hundred: 1 or 2 ms.
_LIST_CALLS = 100
#: Greater than any rank.
_BEHIND_ALL = 2**53
#: also used to copy messages
GET = Script("message_get")
_FORWARD = Script("message_forward")
_DELETE = Script("message_delete")
_POP = Script("message_pop")

#: Milliseconds for which a queue remembers what a subscription has forwarded to it at least: as
#: long as a message lives by default, and so may wait to be forwarded.
_FORWARDING_WINDOW_MS = 14 * 86_400 * 1000
#: The client of forwarded messages: nobody's, so that no client misses them as its own.
_NO_CLIENT = bytes(16)


class RedisMessages(RedisResource):
    def __init__(self, client: Any, now: Clock) -> None:
        super().__init__(client, now)
        #: how dead letters reach their queue
        self.dead_letter_route: PostDeadLetter = self.dead_letter

    def post(
        self,
        project: str,
        queue: str,
        drafts: Sequence[NewMessage],
        *,
        client: str,
        default_ttl: int,
        size: int,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Verb[PostResult]:
        steps = posting.post(
            self._now(),
            project,
            queue,
            drafts,
            client=envelope.client_bytes(client),
            default_ttl=default_ttl,
            size=size,
            encrypted=drafts[0].encrypted,
            idempotency_key=idempotency_key,
        )
        return Verb(self.client, steps)

    @verb
    def dead_letter(
        self,
        project: str,
        queue: str,
        message: NewMessage,
        *,
        client: bytes,
        idempotency_key: IdempotencyKey,
    ) -> Steps[None]:
        build_call = functools.partial(
            dead_letters.POST,
            keys.of_queue(project, queue),
            keys.idempotency_key(idempotency_key.key),
            message.ttl or 0,
            envelope.tail(message, client),
            now=self._now(),
            window=idempotency_key.window,
        )
        yield from posting.run_append(project, queue, build_call)

    @verb
    def move_exhausted(self, project: str, queue: str) -> Steps[int]:
        """Moves messages that claims have left, because they were claimed too often, a step.

        Returns how many.
        """
        return dead_letters.move_exhausted(self.dead_letter_route, self._now(), project, queue)

    @verb
    def forward(
        self, project: str, queue: str, forwarded: Sequence[NewMessage], *, by: Forwarding
    ) -> Steps[None]:
        rest: list[Argument] = []
        for rank, message in zip(by.ranks, forwarded, strict=True):
            rest += (rank, message.ttl or 0, envelope.tail(message, _NO_CLIENT))
        build_call = functools.partial(
            _FORWARD,
            keys.of_queue(project, queue),
            *rest,
            now=self._now(),
            size=sum(len(message.body) for message in forwarded),
            encrypted=int(all(message.encrypted for message in forwarded)),
            entry=keys.ledger(by.writer),
            window=_FORWARDING_WINDOW_MS,
        )
        yield from posting.run_append(project, queue, build_call)

    def list(self, project: str, queue: str, listing: MessageListing) -> Verb[Page[Message]]:
        client = self.client.reader if listing.stale else self.client
        return Verb(client, self._list(project, queue, listing))

    def _list(self, project: str, queue: str, listing: MessageListing) -> Steps[Page[Message]]:
        after, limit, hidden = listing.after, listing.limit, listing.hide_client
        epoch, rank = "", _BEHIND_ALL if listing.reverse else 0
        if after is not None:
            epoch, rank = identity.parse_message_id(after)
        found: list[Message] = []
        for _ in range(_LIST_CALLS):
            now, current_epoch, *page = yield _LIST(
                keys.of_queue(project, queue),
                now=self._now(),
                after=rank,
                limit=limit - len(found),
                client=envelope.client_bytes(hidden) if hidden is not None else b"",
                also_held=int(listing.include_claimed),
                also_later=int(listing.include_delayed),
                backwards=int(listing.reverse),
            )
            if current_epoch is None or (after is not None and current_epoch.decode() != epoch):
                return Page(items=[])
            next_visible_ms, scanned, *flat = page
            found += decoding.messages(now, current_epoch, flat)
            if scanned is None or len(found) == limit:
                break
            rank = int(scanned)
        else:  # the next page goes on where this one has stopped
            marker = identity.message_id(identity.prefix(current_epoch.decode()), rank)
            return Page(items=found, marker=marker, next_visible_ms=0)
        return Page(
            items=found, marker=found[-1].id if found else "", next_visible_ms=next_visible_ms
        )

    @verb
    def get(self, project: str, queue: str, ids: Sequence[str]) -> Steps[Sequence[Message]]:
        now, epoch, *flat = yield GET(
            keys.of_queue(project, queue), *identity.pairs(ids), now=self._now()
        )
        return decoding.messages(now, epoch, flat) if flat else []

    @verb
    def delete(
        self,
        project: str,
        queue: str,
        ids: Sequence[str],
        *,
        claims: Sequence[str] | None,
        force: bool,
    ) -> Steps[None]:
        policy = "held" if claims is not None else "any" if force else "free"
        owners = filter(None, (identity.parse_claim(claim) for claim in claims or ()))
        outcome, *_ = yield _DELETE(
            keys.of_queue(project, queue),
            *identity.pairs(ids),
            now=self._now(),
            policy=policy,
            owners="".join(owners),
        )
        if refusal := _REFUSALS.get(outcome):
            raise refusal

    @verb
    def pop(self, project: str, queue: str, limit: int) -> Steps[ClaimResult]:
        dead_letter_claim = identity.new_claim()
        popped, next_visible_ms = yield from dead_letters.take(
            self.dead_letter_route,
            project,
            queue,
            now := self._now(),
            _POP(
                keys.of_queue(project, queue),
                now=now,
                limit=limit,
                dead_letter_claim=dead_letter_claim,
            ),
            dead_letter_claim,
        )
        unclaimed = [msgspec.structs.replace(message, claim_id=None) for message in popped]
        return ClaimResult(messages=tuple(unclaimed), next_visible_ms=next_visible_ms)


_REFUSALS: dict[bytes, type[errors.Problem]] = {
    b"claimed": errors.MessageClaimed,
    b"unheld": errors.MessageNotClaimed,
    b"expired": errors.ClaimExpired,
    b"other": errors.ClaimedByOther,
}
