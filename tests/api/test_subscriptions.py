# SPDX-License-Identifier: Apache-2.0
"""Subscriptions over REST: created, listed, shown, changed, confirmed, deleted."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.client import NOTHING, ZaqarTestClient, refused

HOOK = "http://example.org/hook"
#: The default of Heat's OS::Zaqar::Subscription.
HEAT_TTL = 220367260800
PATH = "/queues/q/subscriptions"
SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{32}")


def _create(
    api: ZaqarTestClient, subscriber: str = HOOK, path: str = PATH, **fields: Any
) -> httpx.Response:
    return api.request("POST", path, {"subscriber": subscriber} | fields)


def _new(api: ZaqarTestClient, subscriber: str = HOOK, **fields: Any) -> str:
    answer = _create(api, subscriber, **fields)
    assert answer.status_code == 201, answer.text
    id: str = answer.json()["subscription_id"]
    return id


def _listed(api: ZaqarTestClient, **params: Any) -> list[Any]:
    answer = api.get(PATH, **params)
    assert answer.status_code == 200, answer.text
    found: list[Any] = answer.json()["subscriptions"]
    return found


def _shown(api: ZaqarTestClient, id: str) -> dict[str, Any]:
    answer = api.get(f"{PATH}/{id}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def _details(api: ZaqarTestClient, id: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"{PATH}/{id}", detailed="true").json()
    return found


def _confirm(api: ZaqarTestClient, id: str, confirmed: object = True) -> httpx.Response:
    return api.request("PUT", f"{PATH}/{id}/confirm", {"confirmed": confirmed})


def test_subscription_is_shown_and_listed_as_it_was_created(api: ZaqarTestClient) -> None:
    created = _create(api, "mailto:a@example.org", ttl=600, options={"from": "b@example.org"})
    assert created.status_code == 201
    assert created.headers["Location"] == f"/v2{PATH}"
    id = created.json()["subscription_id"]
    assert created.json() == {"subscription_id": id}
    shown = _shown(api, id)
    assert 0 <= shown.pop("age") < 60
    assert shown == {
        "id": id,
        "source": "q",
        "subscriber": "mailto:a@example.org",
        "ttl": 600,
        "options": {"from": "b@example.org"},
        "confirmed": False,
    }
    assert [each["id"] for each in _listed(api)] == [id]
    assert api.get("/queues").json()["queues"][0]["name"] == "q"


def test_ttl_and_options_have_defaults(api: ZaqarTestClient) -> None:
    shown = _shown(api, _new(api, "mailto:a@example.org"))
    assert (shown["ttl"], shown["options"]) == (3600, {})


@pytest.mark.parametrize("path", [PATH, "/topics/t/subscriptions"])
def test_documents_of_heat_are_taken(api: ZaqarTestClient, path: str) -> None:
    """heat/engine/resources/openstack/zaqar/subscription.py, _subscription_data."""
    document = {"subscriber": HOOK, "ttl": HEAT_TTL, "options": None}
    created = _create(api, path=path, ttl=HEAT_TTL, options=None)
    assert created.status_code == 201, created.text
    item = f"{path}/{created.json()['subscription_id']}"
    changed = api.request("PATCH", item, document | {"ttl": HEAT_TTL + 1})
    assert changed.status_code == 204, changed.text
    shown = api.get(item).json()
    assert (shown["ttl"], shown["subscriber"]) == (HEAT_TTL + 1, HOOK)
    assert 0 <= shown["age"] < 60
    (listed,) = api.get(path).json()["subscriptions"]
    assert listed | {"age": 0} == shown | {"age": 0}


def test_null_in_a_new_subscription_is_the_default(api: ZaqarTestClient) -> None:
    shown = _shown(api, _new(api, "mailto:a@example.org", ttl=None, options=None))
    assert (shown["ttl"], shown["options"]) == (3600, {})


def test_null_in_an_update_leaves_what_there_is(api: ZaqarTestClient) -> None:
    """`openstack messaging subscription update` sends null for what is not given."""
    id = _new(api, "mailto:a@example.org", ttl=600, options={"subject": "x"})
    before = _shown(api, id)
    change = {"subscriber": None, "ttl": None, "options": None}
    assert api.request("PATCH", f"{PATH}/{id}", change | {"paused": True}).status_code == 204
    assert _shown(api, id) | {"age": 0} == before | {"age": 0, "paused": True}


def test_ttl_may_reach_the_year_9999(api: ZaqarTestClient) -> None:
    left = int(datetime.max.replace(tzinfo=UTC).timestamp() - datetime.now(UTC).timestamp())
    assert _shown(api, _new(api, ttl=left - 60))["ttl"] == left - 60
    refused(_create(api, HOOK + "2", ttl=left + 60), 400, "must be less than 9999-12-31")


def test_list_of_a_missing_queue_is_empty_and_creates_nothing(api: ZaqarTestClient) -> None:
    assert api.get(PATH).json() == {"subscriptions": [], "links": []}
    assert api.get("/queues").json()["queues"] == []


def test_secret_of_a_webhook_is_shown_once(api: ZaqarTestClient) -> None:
    created = _create(api).json()
    assert SECRET.fullmatch(created["secret"])
    assert _details(api, created["subscription_id"])["options"] == {"secrets": ["***"]}
    assert _create(api).json() == {"subscription_id": created["subscription_id"]}
    assert created["secret"] not in api.get(PATH).text


@pytest.mark.parametrize("path", [PATH, "/topics/t/subscriptions"])
def test_options_are_shown_as_they_were_given(api: ZaqarTestClient, path: str) -> None:
    options: Any = {"MessagingKey": "value", "deep": {"a": [1, None]}, "none": None}
    item = f"{path}/{_create(api, path=path, options=options).json()['subscription_id']}"
    changes: list[dict[str, Any]] = [
        {"paused": False},
        {"options": {"test": "updated"}},
        {"subscriber": HOOK + "2"},
        {"ttl": 90},
    ]
    for change in changes:
        assert api.request("PATCH", item, change).status_code == 204
        options = change.get("options", options)
        (listed,) = api.get(path).json()["subscriptions"]
        assert api.get(item).json()["options"] == listed["options"] == options
        assert api.get(item, detailed="true").json()["options"] == options | {"secrets": ["***"]}


def test_options_that_are_written_back_keep_the_secret(api: ZaqarTestClient) -> None:
    """Whoever changes one option reads all of them, and sends them."""
    id = _new(api)
    for read in (_shown, _details):
        options = read(api, id)["options"] | {"post_data": "x"}
        assert api.request("PATCH", f"{PATH}/{id}", {"options": options}).status_code == 204
        assert _details(api, id)["options"] == options | {"secrets": ["***"]}


def test_client_cannot_say_that_the_service_has_made_its_secrets(api: ZaqarTestClient) -> None:
    own = {"secrets": ["whsec_" + "A" * 32]}
    id = _new(api, options=own | {"secrets_generated": True, "trust_granted": True})
    for change in ({"ttl": 90}, {"options": own | {"secrets_generated": True}}):
        assert _shown(api, id)["options"] == {"secrets": ["***"]}
        assert api.request("PATCH", f"{PATH}/{id}", change).status_code == 204
    assert _shown(api, id)["options"] == {"secrets": ["***"]}


def test_secret_that_the_client_names_is_not_shown(api: ZaqarTestClient) -> None:
    own = "whsec_" + "A" * 32
    created = _create(api, options={"secrets": [own], "post_data": "x"})
    assert set(created.json()) == {"subscription_id"}
    shown = _shown(api, created.json()["subscription_id"])
    assert shown["options"] == {"secrets": ["***"], "post_data": "x"}


def test_unconfirmed_subscriber_that_subscribes_again_gets_the_same_id(
    api: ZaqarTestClient,
) -> None:
    first = _new(api, ttl=600)
    assert _new(api, ttl=900, options={"a": 1}) == first
    assert _shown(api, first)["ttl"] == 600
    assert len(_listed(api)) == 1


def test_confirmed_subscriber_that_subscribes_again_is_refused(api: ZaqarTestClient) -> None:
    id = _new(api)
    confirmed = _confirm(api, id)
    assert confirmed.status_code == 204
    assert confirmed.headers["Location"] == f"/v2{PATH}/{id}/confirm"
    assert _shown(api, id)["confirmed"] is True
    again = _create(api)
    refused(again, 409, HOOK)
    assert again.headers["Location"] == f"/v2{PATH}"
    assert _confirm(api, id, False).status_code == 204
    assert _shown(api, id)["confirmed"] is False
    assert _new(api) == id


def test_update_changes_what_is_given(api: ZaqarTestClient) -> None:
    id = _new(api, "mailto:a@example.org", ttl=600, options={"subject": "x"})
    for change in (
        {"ttl": 900},
        {"options": {"subject": "y"}},
        {"subscriber": "mailto:b@example.org"},
    ):
        answer = api.request("PATCH", f"{PATH}/{id}", change | {"unknown": 1})
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers["Location"] == f"/v2{PATH}/{id}"
    shown = _shown(api, id)
    shown.pop("age")
    assert shown == {
        "id": id,
        "source": "q",
        "subscriber": "mailto:b@example.org",
        "ttl": 900,
        "options": {"subject": "y"},
        "confirmed": False,
    }


def test_secrets_stay_until_they_are_replaced(api: ZaqarTestClient) -> None:
    id, new = _new(api), "whsec_" + "B" * 32
    for options, number in (
        ({"post_data": "x"}, 1),
        ({"secrets": [new, "***"]}, 2),
        ({"secrets": [new]}, 1),
    ):
        answer = api.request("PATCH", f"{PATH}/{id}", {"options": options})
        assert answer.status_code == 204, answer.text
        assert _details(api, id)["options"] == options | {"secrets": ["***"] * number}
        assert _shown(api, id)["options"].keys() == options.keys()
    assert api.request("PATCH", f"{PATH}/{id}", {"options": {}}).status_code == 204
    assert _shown(api, id)["options"] == {"secrets": ["***"]}  # the client has set them


def test_subscriber_that_becomes_a_webhook_gets_a_secret(api: ZaqarTestClient) -> None:
    id = _new(api, "mailto:a@example.org")
    assert api.request("PATCH", f"{PATH}/{id}", {"subscriber": HOOK}).status_code == 204
    assert _details(api, id)["options"] == {"secrets": ["***"]}
    assert _shown(api, id)["options"] == {}


def test_subscription_is_paused_and_resumed(api: ZaqarTestClient) -> None:
    id = _new(api)
    for paused in (True, False):
        answer = api.request("PATCH", f"{PATH}/{id}", {"paused": paused})
        assert answer.status_code == 204
        assert _shown(api, id).get("paused", False) is paused


def test_subscription_may_be_paused_from_the_start(api: ZaqarTestClient) -> None:
    for paused in (True, False, None):
        subscriber = f"http://example.org/{paused}"
        created = api.request("POST", PATH, {"subscriber": subscriber, "paused": paused})
        assert created.status_code == 201
        shown = _shown(api, created.json()["subscription_id"])
        assert shown.get("paused", False) is bool(paused)


def test_update_to_a_subscriber_in_use_is_refused(api: ZaqarTestClient) -> None:
    _new(api)
    second = _new(api, HOOK + "2")
    answer = api.request("PATCH", f"{PATH}/{second}", {"subscriber": HOOK, "ttl": 900})
    refused(answer, 409, HOOK)
    assert _shown(api, second)["ttl"] == 3600


WRONG_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"subscriber": ""}, "subscriber"),
    ({"subscriber": 5}, "subscriber"),
    ({"subscriber": "x"}, "subscriber"),
    ({"subscriber": "ftp://example.org/"}, "subscriber"),
    ({"subscriber": "websocket:1"}, "subscriber"),
    ({"subscriber": "http://example.org/\n"}, "ASCII"),
    ({"subscriber": "http://b\xfccher.example/"}, "ASCII"),
    ({"subscriber": "queue:q"}, "the queue q cannot subscribe to itself"),
    ({"subscriber": "channel:topic:news"}, "subscribe topic:news"),
    ({"subscriber": "channel:nowhere:news"}, "nowhere:news: unknown channel"),
    ({"subscriber": "http://example.org:99999/"}, "a port from 1 to 65535"),
    ({"subscriber": "https://:80/"}, "with a host"),
    ({"paused": "yes"}, "bool"),
    ({"subscriber": "channel:$queue:orders"}, "subscribe queue:orders"),
    ({"ttl": 0}, "at least 60 seconds"),
    ({"ttl": 59}, "at least 60 seconds"),
    ({"ttl": -1}, "at least 60 seconds"),
    ({"ttl": "600"}, "TTL"),
    ({"ttl": 600.5}, "TTL"),
    ({"ttl": True}, "TTL"),
    ({"ttl": 2**38}, "must be less than 9999-12-31"),
    ({"ttl": 10**40}, "must be less than 9999-12-31"),
    ({"options": []}, "Options"),
    ({"options": "x"}, "Options"),
    ({"options": {"secrets": 5}}, "secrets"),
    ({"options": {"secrets": ["***", "***"]}}, "secrets"),
    ({"options": {"_retry_policy": {"minimum_delay": 30}}}, "maximum_delay"),
    ({"options": {"filter": {"attributes": 5}}}, "filter"),
    ({"options": {"batch": 101}}, "batch"),
]


@pytest.mark.parametrize(("fields", "word"), WRONG_FIELDS)
def test_wrong_subscription_is_refused_and_nothing_is_created(
    api: ZaqarTestClient, fields: dict[str, Any], word: str
) -> None:
    refused(api.request("POST", PATH, {"subscriber": HOOK} | fields), 400, word)
    assert _listed(api) == []
    assert api.get("/queues").json()["queues"] == []


def test_subscription_without_a_subscriber_is_refused(api: ZaqarTestClient) -> None:
    refused(api.request("POST", PATH, {"ttl": 600}), 400, "subscriber")
    refused(api.request("POST", PATH, {"subscriber": None}), 400, "subscriber")
    refused(api.request("POST", PATH), 400, "subscriber")
    refused(api.request("POST", PATH, []), 400, "dict")
    assert api.get("/queues").json()["queues"] == []


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        *WRONG_FIELDS,
        ({}, "paused"),
        ({"unknown": 1}, "ttl"),
        ({"paused": None}, "not be null"),
        ({"subscriber": None, "ttl": None, "options": None}, "must be given"),
    ],
)
def test_wrong_update_is_refused_and_changes_nothing(
    api: ZaqarTestClient, fields: dict[str, Any], word: str
) -> None:
    id = _new(api, ttl=600)
    before = _shown(api, id)
    refused(api.request("PATCH", f"{PATH}/{id}", fields), 400, word)
    assert _shown(api, id) | {"age": 0} == before | {"age": 0}


@pytest.mark.parametrize("document", [NOTHING, {}, {"confirmed": None}, {"confirmed": "true"}, []])
def test_wrong_confirmation_is_refused(api: ZaqarTestClient, document: object) -> None:
    id = _new(api)
    word = "Request body" if document == [] else "The 'confirmed' should be boolean."
    refused(api.request("PUT", f"{PATH}/{id}/confirm", document), 400, word)
    assert _shown(api, id)["confirmed"] is False


#: What stock's tests look for: zaqar/tests/unit/transport/wsgi/v2_0/test_subscriptions.py
STOCK_TEXTS: list[tuple[str, str, object, str]] = [
    ("POST", "", NOTHING, "Missing parameter subscriber in body."),
    ("POST", "", {}, "Missing parameter subscriber in body."),
    ("POST", "", {"subscriber": HOOK, "options": 1}, "Options must be a dict."),
    ("POST", "", {"subscriber": HOOK, "ttl": "invalid"}, "TTL must be an integer."),
    ("POST", "", [1], "Subscriptions must be a dict."),
    ("PATCH", "/x", [1], "Subscriptions must be a dict."),
    ("PATCH", "/x", {"ttl": "invalid"}, "TTL must be an integer."),
    ("PATCH", "/x", {"options": [1]}, "Options must be a dict."),
    ("PUT", "/x/confirm", {"confirmed": 123}, "The 'confirmed' should be boolean."),
]


@pytest.mark.parametrize(("method", "item", "document", "text"), STOCK_TEXTS)
def test_wrong_request_is_refused_in_stocks_words(
    api: ZaqarTestClient, method: str, item: str, document: object, text: str
) -> None:
    answer = api.request(method, PATH + item, document)
    refused(answer, 400)
    assert answer.json()["description"] == text


@pytest.mark.parametrize("subscriber", ["fake", "email://fake"])
def test_subscriber_of_another_scheme_is_refused_in_stocks_words(
    api: ZaqarTestClient, subscriber: str
) -> None:
    text = "The subscriber type of subscription must be supported in the list ['channel', 'http'"
    refused(_create(api, subscriber), 400, text)


def test_scheme_in_capitals_is_refused_and_told_as_it_must_be(api: ZaqarTestClient) -> None:
    refused(_create(api, "Https://example.org/"), 400, "must begin with https: in lower case")


@pytest.mark.parametrize("subscriber", ["queue:other", "topic:news"])
def test_subscriber_of_the_project_is_shown_as_confirmed(
    api: ZaqarTestClient, subscriber: str
) -> None:
    assert _shown(api, _new(api, subscriber))["confirmed"] is True


@pytest.mark.parametrize("path", [PATH, f"{PATH}/x/confirm"])
def test_document_that_is_no_json_is_refused_in_stocks_words(
    api: ZaqarTestClient, path: str
) -> None:
    method = "POST" if path == PATH else "PUT"
    answer = api.request(method, path, content=b"{confirmed:123}")
    refused(answer, 400, "body could not be parsed")


@pytest.mark.parametrize("id", [str(uuid.UUID(int=0)), "none", "%00", "a b"])
def test_missing_subscription_is_told(api: ZaqarTestClient, id: str) -> None:
    _new(api)
    path = f"{PATH}/{id}"
    refused(api.get(path), 404)
    refused(api.request("PATCH", path, {"ttl": 600}), 404)
    refused(api.request("PUT", f"{path}/confirm", {"confirmed": True}), 404)
    assert api.request("DELETE", path).status_code == 204
    assert len(_listed(api)) == 1


def test_deleted_subscription_is_gone_and_deleting_is_idempotent(api: ZaqarTestClient) -> None:
    id = _new(api)
    for _ in range(2):
        assert api.request("DELETE", f"{PATH}/{id}").status_code == 204
        assert _listed(api) == []
    assert _new(api) != id


def test_pages_are_followed_by_links_and_by_markers(api: ZaqarTestClient) -> None:
    ids = sorted(_new(api, f"{HOOK}/{number}") for number in range(12))
    assert [each["id"] for each in _listed(api)] == ids[:10]
    seen: list[str] = []
    page = api.get(PATH, limit=5)
    while page.json()["subscriptions"]:
        seen += [each["id"] for each in page.json()["subscriptions"]]
        (link,) = page.json()["links"]
        assert link["rel"] == "next"
        page = api.follow(link["href"])
    assert page.json()["links"] == []
    assert seen == ids
    assert [each["id"] for each in _listed(api, marker=ids[6], limit=20)] == ids[7:]


@pytest.mark.parametrize("limit", ["0", "-1", "21", "x"])
def test_wrong_limit_is_refused(api: ZaqarTestClient, limit: str) -> None:
    refused(api.get(PATH, limit=limit), 400, "limit")


def test_subscriptions_of_other_queues_and_projects_are_hidden(api: ZaqarTestClient) -> None:
    id = _new(api)
    stranger = api.another_client(f"{api.project}-other")
    for client, path in ((stranger, PATH), (api, "/queues/other/subscriptions")):
        assert client.get(path).json()["subscriptions"] == []
        refused(client.get(f"{path}/{id}"), 404)
        refused(client.request("PATCH", f"{path}/{id}", {"ttl": 900}), 404)
        client.request("DELETE", f"{path}/{id}")
    assert _shown(api, id)["ttl"] == 3600


def test_subscribers_of_stocks_listing_tests_are_taken(api: ZaqarTestClient) -> None:
    """Their addresses are checked when something is delivered: see tests/notify/test_addresses."""
    for number in range(15):
        _new(api, f"http://{number}")
    assert len(_listed(api, limit=20)) == 15


def test_purge_deletes_all_subscriptions_whatever_their_number(api: ZaqarTestClient) -> None:
    """API defect S9: stock deletes the first ten."""
    for number in range(25):
        _new(api, f"{HOOK}/{number}")
    answer = api.request("POST", "/queues/q/purge", {"resource_types": ["subscriptions"]})
    assert answer.status_code == 204
    assert _listed(api) == []


def test_subscriptions_are_deleted_with_their_queue(api: ZaqarTestClient) -> None:
    id = _new(api)
    assert api.request("DELETE", "/queues/q").status_code == 204
    refused(api.get(f"{PATH}/{id}"), 404)
    assert _new(api) != id


def test_topic_has_subscriptions_as_a_queue_has(api: ZaqarTestClient) -> None:
    path = "/topics/t/subscriptions"
    created = _create(api, path=path)
    assert created.status_code == 201
    assert created.headers["Location"] == f"/v2{path}"
    item = f"{path}/{created.json()['subscription_id']}"
    assert api.get(item).json()["source"] == "t"
    assert api.request("PATCH", item, {"ttl": 900}).status_code == 204
    assert api.request("PUT", f"{item}/confirm", {"confirmed": True}).status_code == 204
    (listed,) = api.get(path).json()["subscriptions"]
    assert (listed["ttl"], listed["confirmed"]) == (900, True)
    refused(_create(api, "topic:t", path), 400, "the topic t cannot subscribe to itself")
    assert api.get("/queues").json()["queues"] == []
    assert api.get("/queues/t/subscriptions").json()["subscriptions"] == []
    assert api.request("DELETE", item).status_code == 204
    refused(api.get(item), 404, "topic t")


def test_details_say_how_deliveries_go(api: ZaqarTestClient) -> None:
    id = _new(api, "mailto:a@example.org")
    counts = dict.fromkeys(("delivered", "failed", "retried", "pending"), 0)
    nothing = counts | {"last_failure": None, "failing_since": None}
    assert api.get(f"{PATH}/{id}", detailed="true").json()["deliveries"] == nothing
    (listed,) = _listed(api, detailed="true")
    assert listed["deliveries"] == nothing
    assert "deliveries" not in _shown(api, id)
    assert api.get("/queues/none/subscriptions", detailed="true").json()["subscriptions"] == []


def test_replay_of_a_queue_has_no_history(api: ZaqarTestClient) -> None:
    path = f"{PATH}/{_new(api)}/replay"
    assert api.request("POST", path).json() == {"replayed": 0}
    refused(api.request("POST", path, {"history": True}), 400, "history")


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ({"history": 1}, "history"),
        ({"after": "x"}, "history"),
        ({"limit": 5}, "history"),
        ({"history": True, "after": "x"}, "after"),
        ({"history": True, "limit": 0}, "limit"),
        ({"history": True, "limit": 10_001}, "limit"),
    ],
)
def test_wrong_replay_is_refused(api: ZaqarTestClient, document: dict[str, Any], word: str) -> None:
    path = "/topics/t/subscriptions"
    id = _create(api, path=path).json()["subscription_id"]
    refused(api.request("POST", f"{path}/{id}/replay", document), 400, word)


@pytest.mark.parametrize("action", ["replay", "test"])
def test_replay_and_test_of_a_missing_subscription_are_refused(
    api: ZaqarTestClient, action: str
) -> None:
    refused(api.request("POST", f"{PATH}/{uuid.UUID(int=0)}/{action}"), 404)


def test_test_of_a_subscriber_inside_the_service_is_refused(api: ZaqarTestClient) -> None:
    id = _new(api, "queue:other")
    refused(api.request("POST", f"{PATH}/{id}/test"), 400, "queue:")


def _signed(rich: ZaqarTestClient, expires: datetime, *methods: str) -> dict[str, str]:
    wanted = {
        "paths": ["subscriptions"],
        "methods": list(methods),
        "expires": expires.strftime("%Y-%m-%dT%H:%M:%S"),
    }
    signed = rich.request("POST", "/queues/q/share", wanted).json()
    return {
        "URL-Signature": signed["signature"],
        "URL-Expires": signed["expires"],
        "URL-Methods": ",".join(signed["methods"]),
        "URL-Paths": ",".join(signed["paths"]),
    }


def test_presigned_url_opens_the_subscriptions_of_its_queue(rich: ZaqarTestClient) -> None:
    headers = _signed(rich, datetime.now(UTC) + timedelta(days=1), "GET", "POST")
    created = rich.request("POST", PATH, {"subscriber": HOOK}, headers=headers)
    assert created.status_code == 201
    path = f"{PATH}/{created.json()['subscription_id']}"
    assert rich.request("GET", path, headers=headers).status_code == 200
    for method, other in (("DELETE", path), ("GET", "/queues/q2/subscriptions")):
        assert rich.request(method, other, headers=headers).status_code == 404
    assert len(_listed(rich)) == 1


def test_subscription_by_a_presigned_url_ends_with_the_url(rich: ZaqarTestClient) -> None:
    headers = _signed(rich, datetime.now(UTC) + timedelta(seconds=300), "POST", "PATCH")
    given = {"subscriber": HOOK, "ttl": 3600}
    id = rich.request("POST", PATH, given, headers=headers).json()["subscription_id"]
    assert 200 < _shown(rich, id)["ttl"] <= 300
    rich.request("PATCH", f"{PATH}/{id}", {"ttl": 7200}, headers=headers)
    assert 200 < _shown(rich, id)["ttl"] <= 300
