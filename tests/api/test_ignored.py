# SPDX-License-Identifier: Apache-2.0
"""A name in a request that has no effect is named in the answer, or refused."""

from __future__ import annotations

from typing import Any

import http_sf
import httpx
import pytest

from tests.api.client import PATCH, ZaqarTestClient
from tests.support import fixtures, servers

_CLAIM = "/queues/q/claims/0123456789abcdef0123456789abcdef"
_SUBSCRIPTIONS = "/queues/q/subscriptions"
_SUBSCRIBER = "queue:other"
_BLANK = ["detaild", "detailed"]
#: What is wrong -> method, path, document, and the names that have no effect.
MISSPELT: dict[str, tuple[str, str, object, list[str]]] = {
    "parameter": ("GET", "/queues/q/messages?lmit=1&echo=true", None, ["lmit"]),
    "parameter without a value": ("GET", "/queues/q/stats?detaild&detailed", None, _BLANK),
    "parameter of none": ("GET", "/queues/q?detailed=true", None, ["detailed"]),
    "message": ("POST", "/queues/q/messages", {"messages": [{"body": 1, "dely": 5}]}, ["dely"]),
    "post": ("POST", "/queues/q/messages", {"messages": [{"body": 1}], "tll": 60}, ["tll"]),
    "claim": ("POST", "/queues/q/claims?limt=1", {"tll": 60, "ttl": 60}, ["limt", "tll"]),
    "purge": ("POST", "/queues/q/purge", {"resource_types": [], "types": 1}, ["types"]),
    "metadata": ("PUT", "/queues/q2", {"_max_claims": 3, "mine": 1}, ["_max_claims"]),
    "metadata of a topic": ("PUT", "/topics/t", {"_max_claim_count": 3}, ["_max_claim_count"]),
    "retry policy": (
        "PUT",
        "/queues/q2",
        {"_retry_policy": {"retries_without_delay": 1}},
        ["retries_without_delay"],
    ),
    "change": (
        "PATCH",
        "/queues/q",
        [{"op": "add", "path": "/metadata/_max_claims", "value": 3}],
        ["_max_claims"],
    ),
    "field of a change": (
        "PATCH",
        "/queues/q",
        [{"op": "add", "path": "/metadata/mine", "value": 3, "vlaue": 4}],
        ["vlaue"],
    ),
    "attempts without a dead-letter queue": (
        "PUT",
        "/queues/q2",
        {"_max_claim_count": 3},
        ["_max_claim_count"],
    ),
    "option": (
        "POST",
        _SUBSCRIPTIONS,
        {"subscriber": _SUBSCRIBER, "options": {"fliter": {}, "colour": 1, "paused": True}},
        ["fliter", "paused"],
    ),
    "subscription": ("POST", _SUBSCRIPTIONS, {"subscriber": _SUBSCRIBER, "tll": 60}, ["tll"]),
}


strict_service = fixtures.service({"api": {"strict": True}})


@pytest.fixture
def strict(
    http: httpx.Client, strict_service: servers.RunningService, project: str
) -> ZaqarTestClient:
    """A client of a service that refuses what has no effect."""
    return ZaqarTestClient(http, strict_service.url, project)


def _ignored(answer: httpx.Response) -> list[str]:
    found: Any = http_sf.parse(answer.headers["Ignored"].encode(), tltype="list")
    return [str(name).rpartition(".")[2] for name, _ in found]


def _send(api: ZaqarTestClient, method: str, path: str, document: object) -> httpx.Response:
    headers = {"Content-Type": PATCH} if method == "PATCH" else {}
    given = () if document is None else (document,)
    return api.request(method, path, *given, headers=headers)


@pytest.mark.parametrize("what", MISSPELT)
def test_name_without_an_effect_is_named(api: ZaqarTestClient, what: str) -> None:
    api.create("q")
    method, path, document, names = MISSPELT[what]
    answer = _send(api, method, path, document)
    assert answer.is_success, answer.text
    assert _ignored(answer) == names


@pytest.mark.parametrize("what", MISSPELT)
def test_name_without_an_effect_is_refused_by_a_strict_service_which_changes_nothing(
    strict: ZaqarTestClient, what: str
) -> None:
    strict.create("q")
    strict.send("q", 1)
    method, path, document, names = MISSPELT[what]
    answer = _send(strict, method, path, document)
    assert answer.status_code == 400, answer.text
    assert all(f'{name}"' in answer.json()["description"] for name in names)
    assert strict.get("/queues/q/stats").json()["messages"]["free"] == 1
    assert strict.get("/queues/q").json() == strict.get("/queues/none").json()
    assert strict.get(_SUBSCRIPTIONS).json()["subscriptions"] == []
    assert [queue["name"] for queue in strict.get("/queues").json()["queues"]] == ["q"]
    assert strict.get("/topics").json()["topics"] == []


def test_names_of_which_all_have_an_effect_are_not_named(strict: ZaqarTestClient) -> None:
    metadata = {"_retry_policy": {}, "_idempotency_window": 60, "mine": 1}
    metadata |= {"_max_claim_count": 3, "_dead_letter_queue": "failed"}
    options = {"filter": {"body": {"field": ["a"]}}, "rate": 5, "of_another_package": 1}
    for answer in (
        strict.create("q", **metadata),
        strict.create("q", **metadata),
        strict.create("q"),
        strict.request("PUT", "/topics/t", {"_history_size": 5}),
        strict.post("q", {"body": {"dely": 1}, "delay": 5, "ttl": 60, "attributes": {"a": 1}}),
        strict.get("/queues/q/messages", limit=1, detailed="true"),
        strict.get("/queues?mine=1"),
        strict.request("POST", _SUBSCRIPTIONS, {"subscriber": _SUBSCRIBER, "options": options}),
    ):
        assert answer.is_success, answer.text
        assert "Ignored" not in answer.headers


@pytest.mark.parametrize("kind", ["queues", "topics"])
def test_creation_of_what_exists_names_the_metadata_that_differ(
    api: ZaqarTestClient, strict: ZaqarTestClient, kind: str
) -> None:
    shown = f"/{kind}/q"
    api.request("PUT", shown, {"_default_message_ttl": 600, "a": 1})
    before, other = api.get(shown).json(), {"_default_message_ttl": 60, "a": 1, "b": None}
    answer = api.request("PUT", shown, other)
    assert (answer.status_code, _ignored(answer)) == (204, ["_default_message_ttl"])
    refused = strict.request("PUT", shown, other)
    assert (refused.status_code, api.get(shown).json()) == (400, before)
    assert '"_default_message_ttl"' in refused.json()["description"]
    assert "Ignored" not in api.request("PUT", shown, {"_default_message_ttl": 600}).headers


def test_creation_with_the_metadata_that_it_has_names_none(strict: ZaqarTestClient) -> None:
    metadata = {"_default_message_ttl": None, "_default_message_delay": 0, "_flavor": "", "a": None}
    for _ in range(2):
        answer = strict.create("q", **metadata)
        assert (answer.is_success, "Ignored" in answer.headers) == (True, False), answer.text


@pytest.mark.parametrize(("stored", "given"), [(1, True), (0, False), ([1], [True]), (1, "1")])
def test_metadata_of_another_type_differ(api: ZaqarTestClient, stored: Any, given: Any) -> None:
    api.create("q", a=stored, b={"c": 1, "d": 2})
    answer = api.create("q", a=given, b={"d": 2, "c": 1}, e=None)
    assert (answer.status_code, _ignored(answer)) == (204, ["a"])


def test_subscription_that_exists_names_what_differs(
    api: ZaqarTestClient, strict: ZaqarTestClient
) -> None:
    subscription = {"subscriber": "http://127.0.0.1:9/", "ttl": 600, "options": {"rate": 5}}
    api.request("POST", _SUBSCRIPTIONS, subscription)
    again = api.request("POST", _SUBSCRIPTIONS, subscription)
    assert (again.status_code, "Ignored" in again.headers) == (201, False)
    other = subscription | {"ttl": 60, "options": {}, "paused": True}
    assert _ignored(api.request("POST", _SUBSCRIPTIONS, other)) == ["ttl", "options", "paused"]
    assert strict.request("POST", _SUBSCRIPTIONS, other).status_code == 400


@pytest.mark.parametrize("name", ['a"b\\c', "größe", "%", "a\nb", "x" * 1000])
def test_name_of_any_characters_is_shown(api: ZaqarTestClient, name: str) -> None:
    answer = api.request("POST", "/queues/q/claims", {name: 60})
    assert _ignored(answer) == [name[:64]]


def test_many_names_are_shown_in_part(api: ZaqarTestClient) -> None:
    answer = api.request("POST", "/queues/q/claims", dict.fromkeys(map(str, range(1000)), 60))
    assert _ignored(answer) == [str(number) for number in range(10)]


def test_field_that_each_message_has_is_named_once(api: ZaqarTestClient) -> None:
    answer = api.post("q", *[{"body": 1, "dely": 5}] * 10)
    assert answer.headers["Ignored"] == '"messages[].dely"'
