# SPDX-License-Identifier: Apache-2.0
"""Placeholder until the schedule is merged."""

from __future__ import annotations

from zaqar_redis.service.subscription_options import DeliveryRetryPolicy


def delay(policy: DeliveryRetryPolicy, attempt: int, retry_after: float | None) -> float | None:
    if attempt <= policy.retries_with_no_delay:
        return 0.0
    if attempt <= policy.retries_with_no_delay + policy.minimum_delay_retries:
        return float(policy.minimum_delay)
    return None
