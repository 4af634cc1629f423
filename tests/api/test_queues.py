# SPDX-License-Identifier: Apache-2.0
"""Queues: create, show, delete, reserved attributes, stats, purge."""

from __future__ import annotations

import re
import time
import uuid
from typing import Any

import pytest

from tests.api.client import ZaqarTestClient, refused

DEFAULTS = {
    "_max_messages_post_size": 262144,
    "_default_message_ttl": 3600,
    "_default_message_delay": 0,
    "_enable_encrypt_messages": False,
}


def test_create_queue(api: ZaqarTestClient) -> None:
    answer = api.request("PUT", "/queues/q")
    assert (answer.status_code, answer.content) == (201, b"")
    assert answer.headers["Location"] == "/v2/queues/q"
    assert api.follow(answer.headers["Location"]).json() == DEFAULTS


def test_create_with_metadata(api: ZaqarTestClient) -> None:
    metadata = {"colour": "blue", "größe": [1, {"a": None}], "_default_message_ttl": 60}
    assert api.create("q", **metadata).status_code == 201
    assert api.get("/queues/q").json() == DEFAULTS | metadata


def test_show_of_a_missing_queue_has_the_defaults(api: ZaqarTestClient) -> None:
    answer = api.get("/queues/q")
    assert (answer.status_code, answer.json()) == (200, DEFAULTS)
    assert api.get("/queues").json()["queues"] == []


def test_delete_is_idempotent(api: ZaqarTestClient) -> None:
    api.create("q", colour="blue")
    for _ in range(2):
        answer = api.request("DELETE", "/queues/q")
        assert (answer.status_code, answer.content) == (204, b"")
    assert api.get("/queues/q").json() == DEFAULTS
    assert api.get("/queues").json()["queues"] == []


@pytest.mark.parametrize("content", [b"[]", b'["a"]', b"1", b'"x"', b"null", b"true"])
def test_metadata_must_be_an_object(api: ZaqarTestClient, content: bytes) -> None:
    answer = api.request("PUT", "/queues/q", content=content)
    refused(answer, 400, "object")
    assert answer.json()["title"] == "Invalid request body"


EDGES = [
    ("_max_messages_post_size", 1, 262144),
    ("_default_message_ttl", 60, 1209600),
    ("_default_message_delay", 0, 900),
    ("_dead_letter_queue_messages_ttl", 60, 1209600),
    ("_idempotency_window", 1, 86400),
]


@pytest.mark.parametrize(("name", "least", "most"), EDGES)
def test_reserved_attributes_are_accepted_up_to_their_bounds(
    api: ZaqarTestClient, name: str, least: int, most: int
) -> None:
    for value in (least, least + 1, most - 1, most):
        queue = f"q{value}"
        assert api.create(queue, **{name: value}).status_code == 201
        assert api.get(f"/queues/{queue}").json()[name] == value
    for value in (least - 1, most + 1, -(2**62), 2**63 - 1, 2**63, 10**30):
        refused(api.create("bad", **{name: value}), 400, name, str(least), str(most))
    assert "bad" not in api.get("/queues", limit=20, name="bad").text


NO_INTEGERS: list[Any] = ["60", 60.5, True, [60], {}]
RESERVED_AND_WRONG: list[tuple[str, Any]] = [
    *((name, wrong) for name, _, _ in EDGES for wrong in NO_INTEGERS),
    ("_max_claim_count", "2"),
    ("_max_claim_count", 2.5),
    ("_max_claim_count", True),
    ("_max_claim_count", -1),
    ("_max_claim_count", 2**63),
    ("_dead_letter_queue", 7),
    ("_dead_letter_queue", ["dlq"]),
    ("_dead_letter_queue", "not a name"),
    ("_dead_letter_queue", "n" * 65),
    ("_on_expiry", "delete"),
    ("_on_expiry", True),
    ("_enable_encrypt_messages", 1),
    ("_enable_encrypt_messages", "true"),
]


@pytest.mark.parametrize(("name", "value"), RESERVED_AND_WRONG)
def test_reserved_attributes_are_checked(api: ZaqarTestClient, name: str, value: object) -> None:
    answer = api.create("q", **{name: value})
    assert answer.status_code == 400
    assert name in answer.text
    api.create("q")
    change = {"op": "add", "path": f"/metadata/{name}", "value": value}
    assert api.patch("q", change).status_code == 400
    assert api.get("/queues/q").json() == DEFAULTS


@pytest.mark.parametrize("name", list(DEFAULTS))
def test_null_attribute_means_the_default(api: ZaqarTestClient, name: str) -> None:
    assert api.create("q", **{name: None}).status_code == 201
    assert api.get("/queues/q").json()[name] == DEFAULTS[name]


@pytest.mark.parametrize("dead", [None, "", "q"])
def test_expired_messages_need_another_queue_as_dead_letters(
    api: ZaqarTestClient, dead: str | None
) -> None:
    answer = api.create("q", _on_expiry="dead_letter", _dead_letter_queue=dead)
    assert answer.status_code == 400
    assert '"_on_expiry": "dead_letter" needs' in answer.json()["description"]
    assert api.create("q", _on_expiry="dead_letter", _dead_letter_queue="d").status_code == 201
    removed = {"op": "remove", "path": "/metadata/_dead_letter_queue"}
    assert api.patch("q", removed).status_code == 400
    shown = api.get("/queues/q").json()
    assert (shown["_on_expiry"], shown["_dead_letter_queue"]) == ("dead_letter", "d")


def test_empty_dead_letter_queue_name_means_none(api: ZaqarTestClient) -> None:
    assert api.create("q", _dead_letter_queue="", _max_claim_count=1).status_code == 201
    assert "_dead_letter_queue" not in api.get("/queues/q").json()
    api.send("q", 1)
    for _ in range(3):
        api.release("q", api.hold("q")[0])
    assert api.bodies("q") == [1]


@pytest.mark.parametrize("count", [0, 1, 2**63 - 1])
def test_claim_counts_may_be_any_natural_number(api: ZaqarTestClient, count: int) -> None:
    assert api.create("q", _max_claim_count=count).status_code == 201
    assert api.get("/queues/q").json().get("_max_claim_count") == (count or None)


def test_default_ttl_of_the_queue_applies_to_its_messages(api: ZaqarTestClient) -> None:
    api.create("q", _default_message_ttl=77)
    api.post("q", {"body": 1}, {"body": 2, "ttl": 99})
    assert [item["ttl"] for item in api.list("q").json()["messages"]] == [77, 99]


@pytest.mark.parametrize(("size", "status"), [(99, 201), (100, 201), (101, 400)])
def test_post_size_limit_of_the_queue_applies(api: ZaqarTestClient, size: int, status: int) -> None:
    api.create("q", _max_messages_post_size=100)
    content = b'{"messages":[{"body":"%s"}]}'
    answer = api.request(
        "POST", "/queues/q/messages", content=content % (b"x" * (size + 2 - len(content)))
    )
    assert int(answer.request.headers["Content-Length"]) == size
    assert answer.status_code == status
    if status == 400:
        refused(answer, 400, "at most 100 bytes")


@pytest.mark.parametrize(("size", "status"), [(65535, 201), (65536, 201), (65537, 400)])
def test_size_of_metadata_is_limited(api: ZaqarTestClient, size: int, status: int) -> None:
    content = b'{"a":"%s"}' % (b"x" * (size - len(b'{"a":""}')))
    answer = api.request("PUT", "/queues/q", content=content)
    assert answer.status_code == status
    if status == 400:
        refused(answer, 400, "Queue metadata", "65536")


@pytest.mark.parametrize(("depth", "status"), [(99, 201), (100, 201), (101, 400), (968, 400)])
def test_nesting_of_metadata_is_limited(api: ZaqarTestClient, depth: int, status: int) -> None:
    content = b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"
    answer = api.request("PUT", "/queues/q", content=content)
    assert answer.status_code == status
    if status == 400:
        refused(answer, 400, "nested")
    assert api.get("/queues/q").status_code == 200
    assert api.get("/queues", detailed=True).status_code == 200


@pytest.mark.parametrize("lazy", [True, False])
def test_stats_without_messages(api: ZaqarTestClient, lazy: bool) -> None:
    if not lazy:
        api.create("q")
    assert api.stats("q") == {"claimed": 0, "free": 0, "total": 0}


def test_stats(api: ZaqarTestClient) -> None:
    began = time.monotonic()
    first, _, last = api.send("q", 1, 2, 3)
    api.hold("q", 1)
    found = api.stats("q")
    assert (found["free"], found["claimed"], found["total"]) == (2, 1, 3)
    for name, message in (("oldest", first), ("newest", last)):
        assert set(found[name]) == {"href", "age", "created"}
        assert found[name]["href"] == f"/v2/queues/q/messages/{message}"
        assert 0 <= found[name]["age"] <= time.monotonic() - began + 1
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found[name]["created"])
    assert api.follow(found["oldest"]["href"]).json()["body"] == 1


def test_detailed_stats_of_a_missing_queue_are_not_found(api: ZaqarTestClient) -> None:
    assert api.get("/queues/q/stats").json()["messages"]["total"] == 0
    answer = api.get("/queues/q/stats?detailed=true")
    assert (answer.status_code, answer.json()["description"]) == (
        404,
        "The queue q does not exist.",
    )


def test_detailed_stats_have_delayed_messages_and_counters(api: ZaqarTestClient) -> None:
    api.post("q", {"body": 1}, {"body": 2, "delay": 60})
    assert set(api.get("/queues/q/stats").json()) == {"messages"}
    detailed = api.get("/queues/q/stats?detailed=true").json()
    assert detailed["messages"]["delayed"] == 1
    assert 100 < detailed["messages"]["bytes"] < 300
    names = ("posted", "claimed", "released", "deleted", "expired", "purged", "dead_lettered")
    expected = dict.fromkeys((*names, "dropped", "refused"), 0)
    assert detailed["counters"] == expected | {"posted": 2}


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"resource_types": ["messages"]}', b'{"resource_types": []}']
)
def test_purge(api: ZaqarTestClient, content: bytes) -> None:
    api.create("q", colour="blue", _default_message_delay=100)
    api.post("q", {"body": "claimed", "delay": 0})
    api.hold("q")
    api.post("q", {"body": "free", "delay": 0}, {"body": "delayed"})
    answer = api.request("POST", "/queues/q/purge", content=content)
    if content == b"{}":
        refused(answer, 400, "resource_types")
        return
    assert (answer.status_code, answer.content) == (204, b"")
    left = 0 if b"[]" not in content else 3
    assert api.stats("q")["total"] == left
    assert api.get("/queues/q").json()["colour"] == "blue"


def test_purge_of_subscriptions_leaves_the_messages(api: ZaqarTestClient) -> None:
    api.send("q", 1)
    answer = api.request("POST", "/queues/q/purge", {"resource_types": ["subscriptions"]})
    assert answer.status_code == 204
    assert api.bodies("q") == [1]


def test_purge_of_a_missing_queue(api: ZaqarTestClient) -> None:
    assert api.request("POST", "/queues/q/purge").status_code == 204


@pytest.mark.parametrize(
    "document",
    [{"resource_types": ["claims"]}, {"resource_types": "messages"}, {"resource_types": [1]}],
)
def test_purge_of_unknown_resource_types_is_refused(api: ZaqarTestClient, document: object) -> None:
    refused(api.request("POST", "/queues/q/purge", document), 400, "resource_types")


def test_recreated_queue_has_nothing_of_the_deleted_one(api: ZaqarTestClient) -> None:
    api.create("q", colour="blue")
    (message,) = api.send("q", 1)
    claim, _ = api.hold("q")
    api.request("DELETE", "/queues/q")
    assert api.create("q").status_code == 201
    (again,) = api.send("q", 2)
    assert uuid.UUID(again) != uuid.UUID(message)
    assert api.message("q", message).status_code == 404
    assert api.claimed("q", claim).status_code == 404
    assert api.delete("q", message).status_code == 204
    assert api.bodies("q") == [2]
    assert api.bodies("q", marker=message) == []
