# SPDX-License-Identifier: Apache-2.0
"""When a delivery that failed is tried again, by the phases of a retry policy.

Some retries at once, some after the minimum delay, a back-off from the minimum to the maximum
delay, some after the maximum delay; then it is given up.  The numbers are stock Zaqar's.
"""

from __future__ import annotations

import math
import random

from zaqar_redis.retry_policies import DeliveryRetryPolicy

#: Seconds.  The longest delay that a policy may have: a subscriber cannot ask for more than the
#: owner of the subscription can.
RETRY_AFTER_MAX = 3600.0

#: API: seconds by which the linear back-off grows; the others take as many steps, rounded down.
_STEP = 5
#: of a delay: enough to spread what failed together, too little to be noticed
_JITTER = 0.1
#: Seconds between attempts to deliver inside the installation: they double up to the second.
_INTERNAL, _INTERNAL_MAX = 0.5, 15.0


def delay(policy: DeliveryRetryPolicy, attempt: int, retry_after: float | None) -> float | None:
    """Returns the seconds to wait before the retry *attempt* (1: the first); None: give up.

    A ``Retry-After`` of the subscriber prolongs the delay, up to an hour, and never shortens it.
    Deliveries that failed together would come back together, so each delay grows by up to a tenth
    at random.  It never shrinks: the policy promises a minimum.  Retries without delay have no
    jitter: the policy's owner wants these at once, and there are few.
    """
    seconds = policy_delay(policy, attempt)
    if seconds is None:
        return None
    seconds = max(seconds, min(retry_after or 0.0, RETRY_AFTER_MAX))
    return seconds * random.uniform(1, 1 + _JITTER)


def internal_delay(attempt: int) -> float:
    """Returns the seconds before the retry *attempt* of a delivery inside the installation."""
    doubled: float = _INTERNAL * 2 ** min(attempt - 1, 8)
    return min(_INTERNAL_MAX, doubled)


def policy_delay(policy: DeliveryRetryPolicy, attempt: int) -> float | None:
    """Returns the delay before a retry as the policy has it; None: give up."""
    place = attempt - 1 - policy.retries_with_no_delay
    if place < 0:
        return 0.0
    if place < policy.minimum_delay_retries:
        return float(policy.minimum_delay)
    place -= policy.minimum_delay_retries
    steps = _steps(policy)
    if place < steps:
        return _backoff(policy, place, steps)
    return float(policy.maximum_delay) if place - steps < policy.maximum_delay_retries else None


def _steps(policy: DeliveryRetryPolicy) -> int:
    """Returns the number of retries of the back-off: 2 or more, as a checked policy has it."""
    spread = policy.maximum_delay - policy.minimum_delay
    linear = policy.retry_backoff_function == "linear"
    return math.ceil(spread / _STEP) if linear else spread // _STEP


def _backoff(policy: DeliveryRetryPolicy, place: int, steps: int) -> float:
    """Returns the delay at a place, from 0, of the back-off."""
    least, most = policy.minimum_delay, policy.maximum_delay
    match policy.retry_backoff_function:
        case "linear":
            return float(least + place * _STEP)
        case "arithmetic":  # each grows by one more share than the one before it
            return least + (most - least) * place * (place + 1) / (steps * (steps - 1))
        case "geometric" | "exponential":  # the same series in stock Zaqar
            # Nothing grows from 0 by a factor.
            first = max(least, 1)
            return float(first * (most / first) ** (place / (steps - 1)))
