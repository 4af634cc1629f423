# SPDX-License-Identifier: Apache-2.0
"""A key is refused for a growing time after failed attempts."""

from __future__ import annotations

import pytest

from zaqar_redis.auth.attempts import AttemptLimiter


class Seconds:
    """A clock that the test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
def limiter(clock: Seconds) -> AttemptLimiter:
    return AttemptLimiter(clock)


def fail(limiter: AttemptLimiter, times: int, key: str = "k") -> None:
    for _ in range(times):
        limiter.add_failure(key)


def test_key_is_refused_from_the_tenth_failure_on(limiter: AttemptLimiter, clock: Seconds) -> None:
    fail(limiter, 9)
    assert limiter.refusal("k") == 0
    fail(limiter, 1)
    assert limiter.refusal("k") == 1
    assert limiter.refusal("another") == 0
    clock.now += 1
    assert limiter.refusal("k") == 0


def test_refusal_doubles_up_to_a_minute(limiter: AttemptLimiter, clock: Seconds) -> None:
    fail(limiter, 9)
    found = []
    for _ in range(9):
        fail(limiter, 1)
        found.append(limiter.refusal("k"))
        clock.now += found[-1]
    assert found == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_failures_are_forgotten_after_a_minute(limiter: AttemptLimiter, clock: Seconds) -> None:
    fail(limiter, 9)
    clock.now += 60.5
    fail(limiter, 9)
    assert limiter.refusal("k") == 0
    fail(limiter, 3)
    assert limiter.refusal("k") == 4
    clock.now += 64.5
    assert limiter.add_failure("k") == 1


def test_made_up_ids_do_not_fill_the_memory(limiter: AttemptLimiter) -> None:
    fail(limiter, 10, "first")
    for number in range(4095):
        fail(limiter, 1, str(number))
    assert limiter.refusal("first") == 1
    fail(limiter, 1, "one more")
    assert limiter.refusal("first") == 0
