# SPDX-License-Identifier: Apache-2.0
"""Subscribers that get a token of whoever has subscribed them: from the request to the webhook."""

from __future__ import annotations

from typing import Any

import pytest
from openstack import connection
from zaqarclient.queues import client as zaqarclient

from tests.keystone.conftest import TokenClient
from tests.keystone.receivers import TokenReceiver
from tests.support import servers
from tests.support.keystone import PASSWORD, REGION, RunningKeystone
from tests.websocket.peers import api_peer


class TrustingSubscriber:
    """A user, with what has subscribed to a queue."""

    def __init__(self, api: TokenClient, keystone: RunningKeystone, queue: str, uri: str) -> None:
        self.keystone = keystone
        self.token = keystone.token("member")
        self.queue = queue
        self.uri = uri
        self._api = api
        self._path = f"/queues/{queue}/subscriptions"

    def another(self, path: str) -> TrustingSubscriber:
        """Returns the same user with another subscriber."""
        return TrustingSubscriber(self._api, self.keystone, self.queue, self.uri + path)

    def ask(
        self, method: str, id: str = "", token: str = "", *, status: int, **document: Any
    ) -> dict[str, Any]:
        path = f"{self._path}/{id}" if id else self._path
        given = self._api.request(method, path, token or self.token, document or None)
        assert given.status_code == status, given.text
        found: dict[str, Any] = given.json() if given.content else {}
        return found

    def create(self, **options: Any) -> str:
        asked: Any = {"subscriber": self.uri, "ttl": 600, "options": options}
        return str(self.ask("POST", status=201, **asked)["subscription_id"])

    def options(self, id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", id, status=200)["options"]
        return found

    def trusts(self, user: str = "member") -> set[str]:
        return {each["id"] for each in self.keystone.trusts(user)}

    def deliver(self, receiver: TokenReceiver) -> dict[str, Any]:
        """Posts a message; returns what Keystone knows of the token that comes with it."""
        before = len(receiver.received)
        assert self._api.post(self.queue, self.token).status_code == 201
        servers.wait_for(lambda: len(receiver.received) > before, "the webhook")
        return self.keystone.token_document(receiver.received[-1][1])


@pytest.fixture
def subscriber(
    hot: TokenClient, keystone: RunningKeystone, receiver: TokenReceiver, queue: str
) -> TrustingSubscriber:
    return TrustingSubscriber(hot, keystone, queue, f"trust+{receiver.uri}")


def test_webhook_gets_a_token_of_its_subscriber_as_long_as_it_has_subscribed(
    subscriber: TrustingSubscriber, receiver: TokenReceiver
) -> None:
    id = subscriber.create()
    first = subscriber.options(id)
    assert first.keys() == {"trust_id"}
    known = subscriber.deliver(receiver)
    assert known["user"]["id"] == subscriber.keystone.users["member"]
    assert known["project"]["id"] == subscriber.keystone.projects["blue"]
    assert known["OS-TRUST:trust"]["id"] == first["trust_id"]

    subscriber.ask("PATCH", id, status=204, ttl=900)
    second = subscriber.options(id)
    assert second["trust_id"] != first["trust_id"]
    assert first["trust_id"] not in subscriber.trusts()
    assert subscriber.deliver(receiver)["OS-TRUST:trust"]["id"] == second["trust_id"]
    subscriber.ask("PATCH", id, status=204, paused=False)
    assert subscriber.options(id)["trust_id"] == second["trust_id"]

    subscriber.ask("DELETE", id, status=204)
    assert second["trust_id"] not in subscriber.trusts()


def test_change_of_options_as_they_are_shown_renews_the_trust(
    subscriber: TrustingSubscriber,
) -> None:
    id = subscriber.create(timeout=5)
    shown = subscriber.options(id)
    subscriber.ask("PATCH", id, status=204, options=shown | {"timeout": 6})
    changed = subscriber.options(id)
    assert changed == shown | {"timeout": 6, "trust_id": changed["trust_id"]}
    assert changed["trust_id"] in subscriber.trusts()
    assert shown["trust_id"] not in subscriber.trusts()


def test_another_user_who_changes_it_gives_a_trust_of_theirs(
    subscriber: TrustingSubscriber,
) -> None:
    id = subscriber.create()
    mine = subscriber.options(id)["trust_id"]
    operator = subscriber.keystone.token("operator")
    subscriber.ask("PATCH", id, operator, status=204, subscriber=f"{subscriber.uri}/other")
    assert subscriber.options(id)["trust_id"] in subscriber.trusts("operator")
    assert mine not in subscriber.trusts()


def test_trust_ends_with_the_last_subscriber_that_needs_it(subscriber: TrustingSubscriber) -> None:
    id = subscriber.create()
    trust = subscriber.options(id)["trust_id"]
    plain = subscriber.uri.removeprefix("trust+")
    subscriber.ask("PATCH", id, status=204, subscriber=plain)
    assert subscriber.options(id) == {}
    assert trust not in subscriber.trusts()


def test_trust_that_was_given_is_kept(subscriber: TrustingSubscriber) -> None:
    granting = subscriber.another("/of")
    trust = granting.options(granting.create())["trust_id"]
    id = subscriber.create(trust_id=trust, trust_granted=True)
    assert subscriber.options(id) == {"trust_id": trust}
    subscriber.ask("PATCH", id, status=204, ttl=900)
    assert subscriber.options(id)["trust_id"] == trust
    subscriber.ask("DELETE", id, status=204)
    assert trust in subscriber.trusts()


def test_trust_of_another_user_is_refused_and_nothing_is_created(
    subscriber: TrustingSubscriber,
) -> None:
    id = subscriber.create()
    trust, thief = subscriber.options(id)["trust_id"], subscriber.keystone.token("operator")
    asked: dict[str, Any] = {"subscriber": f"{subscriber.uri}/thief", "ttl": 600}
    options = {"trust_id": trust, "trust_granted": True}
    subscriber.ask("POST", token=thief, status=403, **asked, options=options)
    assert len(subscriber.ask("GET", status=200)["subscriptions"]) == 1

    plain = asked | {"subscriber": subscriber.uri.removeprefix("trust+")}
    subscriber.ask("POST", token=thief, status=201, **plain, options=options)
    for each in subscriber.ask("GET", status=200)["subscriptions"]:
        if each["id"] != id:
            subscriber.ask("PATCH", each["id"], thief, status=403, subscriber=asked["subscriber"])
            subscriber.ask("DELETE", each["id"], thief, status=204)
    assert trust in subscriber.trusts()


def test_what_is_refused_leaves_no_trust(subscriber: TrustingSubscriber) -> None:
    id = subscriber.create()
    second = subscriber.another("/second").create()
    before = subscriber.trusts()
    asked: dict[str, Any] = {"subscriber": subscriber.uri, "ttl": 600}
    assert subscriber.ask("POST", status=201, **asked)["subscription_id"] == id  # unconfirmed
    subscriber.ask("POST", status=400, **asked, options={"timeout": 0})
    subscriber.ask("PATCH", second, status=409, subscriber=subscriber.uri)
    assert subscriber.trusts() == before


def test_token_that_keystone_has_revoked_gives_no_trust(subscriber: TrustingSubscriber) -> None:
    subscriber.ask("GET", status=200)  # the service knows the token
    subscriber.keystone.revoke(subscriber.token)
    asked: dict[str, Any] = {"subscriber": subscriber.uri, "ttl": 600}
    refused = subscriber.ask("POST", status=403, **asked)
    assert "Keystone refuses" in refused["description"]


def test_socket_subscribes_changes_and_deletes(
    subscriber: TrustingSubscriber, beside: servers.RunningService
) -> None:
    with api_peer(beside, subscriber.keystone.projects["blue"]) as peer:
        peer.ask("authenticate", {"X-Auth-Token": subscriber.token})
        named: dict[str, Any] = {"queue_name": subscriber.queue}
        made = peer.ask("subscription_create", **named, subscriber=subscriber.uri, ttl=600)
        assert made.status == 201
        id = made.body["subscription_id"]
        first = subscriber.options(id)["trust_id"]
        assert first in subscriber.trusts()
        named["subscription_id"] = id
        assert peer.ask("subscription_update", **named, ttl=900).status == 204
        second = subscriber.options(id)["trust_id"]
        assert peer.ask("subscription_delete", **named).status == 204
        assert not {first, second} & subscriber.trusts()


def test_zaqarclient_subscribes_with_a_token(
    subscriber: TrustingSubscriber, beside: servers.RunningService, receiver: TokenReceiver
) -> None:
    own: dict[str, Any] = {
        "os_auth_url": subscriber.keystone.url,
        "os_username": "member",
        "os_password": PASSWORD,
        "os_user_domain_id": "default",
        "os_project_id": subscriber.keystone.projects["blue"],
    }
    conf = {"auth_opts": {"backend": "keystone", "options": own}}
    zaqar = zaqarclient.Client(beside.url, 2, conf=conf)
    made = zaqar.subscription(subscriber.queue, subscriber=subscriber.uri, ttl=600)
    assert made.options["trust_id"] in subscriber.trusts()
    known = subscriber.deliver(receiver)
    assert known["user"]["id"] == subscriber.keystone.users["member"]
    made.update({"ttl": 900})
    found = zaqar.subscription(subscriber.queue, id=made.id)
    assert (found.ttl, found.subscriber) == (900, subscriber.uri)
    found.delete()
    assert found.options["trust_id"] not in subscriber.trusts()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_openstacksdk_subscribes_with_a_token(
    subscriber: TrustingSubscriber, beside: servers.RunningService, receiver: TokenReceiver
) -> None:
    auth = {
        "auth_url": subscriber.keystone.url,
        "username": "member",
        "password": PASSWORD,
        "user_domain_id": "default",
        "project_id": subscriber.keystone.projects["blue"],
    }
    with connection.Connection(auth=auth, region_name=REGION) as opened:
        cloud = opened.message
        made = cloud.create_subscription(subscriber.queue, subscriber=subscriber.uri, ttl=600)
        id = made.subscription_id
        found = cloud.get_subscription(subscriber.queue, id)
        assert found.options["trust_id"] in subscriber.trusts()
        known = subscriber.deliver(receiver)
        assert known["OS-TRUST:trust"]["id"] == found.options["trust_id"]
        cloud.delete_subscription(subscriber.queue, id)
        assert found.options["trust_id"] not in subscriber.trusts()
