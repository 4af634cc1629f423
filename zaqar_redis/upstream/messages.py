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
from zaqar_redis.records import Draft, Message
from zaqar_redis.upstream.stores import run

#: Seconds that a message lives whose TTL nobody gave; stock's REST always gives one.
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
        drafts = [_draft(message, checksum) for message in messages]
        if not drafts:
            return []
        store = self.driver.prepared(project, queue)
        posted = run(
            store.messages.post_as_they_are(
                project or "", queue, drafts, client=str(client_uuid), default_ttl=_DEFAULT_TTL
            )
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
        page = run(
            self.driver.store.messages.list(
                project or "",
                queue,
                after=marker or None,
                limit=limit,
                hide_client=None if echo else str(client_uuid),
                include_claimed=include_claimed,
                include_delayed=include_delayed,
            )
        )
        yield map(shown, page.items)
        yield page.marker or marker

    def first(self, queue: str, project: str | None = None, sort: int = 1) -> dict[str, Any]:
        if sort not in (1, -1):
            raise ValueError("sort must be 1, for the oldest, or -1, for the newest")
        stats = run(self.driver.store.queues.stats(project or "", queue))
        message = stats.oldest if sort == 1 else stats.newest
        if message is None:
            raise storage_errors.QueueIsEmpty(queue, project)
        return shown(message)

    def get(self, queue: str, message_id: str, project: str | None = None) -> dict[str, Any]:
        for message in self.bulk_get(queue, [message_id], project):
            return message
        raise storage_errors.MessageDoesNotExist(message_id, queue, project)

    def bulk_get(
        self, queue: str, message_ids: Iterable[str], project: str | None = None
    ) -> Iterator[dict[str, Any]]:
        ids = list(message_ids)
        return map(shown, run(self.driver.store.messages.get(project or "", queue, ids)))

    def delete(
        self, queue: str, message_id: str, project: str | None = None, claim: str | None = None
    ) -> None:
        store = self.driver.store
        claims = None if claim is None else [claim]
        try:
            run(
                store.messages.delete(
                    project or "", queue, [message_id], claims=claims, force=False
                )
            )
        except errors.MessageClaimed:
            raise storage_errors.MessageIsClaimed(message_id) from None
        except (errors.MessageNotClaimed, errors.ClaimedByOther, errors.ClaimLapsed) as refusal:
            if run(store.claims.get(project or "", queue, claim or "")) is None:
                raise storage_errors.ClaimDoesNotExist(claim, queue, project) from None
            if isinstance(refusal, errors.MessageNotClaimed):
                raise storage_errors.MessageNotClaimed(message_id) from None
            raise storage_errors.MessageNotClaimedBy(message_id, claim) from None

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
            run(
                self.driver.store.messages.delete(
                    project or "", queue, ids, claims=claims, force=claims is None
                )
            )
        except errors.MessageNotClaimed:
            raise storage_errors.MessageNotClaimed(", ".join(ids)) from None
        except (errors.ClaimedByOther, errors.ClaimLapsed):
            named = ", ".join(claims or ())
            raise storage_errors.ClaimDoesNotMatch(named, queue, project) from None

    def pop(self, queue: str, limit: int, project: str | None = None) -> Sequence[dict[str, Any]]:
        self.driver.prepared(project, queue)
        taken = run(self.driver.store.messages.pop(project or "", queue, limit))
        return [shown(message) for message in taken.messages]


def _draft(message: dict[str, Any], checksum: bool) -> Draft:
    body = message["body"]
    digest = utils.get_checksum(body).removeprefix(_CHECKSUM) if checksum else ""
    # Stock encrypts by itself, and hands over bytes then.
    sealed = isinstance(body, bytes)
    return Draft(
        body=body if sealed else msgspec.json.encode(body),
        sealed=sealed,
        ttl=message["ttl"],
        delay=message.get("delay"),
        checksum=bytes.fromhex(digest),
    )


def shown(message: Message) -> dict[str, Any]:
    """A message as stock's transports want it; further keys would disturb them."""
    document = {
        "id": message.id,
        "age": message.age,
        "ttl": message.ttl,
        "body": message.body if message.sealed else msgspec.json.decode(message.body),
        "claim_id": message.claim_id,
        "claim_count": message.claim_count,
    }
    if message.checksum:
        document["checksum"] = _CHECKSUM + message.checksum.hex()
    return document
