# SPDX-License-Identifier: Apache-2.0
"""Messages in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from zaqar_redis import errors
from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.script import Script, Steps, verb
from zaqar_redis.records import Draft, Message, Page, Posted, Retry, Taken
from zaqar_redis.storage.driver import Bury
from zaqar_redis.storage.drivers.redis import dead_letters, identity, letters, posting, reading

_LIST = Script("message_list")
_GET = Script("message_get")
_DELETE = Script("message_delete")
_POP = Script("message_pop")


class Messages:
    def __init__(self, client: Any, now: Clock) -> None:
        self.client = client
        self._now = now
        #: how dead letters reach their queue
        self.letters: Bury = self.bury

    @verb
    def post(
        self,
        project: str,
        queue: str,
        drafts: Sequence[Draft],
        *,
        client: str,
        default_ttl: int,
        size: int,
        retry: Retry | None = None,
    ) -> Steps[Posted]:
        return posting.post(
            self._now(),
            project,
            queue,
            drafts,
            client=envelope.client_bytes(client),
            default_ttl=default_ttl,
            size=size,
            sealed=drafts[0].sealed,
            retry=retry,
        )

    @verb
    def bury(
        self, project: str, queue: str, letter: Draft, *, client: bytes, retry: Retry
    ) -> Steps[None]:
        return letters.bury(self._now(), project, queue, letter, client, retry)

    @verb
    def list(
        self,
        project: str,
        queue: str,
        *,
        after: str | None,
        limit: int,
        hide_client: str | None,
        include_claimed: bool,
        include_delayed: bool,
    ) -> Steps[Page[Message]]:
        epoch, rank = identity.parse(after) if after is not None else ("", 0)
        found: list[Message] = []
        while True:
            now, life, *page = yield _LIST(
                keys.of_queue(project, queue),
                now=self._now(),
                after=rank,
                limit=limit - len(found),
                client=envelope.client_bytes(hide_client) if hide_client is not None else b"",
                also_held=int(include_claimed),
                also_later=int(include_delayed),
            )
            if life is None or (after is not None and life.decode() != epoch):
                return Page(items=[])
            due, scanned, *flat = page
            found += reading.messages(now, life, flat)
            if scanned is None or len(found) == limit:
                break
            rank = int(scanned)
        return Page(items=found, marker=found[-1].id if found else "", due=due)

    @verb
    def get(self, project: str, queue: str, ids: Sequence[str]) -> Steps[Sequence[Message]]:
        now, epoch, *flat = yield _GET(keys.of_queue(project, queue), *_pairs(ids), now=self._now())
        return reading.messages(now, epoch, flat) if flat else []

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
            *_pairs(ids),
            now=self._now(),
            policy=policy,
            owners="".join(owners),
        )
        if refusal := _REFUSALS.get(outcome):
            raise refusal

    @verb
    def pop(self, project: str, queue: str, limit: int) -> Steps[Taken]:
        burial = identity.new_claim()
        again = 1
        while again:
            now, epoch, *answer = yield _POP(
                keys.of_queue(project, queue), now=self._now(), limit=limit, burial=burial
            )
            if epoch is None:
                return Taken(messages=())
            again, due, flat, dead, dead_queue, dead_ttl = answer
            if dead:
                yield from dead_letters.move(
                    self.letters,
                    project,
                    queue,
                    reading.messages(now, epoch, dead),
                    dead_queue.decode(),
                    dead_ttl,
                    burial,
                )
        popped = reading.messages(now, epoch, flat)
        unclaimed = [msgspec.structs.replace(message, claim_id=None) for message in popped]
        return Taken(messages=tuple(unclaimed), due=due)


_REFUSALS: dict[bytes, type[errors.Problem]] = {
    b"claimed": errors.MessageClaimed,
    b"unheld": errors.MessageNotClaimed,
    b"lapsed": errors.ClaimLapsed,
    b"other": errors.ClaimedByOther,
}


def _pairs(texts: Sequence[str]) -> list[str | int]:
    return [part for text in texts for part in identity.parse(text)]
