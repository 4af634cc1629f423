# SPDX-License-Identifier: Apache-2.0
"""What is told of a lane's deliveries: counts of its subscription, metrics and lines of the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.notify.circuit import LONGEST_PAUSE_SECONDS
from zaqar_redis.notify.failures import FailureRuns
from zaqar_redis.notify.items import Item
from zaqar_redis.notify.settlement import DeliverySettlement
from zaqar_redis.notify.target import Outcome, Result
from zaqar_redis.records import Subscription
from zaqar_redis.storage.deliveries import DeliveryCount

LOG = logging.getLogger(__name__)

_EXPIRED = "it expired before it was delivered"


def _messages(items: Sequence[Item]) -> int:
    """Returns how many are messages, which a subscription's state counts, and not notices."""
    return sum(item.stored is not None for item in items)


class LaneReports:
    def __init__(
        self,
        names: tuple[str, str],
        subscription: Subscription,
        settlement: DeliverySettlement,
        failures: FailureRuns,
    ) -> None:
        """*names*: project and queue; *failures*: of all subscriptions of the process."""
        self._names = names
        self._settlement = settlement
        self._failures = failures
        self.set_subscription(subscription)

    def set_subscription(self, subscription: Subscription) -> None:
        """Goes on with the subscription as it is now."""
        self._subscription = subscription
        self._scheme = subscription.subscriber.partition(":")[0]

    def delivered(
        self, items: Sequence[Item], subscription: Subscription, *, has_recovered: bool
    ) -> None:
        """*subscription*: as it was when the attempt began; *has_recovered*: its circuit was
        open."""
        if has_recovered:
            LOG.info("the endpoint answers again", extra=self._about("circuit_closed"))
        if given_up := self._failures.end(subscription):
            LOG.info(
                "messages are delivered again; %d had been given up",
                given_up,
                extra=self._about("deliveries_resumed"),
            )
        self._count(DeliveryCount(delivered=_messages(items)))
        metrics.NOTIFIED.add(self._scheme, by=len(items))

    def failed(self, items: Sequence[Item], result: Result) -> None:
        """An attempt failed; those that are given up are told of by themselves."""
        messages = _messages(items)
        self._count(DeliveryCount(retried=messages, error=result.error, status=result.status))
        if messages:
            self._failures.note(self._subscription, result.error)

    def circuit_opened(self, pause: float, error: str, *, is_first: bool) -> None:
        """*pause*: seconds; *is_first*: it was closed before."""
        if is_first:
            metrics.CIRCUITS_OPENED.add(self._scheme)
        LOG.log(
            logging.WARNING if is_first else logging.DEBUG,  # one line for all probes
            "the endpoint fails: no attempt is made for %.0f s, then single ones after pauses "
            "of up to %.0f s",
            pause,
            LONGEST_PAUSE_SECONDS,
            extra=self._about("circuit_opened") | {"error": error},
        )

    def expired(self, item: Item) -> None:
        """It is given up without an attempt."""
        if item.stored is None:
            self.lost(item, Result(Outcome.REFUSED, _EXPIRED))
            return
        last = self._failures.last_error(self._subscription)
        self._tell_given_up(f"{_EXPIRED}; the last attempt: {last}" if last else _EXPIRED)
        self.lost(item)

    def given_up(self, item: Item, result: Result) -> None:
        """No attempt is made any more; whether it is `lost` is told when that is known."""
        if item.stored is not None:
            self._failures.note(self._subscription, result.error)
            self._tell_given_up(result.error)

    def lost(self, item: Item, result: Result | None = None) -> None:
        """It was not delivered; *result*: of the last attempt."""
        messages = _messages([item])
        metrics.GIVEN_UP.add(self._scheme, by=messages)
        error, status = (result.error, result.status) if result is not None else ("", 0)
        self._count(DeliveryCount(failed=messages, error=error, status=status))

    def subscription_gone(self) -> None:
        LOG.warning(
            "a subscription ends: its endpoint is gone", extra=self._about("subscription_gone")
        )

    def dead_letter_refused(self, reason: str) -> None:
        LOG.warning(
            "the dead-letter queue of a subscription takes nothing",
            extra=self._about("dead_letter_failed") | {"error": reason},
        )

    def _tell_given_up(self, error: str) -> None:
        if self._failures.note_given_up(self._subscription):
            LOG.warning(
                "a message is given up; those that follow have no line until one is delivered",
                extra=self._about("delivery_given_up") | {"error": error},
            )

    def _count(self, count: DeliveryCount) -> None:
        self._settlement.count(self._subscription.id, count)

    def _about(self, action: str) -> dict[str, str]:
        project, queue = self._names
        return {
            "action": action,
            "project": project,
            "queue": queue,
            "subscription": self._subscription.id,
        }
