# SPDX-License-Identifier: Apache-2.0
"""What tests of the console share: signing in, and the service's API beside it."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import redis
from playwright.sync_api import Page, expect

from tests.support import servers
from tests.support.servers import RunningService
from zaqar_redis.keyspace import keys

#: What the endpoint of a failing subscription answers.
FAILURE = "https://hooks.shop.example/orders answered 503"
KEY = "the operator's key, of thirty-two bytes or more"

Request = Callable[..., httpx.Response]


#: Notes the address that the page was told of: a browser tells it of another fragment later.
_NOTE_ADDRESS = """window.noted = location.hash;
addEventListener("hashchange", () => { window.noted = location.hash; });"""
_UNTIL_NOTED = """() => new Promise((done) => {
  const look = () => window.noted === location.hash ? done() : setTimeout(look, 5);
  look();
})"""


def signed_in(page: Page, service: RunningService, project: str, view: str = "queues") -> None:
    """Opens a view of a project with the key of a signed-in session."""
    credential = json.dumps({"headers": {"X-API-Key": KEY}, "refresh": None})
    known = {"zaqar-redis.credential": credential}
    page.add_init_script(f"Object.assign(sessionStorage, {json.dumps(known)}); {_NOTE_ADDRESS}")
    page.goto(f"{service.url}/console/#/{view}{'&' if '?' in view else '?'}project={project}")
    page.evaluate(_UNTIL_NOTED)


def another_tab(page: Page, service: RunningService, project: str, view: str = "queues") -> Page:
    tab = page.context.new_page()
    signed_in(tab, service, project, view)
    return tab


def press(page: Page, name: str) -> None:
    """Presses a button, that of the dialog if one is open."""
    dialog = page.get_by_role("dialog")
    (dialog if dialog.count() else page).get_by_role("button", name=name, exact=True).click()


def done(page: Page, text: str) -> None:
    expect(page.locator("#done")).to_contain_text(text)


def write(page: Page, document: str, button: str) -> None:
    """Posts or publishes a document."""
    page.get_by_label("Data, as JSON").fill(document)
    page.get_by_role("button", name=button).click()


def wait_in_page(page: Page, condition: Callable[[], object], what: str) -> None:
    """Waits in Playwright, so that the page goes on."""

    def is_so() -> bool:
        page.wait_for_timeout(50)
        return bool(condition())

    servers.wait_for(is_so, what)


def choose_project(page: Page, project: str) -> None:
    page.get_by_role("button", name="Project: ").click()
    name = page.get_by_role("dialog").get_by_label("Project", exact=True)
    name.fill(project)
    name.press("Enter")


def charts_show(page: Page, free: str) -> bool:
    """Returns whether the chart of messages has a point with so many that are free."""
    chart = page.locator(".chart", has_text="Messages")
    values = chart.locator(".u-series", has_text="Free").locator(".u-value")
    place = chart.locator(".u-over").bounding_box()
    assert place is not None
    # The points are at the right end of the time; how far left depends on what the page took.
    for back in range(1000):
        page.mouse.move(place["x"] + place["width"] - 1 - back / 4, place["y"] + 20)
        if values.inner_text() == free:
            return True
    return False


@contextmanager
def api_of(service: RunningService, project: str) -> Iterator[Request]:
    """Yields what sends requests to the service's APIs."""
    headers = {"X-API-Key": KEY, "X-Project-ID": project, "Client-ID": str(uuid.uuid4())}
    with httpx.Client(base_url=service.url, headers=headers, timeout=60) as client:
        yield client.request


def post(request: Request, queue: str, *bodies: object) -> list[str]:
    """Posts a message for each body; returns their ids."""
    messages = [{"body": body, "ttl": 300} for body in bodies]
    posted = request("POST", f"/v2/queues/{queue}/messages", json={"messages": messages})
    assert posted.status_code == 201
    return [href.rpartition("/")[2] for href in posted.json()["resources"]]


def subscribe(request: Request, source: str, subscriber: str, **fields: object) -> str:
    """Subscribes to the queue or topic at a path below /v2; returns the subscription's id."""
    document = {"subscriber": subscriber, **fields}
    created = request("POST", f"/v2/{source}/subscriptions", json=document)
    assert created.status_code == 201
    return str(created.json()["subscription_id"])


def fail_deliveries(client: redis.Redis, project: str, queue: str, subscription: str) -> None:
    """Makes a store say that every attempt has failed for the last seven minutes."""
    now = round(time.time() * 1000)
    client.hset(
        os.fsdecode(keys.of_queue(project, queue).delivery_states),
        mapping={
            f"{subscription} failing": now - 420_000,
            f"{subscription} last": f"{now - 9000} 503 {FAILURE}",
            "failing": f" {subscription} ",
        },
    )


#: Every view, each with something in it once `furnish` has been called.
VIEWS = (
    *("overview", "queues", "queues/orders", "queues/orders?range=24h"),
    *("queues/orders?tab=messages", "queues/orders?tab=claims"),
    *("queues/orders?tab=subscriptions", "queues/orders?tab=live"),
    *("queues/orders?tab=settings", "queues/missing", "topics", "topics/prices"),
    *("topics/prices?tab=history", "topics/prices?tab=settings", "schedules"),
    *(
        "consumers",
        "channels",
        "channels/news",
        "connections",
        "nodes",
        "pools",
        "access",
        "access/keys",
    ),
)


def furnish(request: Request) -> None:
    """Fills a project: queues in all states, a dead-letter queue, topics, schedules, a quota."""
    route = {"_dead_letter_queue": "orders.dead", "_max_claim_count": 1}
    request("PUT", "/v2/queues/orders.dead", json={})
    request("PUT", "/v2/queues/orders", json=route)
    wanted = {"filter": {"body": {"item": ["tea"]}}}
    subscribe(request, "queues/orders", "https://hooks.shop.example/orders", options=wanted)
    subscribe(request, "queues/orders", "topic:orders.log")
    subscribe(request, "topics/prices", "https://hooks.shop.example/prices")
    report = {"queue": "reports", "cron": "30 9 * * MON-FRI", "message": {"body": {"job": 1}}}
    request("PUT", "/v2/schedules/report", json={**report, "timezone": "Europe/Paris"})
    request("PUT", "/v2/schedules/cleanup", json={**report, "paused": True})
    prices = [{"body": {"item": "tea", "price": price}, "ttl": 300} for price in (3, 4, 5)]
    request("POST", "/v2/topics/prices/messages", json={"messages": prices})
    for name in ("orders", "mails", "invoices", "thumbnails"):
        orders = [{"order": number, "item": "tea", "amount": 3} for number in range(8)]
        post(request, name, *orders)
    for _ in range(2):
        claimed = request("POST", "/v2/queues/orders/claims?limit=2", json={}).json()["messages"]
        claim = claimed[0]["href"].partition("claim_id=")[2]
        request("DELETE", f"/v2/queues/orders/claims/{claim}")
    request("POST", "/v2/queues/orders/claims?limit=3", json={"ttl": 900})
    later = {"messages": [{"body": {"order": 9, "item": "cups"}, "delay": 600}]}
    request("POST", "/v2/queues/orders/messages", json=later)
    for number in range(3):
        request("POST", "/api/publish", json={"channel": "news", "data": {"number": number}})
    request("PUT", "/v2/quotas/shop", json={"messages": 100_000, "queues": 50})
