# SPDX-License-Identifier: Apache-2.0
"""Operations on messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from zaqar_redis import errors, message_fields, rules
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.metrics.definitions import CLAIMED, CLAIMS, POSTED
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
from zaqar_redis.service.encryption import BodyCipher
from zaqar_redis.service.long_polls import LongPoll
from zaqar_redis.service.quota_enforcer import QuotaEnforcer
from zaqar_redis.storage.contract import Driver


class MessageService(ComposedVerbs):
    def __init__(
        self,
        driver: Driver,
        limits: rules.Limits,
        cipher: BodyCipher | None,
        long_polls: LongPoll,
        quotas: QuotaEnforcer | None = None,
    ) -> None:
        """*quotas*: None: posts are not limited."""
        self._store = driver.messages
        self._limits = limits
        self._cipher = cipher
        self._long_polls = long_polls
        self._quotas = quotas

    @verb
    def post(
        self,
        project: str,
        queue: str,
        drafts: Sequence[NewMessage],
        *,
        client: str,
        size: int,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Steps[PostResult]:
        """Appends all messages or none.  *size* is the request's, in bytes.

        Raises QuotaExceeded.
        """
        if not drafts:
            raise errors.BadRequest(why="No messages to enqueue.")
        for place, message in enumerate(drafts):
            try:
                check_draft(message, self._limits)
            except errors.BadRequest as refused:
                why = refused.text + errors.at_message(place, len(drafts))
                raise errors.BadRequest(why=why) from refused
        quotas, meter, is_new = self._quotas, None, False
        if quotas is not None and quotas.limits_storage:
            meter = quotas.meters.get(project) or quotas.meter(project)
            if meter is not None and not meter.add_to_known(queue, len(drafts), size):
                is_new = yield from meter.add(queue, len(drafts), size)
        given = drafts
        posted: PostResult | None = None
        try:
            while posted is None:
                try:
                    posted = yield self._store.post(
                        project,
                        queue,
                        drafts,
                        client=client,
                        default_ttl=self._limits.default_message_ttl,
                        size=size,
                        idempotency_key=idempotency_key,
                    )
                except errors.EncryptionRequired:  # at most once: then they are encrypted
                    drafts = self._encrypted(project, drafts)
                except errors.DedupIdsRequired:  # at most once, too
                    drafts = message_fields.identified(drafts, given)
        except BaseException:  # also when the client has left
            if meter is not None:
                meter.take_back(queue, len(drafts), size, is_new=is_new)
            raise
        repeated = len(drafts if posted.replayed else posted.duplicates)
        POSTED.total += len(drafts) - repeated
        if repeated and meter is not None:
            share = size * repeated // len(drafts)
            is_new &= posted.replayed
            meter.take_back(queue, repeated, share, is_new=is_new)
        return posted

    @verb
    def forward(
        self, project: str, queue: str, forwarded: Sequence[NewMessage], by: Forwarding
    ) -> Steps[None]:
        """Appends messages of another queue as they are, once; encrypts them if this one wants it.

        Raises BadRequest when the queue does not take messages so large.
        """
        try:
            yield self._store.forward(project, queue, forwarded, by=by)
        except errors.EncryptionRequired:
            plain = [message for message in forwarded if not message.encrypted]
            encrypted = iter(self._encrypted(project, plain))
            forwarded = [each if each.encrypted else next(encrypted) for each in forwarded]
            yield self._store.forward(project, queue, forwarded, by=by)

    @verb
    def list(
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
        watch_disconnect: Callable[[], asyncio.Event],
        reverse: bool = False,
    ) -> Steps[Page[Message]]:
        """*reverse*: newest first, without waiting."""
        most = rules.limit(limit, self._limits.max_messages_per_page)
        seconds = rules.wait(wait, self._limits)
        # What a request waits for is looked for when a hint comes: a replica may not have it yet.
        is_waiting = bool(seconds) and not reverse

        listing = MessageListing(
            most,
            after=marker,
            hide_client=None if echo else client,
            include_claimed=include_claimed,
            include_delayed=include_delayed,
            reverse=reverse,
            stale=not is_waiting,
        )

        def fetch() -> Awaitable[Page[Message]]:
            return self._store.list(project, queue, listing)

        if not is_waiting:
            page: Page[Message] = yield fetch()
        else:
            page = yield self._long_polls.poll(
                fetch,
                _is_worth_an_answer,
                project,
                queue,
                seconds=seconds,
                exclusive=False,
                disconnected=watch_disconnect(),
            )
        items = self.decrypted(project, page.items)
        return page if items is page.items else msgspec.structs.replace(page, items=items)

    @verb
    def get(self, project: str, queue: str, ids: Sequence[str]) -> Steps[Sequence[Message]]:
        rules.number_of_ids("ids", ids, self._limits)
        return self.decrypted(project, (yield self._store.get(project, queue, ids)))

    def delete(self, project: str, queue: str, message: str, claim: str | None) -> Awaitable[None]:
        claims = None if claim is None else [claim]
        return self._store.delete(project, queue, [message], claims=claims, force=False)

    @verb
    def delete_many(
        self, project: str, queue: str, ids: Sequence[str], claims: Sequence[str] | None
    ) -> Steps[None]:
        rules.number_of_ids("ids", ids, self._limits)
        if claims is not None:
            rules.number_of_ids("claim_ids", claims, self._limits)
        yield self._store.delete(project, queue, ids, claims=claims, force=claims is None)

    @verb
    def pop(self, project: str, queue: str, limit: int) -> Steps[Sequence[Message]]:
        rules.within("pop", limit, 1, self._limits.max_messages_per_claim_or_pop)
        popped: ClaimResult = yield self._store.pop(project, queue, limit)
        count_claimed(popped)
        return self.decrypted(project, popped.messages)

    def decrypted(self, project: str, messages: Sequence[Message]) -> Sequence[Message]:
        """Returns the messages with decrypted bodies.  Raises encryption.WrongEncryptionKey."""
        for message in messages:
            if message.encrypted:
                break
        else:
            return messages
        return [self._decrypted(project, message) for message in messages]

    def _decrypted(self, project: str, message: Message) -> Message:
        if not message.encrypted:
            return message
        body = self.require_cipher().decrypt(project, message.body)
        return msgspec.structs.replace(message, body=body, encrypted=False)

    def _encrypted(self, project: str, new_messages: Sequence[NewMessage]) -> Sequence[NewMessage]:
        cipher = self.require_cipher()
        return [
            msgspec.structs.replace(
                message,
                body=cipher.encrypt(project, message.body),
                encrypted=True,
                checksum=b"",  # of the plain body: it would reveal short ones
            )
            for message in new_messages
        ]

    def require_cipher(self) -> BodyCipher:
        """Raises EncryptionKeyMissing without one."""
        if self._cipher is None:
            raise errors.EncryptionKeyMissing
        return self._cipher


def check_draft(message: NewMessage, limits: rules.Limits) -> None:
    """Raises BadRequest for a message that no queue takes."""
    rules.message_ttl(message.ttl, limits)
    rules.message_delay(message.delay, limits)
    if message.delay is not None and message.deliver_at is not None:
        raise errors.BadRequest(why='Give "delay" or "deliver_at", not both.')
    if message.attributes is not None:
        rules.message_attributes(message.attributes)
        message_fields.decoded(message.attributes, message.body)


def count_claimed(result: ClaimResult) -> None:
    if result.messages:
        CLAIMS.total += 1
        CLAIMED.total += len(result.messages)


def missing(message: str, queue: str) -> errors.NotFound:
    return errors.NotFound(why=f"Message {message} is not in the {rules.described(queue)}.")


def _is_worth_an_answer(page: Page[Message]) -> bool:
    # A marker alone: much is hidden. The client goes on behind it, and would wait in vain before.
    return bool(page.items or page.marker)
