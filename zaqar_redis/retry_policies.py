# SPDX-License-Identifier: Apache-2.0
"""Retry policies of queues and subscriptions: what ``_retry_policy`` may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from zaqar_redis import errors
from zaqar_redis.records import Record

BackoffFunction = Literal["linear", "arithmetic", "geometric", "exponential"]

#: Retries of a phase, and seconds: what SNS allows.  With stock Zaqar's steps of 5 seconds the
#: back-off up to an hour takes 720 retries in 15 days: longer than a message lives by default.
RETRIES_MAX = 100
DELAY_MAX = 3600
#: API: seconds from the minimum to the maximum delay.  Two steps of the back-off.
DELAY_RANGE_MIN = 10

#: The largest number of each; all are 0 or more.
BOUNDS = {
    "retries_with_no_delay": RETRIES_MAX,
    "minimum_delay_retries": RETRIES_MAX,
    "minimum_delay": DELAY_MAX,
    "maximum_delay": DELAY_MAX,
    "maximum_delay_retries": RETRIES_MAX,
}


class DeliveryRetryPolicy(Record, frozen=True):
    """When an attempt to deliver follows another; names and defaults are stock Zaqar's."""

    retries_with_no_delay: int = 3
    minimum_delay_retries: int = 3
    #: seconds, as the next
    minimum_delay: int = 5
    maximum_delay: int = 30
    maximum_delay_retries: int = 3
    retry_backoff_function: BackoffFunction = "linear"
    ignore_subscription_override: bool = False


def retry_policy(value: object) -> DeliveryRetryPolicy | None:
    """Returns the policy that ``_retry_policy`` has; None: null or empty, so that there is none.

    Raises BadRequest that names the field and its limit.  null is as good as absent; unknown names
    are accepted, as in stock.  Stricter than stock, which takes booleans and negative numbers.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        raise errors.BadRequest(why='The value of "_retry_policy" must be an object.')
    given = {name: each for name, each in value.items() if each is not None}
    if not given:
        return None
    for name, most in BOUNDS.items():
        _check_number(name, given.get(name, 0), most)
    function = given.get("retry_backoff_function", "linear")
    if function not in get_args(BackoffFunction):
        raise _bad("retry_backoff_function", f"one of {', '.join(get_args(BackoffFunction))}")
    if not isinstance(given.get("ignore_subscription_override", False), bool):
        raise _bad("ignore_subscription_override", "a boolean")
    return _policy(given)


def ignored(values: Mapping[str, Any]) -> Iterator[str]:
    """Yields the names in the policy among *values* that have no effect."""
    policy = values.get("_retry_policy")
    for name in policy if isinstance(policy, dict) else ():
        if name not in DeliveryRetryPolicy.__struct_fields__:
            yield f"_retry_policy.{name}"


def _policy(given: Mapping[str, Any]) -> DeliveryRetryPolicy:
    known = {name: given[name] for name in DeliveryRetryPolicy.__struct_fields__ if name in given}
    policy = DeliveryRetryPolicy(**known)
    if policy.maximum_delay - policy.minimum_delay < DELAY_RANGE_MIN:
        raise _bad(
            "maximum_delay",
            f"at least {DELAY_RANGE_MIN} seconds more than minimum_delay, which is "
            f"{policy.minimum_delay}",
        )
    return policy


def _check_number(name: str, value: object, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise _bad(name, f"an integer between 0 and {most}")


def _bad(name: str, must_be: str) -> errors.BadRequest:
    return errors.BadRequest(why=f'The value of "{name}" in "_retry_policy" must be {must_be}.')
