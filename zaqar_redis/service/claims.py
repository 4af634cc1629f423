# SPDX-License-Identifier: Apache-2.0
"""What can be done with claims."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import msgspec

from zaqar_redis import errors, rules
from zaqar_redis.records import Claim, Taken
from zaqar_redis.service.messages import Messages
from zaqar_redis.service.waiting import Waiting
from zaqar_redis.storage.driver import Driver


class Claims:
    def __init__(
        self, driver: Driver, limits: rules.Limits, messages: Messages, waiting: Waiting
    ) -> None:
        self._store = driver.claims
        self._limits = limits
        self._messages = messages
        self._waiting = waiting

    async def create(
        self,
        project: str,
        queue: str,
        *,
        ttl: int | None,
        grace: int | None,
        limit: int | None,
        wait: int | None,
        gone: asyncio.Event,
    ) -> Taken:
        seconds = rules.wait(wait, self._limits)
        most = rules.limit(limit, self._limits.max_messages_per_claim_or_pop)
        lease = rules.claim_ttl(ttl, self._limits)
        beyond = rules.claim_grace(grace, self._limits)

        def look() -> Awaitable[Taken]:
            return self._store.create(project, queue, ttl=lease, grace=beyond, limit=most)

        if not seconds:
            taken = await look()
        else:
            taken = await self._waiting.until(
                look, _has_messages, project, queue, seconds=seconds, exclusive=True, gone=gone
            )
        opened = tuple(self._messages.opened(project, taken.messages))
        return msgspec.structs.replace(taken, messages=opened)

    async def get(self, project: str, queue: str, claim: str) -> Claim:
        """Raises NotFound."""
        found = await self._store.get(project, queue, claim)
        if found is None:
            raise _missing(claim)
        opened = tuple(self._messages.opened(project, found.messages))
        return msgspec.structs.replace(found, messages=opened)

    async def update(
        self, project: str, queue: str, claim: str, *, ttl: int | None, grace: int | None
    ) -> None:
        """Raises NotFound.  API: what is not given takes the default, not the old value."""
        lease = rules.claim_ttl(ttl, self._limits)
        beyond = rules.claim_grace(grace, self._limits)
        if not await self._store.update(project, queue, claim, ttl=lease, grace=beyond):
            raise _missing(claim)

    async def delete(self, project: str, queue: str, claim: str) -> None:
        await self._store.delete(project, queue, claim)


def _has_messages(taken: Taken) -> bool:
    return bool(taken.messages)


def _missing(claim: str) -> errors.NotFound:
    return errors.NotFound(why=f"Claim {claim} does not exist.")
