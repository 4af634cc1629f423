# SPDX-License-Identifier: Apache-2.0
"""The console's search through a queue that one request does not search to its end."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.realtime.console_pages import KEY, Request, api_of, post, signed_in
from tests.support import servers

OPTIONS: dict[str, dict[str, object]] = {"channels": {"api_key": KEY}}
#: A request searches 1000 messages.
_MESSAGES, _POST = 2400, 20


@pytest.fixture(scope="module")
def project(service: servers.RunningService) -> str:
    with api_of(service, "shop") as request:
        for begin in range(0, _MESSAGES, _POST):
            post(request, "orders", *(f"order {begin + number}" for number in range(_POST)))
        escaped = rb'{"messages": [{"body": "\u4e2d\u6587"}]}'
        headers = {"Content-Type": "application/json"}
        posted = request("POST", "/v2/queues/orders/messages", content=escaped, headers=headers)
        assert posted.status_code == 201
    return "shop"


def search(page: Page, text: str) -> None:
    page.get_by_label("Body contains").fill(text)
    page.get_by_label("Body contains").press("Enter")


def test_search_goes_on_by_itself_to_the_end_of_the_queue(
    page: Page, service: servers.RunningService, project: str
) -> None:
    signed_in(page, service, project, "queues/orders?tab=messages")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(10)
    search(page, "中文")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("中文")
    expect(page.get_by_text("The queue is searched to its end.")).to_be_visible()
    expect(page.get_by_role("progressbar", name="Part of the queue")).to_be_hidden()
    search(page, "nowhere")
    expect(page.get_by_text("No messages.")).to_be_visible()
    search(page, "order 23")  # 111 in all, most of them at the end
    expect(rows).to_have_count(10)
    page.get_by_role("link", name="Next").click()
    expect(rows.nth(0)).to_contain_text("order 239")
    expect(rows).to_have_count(10)


def test_search_shows_its_progress_and_can_be_stopped(
    page: Page, service: servers.RunningService, project: str
) -> None:
    held: list[Route] = []

    def hold_later_requests(route: Route) -> None:
        if "marker=" in route.request.url:
            held.append(route)
        else:
            route.continue_()

    page.route("**/peek?*", hold_later_requests)
    signed_in(page, service, project, "queues/orders?tab=messages")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(10)
    search(page, "中文")
    expect(page.get_by_text("of the queue is searched, 0 found")).to_contain_text("41.6%")
    bar = page.get_by_role("progressbar", name="Part of the queue")
    expect(bar).to_be_visible()
    page.get_by_role("button", name="Stop").first.click()
    expect(page.get_by_text("Stopped.")).to_be_visible()
    expect(rows).to_have_count(0)
    page.unroute("**/peek?*")
    page.get_by_role("button", name="Go on").click()
    expect(rows).to_have_count(1)
    expect(bar).to_be_hidden()
    assert len(held) == 1  # nobody asked again after the stop


def test_search_looks_again_after_an_act_and_when_asked(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    signed_in(page, service, project, "queues/orders?tab=messages")
    rows = page.locator("tbody tr")
    search(page, "needle")
    expect(page.get_by_text("No messages.")).to_be_visible()
    post(api, "orders", "needle")
    page.get_by_role("button", name="Look again").click()
    expect(rows).to_have_count(1)
    rows.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No messages.")).to_be_visible()
