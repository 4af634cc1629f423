# SPDX-License-Identifier: Apache-2.0
"""What the lanes of a source share, and what each is given."""

from __future__ import annotations

from dataclasses import dataclass

from zaqar_redis.notify import schedule
from zaqar_redis.notify.dead_letters import DeadLetters
from zaqar_redis.notify.failures import FailureRuns
from zaqar_redis.notify.in_flight import InFlight
from zaqar_redis.notify.leased_queue import LeasedQueue
from zaqar_redis.notify.limits import DeliverySlots
from zaqar_redis.notify.settlement import DeliverySettlement
from zaqar_redis.notify.store_watch import StoreClock, StoreWatch
from zaqar_redis.notify.target import Result, Target
from zaqar_redis.records import Subscription
from zaqar_redis.retry_policies import DeliveryRetryPolicy
from zaqar_redis.service.subscription_options import SubscriptionOptions

#: Messages in one delivery to a store: a millisecond or so of its time.
_INTERNAL_BATCH = 100


@dataclass(frozen=True, slots=True)
class LaneContext:
    leased: LeasedQueue
    clock: StoreClock
    watch: StoreWatch
    slots: DeliverySlots
    in_flight: InFlight
    settlement: DeliverySettlement
    dead_letters: DeadLetters
    #: of all subscriptions of the process
    failures: FailureRuns
    #: ids of pending deliveries that were made after the queue was handed over
    made_late: list[str]


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """A subscription, and how it is delivered to."""

    subscription: Subscription
    options: SubscriptionOptions
    policy: DeliveryRetryPolicy
    target: Target

    @property
    def is_in_order(self) -> bool:
        return self.options.ordered or self.target.internal

    @property
    def batch(self) -> int:
        """How many messages one delivery may have."""
        return _INTERNAL_BATCH if self.target.internal else self.options.batch

    def delay(self, attempt: int, result: Result) -> float | None:
        """Returns the seconds until the retry *attempt* (1: the first); None: there is none."""
        if self.target.internal:
            return schedule.internal_delay(attempt)
        return schedule.delay(self.policy, attempt, result.retry_after)
