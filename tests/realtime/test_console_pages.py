# SPDX-License-Identifier: Apache-2.0
"""Every page of the console: accessible, on a phone too, small, and without requests elsewhere."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Page, Response, Route, expect

from tests.conventions.files import ROOT
from tests.realtime.console_pages import KEY, VIEWS, Request, api_of, furnish, post, signed_in
from tests.support import servers

OPTIONS: dict[str, dict[str, object]] = {
    "DEFAULT": {"admin_mode": True},
    "transport": {"max_messages_post_size": 4 * 2**20},
    "channels": {"api_key": KEY, "history_size": 100, "history_ttl": 60, "presence": True},
}
#: Bytes of all that a browser loads to show every page: some seconds on a line of 1 Mbit/s.
_SIZE_MAX = 300_000
_AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
_LEVELS = ("serious", "critical")
#: Returns the words in cells of tables that are broken into lines, but those of long names.
_BROKEN_WORDS = r"""() => Array.from(document.querySelectorAll("td, th"), (cell) => {
  const words = [];
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    for (const { 0: word, index } of text.data.matchAll(/\S+/g)) {
      const range = new Range();
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      const lines = new Set(Array.from(range.getClientRects(), ({ top }) => Math.round(top)));
      if (lines.size > 1 && word.length < 18) words.push(word);
    }
  }
  return words;
}).flat()"""


#: Returns how many rows the header has.
_HEADER_ROWS = """() => {
  const places = Array.from(document.querySelectorAll("header h1, header a, header button"),
    (each) => each.getBoundingClientRect()).filter(({ width }) => width);
  places.sort((one, other) => one.top - other.top);
  return places.filter(({ top }, index) => !index || top >= places[index - 1].bottom).length;
}"""
#: Returns what one would have to scroll sideways for; the links of a nav are one row that scrolls.
_OUT_OF_SIGHT = """() => Array.from(
  document.querySelectorAll("main :is(button, a, code, input, select, textarea, td, th)"))
  .filter((each) => each.checkVisibility() && !each.closest("nav, .u-legend"))
  .filter((each) => {
    const { left, right } = each.getBoundingClientRect();
    return left < 0 || right > innerWidth;
  }).map((each) => each.outerHTML)"""


@pytest.fixture(scope="module")
def project(service: servers.RunningService) -> str:
    with api_of(service, "shop") as request:
        furnish(request)
    return "shop"


def settle(page: Page) -> None:
    """Waits until a page shows what it has asked for."""
    expect(page.locator("main")).to_have_attribute("aria-busy", "false")
    expect(page.locator("#problem")).to_be_hidden()


def violations(page: Page, *rules: str) -> list[Any]:
    """Returns what axe finds serious, by all its rules or those named."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE.read_text())
    options = {"runOnly": rules} if rules else {}
    found = page.evaluate("(o) => axe.run(o).then((result) => result.violations)", options)
    return [
        (each["id"], [node["html"] for node in each["nodes"]])
        for each in found
        if each["impact"] in _LEVELS
    ]


@pytest.mark.nightly
def test_pages_have_enough_contrast_in_the_dark(
    page: Page, service: servers.RunningService, project: str
) -> None:
    page.emulate_media(color_scheme="dark")  # it changes colours only
    page.goto(f"{service.url}/console/")
    expect(page.get_by_label("API key")).to_be_visible()
    assert violations(page, "color-contrast") == []
    page.goto("about:blank")
    for view in VIEWS:
        signed_in(page, service, project, view)
        settle(page)
        assert (view, violations(page, "color-contrast")) == (view, [])
    page.goto(f"{service.url}/console/#/queues/orders?tab=settings")
    page.get_by_role("button", name="Delete the queue").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page, "color-contrast") == []


def test_pages_are_accessible_on_wide_and_narrow_screens(
    page: Page, service: servers.RunningService, project: str
) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(f"{service.url}/console/")
    expect(page.get_by_label("API key")).to_be_visible()
    assert violations(page) == []
    page.goto("about:blank")
    for view in VIEWS:
        page.set_viewport_size({"width": 1200, "height": 900})
        signed_in(page, service, project, view)
        settle(page)
        assert (view, violations(page)) == (view, [])
        assert (view, page.evaluate(_BROKEN_WORDS)) == (view, [])
        page.set_viewport_size({"width": 360, "height": 740})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert (view, wide) == (view, 360)
        assert (view, page.evaluate(_BROKEN_WORDS)) == (view, [])
        assert (view, page.evaluate(_OUT_OF_SIGHT)) == (view, [])
        assert (view, violations(page)) == (view, [])
    page.goto(f"{service.url}/console/#/queues/orders?tab=settings")
    page.get_by_role("button", name="Delete the queue").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page) == []


def test_tab_says_nothing_of_its_rows_before_it_has_them(
    page: Page, service: servers.RunningService, project: str
) -> None:
    held: list[Route] = []
    page.route("**/claims?*", lambda route: held.append(route))
    signed_in(page, service, project, "queues/orders")
    settle(page)
    with page.expect_request("**/claims?*"):
        page.get_by_role("link", name="Claims").click()
    expect(page.locator("main")).to_have_attribute("aria-busy", "true")
    claims = page.get_by_label("Claims")
    assert claims.inner_text() == ""
    held[0].continue_()
    expect(claims.get_by_role("button", name="Release")).to_be_visible()
    settle(page)


def test_header_has_one_row_on_a_desktop_and_two_on_a_phone(
    page: Page, service: servers.RunningService, project: str
) -> None:
    signed_in(page, service, f"{project}-with-a-name-that-is-longer-than-others", "access")
    settle(page)
    for width, rows in ((1400, 1), (390, 2)):
        page.set_viewport_size({"width": width, "height": 800})
        assert (width, page.evaluate(_HEADER_ROWS)) == (width, rows)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        expect(page.get_by_role("button", name="Sign out")).to_be_in_viewport(ratio=1)
    # The links scroll, and the one of what is shown is in sight.
    page.reload()
    settle(page)
    expect(page.get_by_role("link", name="Access", exact=True)).to_be_in_viewport(ratio=0.9)


def test_console_is_used_by_keyboard_alone(
    page: Page, service: servers.RunningService, project: str
) -> None:
    def focused() -> str:
        return str(page.evaluate("document.activeElement.textContent.trim()"))

    signed_in(page, service, project, "queues")
    expect(page.get_by_role("link", name="orders", exact=True)).to_be_visible()
    page.keyboard.press("Tab")
    assert focused() == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    for _ in range(30):
        if focused() == "Total":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    head = page.get_by_role("columnheader", name="Total")
    expect(head).to_have_attribute("aria-sort", "descending")
    page.get_by_role("button", name="Create a queue").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert focused() == "Create a queue"
    page.get_by_role("link", name="orders", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="orders", exact=True)).to_be_visible()
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.title() == "orders – zaqar-redis"  # noqa: RUF001  # as in the page's title


def test_all_that_the_browser_loads_is_small_and_from_the_service(
    page: Page, service: servers.RunningService, project: str
) -> None:
    loaded: dict[str, Response] = {}

    def remember(response: Response) -> None:
        loaded.setdefault(response.url, response)

    page.on("response", remember)
    for view in VIEWS:
        signed_in(page, service, project, view)
        settle(page)
    assert {urlsplit(url).netloc for url in loaded} == {urlsplit(service.url).netloc}
    files = {
        path: len(response.body())
        for path, response in ((urlsplit(url).path, each) for url, each in loaded.items())
        if path.endswith((".js", ".css", "/console/", "/attributes"))
    }
    assert {"/console/uPlot.iife.min.js", "/console/table.js"} <= set(files)
    assert sum(files.values()) <= _SIZE_MAX, json.dumps(files, indent=1)


def test_large_bodies_and_bodies_of_html_are_shown_as_text(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    html = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    post(api, "large", "x" * 2**20, html, {html: [html] * 3})
    signed_in(page, service, project, "queues/large?tab=messages")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("characters")
    expect(rows.nth(1).locator("code")).to_have_text(json.dumps(html))
    rows.nth(0).get_by_role("button", name="Show").click()
    assert len(page.get_by_role("dialog").locator("pre").inner_text()) < 2**18
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    rows.nth(2).get_by_role("button", name="Show").click()
    shown = page.get_by_role("dialog").locator("pre").inner_text()
    assert json.loads(shown) == {html: [html] * 3}
    assert page.locator("main img, main script, dialog img, dialog script").count() == 0
    page.goto(f"{service.url}/console/#/queues/large?tab=live")
    expect(page.locator(".tail .state")).to_have_text("live")
    post(api, "large", "y" * 2**20)
    expect(page.locator(".feed li")).to_contain_text(["characters"])
    answered = httpx.delete(
        f"{service.url}/v2/queues/large", headers={"X-Project-ID": project, "Client-ID": "0" * 32}
    )
    assert answered.status_code == 204
