# SPDX-License-Identifier: Apache-2.0
"""What can be done with messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import msgspec

from zaqar_redis import errors, rules
from zaqar_redis.records import Draft, Message, Page, Posted, Retry, Taken
from zaqar_redis.service.sealing import Sealer
from zaqar_redis.service.waiting import Waiting
from zaqar_redis.storage.driver import Driver, NeedsSealing


class Messages:
    def __init__(
        self, driver: Driver, limits: rules.Limits, sealer: Sealer | None, waiting: Waiting
    ) -> None:
        self._store = driver.messages
        self._limits = limits
        self._sealer = sealer
        self._waiting = waiting

    async def post(
        self,
        project: str,
        queue: str,
        drafts: Sequence[Draft],
        *,
        client: str,
        size: int,
        retry: Retry | None = None,
    ) -> Posted:
        """Append all or none.  *size* is the request's, in bytes."""
        if not drafts:
            raise errors.BadRequest(why="No messages to enqueue.")
        for draft in drafts:
            rules.message_ttl(draft.ttl, self._limits)
            rules.message_delay(draft.delay, self._limits)
        while True:
            try:
                return await self._store.post(
                    project,
                    queue,
                    drafts,
                    client=client,
                    default_ttl=self._limits.default_message_ttl,
                    size=size,
                    retry=retry,
                )
            except NeedsSealing:  # at most once: then they are sealed
                drafts = self._sealed(project, drafts)

    async def list(
        self,
        project: str,
        queue: str,
        *,
        client: str,
        marker: str | None,
        limit: int | None,
        echo: bool,
        include_claimed: bool,
        include_delayed: bool,
        wait: int | None,
        gone: asyncio.Event,
    ) -> Page[Message]:
        most = rules.limit(limit, self._limits.max_messages_per_page)
        seconds = rules.wait(wait, self._limits)

        def look() -> Awaitable[Page[Message]]:
            return self._store.list(
                project,
                queue,
                after=marker,
                limit=most,
                hide_client=None if echo else client,
                include_claimed=include_claimed,
                include_delayed=include_delayed,
            )

        if not seconds:
            page = await look()
        else:
            page = await self._waiting.until(
                look,
                _has_items,
                project,
                queue,
                seconds=seconds,
                exclusive=False,
                gone=gone,
            )
        return msgspec.structs.replace(page, items=self.opened(project, page.items))

    async def get(self, project: str, queue: str, ids: Sequence[str]) -> Sequence[Message]:
        self._check_number("ids", ids)
        return self.opened(project, await self._store.get(project, queue, ids))

    async def delete(self, project: str, queue: str, message: str, claim: str | None) -> None:
        claims = None if claim is None else [claim]
        await self._store.delete(project, queue, [message], claims=claims, force=False)

    async def delete_many(
        self, project: str, queue: str, ids: Sequence[str], claims: Sequence[str] | None
    ) -> None:
        self._check_number("ids", ids)
        if claims is not None:
            self._check_number("claim_ids", claims)
        await self._store.delete(project, queue, ids, claims=claims, force=claims is None)

    async def pop(self, project: str, queue: str, limit: int) -> Sequence[Message]:
        rules.within("pop", limit, 1, self._limits.max_messages_per_claim_or_pop)
        taken: Taken = await self._store.pop(project, queue, limit)
        return self.opened(project, taken.messages)

    def opened(self, project: str, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages with readable bodies.  Raises sealing.WrongKey."""
        if not any(message.sealed for message in messages):
            return messages
        return [self._opened(project, message) for message in messages]

    def _opened(self, project: str, message: Message) -> Message:
        if not message.sealed:
            return message
        body = self._key().open(project, message.body)
        return msgspec.structs.replace(message, body=body, sealed=False)

    def _sealed(self, project: str, drafts: Sequence[Draft]) -> Sequence[Draft]:
        sealer = self._key()
        return [
            msgspec.structs.replace(
                draft,
                body=sealer.seal(project, draft.body),
                sealed=True,
                checksum=b"",  # of the plain body: it would give short ones away
            )
            for draft in drafts
        ]

    def _key(self) -> Sealer:
        if self._sealer is None:
            raise errors.BadConfiguration("message_encryption_key is not set any more")
        return self._sealer

    def _check_number(self, name: str, items: Sequence[str]) -> None:
        most = self._limits.max_messages_per_page
        if not 1 <= len(items) <= most:
            raise errors.BadRequest(why=f'"{name}" must hold 1 to {most} ids.')


def _has_items(page: Page[Message]) -> bool:
    return bool(page.items)
