# SPDX-License-Identifier: Apache-2.0
"""When deliveries and claims are tried again: ``_retry_policy`` and ``_redelivery_delay``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeGuard, get_args

from zaqar_redis import errors
from zaqar_redis.records import Record

BackoffFunction = Literal["linear", "arithmetic", "geometric", "exponential"]
RedeliveryFunction = Literal["fixed", "linear", "exponential"]

#: Retries of a phase, and seconds: what SNS allows.  With stock Zaqar's steps of 5 seconds the
#: back-off up to an hour takes 720 retries in 15 days: longer than a message lives by default.
RETRIES_MAX = 100
DELAY_MAX = 3600
#: Seconds, if ``maximum_delay`` is not given.
REDELIVERY_DELAY_MAX = 900
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
        if not _is_integer(given.get(name, 0), 0, most):
            raise _bad(name, f"an integer between 0 and {most}")
    function = given.get("retry_backoff_function", "linear")
    if function not in get_args(BackoffFunction):
        raise _bad("retry_backoff_function", f"one of {', '.join(get_args(BackoffFunction))}")
    if not isinstance(given.get("ignore_subscription_override", False), bool):
        raise _bad("ignore_subscription_override", "a boolean")
    return _policy(given)


class RedeliveryDelay(Record, frozen=True):
    """How long a message waits that was released, or whose claim has ended, by its claim count."""

    #: seconds, as the next
    minimum_delay: int
    maximum_delay: int = REDELIVERY_DELAY_MAX
    backoff_function: RedeliveryFunction = "fixed"
    #: share of a delay that chance may take off: messages released together return apart
    jitter: float = 0

    def stored(self) -> str:
        """Returns it as shared/give_back.lua reads it."""
        percent = round(self.jitter * 100)
        return f"{self.backoff_function} {self.minimum_delay} {self.maximum_delay} {percent}"


def redelivery_delay(value: object, most: int) -> RedeliveryDelay | None:
    """Returns what ``_redelivery_delay`` says: seconds, or an object; None: there is no delay.

    *most*: seconds.  Raises BadRequest that names the field and its limit.
    """
    if value is None or (value == 0 and type(value) is int):
        return None
    given = value if isinstance(value, dict) else {"minimum_delay": value}
    given = {name: each for name, each in given.items() if each is not None}
    least = given.get("minimum_delay")
    in_seconds = f"an integer between 1 and {most}"
    if not _is_integer(least, 1, most):
        if isinstance(value, dict):
            raise _bad_delay("minimum_delay", in_seconds)
        raise _bad_delay("", f"0, {in_seconds}, or an object with a minimum_delay")
    longest: Any = given.get("maximum_delay", max(least, REDELIVERY_DELAY_MAX))
    if "maximum_delay" in given and not _is_integer(longest, least, most):
        raise _bad_delay("maximum_delay", f"an integer between minimum_delay and {most}")
    function: Any = given.get("backoff_function", "fixed")
    if function not in get_args(RedeliveryFunction):
        raise _bad_delay("backoff_function", f"one of {', '.join(get_args(RedeliveryFunction))}")
    jitter = given.get("jitter", 0)
    if not isinstance(jitter, (int, float)) or isinstance(jitter, bool) or not 0 <= jitter <= 1:
        raise _bad_delay("jitter", "a number between 0 and 1")
    return RedeliveryDelay(least, longest, function, jitter)


def ignored(values: Mapping[str, Any]) -> Iterator[str]:
    """Yields the names in the policies among *values* that have no effect."""
    for attribute, kind in _POLICIES.items():
        policy = values.get(attribute)
        for name in policy if isinstance(policy, dict) else ():
            if name not in kind.__struct_fields__:
                yield f"{attribute}.{name}"


_POLICIES = {"_retry_policy": DeliveryRetryPolicy, "_redelivery_delay": RedeliveryDelay}


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


def _is_integer(value: object, least: int, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _bad(name: str, must_be: str) -> errors.BadRequest:
    return errors.BadRequest(why=f'The value of "{name}" in "_retry_policy" must be {must_be}.')


def _bad_delay(name: str, must_be: str) -> errors.BadRequest:
    """*name*: empty: the whole."""
    part = f'"{name}" in ' if name else ""
    return errors.BadRequest(why=f'The value of {part}"_redelivery_delay" must be {must_be}.')
