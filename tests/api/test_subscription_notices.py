# SPDX-License-Identifier: Apache-2.0
"""Subscribers that must confirm: what they are sent, and that it works without a credential."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import httpx
import pytest

from tests.api.client import ZaqarTestClient
from tests.api.round_trips import CountedStore
from zaqar_redis import errors, rules
from zaqar_redis.auth.signed_urls import UrlSigner
from zaqar_redis.records import SubscriptionChanges
from zaqar_redis.service.notices import SubscriptionNotices
from zaqar_redis.service.queues import QueueService
from zaqar_redis.service.subscription_options import SubscriptionOptions
from zaqar_redis.service.subscriptions import CreatedSubscription, SubscriptionService

HOOK = "http://example.org/hook"
KEY = "a secret for tests"  # that of the fixture's service


class SentNotice(NamedTuple):
    project: str
    queue: str
    subscription: str
    document: dict[str, Any]
    ttl: int


class NoticeRecorder:
    """Records notices in the order in which they are sent."""

    def __init__(self) -> None:
        self.sent: list[SentNotice] = []

    async def send_notice(
        self, project: str, queue: str, subscription: str, notice: bytes, ttl: int
    ) -> bool:
        self.sent.append(SentNotice(project, queue, subscription, json.loads(notice), ttl))
        return True


def _check_subscriber(uri: str, options: SubscriptionOptions) -> None:
    assert uri.startswith("http:")


class ConfirmedSubscriptions:
    """The service with confirmation, over a real store."""

    def __init__(self, store: CountedStore, key: str | None = KEY) -> None:
        self.store = store
        self.recorder = NoticeRecorder()
        limits = rules.Limits()
        self.service = SubscriptionService(
            store.driver,
            limits,
            QueueService(store.driver, limits, can_encrypt=False),
            _check_subscriber,
            SubscriptionNotices(UrlSigner(key), self.recorder.send_notice),
        )

    def create(self, queue: str = "q") -> CreatedSubscription:
        return self.store.run(
            self.service.create(self.store.project, queue, HOOK, ttl=600, options={})
        )

    def confirm(self, id: str, confirmed: bool, queue: str = "q") -> None:
        self.store.run(self.service.confirm(self.store.project, queue, id, confirmed=confirmed))

    def kinds(self) -> list[str]:
        return [each.document["Message_Type"] for each in self.recorder.sent]


@pytest.fixture
def subscriptions(store: CountedStore) -> ConfirmedSubscriptions:
    return ConfirmedSubscriptions(store)


def test_new_subscriber_is_asked_to_confirm(subscriptions: ConfirmedSubscriptions) -> None:
    project, id = subscriptions.store.project, subscriptions.create().id
    (sent,) = subscriptions.recorder.sent
    assert (sent.project, sent.queue, sent.subscription, sent.ttl) == (project, "q", id, 600)
    document = sent.document
    path = f"/v2/queues/q/subscriptions/{id}/confirm"
    expires = datetime.strptime(document["URL-Expires"], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    assert timedelta(seconds=570) < expires - datetime.now(UTC) <= timedelta(seconds=600)
    assert len(document["URL-Signature"]) == 64
    assert {
        name: value
        for name, value in document.items()
        if name not in ("URL-Signature", "URL-Expires")
    } == {
        "Message_Type": "SubscriptionConfirmation",
        "Message": "You have chosen to subscribe to the queue: q",
        "URL-Methods": "PUT",
        "URL-Paths": path,
        "X-Project-ID": project,
        "SubscribeBody": {"confirmed": True},
        "UnsubscribeBody": {"confirmed": False},
        "queue_name": "q",
    }


def test_topic_is_named_as_a_topic(subscriptions: ConfirmedSubscriptions) -> None:
    id = subscriptions.create("topic:t").id
    (sent,) = subscriptions.recorder.sent
    assert sent.queue == "topic:t"
    assert sent.document["URL-Paths"] == f"/v2/topics/t/subscriptions/{id}/confirm"
    assert sent.document["queue_name"] == "t"
    assert "topic_name" not in sent.document
    assert sent.document["Message"].endswith("the topic: t")


def test_subscriber_that_has_not_confirmed_is_asked_again(
    subscriptions: ConfirmedSubscriptions,
) -> None:
    id = subscriptions.create().id
    subscriptions.store.clock.tick(100)
    assert subscriptions.create() == CreatedSubscription(id, is_new=False)
    first, second = subscriptions.recorder.sent
    assert (first.ttl, second.ttl) == (600, 500)
    subscriptions.confirm(id, True)
    with pytest.raises(errors.SubscriberTaken):
        subscriptions.create()
    assert len(subscriptions.recorder.sent) == 2


def test_subscriber_that_ends_it_is_told(subscriptions: ConfirmedSubscriptions) -> None:
    id = subscriptions.create().id
    subscriptions.confirm(id, True)
    subscriptions.confirm(id, False)
    assert subscriptions.kinds() == ["SubscriptionConfirmation", "UnsubscribeConfirmation"]
    assert subscriptions.recorder.sent[1].document["Message"] == (
        "You have unsubscribed successfully to the queue: q, "
        "you can resubscribe it by using confirmed=True."
    )


def test_nothing_may_be_sent_to_a_subscriber_before_it_confirms(
    subscriptions: ConfirmedSubscriptions,
) -> None:
    store, id = subscriptions.store, subscriptions.create().id
    get = subscriptions.service.get_reachable
    with pytest.raises(errors.Conflict, match="not confirmed"):
        store.run(get(store.project, "q", id))
    subscriptions.confirm(id, True)
    assert store.run(get(store.project, "q", id)).id == id


def test_new_subscriber_of_a_confirmed_subscription_must_confirm(
    subscriptions: ConfirmedSubscriptions,
) -> None:
    id, store = subscriptions.create().id, subscriptions.store
    subscriptions.confirm(id, True)

    def update(**changes: Any) -> bool:
        changed = SubscriptionChanges(**changes)
        store.run(subscriptions.service.update(store.project, "q", id, changed))
        return store.run(subscriptions.service.get(store.project, "q", id)).confirmed

    assert update(subscriber=HOOK, ttl=900)
    assert len(subscriptions.recorder.sent) == 1
    assert not update(subscriber=HOOK + "2")
    assert subscriptions.kinds() == ["SubscriptionConfirmation"] * 2


@pytest.mark.parametrize(("key", "project"), [(None, "p"), (KEY, "a\\b")])
def test_without_a_possible_signature_nothing_is_created(
    store: CountedStore, key: str | None, project: str
) -> None:
    store.project += project
    with pytest.raises(errors.BadRequest, match="sign"):
        ConfirmedSubscriptions(store, key).create()
    assert store.run(store.driver.queues.get(store.project, "q")) is None


def _answer(
    rich: ZaqarTestClient, document: dict[str, Any], body: str, path: str | None = None
) -> httpx.Response:
    """Answers as a subscriber does: with what the document says, and any Client-ID."""
    signed = ("URL-Signature", "URL-Methods", "URL-Paths", "URL-Expires", "X-Project-ID")
    headers = {name: document[name] for name in signed}
    return rich.request(
        document["URL-Methods"],
        (path or document["URL-Paths"]).removeprefix("/v2"),
        document[body],
        headers=headers,
    )


def test_subscriber_confirms_and_ends_it_by_the_document_alone(
    subscriptions: ConfirmedSubscriptions, rich: ZaqarTestClient
) -> None:
    id = subscriptions.create().id
    document = subscriptions.recorder.sent[0].document

    def confirmed() -> Any:
        return rich.get(f"/queues/q/subscriptions/{id}").json()["confirmed"]

    assert _answer(rich, document | {"URL-Signature": "0" * 64}, "SubscribeBody").status_code == 404
    other = f"/v2/queues/q/subscriptions/{id}"
    assert _answer(rich, document, "SubscribeBody", other).status_code == 404
    assert confirmed() is False
    for body, state in (("SubscribeBody", True), ("UnsubscribeBody", False)):
        assert _answer(rich, document, body).status_code == 204
        assert confirmed() is state
