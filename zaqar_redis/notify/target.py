# SPDX-License-Identifier: Apache-2.0
"""The contract of a target: what delivers messages to subscribers of some schemes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from zaqar_redis.records import Message, Record, Subscription
from zaqar_redis.service.subscription_options import SubscriptionOptions

#: Queues through which a message may pass: more are a loop of subscriptions.
HOPS_MAX = 8


class Outcome(Enum):
    DELIVERED = "delivered"
    #: it may succeed later
    RETRY = "retry"
    #: it will never succeed, for these messages
    REFUSED = "refused"
    #: the subscriber is gone for good: the subscription ends
    GONE = "gone"


class Delivery(Record, frozen=True):
    """What one subscriber gets at once."""

    project: str
    #: the queue or topic
    source: str
    subscription: Subscription
    options: SubscriptionOptions
    #: in order, decrypted; none if it is a notice
    messages: Sequence[Message] = ()
    #: the same as they are stored, and the epoch of the source
    originals: Sequence[Message] = ()
    epoch: str = ""
    #: a JSON object that is delivered as it is: a request to confirm, or a test
    notice: bytes = b""
    #: identifies the delivery, the same in each attempt: id of the subscription and of a message
    id: str = ""
    #: it was given up before, and is not in order any more
    replayed: bool = False


class Result(Record, frozen=True):
    """How an attempt to deliver went."""

    outcome: Outcome
    #: what went wrong, to show to the owner of the subscription; without secrets
    error: str = ""
    #: of an answer by HTTP or SMTP; 0: there was none
    status: int = 0
    #: seconds that the subscriber wants to wait
    retry_after: float | None = None
    #: the beginning of the answer's text
    answer: str = ""


DELIVERED = Result(Outcome.DELIVERED)


class Target(Protocol):
    """Delivers to subscribers whose URI has one of its schemes.

    A package adds one by an entry point in the group ``zaqar_redis.targets``, whose name is the
    scheme, and whose object takes a `target_context.TargetContext`.
    """

    @property
    def internal(self) -> bool:
        """It delivers inside this installation: always in order, and until a message expires."""

    def check(self, subscriber: str, options: SubscriptionOptions) -> None:
        """Raises BadRequest, naming the field, when it could never deliver there."""

    async def deliver(self, delivery: Delivery) -> Result:
        """Attempts it once, within the time-out of the options; raises nothing.

        It opens what it needs, and keeps it open.
        """

    async def close(self) -> None:
        """Closes every connection; nothing is delivered any more."""
