# SPDX-License-Identifier: Apache-2.0
"""The web console, as an operator sees it: in Chromium, with two workers and one Redis."""

from __future__ import annotations

import json
import re
import time
import uuid
from typing import Any

import cent
import httpx
import jwt
import pytest
from playwright.sync_api import Page, Route, WebSocketRoute, expect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.realtime.console_pages import (
    KEY,
    Request,
    another_tab,
    api_of,
    charts_show,
    choose_project,
    post,
    signed_in,
    wait_in_page,
    write,
)
from tests.support import servers
from tests.support.backends import Backend
from tests.support.servers import RunningService
from zaqar_redis.auth import tickets

OPTIONS: dict[str, dict[str, object]] = {
    "channels": {"api_key": KEY, "namespaces": "kept,latest,bare"},
    "channels:kept": {"history_size": 100, "history_ttl": 600, "presence": True},
    "history": {"interval": 1},
    "channels:latest": {"history_size": 9, "history_ttl": 600, "force_recovery_mode": "cache"},
}
#: Opens a dialog if it is rendered as HTML.
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def figure(page: Page, name: str) -> str:
    return page.locator(f"[data-figure={name}]").inner_text()


def tail_messages(page: Page) -> list[object]:
    """Returns the messages in the live tail, oldest first."""
    shown = page.locator(".feed .compact").all_inner_texts()
    return [json.loads(text) for text in shown][::-1]


def state(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.locator(".tail .state")).to_have_text(text, timeout=40_000)


def test_sign_in_needs_the_api_key(
    page: Page, service: RunningService, project: str, api: Request
) -> None:
    post(api, "orders", 1)
    page.goto(f"{service.url}/console")
    assert page.url == f"{service.url}/console/"
    page.get_by_label("API key").fill("another key")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("The API key is not valid.")
    expect(page.get_by_role("navigation")).to_be_hidden()
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.get_by_role("link", name="Queues").click()
    choose_project(page, project)
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    page.reload()
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    page.goto(f"{service.url}/console/#/queues/orders?project=another")
    expect(page.get_by_role("button", name="Project: another")).to_be_visible()
    expect(page.get_by_text("Queue orders does not exist.")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("button", name=f"Project: {project}")).to_be_visible()
    page.get_by_role("link", name="orders").click()
    expect(page.locator("[data-figure=total]")).to_have_text("1")
    page.get_by_role("button", name="Sign out").click()
    page.reload()
    expect(page.get_by_label("API key")).to_be_visible()


def test_queue_view_shows_depth_and_rates(
    page: Page, service: RunningService, project: str, api: Request
) -> None:
    post(api, "orders", 1, 2)
    signed_in(page, service, project)
    page.get_by_role("link", name="orders").click()
    expect(page.locator("[data-figure=total]")).to_have_text("2")
    expect(page.locator("[data-figure=posts]")).to_have_text("0.0")
    polls: list[Route] = []
    page.route("**/stats?*", lambda route: polls.append(route))
    wait_in_page(page, lambda: bool(polls), "a poll")
    post(api, "orders", *range(10))
    # They pass between two polls, and are in the rates all the same.
    assert api("DELETE", "/v2/queues/orders/messages?pop=4").status_code == 200
    polls.pop().continue_()
    expect(page.locator("[data-figure=total]")).to_have_text("8")
    assert float(figure(page, "posts")) > float(figure(page, "deletes")) > 0
    assert figure(page, "claims") == "0.0"
    page.unroute("**/stats?*")
    for poll in polls:
        poll.continue_()
    assert api("POST", "/v2/queues/orders/claims?limit=3", json={}).status_code == 201
    delayed = {"messages": [{"body": "later", "delay": 300}]}
    assert api("POST", "/v2/queues/orders/messages", json=delayed).status_code == 201
    expect(page.locator("[data-figure=delayed]")).to_have_text("1")
    assert [figure(page, name) for name in ("free", "claimed", "total")] == ["5", "3", "9"]
    # Each line is in a legend, behind the time.
    legends = page.locator(".chart").filter(has=page.locator("canvas")).locator(".u-label")
    rates = ("Posts/s", "Claims/s", "Deletes/s", "Dead letters/s")
    expect(legends).to_have_text(["Time", "Free", "Claimed", "Delayed", "Time", *rates])
    page.get_by_role("link", name="Queues").first.click()
    expect(page.get_by_role("row", name="orders")).to_contain_text(re.compile(r"5\s*3\s*1\s*9"))


def test_queue_view_shows_size_refused_and_dropped_once_there_are_some(
    page: Page, service: RunningService, project: str, api: Request
) -> None:
    assert api("PUT", "/v2/queues/orders", json={"_max_messages": 2}).status_code == 201
    signed_in(page, service, project, "queues/orders")
    expect(page.locator("[data-figure=total]")).to_have_text("0")
    for name in ("bytes", "refused", "dropped"):
        expect(page.locator(f"[data-figure={name}]")).to_be_hidden()
    post(api, "orders", 1, 2)
    full = api("POST", "/v2/queues/orders/messages", json={"messages": [{"body": 3}]})
    assert full.status_code == 403
    expect(page.locator("[data-figure=refused]")).to_have_text("1")
    expect(page.locator("[data-figure=bytes]")).to_have_text(re.compile(r"^[1-9]\d* B$"))
    change = [{"op": "add", "path": "/metadata/_overflow", "value": "drop_oldest"}]
    patch = {"Content-Type": "application/openstack-messaging-v2.0-json-patch"}
    assert api("PATCH", "/v2/queues/orders", json=change, headers=patch).status_code == 200
    post(api, "orders", 4)
    expect(page.locator("[data-figure=dropped]")).to_have_text("1")


def test_charts_show_what_was_before_the_page_was_opened(
    page: Page, service: RunningService, project: str, api: Request
) -> None:
    def history() -> list[int]:
        points = api("GET", "/console/queues/orders/history?hours=1").json()["points"]
        return [point["free"] for point in points]

    post(api, "orders", *range(7))
    servers.wait_for(lambda: 7 in history()[:-1], "a point of the history")
    assert api("DELETE", "/v2/queues/orders/messages?pop=4").status_code == 200
    signed_in(page, service, project, "queues/orders")
    servers.wait_for(lambda: charts_show(page, "7"), "the chart with what was before")
    page.get_by_role("link", name="1 hour").click()
    expect(page.locator("main")).to_have_attribute("aria-busy", "false")
    assert page.url.endswith(f"#/queues/orders?range=1h&project={project}")
    servers.wait_for(lambda: charts_show(page, "7"), "the chart of the hour")
    assert figure(page, "free") == "3"


def test_posted_messages_appear_in_queue_tail(
    page: Page, service: RunningService, project: str, api: Request
) -> None:
    post(api, "orders", "before")
    signed_in(page, service, project, "queues/orders?tab=live")
    state(page, "live")
    writer = another_tab(page, service, project, "queues/orders?tab=messages")
    writer.get_by_label("Data, as JSON").fill('{"from": "the box"}')
    writer.get_by_label("TTL in seconds").fill("120")
    given = writer.get_by_label("Attributes, as JSON")
    given.fill('{"kind": }')
    writer.get_by_role("button", name="Post").click()
    expect(writer.locator(".publish [role=status]")).to_contain_text("That is no JSON")
    given.fill('{"kind": "<b>", "n": 18446744073709551615, "photo": {"binary": "AP8="}}')
    writer.get_by_role("button", name="Post").click()
    expect(writer.locator(".publish [role=status]")).to_contain_text("Posted: ")
    writer.get_by_role("row").nth(2).get_by_role("button", name="Show").click()
    attributes = writer.get_by_role("dialog").locator("dl").last
    assert attributes.inner_text().split() == [
        *("kind", '"<b>"', "n", "18446744073709551615", "photo", '{"binary":"AP8="}')
    ]
    post(api, "orders", MARKUP, {MARKUP: 1})
    expect(page.locator(".feed li")).to_have_count(3)
    assert tail_messages(page) == [{"from": "the box"}, MARKUP, {MARKUP: 1}]
    noted = re.compile("#2 .*kind <b> .*id .*ttl 120")
    expect(page.locator(".feed li").last).to_contain_text(noted)
    listed = api("GET", "/v2/queues/orders/messages?echo=true").json()["messages"]
    assert [message["ttl"] for message in listed] == [300, 120, 300, 300]


def test_rates_are_computed_between_two_readings(page: Page, service: RunningService) -> None:
    names = ("posted", "claimed", "released", "deleted", "expired", "purged", "dead_lettered")

    def reading(posted: int, deleted: int) -> dict[str, object]:
        counters = dict.fromkeys(names, 0) | {"posted": posted, "deleted": deleted}
        counts = dict.fromkeys(("free", "claimed", "delayed", "total"), 0)
        return {"messages": counts, "counters": counters}

    page.goto(f"{service.url}/console/")
    readings = [
        reading(2, 0),  # the first reading has no rates
        reading(8, 4),
        reading(8, 4),
        reading(3, 3),  # the queue was recreated
        reading(4, 3),
    ]
    rates = page.evaluate(
        """async (readings) => {
            const { Series, reading } = await import("/console/rates.js");
            const series = new Series();
            return readings.map((each, at) => {
                const { posts, deletes } = series.add(reading(each, 2 * at));
                return [posts, deletes];
            });
        }""",
        readings,
    )
    assert rates == [[None, None], [3, 2], [0, 0], [None, None], [0.5, 0]]


def test_queue_list_has_pages_and_a_name_filter_in_its_address(
    page: Page, service: RunningService, project: str, api: Request
) -> None:
    for number in range(27):
        assert api("PUT", f"/v2/queues/queue-{number:02}").status_code == 201
    signed_in(page, service, project)
    expect(page.locator("tbody tr")).to_have_count(25)
    expect(page.get_by_text(re.compile("1.25 of 27"))).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.locator("tbody tr")).to_have_text([re.compile("queue-25"), re.compile("queue-26")])
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.go_back()
    expect(page.locator("tbody tr")).to_have_count(25)
    page.get_by_role("button", name="Queue", exact=True).click()
    expect(page.get_by_role("columnheader", name="Queue")).to_have_attribute(
        "aria-sort", "descending"
    )
    expect(page.locator("tbody tr").first).to_contain_text("queue-26")
    page.get_by_label("Rows").select_option("50")
    expect(page.locator("tbody tr")).to_have_count(27)
    page.get_by_label("Name contains").fill("-11")
    expect(page.locator("tbody tr")).to_have_text([re.compile("queue-11")])
    other = another_tab(page, service, project)
    other.goto(page.url)
    expect(other.locator("tbody tr")).to_have_text([re.compile("queue-11")])
    expect(other.get_by_label("Name contains")).to_have_value("-11")


def test_publications_of_any_client_appear_in_channel_tail(
    page: Page, service: RunningService
) -> None:
    channel = f"kept:{uuid.uuid4()}"  # cent has no projects: a channel of the default one
    signed_in(page, service, "default", "channels")
    page.get_by_label("Any channel").fill(channel)
    page.get_by_role("button", name="Open").click()
    state(page, "live")
    write(page, '{"from": "the box"', "Publish")
    expect(page.locator(".publish [role=status]")).to_contain_text("That is no JSON")
    write(page, '{"from": "the box", "n": 12345678901234567890}', "Publish")
    expect(page.locator(".publish [role=status]")).to_have_text("Published: offset 1")
    client = cent.Client(f"{service.url}/api", KEY)
    client.publish(cent.PublishRequest(channel=channel, data={"from": MARKUP}))
    expect(page.locator(".feed li")).to_have_count(2)
    assert tail_messages(page) == [{"from": "the box", "n": 12345678901234567890}, {"from": MARKUP}]
    page.get_by_text("Presence", exact=True).click()
    page.get_by_text("History", exact=True).click()
    # The console's own subscription is hidden.
    expect(page.locator("details").nth(0)).to_contain_text("Nobody.")
    expect(page.locator("details").nth(1).locator("tbody tr")).to_have_count(2)
    expect(page.locator("[data-figure=subscribers]")).to_have_text("1")

    def has_rate() -> bool:
        client.publish(cent.PublishRequest(channel=channel, data=1))
        page.wait_for_timeout(300)
        return figure(page, "published") not in ("–", "0.0")  # noqa: RUF001  # as on the page

    servers.wait_for(has_rate, "the rate of the channel")
    listed = another_tab(page, service, "default", "channels")
    listed.get_by_role("button", name="Rate").click()
    head = listed.get_by_role("columnheader", name="Rate")
    expect(head).to_have_attribute("aria-sort", "descending")
    row = listed.get_by_role("row", name=channel)
    expect(row).to_contain_text(re.compile(r"1\s*\d+\.\d$"))
    client.publish(cent.PublishRequest(channel=channel, data=None, b64data="AP8="))
    client.close()
    state(page, re.compile("^a publication here is no JSON"))
    expect(page.locator("details").nth(1)).to_contain_text("base64: AP8=")


def test_unknown_channel_is_reported(page: Page, service: RunningService, project: str) -> None:
    signed_in(page, service, project, "channels/%E0%nowhere:x")
    expect(page.get_by_role("heading", name="%E0%nowhere:x")).to_be_visible()
    state(page, "unknown channel")
    for number, part in enumerate(("Presence", "History")):
        page.get_by_text(part, exact=True).click()
        panel = page.locator("details").nth(number)
        expect(panel.get_by_text("There is no such channel")).to_be_visible()
        expect(panel.locator("table")).to_be_hidden()
    expect(page.get_by_text("Nobody.")).to_be_hidden()


def test_permanently_refused_tail_stops_with_the_reason(
    page: Page, service: RunningService, project: str
) -> None:
    ticket = tickets.issue(b"of another service, thirty-two bytes", project, "kept:x", time.time())
    page.route("**/console/token", lambda route: route.fulfill(json={"token": ticket}))
    forbidden = {"title": "Forbidden", "description": "No right for kept:x."}
    page.route("**/console/channels?*", lambda route: route.fulfill(status=403, json=forbidden))
    signed_in(page, service, project, "channels/kept:x")
    state(page, "invalid token")  # a close with 3500
    expect(page.locator(".tail .state")).to_have_attribute("data-kind", "ended")
    expect(page.locator("[data-figure=published]")).to_be_hidden()
    page.get_by_text("History", exact=True).click()
    expect(page.get_by_text("The history is empty.")).to_be_visible()
    error = {"id": 1, "error": {"code": 103, "message": "permission denied"}}
    page.route_web_socket(
        "**/connection/websocket",
        lambda socket: socket.on_message(lambda _: socket.send(json.dumps(error))),
    )
    page.reload()
    state(page, "permission denied (103)")
    expect(page.locator(".tail .state")).to_have_attribute("data-kind", "ended")


def test_tail_renews_its_connection_while_its_user_may_see_it(
    page: Page, service: RunningService, project: str, api: Request
) -> None:
    sent: list[str] = []

    def shorten(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def to_page(message: str | bytes) -> None:
            assert isinstance(message, str)
            socket.send(re.sub('"ttl":[0-9]+', '"ttl":1', message))  # in place of five minutes

        def to_server(message: str | bytes) -> None:
            sent.append(str(message))
            server.send(message)

        server.on_message(to_page)
        socket.on_message(to_server)

    def renewals() -> int:
        page.wait_for_timeout(100)  # only while the test waits in Playwright, the page goes on
        return sum('"refresh"' in each for each in sent)

    page.route_web_socket("**/connection/websocket", shorten)
    signed_in(page, service, project, "channels/bare:x")
    state(page, "live, without history")
    servers.wait_for(lambda: renewals() > 1, "two renewals")
    published = api("POST", "/api/publish", json={"channel": "bare:x", "data": 1})
    assert published.status_code == 200
    expect(page.locator(".feed li")).to_have_count(1)
    assert sum('"connect"' in each for each in sent) == 1
    page.route("**/console/token", lambda route: route.fulfill(status=403, json={"title": "No"}))
    state(page, "No")
    expect(page.locator(".tail .state")).to_have_attribute("data-kind", "ended")


def test_markup_in_names_and_messages_is_shown_as_text(
    page: Page, service: RunningService, project: str, api: Request
) -> None:
    name = f"bare:{MARKUP}"
    signed_in(page, service, project, "channels")
    page.get_by_label("Any channel").fill(name)
    page.get_by_role("button", name="Open").click()
    state(page, "live, without history")
    published = api("POST", "/api/publish", json={"channel": name, "data": {MARKUP: MARKUP}})
    assert published.json() == {"result": {}}
    expect(page.locator(".feed li")).to_have_count(1)
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    assert tail_messages(page) == [{MARKUP: MARKUP}]
    assert page.locator("main img, main script").count() == 0
    other = another_tab(page, service, project, "channels")
    other.get_by_role("link", name=name).click()
    expect(other.get_by_role("heading", name=name)).to_be_visible()
    assert other.locator("main img, main script").count() == 0


@pytest.mark.nightly
def test_reconnected_tail_recovers_or_reports_missed_publications(
    page: Page, redis_server: Backend, project: str
) -> None:
    def call_api(service: RunningService, method: str, **body: object) -> None:
        headers = {"X-API-Key": KEY, "X-Project-ID": project}
        done = httpx.post(f"{service.url}/api/{method}", headers=headers, json=body)
        assert "error" not in done.json()

    port = servers.free_port()
    channels = ("kept:whole", "queue:whole", "kept:removed", "bare:unkept", "latest:two")
    tabs = {channel: page.context.new_page() for channel in channels}
    with servers.service(redis_server.uri, options=OPTIONS, port=port) as service:
        for channel, tab in tabs.items():
            signed_in(tab, service, project, f"channels/{channel}")
            state(tab, re.compile("^live"))
            call_api(service, "publish", channel=channel, data=0)
            expect(tab.locator(".feed .compact")).to_have_count(1)
    for tab in tabs.values():
        state(tab, re.compile("again in"))
    with servers.service(redis_server.uri, options=OPTIONS) as elsewhere:
        for channel in channels:
            for number in (1, 2):
                call_api(elsewhere, "publish", channel=channel, data=number)
        call_api(elsewhere, "history_remove", channel="kept:removed")
    with servers.service(redis_server.uri, options=OPTIONS, port=port) as service:
        for channel, tab in tabs.items():
            # The button is gone if it already reconnects by itself.
            tab.locator("button", has_text="Connect now").evaluate("button => button.click()")
            state(tab, re.compile("^live"))
            call_api(service, "publish", channel=channel, data=3)
        for channel in ("kept:whole", "queue:whole"):
            expect(tabs[channel].locator(".feed li")).to_have_count(4)
            assert tail_messages(tabs[channel]) == [0, 1, 2, 3]
        for channel, why, shown in (
            ("kept:removed", "More was published than is kept", [0, 3]),
            ("bare:unkept", "This channel keeps no history", [0, 3]),
            ("latest:two", "1 before #3 are missing", [0, 2, 3]),
        ):
            tab = tabs[channel]
            expect(tab.locator(".feed li")).to_have_count(len(shown) + 1)
            expect(tab.locator(".feed .missed")).to_contain_text(why)
            assert tail_messages(tab) == shown


def test_nodes_view_lists_the_workers(page: Page, service: RunningService, project: str) -> None:
    signed_in(page, service, project, "nodes")
    expect(page.locator("[data-figure=nodes]")).to_have_text("2")
    names = page.locator("tbody th").all_inner_texts()
    assert sorted(int(name.rpartition("_")[2]) for name in names) == sorted(service.workers())


def test_without_channels_the_console_has_its_other_pages(
    page: Page, redis_server: Backend, project: str
) -> None:
    options: dict[str, dict[str, object]] = {
        "channels": {"enabled": False, "api_key": KEY},
        "history": {"interval": 1},
    }
    with servers.service(redis_server.uri, options=options) as service:
        with api_of(service, project) as api:
            post(api, "orders", 1)
        signed_in(page, service, project, "overview")
        shown = page.locator("#views a").all_inner_texts()
        assert shown == [
            "Overview",
            "Queues",
            "Consumers",
            "Topics",
            "Schedules",
            "Pools",
            "Access",
        ]
        expect(page.get_by_role("heading", name="Stores")).to_be_visible()
        expect(page.get_by_role("heading", name="Nodes")).to_have_count(0)
        page.goto(f"{service.url}/console/#/queues/orders")
        expect(page.locator("[data-figure=total]")).to_have_text("1")
        servers.wait_for(lambda: charts_show(page, "1"), "a point in the history")
        assert "Live tail" not in page.locator("nav.tabs a").all_inner_texts()
        operator = {"X-API-Key": KEY, "X-Project-ID": project}
        overview = httpx.get(f"{service.url}/console/overview", headers=operator).json()
        assert overview["nodes"] == []
        assert [each["name"] for each in overview["stores"]] == ["default"]
        assert httpx.get(f"{service.url}/console/overview").status_code == 401
        for path in ("/console/connections", "/console/channels", "/console/namespace"):
            refused = httpx.get(f"{service.url}{path}", headers=operator)
            assert refused.status_code == 404
            assert "needs the option [channels] enabled" in refused.text
        ticket = {"channel": "news"}
        refused = httpx.post(f"{service.url}/console/token", json=ticket, headers=operator)
        assert (refused.status_code, "allow" in refused.headers) == (404, False)
        assert "needs the option [channels] enabled" in refused.text


@pytest.mark.nightly
def test_page_names_the_remedy_for_missing_key_admin_mode_or_charts(
    page: Page, redis_server: Backend
) -> None:
    with servers.service(redis_server.uri) as service:
        page.goto(f"{service.url}/console/")
        expect(page.get_by_text("set api_key in the group [channels]")).to_be_visible()
        token = httpx.post(f"{service.url}/console/token", json={"channel": "news"})
        assert token.status_code == 401
    insecure: dict[str, dict[str, object]] = {"channels": {"api_insecure": True}}
    with servers.service(redis_server.uri, workers=2, options=insecure) as service:
        page.goto(f"{service.url}/console/#/pools")
        expect(page.get_by_text("zaqar-redis serve --admin")).to_be_visible()
        page.goto(f"{service.url}/console/#/channels/news")
        state(page, "live, without history")

        def without_charts(route: Route) -> None:
            about = route.fetch().json()
            route.fulfill(json=about | {"charts": False})

        page.route("**/console/about", without_charts)
        page.goto(f"{service.url}/console/#/queues/{uuid.uuid4()}")
        page.reload()
        expect(page.get_by_text("tools/console-assets")).to_be_visible()
        expect(page.locator("[data-figure=total]")).to_have_text("0")
    with servers.service(redis_server.uri, options={"console": {"enabled": False}}) as service:
        assert httpx.get(f"{service.url}/console/").status_code == 404


def test_page_loads_no_foreign_resources_and_is_cacheable(service: RunningService) -> None:
    found = httpx.get(f"{service.url}/console/")
    policy = found.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert not re.search(r"https?:", found.text)
    for name in ("", "console.js", "console.css", "uPlot.iife.min.js"):
        url = f"{service.url}/console/{name}"
        etag = httpx.get(url).headers["ETag"]
        for known in (etag, "*"):
            again = httpx.get(url, headers={"If-None-Match": known})
            assert (again.status_code, again.content) == (304, b"")
    assert httpx.get(f"{service.url}/console/__init__.py").status_code == 404


@pytest.mark.parametrize("path", ["/console", "/console/", "/console/console.js", "/console/none"])
def test_head_of_a_page_answers_as_get_without_the_body(service: RunningService, path: str) -> None:
    told, whole = httpx.head(service.url + path), httpx.get(service.url + path)
    assert (told.status_code, told.content) == (whole.status_code, b"")
    names = {"content-type", "content-length", "etag", "location", "cache-control"}
    shown = [{name: answer.headers.get(name) for name in names} for answer in (told, whole)]
    assert shown[0] == shown[1]


def test_ticket_is_valid_for_its_channel_only(
    service: RunningService, project: str, api: Request
) -> None:
    ticket = api("POST", "/console/token", json={"channel": "kept:news"}).json()["token"]
    claims = jwt.decode(ticket, options={"verify_signature": False})
    assert (claims["sub"], claims["project"], list(claims["subs"])) == ("", project, ["kept:news"])
    assert 0 < claims["exp"] - time.time() <= 60
    # A ticket with any other signature is invalid.
    for forged in (
        jwt.encode(claims, KEY, headers={"kid": claims["aud"]}),
        jwt.encode(claims, KEY),
        jwt.encode(claims, "", algorithm="none", headers={"kid": claims["aud"]}),
    ):
        with pytest.raises(ConnectionClosed) as closed:
            send_commands(service, forged)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 3500
    connected = send_commands(service, ticket)[0]["connect"]
    assert list(connected["subs"]) == ["kept:news"]
    assert 240 < connected["ttl"] <= 300
    refused = send_commands(service, ticket, {"id": 2, "subscribe": {"channel": "kept:other"}})
    assert refused[1]["error"]["code"] == 103
    old = tickets.issue(tickets.secret(KEY), project, "kept:news", time.time() - 61)
    assert send_commands(service, old)[0]["error"]["code"] == 109
    for channel, status in (("kept:news", 401), ("nowhere:news", 400)):
        headers = {"X-API-Key": KEY} if status == 400 else {}
        asked = httpx.post(
            f"{service.url}/console/token", headers=headers, json={"channel": channel}
        )
        assert asked.status_code == status


def send_commands(
    service: RunningService, token: str, *commands: dict[str, Any]
) -> list[dict[str, Any]]:
    """Connects with the token, sends the commands and returns all replies."""
    replies = []
    with connect(f"ws://127.0.0.1:{service.port}/connection/websocket") as socket:
        for command in ({"id": 1, "connect": {"token": token}}, *commands):
            socket.send(json.dumps(command))
            replies += [json.loads(line) for line in str(socket.recv(60)).splitlines()]
    return replies
