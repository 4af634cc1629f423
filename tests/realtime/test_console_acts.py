# SPDX-License-Identifier: Apache-2.0
"""What operators do in the console, each act to its end in the store."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import jwt
import pytest
from playwright.sync_api import Locator, Page, Route, expect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.realtime.console_pages import (
    KEY,
    Request,
    another_tab,
    api_of,
    done,
    post,
    press,
    signed_in,
    wait_in_page,
    write,
)
from tests.support import servers

SECRET = "the backend's secret, of thirty-two bytes or more"
OPTIONS: dict[str, dict[str, object]] = {
    "DEFAULT": {"admin_mode": True},
    "channels": {
        "api_key": KEY,
        "namespaces": "kept",
        "token_hmac_secret_key": SECRET,
        "token_any_project": True,
    },
    "channels:kept": {"history_size": 100, "history_ttl": 60, "presence": True},
}


@contextlib.contextmanager
def socket_of(
    service: servers.RunningService, project: str, user: str
) -> Iterator[ClientConnection]:
    """A client that is subscribed to kept:news."""
    claims = {"sub": user, "project": project, "channels": ["kept:news"], "exp": time.time() + 60}
    token = jwt.encode(claims, SECRET)
    with connect(f"ws://127.0.0.1:{service.port}/connection/websocket") as socket:
        socket.send(json.dumps({"id": 1, "connect": {"token": token}}))
        assert "subs" in json.loads(socket.recv(60))["connect"]
        yield socket


def is_closed(socket: ClientConnection) -> bool:
    with contextlib.suppress(TimeoutError):
        try:
            while True:
                socket.recv(0.2)
        except ConnectionClosed:
            return True
    return False


def local_minute(*, days: int) -> datetime:
    """Returns a time so many days ahead, as a form can say it."""
    return (datetime.now() + timedelta(days=days)).replace(second=0, microsecond=0).astimezone()


def typed(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M}"


def fact(page: Page, name: str) -> Locator:
    """What a dialog tells under a name."""
    named = page.get_by_role("dialog").locator("dt").filter(has_text=re.compile(f"^{name}$"))
    return named.locator("+ dd")


def queues(api: Request) -> list[str]:
    return [queue["name"] for queue in api("GET", "/v2/queues").json()["queues"]]


def test_queue_is_created_configured_purged_and_deleted(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    name = "a-B_9.z"
    signed_in(page, service, project)
    press(page, "Create a queue")
    page.get_by_role("dialog").get_by_label("Name").fill("not a name")
    press(page, "Create")
    assert queues(api) == []
    page.get_by_role("dialog").get_by_label("Name").fill(name)
    press(page, "Create")
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    assert queues(api) == [name]

    page.get_by_label("_default_message_ttl").fill("120")
    page.get_by_label("_dead_letter_queue", exact=True).fill("dead")
    page.get_by_label("_max_claim_count").fill("3")
    page.get_by_label("_on_expiry").select_option("dead_letter")
    page.get_by_label("Other attributes").fill('{"owner/team": {"name": "a~b"}}')
    press(page, "Save")
    expect(page.get_by_text("Saved.")).to_be_visible()
    stored = api("GET", f"/v2/queues/{name}").json()
    assert stored["_default_message_ttl"] == 120
    assert (stored["_dead_letter_queue"], stored["_max_claim_count"]) == ("dead", 3)
    assert stored["_on_expiry"] == "dead_letter"
    page.get_by_label("_on_expiry").select_option("not set")
    assert stored["owner/team"] == {"name": "a~b"}
    page.get_by_label("_max_claim_count").fill("")
    expect(page.get_by_text("Saved.")).not_to_be_visible()
    page.get_by_label("Other attributes").fill("{}")
    press(page, "Save")
    expect(page.get_by_text("Saved.")).to_be_visible()
    stored = api("GET", f"/v2/queues/{name}").json()
    assert "_max_claim_count" not in stored
    assert "_on_expiry" not in stored
    assert "owner/team" not in stored
    of_two_kinds = {"_priorities": "strict", "_redelivery_delay": {"minimum_delay": 5}}
    page.get_by_label("Other attributes").fill(json.dumps(of_two_kinds))
    page.get_by_label("_max_claim_count").fill("4")
    for _ in range(2):  # what is not edited stays as it is
        press(page, "Save")
        expect(page.get_by_text("Saved.")).to_be_visible()
        stored = api("GET", f"/v2/queues/{name}").json()
        assert {each: stored[each] for each in of_two_kinds} == of_two_kinds
        page.get_by_label("_max_claim_count").fill("")
    page.get_by_label("Other attributes").fill('{"_retry_policy": 1}')
    press(page, "Save")
    expect(page.get_by_text('"_retry_policy" must be an object')).to_be_visible()

    post(api, name, 1, 2)
    press(page, "Purge")
    press(page, "Cancel")
    assert api("GET", f"/v2/queues/{name}/stats").json()["messages"]["total"] == 2
    press(page, "Purge")
    press(page, "Purge")
    done(page, f"{name} is empty.")
    assert api("GET", f"/v2/queues/{name}/stats").json()["messages"]["total"] == 0

    press(page, "Delete the queue")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(f"Type {name} to confirm").fill("a-B_9")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_label(f"Type {name} to confirm").fill(name)
    press(page, "Delete")
    done(page, f"{name} is deleted.")
    expect(page.get_by_text("No queues.")).to_be_visible()
    assert queues(api) == []


@pytest.mark.nightly
def test_pools_are_created_weighed_rebalanced_drained_and_removed(page: Page, project: str) -> None:
    with (
        servers.redis_server() as home,
        servers.redis_server() as east,
        servers.redis_server() as west,
        servers.service(home.uri, options=OPTIONS) as service,
        api_of(service, project) as api,
    ):
        for number in range(4):
            post(api, f"q{number}", number)
        signed_in(page, service, project, "pools")
        expect(page.get_by_text("No pools: all queues are in [storage] uri.")).to_be_visible()
        for name, store in (("east", east), ("west", west)):
            press(page, "Create a pool")
            dialog = page.get_by_role("dialog")
            dialog.get_by_label("Name").fill(name)
            dialog.get_by_label("URI").fill(store.uri)
            press(page, "Create")
            expect(page.get_by_role("row", name=name)).to_contain_text("in use")
            expect(dialog).to_be_hidden()
        expect(page.get_by_text("Not where their weight wants them: 4 queues.")).to_be_visible()
        press(page, "Rebalance")
        done(page, "Rebalancing has begun.")
        expect(page.get_by_text("Spread by weight.")).to_be_visible()
        shares = {each["name"]: each for each in api("GET", "/v2/rebalance").json()["stores"]}
        assert shares["default"]["queues"] == 0
        assert shares["east"]["queues"] + shares["west"]["queues"] >= 4
        expect(page.locator(".share", has_text="default")).to_contain_text("0 / 0")

        east_row = page.get_by_role("row", name="east")
        east_row.get_by_role("button", name="Weight").click()
        page.get_by_role("dialog").get_by_label("Weight").fill("7")
        press(page, "Change")
        expect(east_row.get_by_role("cell", name="7", exact=True)).to_be_visible()
        assert api("GET", "/v2/pools/east").json()["weight"] == 7
        east_row.get_by_role("button", name="Drain").click()
        press(page, "Drain")
        expect(east_row).to_contain_text(re.compile(r"\b0draining|\b0\s*draining"), timeout=30_000)
        assert api("GET", "/v2/pools/east?detailed=true").json()["queues"] == 0
        page.get_by_role("row", name="west").get_by_role("button", name="Remove").click()
        press(page, "Remove")  # it has queues
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("west")
        press(page, "Cancel")
        east_row.get_by_role("button", name="Use again").click()
        expect(east_row).to_contain_text("in use")
        east_row.get_by_role("button", name="Remove").click()
        press(page, "Remove")
        expect(east_row).to_be_hidden()
        assert [pool["name"] for pool in api("GET", "/v2/pools").json()["pools"]] == ["west"]


def test_quotas_are_set_changed_and_removed(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    post(api, "orders", 1, 2, 3)
    signed_in(page, service, project, "access")
    expect(page.get_by_text("3 of no limit")).to_be_visible()
    press(page, "Set a quota")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Project").fill(project)
    dialog.get_by_label("Messages", exact=True).fill("12")
    press(page, "Set")
    expect(page.get_by_text("3 of 12")).to_be_visible()
    row = page.get_by_role("row", name=project)
    row.get_by_role("button", name="Change").click()
    dialog.get_by_label("Messages", exact=True).fill("11")
    press(page, "Set")
    expect(page.get_by_text("3 of 11")).to_be_visible()
    assert api("GET", f"/v2/quotas/{project}").json()["messages"] == 11
    row.get_by_role("button", name="Remove").click()
    press(page, "Remove")
    expect(row).to_be_hidden()
    assert api("GET", f"/v2/quotas/{project}").json()["messages"] == -1


def test_schedules_are_created_paused_resumed_shown_and_deleted(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    signed_in(page, service, project, "schedules")
    expect(page.get_by_text("No schedules.")).to_be_visible()
    press(page, "Create a schedule")
    dialog = page.get_by_role("dialog")
    message = '{"body": {"n": 12345678901234567890}, "ttl": 60}'
    fields = {"Name": "report", "Queue": "jobs", "Cron": "@daily", "Time zone": "Europe/Pari"}
    for label, text in fields.items():
        dialog.get_by_label(label, exact=True).fill(text)
    dialog.get_by_label("Message, as a JSON object").fill(message[:-1])
    press(page, "Create")
    expect(dialog.get_by_role("alert")).to_contain_text("no JSON")
    dialog.get_by_label("Message, as a JSON object").fill(message)
    press(page, "Create")
    expect(dialog.get_by_role("alert")).to_contain_text('"timezone"')
    dialog.get_by_label("Time zone").fill("Europe/Paris")
    begin = local_minute(days=400)
    dialog.get_by_label("From").fill(typed(begin))
    dialog.get_by_label("Until").fill(typed(begin + timedelta(days=3)))
    dialog.get_by_label("Missed times").select_option("Post none")
    press(page, "Create")
    done(page, "The schedule is created.")
    created = api("GET", "/v2/schedules/report").json()
    assert created["message"] == json.loads(message)
    assert datetime.fromisoformat(created["from"]) == begin
    assert datetime.fromisoformat(created["until"]) == begin + timedelta(days=3)
    assert created["missed"] == "skip"
    row = page.get_by_role("row", name="report")
    expect(row).to_contain_text("Europe/Paris")
    row.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("paused")
    assert api("GET", "/v2/schedules/report").json()["paused"]
    row.get_by_role("button", name="Resume").click()
    expect(row.get_by_role("button", name="Pause")).to_be_visible()
    assert api("GET", "/v2/schedules/report").json() == created
    row.get_by_role("button", name="Show").click()
    expect(dialog.get_by_label("Message", exact=True)).to_contain_text("12345678901234567890")
    expect(fact(page, "Missed times")).to_have_text("Post none")
    press(page, "Close")
    row.get_by_role("button", name="Delete").click()
    press(page, "Delete")
    expect(row).to_be_hidden()
    assert api("GET", "/v2/schedules").json()["schedules"] == []


def test_message_is_posted_and_shown_with_all_that_it_may_have(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    signed_in(page, service, project, "queues/orders?tab=messages")
    begin = local_minute(days=2)
    shown = {"Group": "ann", "Priority": "7", "Deduplication id": "order-7"}
    for label, text in {**shown, "Deliver at": typed(begin), "TTL in seconds": "600"}.items():
        page.get_by_label(label).fill(text)
    write(page, '{"order": 7}', "Post")
    expect(page.get_by_text("Posted: ")).to_be_visible()
    [message] = api("GET", "/v2/queues/orders/peek").json()["messages"]
    assert (message["group"], message["priority"], message["dedup_id"]) == ("ann", 7, "order-7")
    assert abs(datetime.fromisoformat(message["until"]) - begin) < timedelta(seconds=2)
    write(page, '{"order": 8}', "Post")
    duplicate = f"Not posted, as it is a duplicate of {message['id']}"
    expect(page.get_by_text(duplicate)).to_be_visible()
    press(page, "Show")
    for name, text in shown.items():
        expect(fact(page, name)).to_have_text(text)
    expect(fact(page, "Reason")).to_be_hidden()

    jpeg = {"Content-Type": "image/jpeg"}
    api("POST", "/v2/queues/photos/messages", content=b"\xff\xd8\xff", headers=jpeg)
    claimed = api("POST", "/v2/queues/photos/claims", json={}).json()["messages"]
    claim = claimed[0]["href"].partition("claim_id=")[2]
    given_back = {"ids": [claimed[0]["id"]], "reason": "no paper"}
    released = api("POST", f"/v2/queues/photos/claims/{claim}/release", json=given_back)
    assert released.status_code == 200
    page.goto(f"{service.url}/console/#/queues/photos?tab=messages")
    press(page, "Show")
    expect(fact(page, "Content type")).to_have_text("image/jpeg")
    expect(fact(page, "Body")).to_have_text("bytes, shown in base64")
    expect(fact(page, "Reason")).to_have_text("no paper")
    expect(fact(page, "First claimed")).to_contain_text(str(datetime.now().astimezone().year))


def test_publications_have_tags_and_are_paged_and_removed(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    def history() -> list[dict[str, object]]:
        asked = api("POST", "/api/history", json={"channel": "kept:news", "limit": 100})
        publications: list[dict[str, object]] = asked.json()["result"]["publications"]
        return publications

    for number in range(30):
        api("POST", "/api/publish", json={"channel": "kept:news", "data": number})
    signed_in(page, service, project, "channels/kept:news")
    expect(page.locator(".tail .state")).to_have_text("live")
    page.get_by_label("Data, as JSON").fill('{"text": "hello"}')
    page.get_by_label("Tags, as JSON").fill('{"kind": "test"}')
    page.get_by_label("As a delta").check()
    press(page, "Publish")
    expect(page.locator(".feed li")).to_contain_text(["kind test"])
    assert (history()[-1]["data"], history()[-1]["tags"]) == ({"text": "hello"}, {"kind": "test"})

    page.get_by_label("Show entries with this text").fill("no such text")
    expect(page.locator(".feed li")).to_be_hidden()
    page.get_by_label("Show entries with this text").fill("HELLO")
    expect(page.locator(".feed li")).to_be_visible()
    page.get_by_label("Pretty").check()
    assert page.locator(".feed .indented").inner_text() == '{\n  "text": "hello"\n}'
    press(page, "Pause")
    api("POST", "/api/publish", json={"channel": "kept:news", "data": "hello again"})
    expect(page.get_by_text("2 received, 1 waiting")).to_be_visible()
    press(page, "Go on")
    expect(page.locator(".feed li")).to_have_count(2)

    page.get_by_text("History", exact=True).click()
    rows = page.locator("details").nth(1).locator("tbody tr")
    expect(rows).to_have_count(20)
    press(page, "Older")
    expect(rows.first).to_contain_text("12")
    expect(rows).to_have_count(12)
    press(page, "Remove history")
    press(page, "Remove")
    done(page, "The history of kept:news is removed.")
    assert history() == []


def test_messages_of_any_state_are_shown_found_moved_and_deleted(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    def bodies(queue: str) -> list[object]:
        shown = api("GET", f"/v2/queues/{queue}/messages?echo=true&include_claimed=true").json()
        return [message["body"] for message in shown["messages"]]

    post(api, "orders", "first", {"kind": "second"}, "third", 12345678901234567890)
    later = {"messages": [{"body": "later", "delay": 600}]}
    api("POST", "/v2/queues/orders/messages", json=later)
    api("PUT", "/v2/queues/others")
    claimed = api("POST", "/v2/queues/orders/claims?limit=1", json={})
    claim = claimed.json()["messages"][0]["href"].partition("claim_id=")[2]
    client = claimed.request.headers["Client-ID"]
    signed_in(page, service, project, "queues/orders?tab=messages")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.nth(0)).to_contain_text(re.compile(r"claimed by client \S{13} until"))
    expect(rows.nth(0).get_by_title(client)).to_be_visible()
    rows.nth(0).get_by_role("button", name="Show").click()
    expect(page.get_by_role("dialog")).to_contain_text(claim)
    press(page, "Close")
    expect(rows.nth(3)).to_contain_text("12345678901234567890")
    expect(rows.nth(4)).to_contain_text("delayed until")
    page.get_by_label("State").select_option("Delayed")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(["later"])
    page.get_by_label("State").select_option("Any state")
    page.get_by_label("Body contains").fill("second")
    page.get_by_label("Body contains").press("Enter")
    expect(rows).to_contain_text(["second"])
    expect(rows).to_have_count(1)
    other = another_tab(page, service, project)
    other.goto(page.url)
    expect(other.locator("tbody tr")).to_contain_text(["second"])
    other.close()
    press(page, "Show")
    assert page.get_by_role("dialog").locator("pre").inner_text() == '{\n  "kind": "second"\n}'
    press(page, "Close")

    page.get_by_role("checkbox", name=re.compile("-")).check()
    press(page, "Copy")
    page.get_by_role("dialog").get_by_label("To the queue").fill("nowhere")
    press(page, "Copy")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("nowhere")
    page.get_by_role("dialog").get_by_label("To the queue").fill("others")
    press(page, "Copy")
    done(page, "Copied: 1.")
    assert bodies("others") == [{"kind": "second"}]
    page.get_by_label("Body contains").fill("")
    page.get_by_label("Body contains").press("Enter")
    expect(rows).to_have_count(5)
    for number in (0, 2):
        rows.nth(number).get_by_role("checkbox").check()
    press(page, "Move")
    page.get_by_role("dialog").get_by_label("To the queue").fill("others")
    press(page, "Move")
    done(page, "Moved: 1. Left, claimed or gone: 1.")
    expect(rows).to_have_count(4)
    assert bodies("others") == [{"kind": "second"}, "third"]
    rows.nth(0).get_by_role("button", name="Delete").click()  # the one that is claimed
    press(page, "Delete")
    expect(rows).to_have_count(3)
    page.get_by_label("All on this page").check()
    page.get_by_role("button", name="Delete", exact=True).first.click()
    press(page, "Delete")
    expect(page.get_by_text("No messages.")).to_be_visible()
    assert api("GET", "/v2/queues/orders/stats").json()["messages"]["total"] == 0


def test_consumers_are_shown_by_queue_and_client_page_by_page(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    others = {"Client-ID": "6b0f3c1e-52c7-4b5a-9a3e-0d8c7f21e4b9"}
    for number in range(11):
        post(api, f"jobs-{number}", *range(12 if number else 15))
        api("POST", f"/v2/queues/jobs-{number}/claims?limit=3", json={}, headers=others)
    for limit in (1, 2):
        api("POST", f"/v2/queues/jobs-0/claims?limit={limit}", json={})
    for _ in range(9):  # with these a queue has two pages of claims
        api("POST", "/v2/queues/jobs-0/claims?limit=1", json={}, headers=others)
    post(api, "idle", 1)
    signed_in(page, service, project, "consumers")
    rows = page.get_by_role("rowgroup").nth(1).get_by_role("row")
    expect(rows).to_have_count(11)
    expect(rows.first.get_by_role("rowheader")).to_have_text("jobs-0")
    of_busiest = rows.filter(has=page.get_by_role("link", name="jobs-0", exact=True))
    others_row = of_busiest.filter(has=page.get_by_title(others["Client-ID"]))
    mine = of_busiest.filter(has_not=page.get_by_title(others["Client-ID"]))
    assert [each.get_by_role("cell").all_inner_texts()[1:3] for each in (others_row, mine)] == [
        ["10", "12"],
        ["2", "3"],
    ]
    page.get_by_role("link", name="Next", exact=True).click()
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="Back", exact=True).click()
    expect(rows).to_have_count(11)
    page.get_by_role("link", name="jobs-0", exact=True).first.click()
    expect(page.get_by_role("button", name="Release")).to_have_count(10)


def test_dead_letters_are_redriven_and_claims_released(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    route = {"_dead_letter_queue": "dead", "_max_claim_count": 1}
    api("PUT", "/v2/queues/dead")

    def make_dead_letters(queue: str) -> None:
        claimed = api("POST", f"/v2/queues/{queue}/claims?limit=20", json={}).json()["messages"]
        claim = claimed[0]["href"].partition("claim_id=")[2]
        api("DELETE", f"/v2/queues/{queue}/claims/{claim}")
        api("POST", f"/v2/queues/{queue}/claims?limit=20", json={})

    for queue, number in (("gone", 10), ("orders", 20)):
        assert api("PUT", f"/v2/queues/{queue}", json=route).status_code == 201
        post(api, queue, *range(number))
        make_dead_letters(queue)
    api("DELETE", "/v2/queues/gone")
    dead = api("GET", "/v2/queues/dead/stats").json()["messages"]["total"]
    assert dead == 30
    signed_in(page, service, project, "queues/dead?tab=messages")
    expect(page.locator("tbody tr").first).to_contain_text("gone")
    press(page, "Redrive dead letters")
    press(page, "Redrive")
    # A page of dead letters that stay does not hide those behind it.
    done = "Done: 20 moved. Left, of queues that do not exist: gone (10)."
    expect(page.get_by_text(done)).to_be_visible()
    assert api("GET", "/v2/queues/orders/stats").json()["messages"]["total"] == 20
    press(page, "Move all to a queue")
    page.get_by_role("dialog").get_by_label("To the queue").fill("orders")
    press(page, "Move")
    expect(page.get_by_text("Done: 10 moved.")).to_be_visible()
    expect(page.get_by_text("No messages.")).to_be_visible()

    held = api("POST", "/v2/queues/orders/claims?limit=5", json={"ttl": 600})
    assert held.status_code == 201
    page.goto(f"{service.url}/console/#/queues/orders?tab=claims")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text([re.compile(r"5\d+ s(9 min|10 min)")])
    expect(page.locator("tbody").get_by_title(held.request.headers["Client-ID"])).to_be_visible()
    press(page, "Release")
    press(page, "Release")
    expect(page.get_by_text("No claim holds a message of this queue.")).to_be_visible()
    assert api("GET", "/v2/queues/orders/stats").json()["messages"]["claimed"] == 0


def test_move_of_many_is_stopped_and_begun_again(
    page: Page, service: servers.RunningService, project: str, api: Request
) -> None:
    def total(queue: str) -> int:
        stats: int = api("GET", f"/v2/queues/{queue}/stats").json()["messages"]["total"]
        return stats

    api("PUT", "/v2/queues/others")
    post(api, "orders", *range(20))
    post(api, "orders", *range(15))
    signed_in(page, service, project, "queues/orders?tab=messages")
    held: list[Route] = []
    moved_before = 0

    def hold_second(route: Route) -> None:
        if total("others") > moved_before:
            held.append(route)
        else:
            route.continue_()

    page.route("**/move", hold_second)
    press(page, "Move all to a queue")
    page.get_by_role("dialog").get_by_label("To the queue").fill("others")
    press(page, "Move")
    expect(page.get_by_label("Messages that were moved")).to_be_visible()
    expect(page.get_by_role("button", name="Redrive dead letters")).to_be_disabled()
    wait_in_page(page, lambda: bool(held), "the second page of messages")
    press(page, "Stop")
    for route in held:
        route.continue_()
    page.unroute("**/move")
    expect(page.get_by_text("Stopped: 20 moved.")).to_be_visible()
    assert (total("orders"), total("others")) == (15, 20)
    press(page, "Move all to a queue")
    page.get_by_role("dialog").get_by_label("To the queue").fill("others")
    press(page, "Move")
    expect(page.get_by_text("Done: 15 moved.")).to_be_visible()
    assert (total("orders"), total("others")) == (0, 35)
    post(api, "orders", *range(20))
    moved_before = 35
    held.clear()
    page.route("**/move", hold_second)
    press(page, "Move all to a queue")
    page.get_by_role("dialog").get_by_label("To the queue").fill("others")
    press(page, "Move")
    wait_in_page(page, lambda: bool(held), "the second page of messages")
    page.get_by_role("link", name="Topics").click()
    left = "Moving from orders has stopped, since its page was left: at least 10 moved."
    expect(page.get_by_text(left)).to_be_visible()


def test_connections_are_found_and_disconnected(
    page: Page, service: servers.RunningService, project: str
) -> None:
    names = ["ann", "bob <b>&#39;", "x" * 120]
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket_of(service, project, user)) for user in names]
        signed_in(page, service, project, "channels/kept:news")
        page.get_by_text("Presence", exact=True).click()
        present = page.locator("details").first.locator("tbody tr")
        expect(present).to_have_count(3)
        for name in names:
            expect(present.filter(has_text=name)).to_have_count(1)
        page.get_by_text("Options of its namespace").click()
        expect(page.locator("dt", has_text="history_size").locator("+ dd")).to_have_text("100")
        page.get_by_role("link", name="Connections").click()
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(3)
        page.get_by_label("User").fill(names[1])
        page.get_by_label("User").press("Enter")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text([names[1]])
        expect(rows).to_contain_text(["kept:news"])
        press(page, "Disconnect")
        press(page, "Disconnect")
        done(page, "is disconnected.")
        servers.wait_for(lambda: is_closed(sockets[1]), "the socket to be closed")
        closed = [each for each in sockets if is_closed(each)]
        assert closed == [sockets[1]]
        expect(page.get_by_text("No client is connected.")).to_be_visible()
        page.get_by_label("User").fill("")
        page.get_by_label("User").press("Enter")
        expect(rows).to_have_count(2)
