# SPDX-License-Identifier: Apache-2.0
"""Owners of subscriptions test, pause and replay deliveries to a real endpoint."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from tests.api.client import ZaqarTestClient
from tests.support import servers
from tests.support.receivers import AnsweringEndpoint

#: What is told of deliveries when there were none.
NOTHING = dict.fromkeys(("delivered", "failed", "retried", "pending"), 0) | dict.fromkeys(
    ("last_failure", "failing_since")
)


@pytest.fixture(scope="module")
def running() -> Iterator[servers.RunningService]:
    options = {"notification": {"allowed_networks": "127.0.0.0/8"}}
    with servers.redis_server() as server, servers.service(server.uri, options=options) as service:
        yield service


@pytest.fixture
def api(running: servers.RunningService) -> Iterator[ZaqarTestClient]:
    with httpx.Client(timeout=30) as http:
        yield ZaqarTestClient(http, running.url, uuid.uuid4().hex)


class _Subscription:
    def __init__(
        self, api: ZaqarTestClient, receiver: AnsweringEndpoint, source: str, **options: object
    ) -> None:
        self._api = api
        self._source = source
        document = {"subscriber": receiver.uri, "options": options}
        created = api.request("POST", f"/{source}/subscriptions", document).json()
        self.secret: str = created["secret"]
        self.path = f"/{source}/subscriptions/{created['subscription_id']}"

    def post(self, *bodies: object, **fields: object) -> list[str]:
        drafts = [{"body": body, **fields} for body in bodies]
        posted = self._api.request("POST", f"/{self._source}/messages", {"messages": drafts})
        return [href.rpartition("/")[2] for href in posted.json()["resources"]]

    def deliveries(self) -> dict[str, Any]:
        found: dict[str, Any] = self._api.get(self.path, detailed="true").json()["deliveries"]
        return found

    def ask(self, action: str, document: object | None = None) -> dict[str, Any]:
        answer = self._api.request("POST", f"{self.path}/{action}", document or {})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def pause(self, *, paused: bool) -> None:
        assert self._api.request("PATCH", self.path, {"paused": paused}).status_code == 204


def test_test_message_is_signed_and_its_answer_is_shown(
    api: ZaqarTestClient, receiver: AnsweringEndpoint
) -> None:
    subscription = _Subscription(api, receiver, "queues/q", batch=10, filter={"body": {"n": [1]}})
    tested = subscription.ask("test")
    assert 0 <= tested.pop("seconds") < 10
    assert tested == {"outcome": "delivered", "status": 204, "error": "", "answer": ""}
    [(headers, body)] = receiver.got
    shown = Webhook(subscription.secret).verify(body, headers)
    assert (shown["Message_Type"], shown["queue_name"]) == ("Test", "q")
    receiver.status = 507
    tested = subscription.ask("test")
    assert (tested["outcome"], tested["status"], tested["answer"]) == ("retry", 507, "no room")
    assert tested["error"]
    assert len(receiver.got) == 2
    assert subscription.deliveries() == NOTHING


def test_what_was_given_up_is_delivered_by_a_replay(
    api: ZaqarTestClient, receiver: AnsweringEndpoint
) -> None:
    receiver.status = 404  # it is given up at once
    subscription = _Subscription(api, receiver, "queues/q")
    subscription.post("a", "b")
    servers.wait_for(lambda: subscription.deliveries()["failed"] == 2, "both to be given up")
    deliveries = subscription.deliveries()
    failure = deliveries["last_failure"]
    assert deliveries["failing_since"] <= failure["at"]
    assert (failure["status"], failure["at"][-1]) == (404, "Z")
    assert "404" in failure["error"]
    receiver.status = 204
    receiver.got.clear()
    assert subscription.ask("replay") == {"replayed": 2}
    servers.wait_for(lambda: subscription.deliveries()["delivered"] == 2, "both to be delivered")
    assert sorted(receiver.bodies()) == ["a", "b"]
    assert subscription.deliveries() | {"last_failure": None} == NOTHING | {"delivered": 2}
    assert subscription.ask("replay") == {"replayed": 0}


def test_messages_of_a_paused_subscription_are_delivered_as_soon_as_it_goes_on_each_once(
    api: ZaqarTestClient, receiver: AnsweringEndpoint
) -> None:
    subscription = _Subscription(api, receiver, "queues/q", ordered=True)
    for last in (3, 6, 9, 12):
        subscription.pause(paused=True)
        subscription.post(last - 2, last - 1, last)
        servers.wait_for(lambda: subscription.deliveries()["pending"] == 3, "all to wait")
        assert len(receiver.got) == last - 3
        subscription.pause(paused=False)
        servers.wait_for(lambda: subscription.deliveries()["pending"] == 0, "all messages")
    assert receiver.bodies() == [*range(1, 13)]


def test_what_waits_does_not_reach_a_new_subscriber_that_has_not_confirmed(
    receiver: AnsweringEndpoint,
) -> None:
    options: dict[str, dict[str, object]] = {
        "notification": {"allowed_networks": "127.0.0.0/8", "require_confirmation": True},
        "signed_url": {"secret_key": "a key of tests"},
    }
    with (
        servers.redis_server() as server,
        servers.service(server.uri, options=options) as service,
        httpx.Client(timeout=30) as http,
    ):
        api = ZaqarTestClient(http, service.url, uuid.uuid4().hex)
        subscription = _Subscription(api, receiver, "queues/q")
        confirm = f"{subscription.path}/confirm"
        assert api.request("PUT", confirm, {"confirmed": True}).status_code == 204
        subscription.pause(paused=True)
        subscription.post(1, 2)
        servers.wait_for(lambda: subscription.deliveries()["pending"] == 2, "both to wait")
        new = {"subscriber": f"{receiver.uri}new", "paused": False}
        assert api.request("PATCH", subscription.path, new).status_code == 204
        assert api.request("POST", f"{subscription.path}/test").status_code == 409
        servers.wait_for(lambda: subscription.deliveries()["pending"] == 0, "nothing to wait")
        servers.wait_for(lambda: len(receiver.got) >= 2, "both requests to confirm")
    kinds = {json.loads(body)["Message_Type"] for _, body in receiver.got}
    assert kinds == {"SubscriptionConfirmation"}


def test_history_of_a_topic_is_delivered_once_more_to_one_subscription(
    api: ZaqarTestClient, receiver: AnsweringEndpoint
) -> None:
    before = _Subscription(api, receiver, "topics/t", filter={"attributes": {"odd": [1]}})
    ids = before.post(*range(0, 120, 2), attributes={"odd": 0})
    ids += before.post(*range(1, 121, 2), attributes={"odd": 1})
    servers.wait_for(lambda: before.deliveries()["delivered"] == 60, "those that are wanted")
    receiver.got.clear()
    assert before.ask("replay", {"history": True}) == {"replayed": 60}
    servers.wait_for(lambda: before.deliveries()["delivered"] == 120, "the history")
    assert sorted(receiver.bodies()) == [*range(1, 121, 2)]
    receiver.got.clear()
    page = {"history": True, "after": ids[59], "limit": 2}
    first = before.ask("replay", page)
    assert first == {"replayed": 2, "marker": ids[61]}
    last = before.ask("replay", page | {"after": ids[-2]})
    assert last == {"replayed": 1}
    servers.wait_for(lambda: len(receiver.got) == 3, "two pages")
    assert sorted(receiver.bodies()) == [1, 3, 119]
