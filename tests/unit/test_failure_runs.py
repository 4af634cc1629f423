# SPDX-License-Identifier: Apache-2.0
"""Runs of failures: when a subscription counts as failing."""

from __future__ import annotations

import pytest

from zaqar_redis.notify import failures
from zaqar_redis.notify.failures import FailureRuns
from zaqar_redis.records import Subscription

_HOOK = Subscription("1", "q", "http://example.org/", 600, 0, {})
_OTHER = Subscription("2", "q", "http://example.org/", 600, 0, {})


class _Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr(failures, "time", clock)
    return clock


def test_subscription_fails_when_attempts_have_failed_for_five_minutes(clock: _Clock) -> None:
    runs = FailureRuns()
    runs.note(_HOOK, "busy")
    runs.note(_OTHER, "busy")
    clock.now += 301
    assert runs.failing() == 0  # nothing was attempted meanwhile
    runs.note(_HOOK, "busy")
    assert runs.failing() == 1
    clock.now += 599
    assert runs.failing() == 1
    clock.now += 2
    assert runs.failing() == 0  # another process may have the queue


def test_delivered_message_ends_the_run_and_tells_how_many_were_given_up(clock: _Clock) -> None:
    runs = FailureRuns()
    assert [runs.note_given_up(_HOOK) for _ in range(3)] == [True, False, False]
    clock.now += 301
    runs.note(_HOOK, "busy")
    assert runs.end(_HOOK) == 3
    assert runs.failing() == 0
    assert runs.end(_HOOK) == 0


def test_messages_that_expire_make_no_failing_subscription_and_leave_the_last_error(
    clock: _Clock,
) -> None:
    runs = FailureRuns()
    assert runs.last_error(_HOOK) == ""
    runs.note_given_up(_HOOK)
    clock.now += 301
    runs.note_given_up(_HOOK)
    assert (runs.failing(), runs.last_error(_HOOK)) == (0, "")
    runs.note(_HOOK, "busy")
    runs.note_given_up(_HOOK)
    assert runs.last_error(_HOOK) == "busy"
    runs.end(_HOOK)
    assert runs.last_error(_HOOK) == ""


def test_subscriber_that_refuses_every_second_message_has_one_line_a_minute(clock: _Clock) -> None:
    runs = FailureRuns()
    begun, ended = 0, []
    for _ in range(4 * 180):
        begun += runs.note_given_up(_HOOK)
        ended.append(runs.end(_HOOK))
        clock.now += 0.25
    assert begun == 3
    assert [number for number in ended if number] == [1, 240, 240]
    assert runs.failing() == 0


def test_runs_are_bounded_by_forgetting_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_REMEMBERED_MAX", 1)
    runs = FailureRuns()
    runs.note_given_up(_HOOK)
    runs.note_given_up(_OTHER)
    assert (runs.end(_HOOK), runs.end(_OTHER)) == (0, 1)
