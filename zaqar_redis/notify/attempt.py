# SPDX-License-Identifier: Apache-2.0
"""One attempt to deliver: measured, and never an exception."""

from __future__ import annotations

import logging
from time import perf_counter_ns

from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.notify.target import Delivery, Outcome, Result, Target

LOG = logging.getLogger(__name__)


async def attempt(target: Target, delivery: Delivery) -> Result:
    """Returns how it went."""
    begun = perf_counter_ns()
    try:
        result = await target.deliver(delivery)
    except Exception:
        LOG.exception("a delivery failed", extra={"action": "delivery_failed"})
        result = Result(Outcome.RETRY, "the service failed to make the attempt")
    scheme = delivery.subscription.subscriber.partition(":")[0]
    metrics.NOTIFICATION_DURATIONS.add(perf_counter_ns() - begun, scheme)
    metrics.NOTIFICATIONS.add(scheme, result.outcome.value)
    return result
