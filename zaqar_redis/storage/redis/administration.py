# SPDX-License-Identifier: Apache-2.0
"""What operators do with messages and claims in Redis.

A move has the steps of that of a dead letter (see `dead_letters`): hold, post, delete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from zaqar_redis import clock
from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Script, Steps, verb
from zaqar_redis.records import ClaimSummary, IdempotencyKey, Message, Page, PeekedMessage, PeekPage
from zaqar_redis.storage.contract import PostDeadLetter
from zaqar_redis.storage.redis import dead_letters, decoding, identity, messages
from zaqar_redis.storage.redis.resource import RedisResource

_PEEK = Script("message_peek")
_HOLD = Script("message_hold")
_CLAIMS = Script("claim_list")


class RedisAdministration(RedisResource):
    def __init__(self, client: Any, now: Clock, dead_letter: PostDeadLetter) -> None:
        super().__init__(client, now)
        #: how messages reach another queue
        self.dead_letter_route = dead_letter

    @verb
    def peek(
        self, project: str, queue: str, *, state: str, after: str | None, limit: int
    ) -> Steps[PeekPage]:
        epoch, rank = identity.parse_message_id(after) if after is not None else ("", 0)
        now, current_epoch, *answer = yield _PEEK(
            keys.of_queue(project, queue),
            now=self._now(),
            wanted=state,
            after=rank,
            limit=limit,
        )
        if current_epoch is None or (after is not None and current_epoch.decode() != epoch):
            return PeekPage(items=())
        scanned, *flat = answer
        prefix = identity.prefix(current_epoch.decode())
        rows = zip(*(flat[column::6] for column in range(6)), strict=True)
        return PeekPage(
            items=[_peeked(now, prefix, *row) for row in rows],
            marker="" if scanned is None else identity.message_id(prefix, int(scanned)),
        )

    @verb
    def list_claims(
        self, project: str, queue: str, *, after: str, limit: int
    ) -> Steps[Page[ClaimSummary]]:
        lease, _, claim = after.partition("-")
        now, last, last_lease, *flat = yield _CLAIMS(
            keys.of_queue(project, queue),
            now=self._now(),
            after=int(lease) if lease.isdecimal() else 0,
            after_claim=identity.parse_claim(claim) or "",
            limit=limit,
        )
        rows = zip(*(flat[column::5] for column in range(5)), strict=True)
        return Page(
            items=[
                ClaimSummary(
                    id.decode(),
                    ttl,
                    clock.age(now, ends - ttl * 1000),
                    held,
                    identity.given_client(client),
                )
                for id, ttl, ends, held, client in rows
            ],
            marker="" if last is None else f"{last_lease}-{last.decode()}",
        )

    @verb
    def move(
        self, project: str, queue: str, ids: Sequence[str], *, target: str, restore: bool
    ) -> Steps[Sequence[str]]:
        holder = identity.new_claim()
        now, epoch, *flat = yield _HOLD(
            keys.of_queue(project, queue), *identity.pairs(ids), now=self._now(), holder=holder
        )
        held = decoding.messages(now, epoch, flat) if flat else []
        for message in held:
            key, origin = dead_letters.move_key(message.id), "" if restore else message.origin
            yield self._post(project, target, message, origin, key)
        if held:
            yield dead_letters.DROP(
                keys.of_queue(project, queue),
                *[message.rank for message in held],
                now=self._now(),
                holder=holder,
                dead=0,
            )
        return [message.id for message in held]

    @verb
    def copy(
        self, project: str, queue: str, ids: Sequence[str], *, target: str
    ) -> Steps[Sequence[str]]:
        now, epoch, *flat = yield messages.GET(
            keys.of_queue(project, queue), *identity.pairs(ids), now=self._now()
        )
        found = decoding.messages(now, epoch, flat) if flat else []
        for message in found:
            # Not the key of a move, which would delete a message that it takes for a moved one.
            key = IdempotencyKey.of_day(f"copy {message.id}")
            yield self._post(project, target, message, message.origin, key)
        return [message.id for message in found]

    def _post(
        self, project: str, target: str, message: Message, origin: str, key: IdempotencyKey
    ) -> Any:
        posted = message.copied(origin)
        return self.dead_letter_route(
            project, target, posted, client=message.client, idempotency_key=key
        )


def _peeked(
    now: int,
    prefix: str,
    rank: bytes,
    stored: bytes,
    hold: bytes | None,
    state: bytes,
    ends: Any,
    client: bytes,
) -> PeekedMessage:
    message = decoding.message(now, prefix, int(rank), stored, hold)
    if state != b"claimed":  # then the hold is that of a claim that has ended
        message = msgspec.structs.replace(message, claim_id=None)
    until = None if ends is None else int(float(ends))
    return PeekedMessage(
        message,
        state.decode(),  # type: ignore[arg-type]  # one of them
        until,
        identity.given_client(client),
    )
