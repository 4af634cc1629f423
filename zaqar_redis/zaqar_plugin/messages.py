# SPDX-License-Identifier: Apache-2.0
"""Messages for stock Zaqar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from zaqar import storage
from zaqar.storage import errors as storage_errors
from zaqar.storage import utils

from zaqar_redis import errors
from zaqar_redis.records import Message, MessageListing, NewMessage

#: TTL in seconds of messages that came without one; stock's REST always gives one.
_DEFAULT_TTL = 3600
_CHECKSUM = "MD5:"


class MessageController(storage.Message):
    def post(
        self,
        queue: str,
        messages: Iterable[dict[str, Any]],
        client_uuid: Any,
        project: str | None = None,
    ) -> list[str]:
        checksum = self.driver.conf.enable_checksum
        new_messages = [_new_message(message, checksum) for message in messages]
        if not new_messages:
            return []
        self.driver.copy_settings(project, queue)
        posted = self.driver.run(
            project,
            queue,
            lambda store: store.messages.post_raw,
            new_messages,
            client=str(client_uuid),
            default_ttl=_DEFAULT_TTL,
        )
        return list(posted.ids)

    def list(
        self,
        queue: str,
        project: str | None = None,
        marker: str | None = None,
        limit: int = storage.DEFAULT_MESSAGES_PER_PAGE,
        echo: bool = False,
        client_uuid: Any = None,
        include_claimed: bool = False,
        include_delayed: bool = False,
    ) -> Iterator[Any]:
        listing = MessageListing(
            limit,
            after=marker or None,
            hide_client=None if echo else str(client_uuid),
            include_claimed=include_claimed,
            include_delayed=include_delayed,
        )
        page = self.driver.run(project, queue, lambda store: store.messages.list, listing)
        yield map(to_document, page.items)
        yield page.marker or marker

    def first(self, queue: str, project: str | None = None, sort: int = 1) -> dict[str, Any]:
        if sort not in (1, -1):
            raise ValueError("sort must be 1, for the oldest, or -1, for the newest")
        stats = self.driver.run(project, queue, lambda store: store.queues.stats)
        message = stats.oldest if sort == 1 else stats.newest
        if message is None:
            raise storage_errors.QueueIsEmpty(queue, project)
        return to_document(message)

    def get(self, queue: str, message_id: str, project: str | None = None) -> dict[str, Any]:
        for message in self.bulk_get(queue, [message_id], project):
            return message
        raise storage_errors.MessageDoesNotExist(message_id, queue, project)

    def bulk_get(
        self, queue: str, message_ids: Iterable[str], project: str | None = None
    ) -> Iterator[dict[str, Any]]:
        ids = list(message_ids)
        return map(
            to_document, self.driver.run(project, queue, lambda store: store.messages.get, ids)
        )

    def delete(
        self, queue: str, message_id: str, project: str | None = None, claim: str | None = None
    ) -> None:
        claims = None if claim is None else [claim]
        try:
            self._delete(queue, [message_id], project, claims=claims, force=False)
        except errors.MessageClaimed:
            raise storage_errors.MessageIsClaimed(message_id) from None
        except (errors.MessageNotClaimed, errors.ClaimedByOther, errors.ClaimExpired) as refusal:
            if self.driver.run(project, queue, lambda store: store.claims.get, claim or "") is None:
                raise storage_errors.ClaimDoesNotExist(claim, queue, project) from None
            if isinstance(refusal, errors.MessageNotClaimed):
                raise storage_errors.MessageNotClaimed(message_id) from None
            raise storage_errors.MessageNotClaimedBy(message_id, claim) from None

    def _delete(self, queue: str, ids: Sequence[str], project: str | None, **how: Any) -> None:
        self.driver.run(project, queue, lambda store: store.messages.delete, ids, **how)

    def bulk_delete(
        self,
        queue: str,
        message_ids: Iterable[str],
        project: str | None = None,
        claim_ids: Iterable[str] | None = None,
    ) -> None:
        ids = list(message_ids)
        claims = list(claim_ids) if claim_ids else None
        try:
            self._delete(queue, ids, project, claims=claims, force=claims is None)
        except errors.MessageNotClaimed:
            raise storage_errors.MessageNotClaimed(", ".join(ids)) from None
        except (errors.ClaimedByOther, errors.ClaimExpired):
            named = ", ".join(claims or ())
            raise storage_errors.ClaimDoesNotMatch(named, queue, project) from None

    def pop(self, queue: str, limit: int, project: str | None = None) -> Sequence[dict[str, Any]]:
        self.driver.copy_settings(project, queue)
        popped = self.driver.run(project, queue, lambda store: store.messages.pop, limit)
        return [to_document(message) for message in popped.messages]


def _new_message(message: dict[str, Any], checksum: bool) -> NewMessage:
    body = message["body"]
    digest = utils.get_checksum(body).removeprefix(_CHECKSUM) if checksum else ""
    # Stock encrypts by itself: then the body is bytes.
    encrypted = isinstance(body, bytes)
    return NewMessage(
        body=body if encrypted else msgspec.json.encode(body),
        encrypted=encrypted,
        ttl=message["ttl"],
        delay=message.get("delay"),
        checksum=bytes.fromhex(digest),
        dedup="",
    )


def to_document(message: Message) -> dict[str, Any]:
    """Returns a message as stock's transports want it; they do not expect other keys."""
    document = {
        "id": message.id,
        "age": message.age,
        "ttl": message.ttl,
        "body": message.body if message.encrypted else msgspec.json.decode(message.body),
        "claim_id": message.claim_id,
        "claim_count": message.claim_count,
    }
    if message.checksum:
        document["checksum"] = _CHECKSUM + message.checksum.hex()
    return document
