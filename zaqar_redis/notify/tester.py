# SPDX-License-Identifier: Apache-2.0
"""Test messages: one delivery to a subscriber, at once, whose result its owner sees.

Nothing is stored, nothing is tried again, and what waits for the subscription is left alone.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from time import perf_counter

import msgspec

from zaqar_redis import errors, rules
from zaqar_redis.notify.attempt import attempt
from zaqar_redis.notify.target import Delivery, Result, Target
from zaqar_redis.records import Record, Subscription
from zaqar_redis.service import subscription_options
from zaqar_redis.service.subscriptions import SubscriptionService

#: Tests of a process at a time; others wait.
_CONCURRENT = 16


class TestedDelivery(Record, frozen=True):
    result: Result
    #: that the attempt took
    seconds: float


class SubscriptionTester:
    def __init__(
        self,
        subscriptions: SubscriptionService,
        find_target: Callable[[str], Target | None],
    ) -> None:
        """*find_target*: of a subscriber."""
        self._subscriptions = subscriptions
        self._find_target = find_target
        self._slots = asyncio.Semaphore(_CONCURRENT)

    async def test(self, project: str, source: str, id: str) -> TestedDelivery:
        """Delivers a test message.

        Raises BadRequest for a subscriber inside this installation, and what
        `SubscriptionService.get_reachable` does.
        """
        subscription = await self._subscriptions.get_reachable(project, source, id)
        target = self._find_target(subscription.subscriber)
        if target is None or target.internal:
            raise errors.BadRequest(
                why="A test needs a subscriber outside this service, not one of "
                f"{subscription.subscriber.partition(':')[0]}:."
            )
        delivery = _delivery(project, source, subscription)
        async with self._slots:
            begun = perf_counter()
            result = await attempt(target, delivery)
            return TestedDelivery(result, perf_counter() - begun)


def _delivery(project: str, source: str, subscription: Subscription) -> Delivery:
    name = source.removeprefix(rules.TOPIC_PREFIX)
    kind = "queue" if name == source else "topic"
    notice = {
        "Message_Type": "Test",
        "Message": f"This is a test of a subscription to the {kind} {name}.",
        "queue_name": name,
    }
    return Delivery(
        project,
        source,
        subscription,
        subscription_options.parse(subscription.options),
        notice=msgspec.json.encode(notice),
        id=f"{subscription.id}.test-{uuid.uuid4()}",
    )
