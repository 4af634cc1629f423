# SPDX-License-Identifier: Apache-2.0
"""The world of examples/grid: which squares a screen shows, and what a player subscribes to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from examples.grid.world import ACROSS, DOWN, SLACK, Square, View, World
from zaqar_redis.realtime.session.context import SessionSettings

SIDE = 100
WORLD = World(SIDE)
_PLACES = st.floats(-1e6, 1e6)
_VIEWS = st.builds(View, _PLACES, _PLACES, st.floats(1, ACROSS * SIDE), st.floats(1, DOWN * SIDE))


def moved(view: View, x: float, y: float) -> View:
    return view._replace(x=view.x + x * SIDE, y=view.y + y * SIDE)


def test_squares_are_counted_from_the_origin_and_are_channels_of_the_namespace() -> None:
    assert WORLD.square_at(0, 0) == Square(0, 0)
    assert WORLD.square_at(99.9, -0.1) == Square(0, -1)
    assert Square(12, -3).channel == "grid:12:-3"


def test_view_shows_the_squares_that_it_touches() -> None:
    assert WORLD.squares(View(50, 50, 90, 90)) == {Square(0, 0)}
    assert WORLD.squares(View(100, 50, 20, 20)) == {Square(0, 0), Square(1, 0)}
    # It ends where the next square begins.
    assert WORLD.squares(View(50, 50, 100, 100)) == {Square(0, 0)}


def test_first_subscriptions_are_the_visible_squares_and_the_ring_around_them() -> None:
    found = WORLD.subscriptions(View(50, 50, 90, 90), set())
    assert found == {Square(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)}


@given(_VIEWS, st.floats(-0.99, 0.99), st.floats(-0.99, 0.99))
def test_squares_are_subscribed_to_before_a_step_of_a_square_shows_them(
    view: View, x: float, y: float
) -> None:
    subscribed = WORLD.subscriptions(view, set())
    assert WORLD.squares(moved(view, x, y)) <= subscribed


@given(_VIEWS, st.floats(0, 0.99 * SLACK))
def test_steps_to_and_fro_change_no_subscription_after_the_first(view: View, step: float) -> None:
    there = moved(view, step, step)
    subscribed = WORLD.subscriptions(there, WORLD.subscriptions(view, set()))
    assert WORLD.subscriptions(view, subscribed) == subscribed
    assert WORLD.subscriptions(there, subscribed) == subscribed


def test_squares_that_are_left_behind_are_unsubscribed_from() -> None:
    view = View(50, 50, 90, 90)
    subscribed = WORLD.subscriptions(view, set())
    near = WORLD.subscriptions(moved(view, 0.5, 0), subscribed)
    far = WORLD.subscriptions(moved(view, 1.0, 0), near)
    assert [min(square.x for square in found) for found in (subscribed, near, far)] == [-1, -1, -1]
    gone = WORLD.subscriptions(moved(view, 1.6, 0), far)
    assert {square.x for square in gone} == {0, 1, 2, 3}


@given(_VIEWS, st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), max_size=20))
def test_subscriptions_of_the_largest_screen_fit_one_connection(
    view: View, steps: list[tuple[float, float]]
) -> None:
    largest = view._replace(width=ACROSS * SIDE, height=DOWN * SIDE)
    subscribed = WORLD.subscriptions(largest, set())
    for step in steps:
        largest = moved(largest, *step)
        subscribed = WORLD.subscriptions(largest, subscribed)
        assert len(subscribed) <= SessionSettings().channel_limit
