# SPDX-License-Identifier: Apache-2.0
"""What subscriptions give up goes to their dead-letter queues."""

from __future__ import annotations

from msgspec.structs import replace

from zaqar_redis import errors
from zaqar_redis.notify.target import HOPS_MAX, Result
from zaqar_redis.records import IdempotencyKey, Message
from zaqar_redis.storage.contract import PostDeadLetter


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
        letter = replace(
            message.copied(self._queue, message.hops + 1),
            attributes={**(message.attributes or {}), **reason},
        )
        key = IdempotencyKey.of_day(f"undelivered {subscription} {message.id}")
        await self._post(self._project, queue, letter, client=message.client, idempotency_key=key)
