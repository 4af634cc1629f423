# SPDX-License-Identifier: Apache-2.0
"""Takes the pictures of examples/grid that are in doc/pictures: see tools/grid-pictures."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, sync_playwright

from tests.conventions.files import ROOT
from tests.realtime.grid_pages import grid, player, wait_until
from tests.support import servers

_PICTURES = ROOT / "doc" / "pictures"
#: Two pages beside each other.
_SIDE_BY_SIDE = """<body style="margin:0;display:flex;gap:8px;background:#888">
<iframe src="{0}&at=100,60&team=blue" style="flex:1;height:100vh;border:0"></iframe>
<iframe src="{1}&at=200,-60&team=red" style="flex:1;height:100vh;border:0"></iframe>"""


def take_players(browser: Browser) -> None:
    """Two players, each with a page of another node, see each other."""
    with grid() as running, browser.new_context() as context:
        page = context.new_page()
        page.set_viewport_size({"width": 1400, "height": 620})
        page.set_content(_SIDE_BY_SIDE.format(*(url for url, _ in running.pages)))
        for frame in page.frames[1:]:
            frame.wait_for_function("window.grid?.complete && grid.others.length === 1")
            frame.wait_for_function("grid.told.length === 1")
            frame.wait_for_function("document.getElementById('count').textContent === '2'")
        settle(page)
        page.screenshot(path=_PICTURES / "grid-players.png")


def take_bots(browser: Browser) -> None:
    """A player walks among a thousand bots."""
    with grid("--bots", "1000") as running:
        servers.wait_for(
            lambda: any(line.startswith("1000 bots:") for line in running.lines), "the bots"
        )
        (url, _), _ = running.pages
        with player(browser, url, 0, 0, {"width": 1600, "height": 1000}, "&team=green") as page:
            wait_until(page, "Number(document.getElementById('count').textContent) >= 1001")
            page.keyboard.down("ArrowRight")
            settle(page)
            page.screenshot(path=_PICTURES / "grid-bots.png")


def settle(page: Page) -> None:
    page.wait_for_timeout(4000)  # until all have spoken, and the overlay's rates are steady


def main() -> None:
    with sync_playwright() as playwright:
        # The sandbox needs privileges that containers lack.
        browser = playwright.chromium.launch(
            executable_path=servers.program("chromium"), args=["--no-sandbox"]
        )
        take_players(browser)
        take_bots(browser)
        browser.close()


if __name__ == "__main__":
    main()
