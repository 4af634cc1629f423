# SPDX-License-Identifier: Apache-2.0
"""The rate of a channel is that of the current window and the one before it."""

from __future__ import annotations

import time

import pytest

from zaqar_redis.realtime.node.publication_rates import PublicationCounter, RateWindows


class ManualTime:
    """A monotonic clock that only a test advances, and windows that follow it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self.windows = RateWindows()

    def advance(self, seconds: int) -> None:
        """Lets seconds pass, with a look at the windows in each."""
        for _ in range(seconds):
            self.now += 1
            self.windows.advance()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualTime:
    return ManualTime(monkeypatch)


def publish(counter: PublicationCounter, times: int) -> None:
    for _ in range(times):
        counter.add()


def test_rate_of_a_new_channel_is_known_after_a_second(clock: ManualTime) -> None:
    clock.advance(7)
    counter = PublicationCounter(clock.windows)
    publish(counter, 6)
    assert counter.rate() is None
    clock.advance(1)
    assert counter.rate() == 6
    clock.advance(2)
    assert counter.rate() == 2


def test_rate_covers_this_window_and_the_one_before(clock: ManualTime) -> None:
    counter = PublicationCounter(clock.windows)
    publish(counter, 40)
    clock.advance(5)
    assert counter.rate() == 8
    publish(counter, 10)
    clock.advance(3)
    assert counter.rate() == 50 / 8
    clock.advance(2)  # the first forty are in neither window
    assert counter.rate() == 2


@pytest.mark.parametrize("seconds", [10, 11, 15, 300])
def test_rate_after_ten_seconds_without_publications_is_zero(
    clock: ManualTime, seconds: int
) -> None:
    counter = PublicationCounter(clock.windows)
    publish(counter, 40)
    clock.advance(seconds)
    assert counter.rate() == 0


def test_publications_after_a_pause_count_without_those_before_it(clock: ManualTime) -> None:
    counter = PublicationCounter(clock.windows)
    publish(counter, 1000)
    clock.advance(12)
    publish(counter, 14)
    assert counter.rate() == 2  # of the seven seconds since the window before began


def test_window_that_a_busy_node_ended_late_counts_with_its_whole_length(clock: ManualTime) -> None:
    counter = PublicationCounter(clock.windows)
    publish(counter, 30)
    clock.now += 15
    clock.windows.advance()
    assert counter.rate() == 2
