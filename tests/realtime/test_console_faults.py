# SPDX-License-Identifier: Apache-2.0
"""The console while something is wrong: it says what, in plain words, and goes on by itself."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.realtime.console_pages import KEY, Request, another_tab, api_of, post, signed_in, write
from tests.support import fixtures, servers

#: Every character that the name of a queue may have.
NAME = "aZ09_.-" + "x" * 57
#: Of a channel: what URLs, HTML and globs give a meaning.
CHANNEL = "kept:%2F/?q=1&#<b>\"'*[x]{y}\\ $ +~,;"
OPTIONS: dict[str, dict[str, object]] = {
    "DEFAULT": {"admin_mode": True},
    "channels": {"api_key": KEY, "namespaces": "kept"},
    "channels:kept": {"history_size": 100, "history_ttl": 60, "presence": True},
}
#: So that a store that is away is noticed soon.
HASTY = OPTIONS | {"redis": {"timeout": 2, "connect_timeout": 2}}


store = fixtures.redis()


@pytest.fixture(scope="module")
def service() -> Iterator[servers.RunningService]:
    with servers.redis_server() as redis, servers.service(redis.uri, options=OPTIONS) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(store: servers.RedisServer) -> Iterator[servers.RunningService]:
    with servers.service(store.uri, options=HASTY) as running:
        yield running


def test_store_that_stands_still_is_an_alarm_until_it_is_back(
    page: Page, hasty: servers.RunningService, store: servers.RedisServer, project: str
) -> None:
    with api_of(hasty, project) as api:
        post(api, "orders", 1)
    signed_in(page, hasty, project, "overview")
    expect(page.get_by_text("Store default is away")).to_be_hidden()
    expect(page.locator("[data-figure=messages]")).to_have_text("1")
    queue = another_tab(page, hasty, project, "queues/orders")
    expect(queue.locator("[data-figure=total]")).to_have_text("1")
    store.signal(signal.SIGSTOP)
    try:
        alarms = page.locator("[data-severity=critical]")
        expect(alarms.filter(has_text="store default")).to_contain_text("is away")
        expect(alarms.filter(has_text="store default")).to_contain_text("SLOWLOG")
        problem = queue.get_by_role("alert").first
        expect(problem).to_contain_text("The service cannot reach its Redis")
        queue.goto(f"{hasty.url}/console/#/channels/news")
        queue.get_by_text("Publish").last.scroll_into_view_if_needed()
        write(queue, "1", "Publish")
        expect(queue.locator(".publish [role=status]")).to_contain_text("cannot be asked now")
        assert "internal server error" not in page.content() + queue.content()
    finally:
        store.signal(signal.SIGCONT)
    expect(page.get_by_text("Store default is away")).to_be_hidden()
    expect(page.locator("#problem")).to_be_hidden()
    queue.goto(f"{hasty.url}/console/#/queues/orders")
    expect(queue.locator("[data-figure=total]")).to_have_text("1")
    expect(queue.locator("#problem")).to_be_hidden()


@pytest.mark.nightly
def test_queue_that_does_not_exist_or_is_deleted_says_so(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    signed_in(page, service, project, f"queues/{NAME}?tab=settings")
    missing = page.get_by_text(f"Queue {NAME} does not exist.")
    expect(missing).to_be_visible()
    post(api, NAME, 1)
    expect(missing).to_be_hidden()
    page.goto(f"{service.url}/console/#/queues")
    page.get_by_role("link", name=NAME).click()
    expect(page.locator("[data-figure=total]")).to_have_text("1")
    assert api("DELETE", f"/v2/queues/{NAME}").status_code == 204
    expect(missing).to_be_visible()
    expect(page.locator("[data-figure=total]")).to_have_text("0")
    page.goto(f"{service.url}/console/#/queues/no%20name")
    expect(page.get_by_role("alert").first).to_contain_text("Queue names may only contain")


def test_names_of_channels_with_any_character_are_kept(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    signed_in(page, service, project, "channels")
    page.get_by_label("Any channel").fill(CHANNEL)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("heading", name=CHANNEL)).to_be_visible()
    expect(page.locator(".tail .state")).to_have_text("live")
    write(page, '"hello"', "Publish")
    expect(page.locator(".feed li")).to_have_count(1)
    history = api("POST", "/api/history", json={"channel": CHANNEL, "limit": 9}).json()["result"]
    assert [each["data"] for each in history["publications"]] == ["hello"]
    page.reload()
    expect(page.get_by_role("heading", name=CHANNEL)).to_be_visible()
    other = another_tab(page, service, project, "channels")
    other.get_by_label("Name contains").fill("[x]{y}")
    other.get_by_role("link", name=CHANNEL).click()
    assert other.url == page.url


def test_login_that_ends_asks_again_and_comes_back_to_the_view(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    post(api, "orders", 1)
    signed_in(page, service, project, "queues/orders?tab=messages")
    expect(page.locator("tbody tr")).to_have_count(1)
    expired = {"title": "Unauthorized", "description": "The token has expired."}
    page.route("**/v2/**", lambda route: route.fulfill(status=401, json=expired))
    page.get_by_role("button", name="Look again").click()
    expect(page.get_by_text("Sign in again: The token has expired.")).to_be_visible()
    expect(page.get_by_text("orders")).to_be_hidden()
    page.unroute("**/v2/**")
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    assert page.url.endswith(f"#/queues/orders?tab=messages&project={project}")
    expect(page.get_by_role("button", name=f"Project: {project}")).to_be_visible()


@pytest.mark.nightly
def test_pool_that_is_lost_is_named_and_its_queues_stay_listed(
    page: Page, hasty: servers.RunningService, project: str
) -> None:
    with servers.redis_server() as east, api_of(hasty, project) as api:
        post(api, "home", 1)
        pool = {"uri": east.uri, "weight": 100}
        assert api("PUT", "/v2/pools/east", json=pool).status_code == 201
        post(api, "away", 1)
        assert api("GET", "/v2/queues/away/pool").json()["pool"] == "east"
        signed_in(page, hasty, project, "queues")
        expect(page.get_by_role("row", name="away")).to_be_visible()
        east.signal(signal.SIGSTOP)
        try:
            expect(page.get_by_text("Stores that are away: east.")).to_be_visible()
            expect(page.get_by_role("row", name="away")).to_be_visible()
            expect(page.get_by_role("row", name="home")).to_be_visible()
            page.get_by_role("link", name="Overview").click()
            alarm = page.locator("[data-severity=critical]", has_text="critical: store east")
            expect(alarm).to_contain_text("is away")
            page.get_by_role("link", name="Queues").click()
            page.get_by_role("link", name="away").click()
            expect(page.locator("#problem")).to_contain_text("The service cannot reach its Redis")
            page.get_by_role("link", name="Queues").first.click()
            page.get_by_role("link", name="home").click()
            expect(page.locator("[data-figure=total]")).to_have_text("1")
        finally:
            east.signal(signal.SIGCONT)
        page.get_by_role("link", name="Queues").first.click()
        expect(page.get_by_text("Stores that are away")).to_be_hidden()
        assert api("DELETE", "/v2/queues/away").status_code == 204


@pytest.mark.nightly
def test_service_that_is_away_at_the_start_is_asked_again(
    page: Page, service: servers.RunningService, project: str
) -> None:
    page.route("**/console/session", lambda route: route.abort())
    signed_in(page, service, project, "queues")
    expect(page.get_by_role("alert").first).to_have_text(
        re.compile("The service cannot be reached: .* The page goes on trying.")
    )
    page.unroute("**/console/session")
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()
