# SPDX-License-Identifier: Apache-2.0
"""When a delivery is tried again: the delays of stock Zaqar, in order, and then none."""

from __future__ import annotations

import math

import pytest
from zaqar.notification.tasks import webhook

from zaqar_redis.notify import schedule
from zaqar_redis.retry_policies import BackoffFunction, DeliveryRetryPolicy

FUNCTIONS: tuple[BackoffFunction, ...] = ("linear", "arithmetic", "geometric", "exponential")


def _delays(policy: DeliveryRetryPolicy) -> list[float]:
    delays: list[float] = []
    while (delay := schedule.policy_delay(policy, len(delays) + 1)) is not None:
        delays.append(delay)
    return delays


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("least", "most"), [(5, 30), (1, 11), (3, 17), (10, 3600), (1, 3600)])
def test_backoff_has_the_delays_of_stock(function: BackoffFunction, least: int, most: int) -> None:
    policy = DeliveryRetryPolicy(
        retries_with_no_delay=0,
        minimum_delay_retries=0,
        minimum_delay=least,
        maximum_delay=most,
        maximum_delay_retries=0,
        retry_backoff_function=function,
    )
    stock = list(webhook.RETRY_BACKOFF_FUNCTION_MAP[function](least, most, 5))
    # Stock cuts off fractions of seconds.
    assert _delays(policy) == [pytest.approx(each + 0.5, abs=0.51) for each in stock]


def test_default_policy_goes_through_all_phases() -> None:
    assert _delays(DeliveryRetryPolicy()) == [0, 0, 0, 5, 5, 5, 5, 10, 15, 20, 25, 30, 30, 30]


def test_policy_without_retries_outside_the_backoff_has_only_that() -> None:
    policy = DeliveryRetryPolicy(
        retries_with_no_delay=0, minimum_delay_retries=0, maximum_delay_retries=0
    )
    assert _delays(policy) == [5, 10, 15, 20, 25]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_backoff_from_no_delay_at_all_grows_to_the_maximum(function: BackoffFunction) -> None:
    policy = DeliveryRetryPolicy(
        minimum_delay=0, maximum_delay=20, retry_backoff_function=function, maximum_delay_retries=1
    )
    delays = _delays(policy)
    assert delays == sorted(delays)
    assert delays[-1] == 20


def test_jitter_prolongs_a_delay_by_a_tenth_at_most() -> None:
    found = [schedule.delay(DeliveryRetryPolicy(), 4, None) for _ in range(200)]
    assert all(each is not None and 5 <= each <= 5.5 for each in found)
    assert len(set(found)) > 1


def test_retry_without_delay_has_no_jitter() -> None:
    assert schedule.delay(DeliveryRetryPolicy(), 1, None) == 0


@pytest.mark.parametrize(
    ("attempt", "retry_after", "least"),
    [
        *((1, 7.0, 7), (4, 7.0, 7), (4, 1.0, 5), (4, -1.0, 5), (4, math.nan, 5)),
        *((4, 10.0**9, 3600), (4, math.inf, 3600)),
    ],
)
def test_retry_after_prolongs_a_delay_within_bounds(
    attempt: int, retry_after: float, least: float
) -> None:
    found = schedule.delay(DeliveryRetryPolicy(), attempt, retry_after)
    assert found is not None
    assert least <= found <= least * 1.1


def test_retry_after_does_not_add_a_retry() -> None:
    assert schedule.delay(DeliveryRetryPolicy(), 15, 7.0) is None
