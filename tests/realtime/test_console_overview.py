# SPDX-License-Identifier: Apache-2.0
"""The overview of the console: the last day of a project, failing subscriptions, other projects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.realtime.console_pages import (
    FAILURE,
    KEY,
    Request,
    api_of,
    charts_show,
    fail_deliveries,
    post,
    signed_in,
    subscribe,
)
from tests.support import servers
from tests.support.backends import Backend, NewStore

OPTIONS: dict[str, dict[str, object]] = {"channels": {"api_key": KEY}, "history": {"interval": 1}}


@pytest.fixture(scope="module")
def store(new_store: NewStore) -> Iterator[Backend]:
    with new_store() as backend:
        yield backend


@pytest.fixture(scope="module")
def service(store: Backend) -> Iterator[servers.RunningService]:
    with servers.service(store.uri, options=OPTIONS) as running:
        yield running


def failing(store: Backend, api: Request, project: str) -> dict[str, str]:
    """Makes a subscription of a queue and one of a topic fail; returns their ids."""
    found = {}
    for source, queue in (("queues/orders", "orders"), ("topics/prices", "topic:prices")):
        api("PUT", f"/v2/{source}", json={})
        found[queue] = subscribe(api, source, "https://hooks.shop.example/orders")
        with store.client() as client:
            fail_deliveries(client, project, queue, found[queue])
    return found


def overview(api: Request) -> Any:
    return api("GET", "/console/overview").json()


def test_history_of_a_project_is_told(api: Request) -> None:
    def points() -> list[dict[str, Any]]:
        found = api("GET", "/console/overview/history?hours=1").json()
        assert (found["step"], found["hours"]) == (1, 1)
        return list(found["points"])

    assert points() == []
    post(api, "orders", 0)
    servers.wait_for(lambda: bool(points()), "the first point")
    post(api, "mails", 1, 2)
    servers.wait_for(lambda: points()[-1]["free"] == 3, "a point after the post")
    assert sum(point["posted"] for point in points()) in (2, 3)
    refused = api("GET", "/console/overview/history?hours=25")
    assert refused.json()["description"] == 'The value of "hours" must be between 1 and 24.'


def test_overview_charts_the_project_from_before_the_page_was_opened(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    def history() -> list[int]:
        points = api("GET", "/console/overview/history?hours=1").json()["points"]
        return [point["free"] for point in points]

    post(api, "orders", *range(4))
    post(api, "mails", *range(3))
    servers.wait_for(lambda: 7 in history(), "a point of the history")
    assert api("DELETE", "/v2/queues/orders/messages?pop=4").status_code == 200
    servers.wait_for(lambda: history()[-1] == 3, "the next point")
    signed_in(page, service, project, "overview")
    expect(page.get_by_role("heading", name="The last hour")).to_be_visible()
    expect(page.locator(".chart canvas")).to_have_count(2)
    servers.wait_for(lambda: charts_show(page, "7") or charts_show(page, "3"), "the points")


def test_overview_tells_failing_subscriptions_of_queues_and_topics(
    store: Backend, api: Request, project: str
) -> None:
    ids = failing(store, api, project)
    servers.wait_for(lambda: overview(api)["failing_subscriptions"] == 2, "both subscriptions")
    found = {(each["kind"], each["name"]): each for each in overview(api)["failing"]}
    assert set(found) == {("queues", "orders"), ("topics", "prices")}
    of_topic = found["topics", "prices"]
    assert (of_topic["number"], of_topic["subscription"]) == (1, ids["topic:prices"])
    assert of_topic["error"] == FAILURE
    assert of_topic["failed_at"] - of_topic["since"] == pytest.approx(411)


def test_overview_shows_failing_subscriptions_and_their_ids_whole_on_a_click(
    page: Page, service: servers.RunningService, project: str, store: Backend, api: Request
) -> None:
    signed_in(page, service, project, "overview")
    expect(page.locator("main")).to_have_attribute("aria-busy", "false")
    title = page.get_by_role("heading", name="Failing subscriptions")
    expect(title).to_be_hidden()
    ids = failing(store, api, project)
    expect(title).to_have_text("Failing subscriptions: 2")
    row = page.get_by_role("row", name="queue orders")
    expect(row).to_contain_text(FAILURE)
    short = row.get_by_title(ids["orders"])
    assert len(short.inner_text()) < 20
    short.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Subscription")).to_have_text(ids["orders"])
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    dialog.get_by_role("button", name="Copy").click()
    expect(page.locator("#done")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == ids["orders"]
    page.keyboard.press("Escape")
    row.get_by_role("link", name="queue orders").click()
    expect(page.get_by_role("row", name="https://hooks.shop.example/orders")).to_be_visible()


def test_projects_with_queues_or_topics_are_told_to_administrators(
    api: Request, service: servers.RunningService, project: str
) -> None:
    post(api, "orders", 1)
    with api_of(service, f"{project}-topics") as other:
        other("PUT", "/v2/topics/prices", json={})
    found = api("GET", "/console/projects").json()
    assert found["complete"]
    assert {project, f"{project}-topics"} <= set(found["projects"])
    assert found["projects"] == sorted(set(found["projects"]))


def test_project_is_chosen_from_a_list(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    post(api, "orders", 1)
    with api_of(service, f"{project}-other") as other:
        post(other, "others", 1)
    signed_in(page, service, project, "queues")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    page.get_by_role("button", name=f"Project: {project}").click()
    dialog = page.get_by_role("dialog")
    listed = dialog.get_by_role("list", name="Projects").get_by_role("button")
    expect(listed.filter(has_text=project).first).to_be_visible()
    dialog.get_by_label("Project", exact=True).fill(f"{project}-OTHER".upper())
    expect(listed).to_have_text([f"{project}-other"])
    listed.click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name=f"Project: {project}-other")).to_be_visible()
    expect(page.get_by_role("link", name="others")).to_be_visible()
