# SPDX-License-Identifier: Apache-2.0
"""examples/grid in headless Chromium: players on two nodes, bots, and messages that are routed."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from examples.grid.world import KEEP_ALIVE, Square, View, World
from tests.realtime.grid_pages import RunningGrid, grid, name_of, player, state, wait_until
from tests.support import servers

SIDE = 400
#: Half a square: who walks away is soon beyond the ring.
_PHONE = ViewportSize(width=200, height=200)
#: Where the tests' players are: far from the bots, and from those of other tests.
_FAR = 1_000_000
_SEES = "(user) => grid.others.some((each) => each.user === user)"
_SEES_NOT = "(user) => !grid.others.some((each) => each.user === user)"
#: What is shown of a player is where its page says that it is.
_SEES_AT = """([user, x, y]) => grid.others.some(
  (each) => each.user === user && Math.hypot(each.x - x, each.y - y) < 2)"""
_NOTE_FADED = """() => {
  const look = () => {
    if (grid.others.some((each) => each.opacity < 0.9)) window.hasFaded = true;
    else requestAnimationFrame(look);
  };
  look();
}"""
_TOLD = "(text) => grid.told.some((each) => each.includes(text))"
_REPORT = re.compile(r"50 bots: (\d+) events/s sent, (\d+) received, ([\d.]+) .* (\d+) errors")


@pytest.fixture(scope="module")
def running_grid() -> Iterator[RunningGrid]:
    with grid("--bots", "50", "--square", str(SIDE)) as running:
        yield running


@pytest.fixture(scope="module")
def urls(running_grid: RunningGrid) -> list[str]:
    """The pages of the two nodes."""
    return [url for url, _ in running_grid.pages]


def test_players_on_two_nodes_meet_and_part_with_subscriptions_ahead_of_the_border(
    browser: Browser, urls: list[str]
) -> None:
    with (
        player(browser, urls[0], _FAR, 0, _PHONE) as west,
        player(browser, urls[1], _FAR + 2.3 * SIDE, 0, _PHONE) as east,
    ):
        pages, names = (west, east), (name_of(east), name_of(west))
        for page, other in zip(pages, names, strict=True):
            wait_until(page, "grid.counts.out > 0")
            wait_until(page, _SEES_NOT, other)
        walk(west, "ArrowRight", east, "ArrowLeft")
        for page, other in zip(pages, names, strict=True):
            wait_until(page, _SEES, other)
        wait_until(west, f"grid.me.x > {_FAR + 0.6 * SIDE}")
        stop(west, "ArrowRight", east, "ArrowLeft")
        for page, there in ((west, east), (east, west)):
            me = state(there, "me")
            wait_until(page, _SEES_AT, [me["user"], me["x"], me["y"]])
        walk(west, "ArrowLeft", east, "ArrowRight")
        for page, other in zip(pages, names, strict=True):
            wait_until(page, _SEES_NOT, other)
            assert set(state(page, "shown")) < set(state(page, "subscriptions"))
            assert state(page, "late") == 0


def walk(one: Page, key: str, other: Page, other_key: str) -> None:
    one.keyboard.down(key)
    other.keyboard.down(other_key)


def stop(one: Page, key: str, other: Page, other_key: str) -> None:
    one.keyboard.up(key)
    other.keyboard.up(other_key)
    for page in (one, other):
        wait_until(page, "grid.me.vx === 0")


@pytest.mark.nightly
def test_spectator_sees_a_player_fade_and_go_and_is_told_what_only_its_role_is(
    browser: Browser, urls: list[str]
) -> None:
    with player(browser, urls[1], _FAR, _FAR, _PHONE, "&watch") as watching:
        with player(browser, urls[0], _FAR + 20, _FAR, _PHONE) as seen:
            name = name_of(seen)
            wait_until(watching, _SEES, name)
            wait_until(watching, "document.getElementById('count').textContent.includes(' + ')")
            assert state(seen, "others") == []
            watching.evaluate(_NOTE_FADED)  # it may be over before the page of the player is closed
        wait_until(watching, "window.hasFaded")
        wait_until(watching, _SEES_NOT, name)
        assert state(watching, "counts.out") == 0


def test_pointer_leads_the_player_to_a_point_by_few_events(
    browser: Browser, urls: list[str]
) -> None:
    with player(browser, urls[0], -_FAR, 0, _PHONE) as page:
        wait_until(page, "grid.counts.out > 0")
        before, began = state(page, "counts.out"), time.monotonic()
        page.mouse.click(160, 70)
        wait_until(page, f"grid.me.x === {60 - _FAR} && grid.me.y === -30 && grid.me.vx === 0")
        # Its departure and its stop, beside keep-alives.
        wait_until(page, f"grid.counts.out >= {before + 2}")
        repeated = (time.monotonic() - began) / KEEP_ALIVE + 1
        assert state(page, "counts.out") - before <= 2 + repeated


def test_page_and_bots_have_the_same_rule_of_subscriptions(
    browser: Browser, urls: list[str]
) -> None:
    world, current = World(SIDE), set[Square]()
    some = random.Random(7)
    rule = """([x, y, width, height, current]) =>
      [...grid.world.subscriptions({x, y, width, height}, new Set(current))]"""
    with player(browser, urls[0], 0, _FAR, _PHONE) as page:
        for _ in range(40):
            view = View(
                some.uniform(-900, 900), some.uniform(-900, 900), 1100, some.uniform(1, 700)
            )
            found = page.evaluate(rule, [*view, [square.channel for square in current]])
            current = world.subscriptions(view, current)
            assert set(found) == {square.channel for square in current}


def test_bots_of_both_nodes_walk_and_are_seen_without_errors(
    browser: Browser, running_grid: RunningGrid, urls: list[str]
) -> None:
    with player(browser, urls[1], 0, 0, ViewportSize(width=1200, height=900)) as page:
        # Those with even numbers are at the first node, the others at the second.
        for rest in (0, 1):
            wait_until(
                page,
                f"""grid.others.filter((each) => each.user.startsWith('bot-')
                  && each.user.slice(4) % 2 === {rest} && (each.vx || each.vy)).length >= 3""",
            )
    servers.wait_for(lambda: bool(reports(running_grid)[1:]), "all bots to report")
    sent, received, subscriptions, errors = reports(running_grid)[-1]
    assert sent > 0
    assert received > sent
    assert 9 <= subscriptions <= 25
    assert errors == 0


def reports(running_grid: RunningGrid) -> list[tuple[float, ...]]:
    found = [match for match in map(_REPORT.match, running_grid.lines) if match]
    return [tuple(map(float, match.groups())) for match in found]


@pytest.mark.nightly
def test_routed_messages_greet_the_player_and_reach_its_team_on_both_nodes(
    browser: Browser, urls: list[str]
) -> None:
    with (
        player(browser, urls[0], 0, -_FAR, _PHONE, "&team=red") as caller,
        player(browser, urls[1], _FAR, -_FAR, _PHONE, "&team=red") as mate,
        player(browser, urls[1], _FAR, -_FAR, _PHONE, "&team=blue") as other,
    ):
        for page in (caller, mate, other):
            wait_until(page, _TOLD, f"Welcome, {name_of(page)}")
            wait_until(page, "Number(document.getElementById('count').textContent) >= 53")
        caller.keyboard.press("Enter")
        caller.keyboard.type("follow me")
        caller.keyboard.press("Enter")
        for page in (caller, mate):
            wait_until(page, _TOLD, f"{name_of(caller)}: follow me")
        # A shout of its own team reaches it later than one of another would have.
        other.keyboard.press("Enter")
        other.keyboard.type("blue here")
        other.keyboard.press("Enter")
        wait_until(other, _TOLD, f"{name_of(other)}: blue here")
        assert not [text for text in state(other, "told") if "follow me" in text]
