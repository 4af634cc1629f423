# SPDX-License-Identifier: Apache-2.0
"""Subscribers that must confirm: a running service, real endpoints, a real mail server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from tests.notify.mail_server import RunningMailServer, running_mail_server
from tests.support import servers
from tests.support.receivers import AnsweringEndpoint
from zaqar_redis import conf as configuration
from zaqar_redis.api.app import App
from zaqar_redis.api.composition import ServiceParts, compose
from zaqar_redis.api.settings import ApiSettings
from zaqar_redis.cli import service_factory
from zaqar_redis.notify.notifier import NotifierSettings
from zaqar_redis.storage.load import load

KEY = "a key for the tests of confirmations"
PAGE = "https://cloud.example.org/confirm"


def documents(receiver: AnsweringEndpoint, kind: str, path: str = "/hook") -> list[dict[str, Any]]:
    found = zip(receiver.documents(), receiver.paths, strict=True)
    return [each for each, where in found if (each["Message_Type"], where) == (kind, path)]


@pytest.fixture(scope="module")
def mails() -> Iterator[RunningMailServer]:
    with running_mail_server() as found:
        yield found


@pytest.fixture(scope="module")
def confirming(mails: RunningMailServer) -> Iterator[servers.RunningService]:
    """A service with a Redis of its own: no notifier with other options delivers for it."""
    options: dict[str, dict[str, object]] = {
        "signed_url": {"secret_key": KEY},
        "notification": {
            "require_confirmation": True,
            "allowed_networks": "127.0.0.0/8",
            "external_confirmation_url": PAGE,
            "smtp_mode": "self_local",
            "smtp_host": "127.0.0.1",
            "smtp_port": mails.port,
            "smtp_tls": "none",
        },
    }
    with servers.redis_server() as redis, servers.service(redis.uri, options=options) as running:
        yield running


class ConfirmingClient:
    """Owns a queue or topic, and answers what its subscribers are asked."""

    def __init__(self, http: httpx.Client, url: str, project: str, source: str) -> None:
        self._http = http
        self._url = url
        self._own = {"Client-ID": str(uuid.uuid4()), "X-Project-ID": project}
        self._source = source

    def subscribe(self, subscriber: str) -> str:
        document = {"subscriber": subscriber, "ttl": 600}
        created = self._http.post(
            f"{self._url}{self._source}/subscriptions", json=document, headers=self._own
        )
        assert created.status_code == 201, created.text
        return str(created.json()["subscription_id"])

    def confirm(self, id: str) -> None:
        """Confirms it as its owner."""
        path = f"{self._source}/subscriptions/{id}/confirm"
        given = self._http.put(self._url + path, json={"confirmed": True}, headers=self._own)
        assert given.status_code == 204, given.text

    def shown(self, id: str) -> dict[str, Any]:
        path = f"{self._source}/subscriptions/{id}?detailed=true"
        shown: dict[str, Any] = self._http.get(self._url + path, headers=self._own).json()
        return shown

    def is_confirmed(self, id: str) -> bool:
        return bool(self.shown(id)["confirmed"])

    def deliveries(self, id: str) -> dict[str, Any]:
        deliveries: dict[str, Any] = self.shown(id)["deliveries"]
        return deliveries

    def post(self, body: str) -> None:
        document = {"messages": [{"body": body, "ttl": 300}]}
        path = f"{self._source}/messages"
        posted = self._http.post(self._url + path, json=document, headers=self._own)
        assert posted.status_code == 201, posted.text

    def answer(self, asked: Mapping[str, Any], body: object) -> None:
        """Answers as a subscriber, who knows nothing but the document *asked*."""
        named = ("URL-Signature", "URL-Methods", "URL-Paths", "URL-Expires", "X-Project-ID")
        headers = {name: asked[name] for name in named} | {"Client-ID": str(uuid.uuid4())}
        answered = self._http.request(
            asked["URL-Methods"], self._url + asked["URL-Paths"], json=body, headers=headers
        )
        assert answered.status_code == 204, answered.text


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=30) as client:
        yield client


@pytest.mark.parametrize("source", ["/v2/queues/orders", "/v2/topics/orders"])
def test_webhook_gets_messages_from_its_confirmation_to_its_end(
    confirming: servers.RunningService,
    receiver: AnsweringEndpoint,
    http: httpx.Client,
    project: str,
    source: str,
) -> None:
    client = ConfirmingClient(http, confirming.url, project, source)
    id = client.subscribe(f"{receiver.uri}hook")
    client.confirm(client.subscribe(f"{receiver.uri}witness"))

    def asked(kind: str) -> dict[str, Any]:
        servers.wait_for(lambda: bool(documents(receiver, kind)), kind)
        return documents(receiver, kind)[0]

    def post_seen(body: str) -> None:
        """Posts, and returns when the message was delivered to those that are to get it."""
        client.post(body)
        seen = ["/witness", "/hook"] if client.is_confirmed(id) else ["/witness"]
        servers.wait_for(lambda: all(body in bodies(each) for each in seen), body)

    def bodies(path: str) -> list[str]:
        return [each["body"] for each in documents(receiver, "Notification", path)]

    first = asked("SubscriptionConfirmation")
    assert not client.is_confirmed(id)
    assert client.deliveries(id)["delivered"] == 0  # of messages
    post_seen("before")
    client.answer(first, first["SubscribeBody"])
    assert client.is_confirmed(id)
    post_seen("between")
    client.answer(first, first["UnsubscribeBody"])
    second = asked("UnsubscribeConfirmation")
    assert not client.is_confirmed(id)
    post_seen("after")
    client.answer(second, second["SubscribeBody"])
    post_seen("again")
    # At least once: a message may come twice.
    assert list(dict.fromkeys(bodies("/hook"))) == ["between", "again"]


def test_mail_address_confirms_by_the_link_to_the_page_of_the_operator(
    confirming: servers.RunningService, mails: RunningMailServer, http: httpx.Client, project: str
) -> None:
    client = ConfirmingClient(http, confirming.url, project, "/v2/queues/orders")
    id = client.subscribe("mailto:ann@example.org")
    servers.wait_for(lambda: len(mails.mails) == 1, "the mail that asks")
    text = mails.mails[0].get_content()
    (link,) = (word for word in text.split() if word.startswith(PAGE))
    given = dict(parse_qsl(urlsplit(link).query))
    assert given["Queue"] == "orders"
    assert given["Project"] == project
    names = {"URL-Signature": "Signature", "URL-Methods": "Methods", "URL-Paths": "Paths"}
    names |= {"URL-Expires": "Expires", "X-Project-ID": "Project"}
    client.post("before")
    client.answer({name: given[short] for name, short in names.items()}, {"confirmed": True})
    assert client.is_confirmed(id)
    client.post("after")
    # One that was posted just before may come, too: the notifier decides when it reads it.
    servers.wait_for(
        lambda: any('"after"' in mail.get_content() for mail in mails.mails), "the message"
    )
    assert all(each == ["ann@example.org"] for each in mails.recipients)


async def test_mail_address_that_could_not_confirm_is_refused(project: str) -> None:
    settings = ApiSettings(
        signing_key=KEY, notifier=NotifierSettings(in_service=False, require_confirmation=True)
    )
    app = App(compose(settings, ServiceParts(load("memory://", {}))))
    await app.process_startup(None, None)
    try:
        transport = httpx.ASGITransport(cast(Any, app))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            refused = await client.post(
                "/v2/queues/q/subscriptions",
                json={"subscriber": "mailto:ann@example.org"},
                headers={"Client-ID": str(uuid.uuid4()), "X-Project-ID": project},
            )
    finally:
        await app.process_shutdown(None, None)
    assert refused.status_code == 400
    assert "external_confirmation_url" in refused.json()["description"]


@pytest.mark.parametrize("key", ["", f"[signed_url]\nsecret_key = {KEY}\n"])
def test_confirmation_without_a_key_keeps_the_service_from_starting(
    tmp_path: Path, key: str
) -> None:
    file = tmp_path / "zaqar_redis.conf"
    file.write_text(f"[notification]\nrequire_confirmation = true\n{key}")
    found = service_factory.problems(configuration.load([], [str(file)]))
    expected = [] if key else ["[notification] require_confirmation"]
    assert [each.split(":")[0] for each in found] == expected


def test_queue_of_the_project_gets_messages_without_confirmation(
    confirming: servers.RunningService, http: httpx.Client, project: str
) -> None:
    client = ConfirmingClient(http, confirming.url, project, "/v2/queues/orders")
    client.subscribe("queue:copy")
    client.post("first")
    path = f"{confirming.url}/v2/queues/copy/messages"
    headers = {"Client-ID": str(uuid.uuid4()), "X-Project-ID": project}

    def bodies() -> list[str]:
        return [each["body"] for each in http.get(path, headers=headers).json()["messages"]]

    servers.wait_for(lambda: bodies() == ["first"], "the copy")
