# SPDX-License-Identifier: Apache-2.0
"""Operations on claims."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from zaqar_redis import errors, message_fields, rules
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.records import Claim, ClaimResult, Lease
from zaqar_redis.service.long_polls import LongPoll
from zaqar_redis.service.messages import MessageService, count_claimed
from zaqar_redis.storage.contract import Driver


class ClaimService(ComposedVerbs):
    def __init__(
        self, driver: Driver, limits: rules.Limits, messages: MessageService, long_polls: LongPoll
    ) -> None:
        self._store = driver.claims
        self._limits = limits
        self._messages = messages
        self._long_polls = long_polls

    @verb
    def create(
        self,
        project: str,
        queue: str,
        *,
        ttl: int | None,
        grace: int | None,
        limit: int | None,
        client: str,
        wait: int | None,
        watch_disconnect: Callable[[], asyncio.Event],
    ) -> Steps[ClaimResult]:
        seconds = rules.wait(wait, self._limits)
        most = rules.limit(limit, self._limits.max_messages_per_claim_or_pop)
        lease = self._lease(ttl, grace)

        def fetch() -> Awaitable[ClaimResult]:
            return self._store.create(project, queue, lease, limit=most, client=client)

        if not seconds:
            claimed: ClaimResult = yield fetch()
        else:
            claimed = yield self._long_polls.poll(
                fetch,
                lambda result: bool(result.messages),
                project,
                queue,
                seconds=seconds,
                exclusive=True,
                disconnected=watch_disconnect(),
            )
        count_claimed(claimed)
        messages = self._messages.decrypted(project, claimed.messages)
        if messages is claimed.messages:
            return claimed
        return msgspec.structs.replace(claimed, messages=tuple(messages))

    @verb
    def get(self, project: str, queue: str, claim: str) -> Steps[Claim]:
        """Raises NotFound."""
        found: Claim | None = yield self._store.get(project, queue, claim)
        if found is None:
            raise _missing(claim)
        decrypted = tuple(self._messages.decrypted(project, found.messages))
        return msgspec.structs.replace(found, messages=decrypted)

    @verb
    def update(
        self,
        project: str,
        queue: str,
        claim: str,
        *,
        ttl: int | None,
        grace: int | None,
        ids: Sequence[str] | None,
        field: str = "ids",
    ) -> Steps[Sequence[str]]:
        """Returns the ids of those that the claim holds; *ids*: None: all.  Raises NotFound.

        API: an omitted value takes the default, not the old value.  *field*: what errors call
        *ids*.
        """
        if ids is not None:
            rules.number_of_ids(field, ids, self._limits)
        lease = self._lease(ttl, grace)
        renewed: Sequence[str] | None = yield self._store.update(
            project, queue, claim, lease, ids=ids
        )
        if renewed is None:
            raise _missing(claim)
        return renewed

    @verb
    def release(
        self,
        project: str,
        queue: str,
        claim: str,
        *,
        ids: Sequence[str] | None,
        delay: int | None,
        reason: str | None = None,
        field: str = "ids",
    ) -> Steps[Sequence[str]]:
        """Returns the ids of those that the claim held; *ids*: None: all.  Raises NotFound.

        *field*: what errors call *ids*.
        """
        if ids is not None:
            rules.number_of_ids(field, ids, self._limits)
        rules.message_delay(delay, self._limits)
        more = {}
        if reason is not None:
            message_fields.check({message_fields.REASON: reason})
            more["reason"] = reason
        released: Sequence[str] | None = yield self._store.release(
            project, queue, claim, ids=ids, delay=delay, **more
        )
        if released is None:
            raise _missing(claim)
        return released

    def delete(self, project: str, queue: str, claim: str) -> Awaitable[None]:
        return self._store.delete(project, queue, claim)

    def _lease(self, ttl: int | None, grace: int | None) -> Lease:
        return Lease(
            ttl=rules.claim_ttl(ttl, self._limits),
            grace=rules.claim_grace(grace, self._limits),
            ttl_min=rules.CLAIM_TTL_MIN,
        )


def _missing(claim: str) -> errors.NotFound:
    return errors.NotFound(why=f"Claim {claim} does not exist.")
