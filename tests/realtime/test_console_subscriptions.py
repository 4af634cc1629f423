# SPDX-License-Identifier: Apache-2.0
"""Subscriptions and topics in the console, each act to its end at an endpoint or in the store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from standardwebhooks import Webhook

from tests.realtime.console_pages import (
    KEY,
    Request,
    done,
    post,
    press,
    signed_in,
    subscribe,
    write,
)
from tests.support.receivers import AnsweringEndpoint, answering_endpoint
from tests.support.servers import RunningService

OPTIONS: dict[str, dict[str, object]] = {
    "channels": {"api_key": KEY},
    "notification": {"allowed_networks": "127.0.0.0/8"},
}


@pytest.fixture
def receiver() -> Iterator[AnsweringEndpoint]:
    with answering_endpoint() as endpoint:
        yield endpoint


def subscriptions(api: Request, source: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api("GET", f"/v2/{source}/subscriptions").json()["subscriptions"]
    return found


def deliveries(row: Locator, *counts: int) -> None:
    """Expects what was delivered, has failed, and is pending; before them are age and TTL."""
    expect(row.locator("td.number")).to_have_text(
        [re.compile(" "), re.compile(" "), *map(str, counts)]
    )


def test_webhook_is_subscribed_tested_paused_replayed_and_deleted(
    page: Page, service: RunningService, project: str, api: Request, receiver: AnsweringEndpoint
) -> None:
    signed_in(page, service, project, "queues/orders?tab=subscriptions")
    expect(page.get_by_text("No subscriptions.")).to_be_visible()
    press(page, "Subscribe")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Subscriber").fill(receiver.uri)
    dialog.get_by_label("TTL in seconds").fill("600")
    dialog.get_by_label("Options, as a JSON object").fill("{")
    press(page, "Subscribe")
    expect(dialog.get_by_role("alert")).to_contain_text("The options are no JSON")
    dialog.get_by_label("Options, as a JSON object").fill('{"batch": 0}')
    press(page, "Subscribe")
    expect(dialog.get_by_role("alert")).to_contain_text("batch")
    assert subscriptions(api, "queues/orders") == []
    options = {"filter": {"body": {"n": [1, 12345678901234567890]}}}
    dialog.get_by_label("Options, as a JSON object").fill(json.dumps(options))
    press(page, "Subscribe")
    expect(page.get_by_role("heading", name="Save the secret now")).to_be_visible()
    secret = page.get_by_role("dialog").locator("code").inner_text()
    press(page, "Close")
    [stored] = subscriptions(api, "queues/orders")
    assert (stored["ttl"], stored["options"]["filter"]) == (600, options["filter"])

    row = page.locator("tbody tr")
    expect(row).to_contain_text([re.compile(f"{re.escape(receiver.uri)}.*delivers.*yes.*10 min")])
    receiver.status = 404  # it refuses: nothing is tried again
    press(page, "Test")
    press(page, "Send")
    expect(page.get_by_role("dialog")).to_contain_text("404")
    expect(page.get_by_role("dialog").get_by_label("Answer")).to_have_text("no room")
    [(headers, body)] = receiver.got
    assert Webhook(secret).verify(body, headers)["Message_Type"] == "Test"
    press(page, "Close")

    post(api, "orders", {"n": 1}, {"n": 2})
    deliveries(row, 0, 1, 0)
    expect(row).to_contain_text([re.compile("fails.*answered 404")])
    press(page, "Show")
    expect(page.get_by_role("dialog")).to_contain_text("404")
    expect(page.get_by_role("dialog").get_by_label("Options")).to_contain_text('"***"')
    assert secret not in page.content()
    press(page, "Close")
    receiver.status = 204
    press(page, "Pause")
    expect(row).to_contain_text(["paused"])
    press(page, "Replay")
    press(page, "Replay")
    done(page, "Messages that are delivered once more: 1.")
    deliveries(row, 0, 0, 1)
    press(page, "Resume")
    deliveries(row, 1, 0, 0)
    expect(row).to_contain_text(["delivers"])
    assert receiver.bodies()[1:] == [{"n": 1}, {"n": 1}]
    press(page, "Delete")
    press(page, "Delete")
    done(page, "The subscription is deleted.")
    expect(page.get_by_text("No subscriptions.")).to_be_visible()
    assert subscriptions(api, "queues/orders") == []


def test_subscriptions_are_paged_and_errors_name_what_happened(
    page: Page, service: RunningService, project: str, api: Request
) -> None:
    for number in range(12):
        subscribe(api, "queues/orders", f"queue:copy-{number}")
    signed_in(page, service, project, "queues/orders?tab=subscriptions")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(10)
    page.get_by_role("link", name="Next").click()
    expect(rows).to_have_count(2)
    expect(rows.first.get_by_role("button")).to_have_text(["Show", "Pause", "Replay", "Delete"])
    press(page, "Subscribe")
    page.get_by_role("dialog").get_by_label("Subscriber").fill("queue:orders")
    press(page, "Subscribe")
    alert = page.get_by_role("dialog").get_by_role("alert")
    expect(alert).to_contain_text("the queue orders cannot subscribe to itself")
    press(page, "Cancel")
    page.get_by_role("link", name="First").click()
    expect(rows).to_have_count(10)
    page.get_by_role("link", name="Queues").last.click()
    expect(page.get_by_role("link", name="orders", exact=True)).to_be_visible()


@pytest.mark.nightly
def test_topic_is_created_followed_read_purged_and_deleted(
    page: Page, service: RunningService, project: str, api: Request
) -> None:
    signed_in(page, service, project, "topics")
    expect(page.get_by_text("No topics.")).to_be_visible()
    press(page, "Create a topic")
    page.get_by_role("dialog").get_by_label("Name").fill("prices")
    press(page, "Create")
    page.get_by_label("_history_size").fill("3")
    expect(page.get_by_label("_max_claim_count")).to_be_hidden()
    press(page, "Save")
    expect(page.get_by_text("Saved.")).to_be_visible()
    stored = api("GET", "/v2/topics/prices").json()
    assert stored["_history_size"] == 3
    assert "_enable_encrypt_messages" not in stored

    subscribe(api, "topics/prices", "queue:copies")
    page.get_by_role("link", name="Live tail").click()
    expect(page.locator(".tail .state")).to_have_text("live")
    messages = [{"body": number, "ttl": 300, "attributes": {"n": number}} for number in range(4)]
    api("POST", "/v2/topics/prices/messages", json={"messages": messages})
    expect(page.locator(".feed li")).to_have_count(4)
    page.get_by_role("link", name="History").click()
    bodies = page.locator("tbody tr code")
    expect(bodies).to_have_text(["3", "2", "1"])
    write(page, '"tea"', "Publish")
    expect(page.locator(".publish [role=status]")).to_contain_text("Published: ")
    expect(bodies).to_have_text(['"tea"', "3", "2"])
    page.get_by_label("Oldest first").check()
    expect(bodies).to_have_text(["2", "3", '"tea"'])
    rows = page.locator("tbody tr")
    rows.first.get_by_role("button", name="Show").click()
    expect(page.get_by_role("dialog")).to_contain_text("n2")
    press(page, "Close")
    rows.first.get_by_role("button", name="Delete").click()
    press(page, "Delete")
    expect(bodies).to_have_text(["3", '"tea"'])

    page.get_by_role("link", name="Subscriptions").click()
    deliveries(rows, 5, 0, 0)
    press(page, "Replay")
    page.get_by_label("The history of the topic instead").check()
    press(page, "Replay")
    done(page, "Messages that are delivered once more: 2.")
    page.get_by_role("link", name="Topics").first.click()
    expect(page.get_by_role("row", name="prices")).to_contain_text(re.compile(r"prices2.*1$"))
    page.get_by_role("link", name="prices").click()
    expect(page.locator("[data-figure=total]")).to_have_text("2")
    page.get_by_role("link", name="Settings").click()
    press(page, "Purge")
    press(page, "Purge")
    done(page, "prices is empty.")
    assert api("GET", "/v2/topics/prices/messages").json()["messages"] == []
    press(page, "Delete the topic")
    page.get_by_role("dialog").get_by_label("Type prices to confirm").fill("prices")
    press(page, "Delete")
    done(page, "prices is deleted.")
    expect(page.get_by_text("No topics.")).to_be_visible()
    assert api("GET", "/v2/topics").json()["topics"] == []
