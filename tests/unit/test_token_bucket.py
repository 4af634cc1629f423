# SPDX-License-Identifier: Apache-2.0
"""A token bucket lets its rate through, a burst at once, and says how long to wait."""

from __future__ import annotations

import pytest

from zaqar_redis.service.token_bucket import TokenBucket


def taken(bucket: TokenBucket, now: float, tries: int = 100) -> int:
    return sum(bucket.take(now) == 0.0 for _ in range(tries))


def test_full_bucket_lets_two_seconds_of_its_rate_through_at_once() -> None:
    bucket = TokenBucket(10, 0.0)
    assert taken(bucket, 0.0) == 20


def test_emptied_bucket_lets_its_rate_through() -> None:
    bucket = TokenBucket(10, 0.0)
    taken(bucket, 0.0)
    assert [taken(bucket, second / 2) for second in range(1, 5)] == [5, 5, 5, 5]


def test_idle_bucket_saves_up_no_more_than_a_burst() -> None:
    bucket = TokenBucket(10, 0.0)
    taken(bucket, 0.0)
    assert taken(bucket, 1000.0) == 20


def test_refusal_tells_the_seconds_until_there_is_a_token() -> None:
    bucket = TokenBucket(0.5, 0.0)
    assert taken(bucket, 0.0) == 1
    assert bucket.take(0.0) == pytest.approx(2.0)
    assert bucket.take(1.5) == pytest.approx(0.5)
    assert bucket.take(2.0) == 0.0


def test_bucket_of_a_rate_below_one_lets_single_requests_through() -> None:
    assert taken(TokenBucket(0.1, 0.0), 0.0) == 1


def test_bucket_without_a_rate_lets_nothing_through() -> None:
    bucket = TokenBucket(0, 0.0)
    assert taken(bucket, 1000.0) == 0
    assert bucket.take(1000.0) > 0


def test_lower_rate_takes_away_what_was_saved_up() -> None:
    bucket = TokenBucket(10, 0.0)
    bucket.set_rate(2)
    assert taken(bucket, 0.0) == 4


def test_higher_rate_gives_nothing_at_once() -> None:
    bucket = TokenBucket(1, 0.0)
    taken(bucket, 0.0)
    bucket.set_rate(10)
    assert taken(bucket, 0.0) == 0
    assert taken(bucket, 1.0) == 10


def test_bucket_is_full_when_it_is_as_good_as_new() -> None:
    bucket = TokenBucket(10, 0.0)
    assert bucket.is_full(0.0)
    taken(bucket, 0.0)
    assert not bucket.is_full(1.9)
    assert bucket.is_full(2.0)
