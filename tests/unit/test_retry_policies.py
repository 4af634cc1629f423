# SPDX-License-Identifier: Apache-2.0
"""Retry policies of queues and subscriptions: each limit at, below and above its bounds."""

from __future__ import annotations

import re
from typing import Any

import pytest

from zaqar_redis import errors, metadata_rules, rules
from zaqar_redis.retry_policies import DeliveryRetryPolicy, retry_policy
from zaqar_redis.service.subscription_options import effective

BOUNDS = {
    "retries_with_no_delay": 100,
    "minimum_delay_retries": 100,
    "minimum_delay": 3590,
    "maximum_delay": 3600,
    "maximum_delay_retries": 100,
}
OTHERS = {"minimum_delay": {"maximum_delay": 3600}, "maximum_delay": {"minimum_delay": 0}}


@pytest.mark.parametrize("name", BOUNDS)
def test_numbers_are_accepted_up_to_their_bounds(name: str) -> None:
    for value in (10, BOUNDS[name]):
        policy = retry_policy({name: value} | OTHERS.get(name, {}))
        assert policy is not None
        assert getattr(policy, name) == value


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("value", [-1, 3601, 10**30, True, False, 1.0, "1", "", [], {}])
def test_other_numbers_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(errors.BadRequest, match=f'"{name}" in "_retry_policy".* between 0 and'):
        retry_policy({name: value})


@pytest.mark.parametrize(
    "given",
    [
        *({"minimum_delay": 21}, {"minimum_delay": 31}, {"maximum_delay": 14}),
        *({"minimum_delay": 100, "maximum_delay": 109},),
        *({"minimum_delay": 3600, "maximum_delay": 3600},),
    ],
)
def test_delays_less_than_ten_seconds_apart_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(errors.BadRequest, match=r'"maximum_delay".* at least 10 seconds more'):
        retry_policy(given)


def test_delays_ten_seconds_apart_are_accepted() -> None:
    assert retry_policy({"minimum_delay": 20}) == DeliveryRetryPolicy(minimum_delay=20)


@pytest.mark.parametrize("function", ["linear", "arithmetic", "geometric", "exponential"])
def test_functions_of_stock_are_accepted(function: str) -> None:
    policy = retry_policy({"retry_backoff_function": function})
    assert policy is not None
    assert policy.retry_backoff_function == function


@pytest.mark.parametrize("function", ["", "Linear", "fibonacci", 1, False, ["linear"]])
def test_other_functions_are_refused(function: object) -> None:
    with pytest.raises(errors.BadRequest, match=r"retry_backoff_function.*linear, arithmetic"):
        retry_policy({"retry_backoff_function": function})


@pytest.mark.parametrize("value", [0, 1, "true", []])
def test_override_must_be_a_boolean(value: object) -> None:
    with pytest.raises(errors.BadRequest, match=r"ignore_subscription_override.*a boolean"):
        retry_policy({"ignore_subscription_override": value})


@pytest.mark.parametrize("value", [None, {}, {"minimum_delay": None}])
def test_null_and_empty_policies_are_none(value: object) -> None:
    assert retry_policy(value) is None


@pytest.mark.parametrize("value", [[], "linear", 1, False])
def test_policy_that_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(errors.BadRequest, match=re.escape('"_retry_policy" must be an object.')):
        retry_policy(value)


def test_unknown_names_are_accepted() -> None:
    assert retry_policy({"colour": "red"}) == DeliveryRetryPolicy()


def test_queue_metadata_has_the_same_rules() -> None:
    metadata_rules.queue_metadata({"_retry_policy": {"minimum_delay": 20}}, rules.Limits(), True)
    with pytest.raises(errors.BadRequest, match="at least 10 seconds more"):
        metadata_rules.queue_metadata(
            {"_retry_policy": {"minimum_delay": 21}}, rules.Limits(), True
        )


OF_SUBSCRIPTION = DeliveryRetryPolicy(minimum_delay=1)
OF_QUEUE = DeliveryRetryPolicy(minimum_delay=2)
DEFAULT = DeliveryRetryPolicy()


def _ignoring(policy: DeliveryRetryPolicy) -> DeliveryRetryPolicy:
    return DeliveryRetryPolicy(
        minimum_delay=policy.minimum_delay, ignore_subscription_override=True
    )


@pytest.mark.parametrize(
    ("subscription", "queue", "expected"),
    [
        (None, None, DEFAULT),
        (OF_SUBSCRIPTION, None, OF_SUBSCRIPTION),
        (None, OF_QUEUE, OF_QUEUE),
        (OF_SUBSCRIPTION, OF_QUEUE, OF_SUBSCRIPTION),
        (OF_SUBSCRIPTION, _ignoring(OF_QUEUE), _ignoring(OF_QUEUE)),
        (_ignoring(OF_SUBSCRIPTION), OF_QUEUE, OF_QUEUE),
        (_ignoring(OF_SUBSCRIPTION), None, DEFAULT),
    ],
)
def test_subscriptions_policy_wins_unless_one_of_them_says_otherwise(
    subscription: DeliveryRetryPolicy | None,
    queue: DeliveryRetryPolicy | None,
    expected: DeliveryRetryPolicy,
) -> None:
    assert effective(subscription, queue) == expected
