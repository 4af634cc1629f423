# SPDX-License-Identifier: Apache-2.0
"""The target of ``queue:<name>`` and ``topic:<name>`` of the project, in any pool: exactly once."""

from __future__ import annotations

from zaqar_redis import errors, rules
from zaqar_redis.notify.target import DELIVERED, HOPS_MAX, Delivery, Outcome, Result
from zaqar_redis.notify.target_context import TargetContext
from zaqar_redis.records import Forwarding, IdempotencyKey, Message
from zaqar_redis.service.subscription_options import SubscriptionOptions

_SCHEME = "queue:"


class QueueTarget:
    internal = True

    def __init__(self, context: TargetContext) -> None:
        self._messages = context.messages
        self._dead_letter = context.dead_letter

    def check(self, subscriber: str, options: SubscriptionOptions) -> None:
        try:
            _target_of(subscriber)
        except (errors.BadQueue, errors.BadTopic) as problem:
            raise errors.BadRequest(why=f'"subscriber": {problem}') from None

    async def close(self) -> None:
        pass

    async def deliver(self, delivery: Delivery) -> Result:
        queue = _target_of(delivery.subscription.subscriber)
        if any(message.hops >= HOPS_MAX for message in delivery.originals):
            why = f"it has gone through {HOPS_MAX} queues: subscriptions form a loop"
            return Result(Outcome.REFUSED, why)
        try:
            if delivery.replayed:
                await self._replay(delivery, queue)
            else:
                await self._forward(delivery, queue)
        except (errors.Unavailable, errors.PostRefused) as problem:
            return Result(Outcome.RETRY, f"the {rules.described(queue)} is unavailable: {problem}")
        except errors.Problem as problem:
            return Result(Outcome.REFUSED, f"the {rules.described(queue)}: {problem}")
        return DELIVERED

    async def _forward(self, delivery: Delivery, queue: str) -> None:
        source = (delivery.project, delivery.source, delivery.epoch, delivery.subscription.id)

        async def forward(*messages: Message) -> None:
            await self._messages.forward(
                delivery.project,
                queue,
                [message.copied(hops=message.hops + 1) for message in messages],
                Forwarding("\n".join(source), [message.rank for message in messages]),
            )

        try:
            await forward(*delivery.originals)
        except errors.QueueFull:  # for all of them
            if len(delivery.originals) == 1:
                raise
            for message in delivery.originals:
                await forward(message)

    async def _replay(self, delivery: Delivery, queue: str) -> None:
        """Posts a message that is older than those that were forwarded since."""
        (message,) = delivery.originals
        key = IdempotencyKey.of_day(f"replayed {delivery.id}")
        await self._dead_letter(
            delivery.project,
            queue,
            message.copied(hops=message.hops + 1),
            client=message.client,
            idempotency_key=key,
        )


def _target_of(subscriber: str) -> str:
    """Returns the queue, or the topic as it is stored.  Raises BadQueue and BadTopic."""
    if rules.is_topic(subscriber):
        return rules.topic(subscriber.removeprefix(rules.TOPIC_PREFIX))
    return rules.queue_name(subscriber.removeprefix(_SCHEME))
