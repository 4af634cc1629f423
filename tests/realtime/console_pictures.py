# SPDX-License-Identifier: Apache-2.0
"""Takes the pictures of the console that are in doc/pictures: see tools/console-pictures."""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from contextlib import ExitStack

from playwright.sync_api import Page, expect, sync_playwright

from tests.conventions.files import ROOT
from tests.realtime.console_pages import (
    KEY,
    Request,
    api_of,
    fail_deliveries,
    furnish,
    post,
    signed_in,
)
from tests.support import servers
from zaqar_redis.figures import HistoryPoint
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.storage.redis.histories import RedisHistories

OPTIONS: dict[str, dict[str, object]] = {
    "DEFAULT": {"admin_mode": True},
    "channels": {"api_key": KEY, "history_size": 100, "history_ttl": 600, "presence": True},
}
PROJECT = "shop"
SCHEDULES: dict[str, dict[str, object]] = {
    "nightly-report": {"queue": "mails", "cron": "0 3 * * *", "timezone": "Europe/Paris"},
    "prices": {"queue": "batch-1", "cron": "*/5 * * * *"},
    "stocktaking": {"queue": "batch-2", "cron": "0 22 28 * *", "paused": True},
}
#: Seconds of posts and claims before the first picture: charts show them.
_BUSY = 60.0
#: The name of each picture, the view that it shows, and its height.
_PICTURES = (
    ("overview", "overview", 1150),
    ("queues", "queues?sort=posted&order=desc", 560),
    ("queue", "queues/orders", 800),
    ("messages", "queues/orders?tab=messages", 600),
    ("claims", "queues/orders?tab=claims", 480),
    ("subscriptions", "queues/orders?tab=subscriptions", 600),
    ("tail", "queues/orders?tab=live", 560),
    ("settings", "queues/orders?tab=settings", 620),
    ("consumers", "consumers", 480),
    ("topics", "topics", 480),
    ("schedules", "schedules", 480),
    ("history", "topics/prices?tab=history", 560),
    ("channels", "channels?sort=published&order=desc", 420),
    ("channel", "channels/news", 700),
    ("connections", "connections", 470),
    ("nodes", "nodes", 420),
    ("pools", "pools", 620),
    ("access", "access", 700),
)


async def remember_a_day(uri: str) -> None:
    """Writes histories of the project and of a queue, busy by day and calm by night."""
    client = keyspace.client(uri, BatchSettings())
    await client.start()
    now, minutes = int(time.time()), 24 * 60
    for queue, weight in (("", 3), ("orders", 1)):
        posted = deleted = 0
        for minute in range(minutes):
            day = 1.2 - math.cos(2 * math.pi * minute / minutes)
            coming = round(weight * 900 * day * random.uniform(0.8, 1.2))
            posted += coming
            deleted = posted - round(weight * 40 * day * random.uniform(0.7, 1.3))
            at = now - 60 * (minutes - minute)
            free, claimed = posted - deleted, round(weight * 15 * day * random.uniform(0.8, 1.2))
            point = HistoryPoint(
                *(at, free, claimed, weight, at, posted, deleted, 0, deleted, 0, 0, minute // 40)
            )
            await RedisHistories(client).append(PROJECT, {queue: point}, minutes, 86_400)
    await client.close()


def keep_busy(request: Request, end: threading.Event) -> None:
    while not end.is_set():
        for queue, weight in (("orders", 9), ("mails", 4), ("invoices", 2)):
            orders = [{"order": n, "item": "tea"} for n in range(random.randint(1, weight))]
            post(request, queue, *orders)
            claimed = request("POST", f"/v2/queues/{queue}/claims?limit={weight}", json={})
            if claimed.status_code == 201:
                some = claimed.json()["messages"][random.random() < 0.1 :]
                if some:
                    ids = ",".join(each["id"] for each in some)
                    request("DELETE", f"/v2/queues/{queue}/messages?ids={ids}")
        price = {"item": "tea", "price": random.randint(3, 9)}
        priced = {"messages": [{"body": price, "ttl": 300}]}
        request("POST", "/v2/topics/prices/messages", json=priced)
        request("POST", "/api/publish", json={"channel": "news", "data": {"at": time.time()}})
        end.wait(0.15)


def take(page: Page, service: servers.RunningService, name: str, view: str, height: int) -> None:
    page.set_viewport_size({"width": 1200, "height": height})
    signed_in(page, service, PROJECT, view)
    expect(page.locator("main")).to_have_attribute("aria-busy", "false")
    page.wait_for_timeout(5000)  # until there are rates, and messages in a tail
    page.screenshot(path=ROOT / "doc" / "pictures" / f"console-{name}.png")


def main() -> None:
    with ExitStack() as stack:
        home = stack.enter_context(servers.redis_server(fsync="everysec"))
        east = stack.enter_context(servers.redis_server())
        service = stack.enter_context(servers.service(home.uri, workers=2, options=OPTIONS))
        request = stack.enter_context(api_of(service, PROJECT))
        furnish(request)
        asyncio.run(remember_a_day(home.uri))
        found = request("GET", "/v2/queues/orders/subscriptions").json()["subscriptions"]
        [failing] = [each["id"] for each in found if each["subscriber"].startswith("https:")]
        with home.client() as store:
            fail_deliveries(store, PROJECT, "orders", failing)
        request("PUT", "/v2/pools/east", json={"uri": east.uri, "weight": 40})
        for number in range(6):
            request("PUT", f"/v2/queues/batch-{number}", json={})
        for schedule, fields in SCHEDULES.items():
            request("PUT", f"/v2/schedules/{schedule}", json={"message": {"body": 1}, **fields})
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(
            executable_path=servers.program("chromium"), args=["--no-sandbox"]
        )
        end = threading.Event()
        client = stack.enter_context(api_of(service, PROJECT))
        busy = threading.Thread(target=keep_busy, args=(client, end))
        busy.start()
        try:
            context = browser.new_context()
            charts = context.new_page()
            charts.set_viewport_size({"width": 1200, "height": 800})
            signed_in(charts, service, PROJECT, "queues/orders")
            tail = context.new_page()
            signed_in(tail, service, PROJECT, "channels/news")
            charts.wait_for_timeout(_BUSY * 1000)
            for name, view, height in _PICTURES:
                if name == "queue":
                    charts.screenshot(path=ROOT / "doc" / "pictures" / "console-queue.png")
                else:
                    take(context.new_page(), service, name, view, height)
            phone = browser.new_context(color_scheme="dark").new_page()
            phone.set_viewport_size({"width": 400, "height": 800})
            signed_in(phone, service, PROJECT, "queues")
            phone.wait_for_timeout(2500)
            phone.screenshot(path=ROOT / "doc" / "pictures" / "console-phone.png")
        finally:
            end.set()
            busy.join()
        browser.close()


if __name__ == "__main__":
    main()
