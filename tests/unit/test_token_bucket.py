# SPDX-License-Identifier: Apache-2.0
"""A token bucket lets its rate through, a burst at once, and says how long to wait."""

from __future__ import annotations

import pytest

from zaqar_redis.service.quota_enforcer import TokenBucket


class TimedBucket(TokenBucket):
    """A bucket with a clock that only a test advances."""

    def __init__(self, rate: float) -> None:
        self.now = 0.0
        super().__init__(rate, lambda: self.now)

    def taken(self, tries: int = 100) -> int:
        """Returns how many of so many tries at once get a token."""
        return sum(self.take() == 0.0 for _ in range(tries))


@pytest.mark.parametrize(("rate", "number"), [(10, 10), (0.1, 1)])
def test_full_bucket_lets_a_second_of_its_rate_through_at_once_and_one_at_least(
    rate: float, number: int
) -> None:
    assert TimedBucket(rate).taken() == number


def test_emptied_bucket_lets_its_rate_through() -> None:
    bucket = TimedBucket(10)
    bucket.taken()
    found = []
    for second in range(1, 5):
        bucket.now = second / 2
        found.append(bucket.taken())
    assert found == [5, 5, 5, 5]


def test_bucket_lets_no_more_than_two_seconds_of_its_rate_through_at_once() -> None:
    bucket = TimedBucket(10)
    bucket.now = 1000.0
    assert bucket.taken() == 20
    bucket.now = 2000.0
    assert bucket.taken() == 10


def test_refusal_tells_the_seconds_until_there_is_a_token() -> None:
    bucket = TimedBucket(0.5)
    assert bucket.taken() == 1
    assert bucket.take() == pytest.approx(2.0)
    bucket.now = 1.5
    assert bucket.take() == pytest.approx(0.5)
    bucket.now = 2.0
    assert bucket.take() == 0.0


def test_bucket_without_a_rate_lets_nothing_through() -> None:
    bucket = TimedBucket(0)
    bucket.now = 1000.0
    assert bucket.taken() == 0
    assert bucket.take() > 0


def test_lower_rate_takes_away_what_was_saved_up() -> None:
    bucket = TimedBucket(10)
    bucket.set_rate(4)
    assert bucket.taken() == 4


def test_higher_rate_gives_nothing_at_once() -> None:
    bucket = TimedBucket(1)
    bucket.taken()
    bucket.set_rate(10)
    assert bucket.taken() == 0
    bucket.now = 1.0
    assert bucket.taken() == 10


def test_bucket_is_full_when_it_is_as_good_as_new() -> None:
    bucket = TimedBucket(10)
    assert bucket.is_full()
    bucket.taken()
    bucket.now = 0.9
    assert not bucket.is_full()
    bucket.now = 1.0
    assert bucket.is_full()
