# SPDX-License-Identifier: Apache-2.0
"""What subscriptions give up goes to their dead-letter queues."""

from __future__ import annotations

from zaqar_redis import errors
from zaqar_redis.notify.target import HOPS_MAX, Result
from zaqar_redis.records import IdempotencyKey, Message, NewMessage
from zaqar_redis.storage.contract import PostDeadLetter

#: Milliseconds for which a dead-letter queue recognises a message.
_WINDOW_MS = 24 * 3600 * 1000


class DeadLetters:
    def __init__(self, post: PostDeadLetter, project: str, queue: str) -> None:
        self._post = post
        self._project = project
        self._queue = queue

    async def post(self, subscription: str, queue: str, message: Message, result: Result) -> None:
        """Posts a message, as stored, to the dead-letter queue of a subscription, once.

        Raises Unavailable, and other problems for good.
        """
        if message.hops >= HOPS_MAX:  # its dead-letter queue has a subscription that fails, too
            raise errors.BadRequest(why=f"it has gone through {HOPS_MAX} queues: they form a loop")
        reason: dict[str, str | int] = {
            "delivery-subscription": subscription,
            "delivery-error": result.error,
            "delivery-status": result.status,
        }
        letter = NewMessage(
            body=message.body,
            ttl=message.ttl,
            delay=0,
            checksum=message.checksum,
            origin=self._queue,
            encrypted=message.encrypted,
            attributes={**(message.attributes or {}), **reason},
            hops=message.hops + 1,
        )
        key = IdempotencyKey(
            key=f"undelivered {subscription} {message.id}", fingerprint=b"", window=_WINDOW_MS
        )
        await self._post(self._project, queue, letter, client=message.client, idempotency_key=key)
