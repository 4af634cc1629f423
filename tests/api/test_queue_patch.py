# SPDX-License-Identifier: Apache-2.0
"""Changing a queue's metadata by JSON patch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.client import PATCH, ZaqarTestClient, refused
from tests.api.test_queues import DEFAULTS


def _change(op: str, key: str, *value: object) -> dict[str, Any]:
    change: dict[str, Any] = {"op": op, "path": f"/metadata/{key}"}
    return change | {"value": value[0]} if value else change


def test_patch_adds_replaces_and_removes_keys(api: ZaqarTestClient) -> None:
    api.create("q", a=1, b=2, c=3)
    answer = api.patch(
        "q", _change("add", "d", [4]), _change("replace", "a", None), _change("remove", "b")
    )
    assert (answer.status_code, answer.json()) == (200, DEFAULTS | {"a": None, "c": 3, "d": [4]})
    assert api.get("/queues/q").json() == answer.json()


def test_add_of_an_existing_key_replaces_it(api: ZaqarTestClient) -> None:
    api.create("q", a=1)
    assert api.patch("q", _change("add", "a", 2)).json()["a"] == 2


def test_operations_apply_in_order(api: ZaqarTestClient) -> None:
    api.create("q")
    answer = api.patch("q", _change("add", "a", 1), _change("replace", "a", 2))
    assert answer.json()["a"] == 2
    assert api.patch("q", _change("remove", "a"), _change("remove", "a")).status_code == 409


def test_empty_patch_changes_nothing(api: ZaqarTestClient) -> None:
    api.create("q", a=1)
    answer = api.patch("q")
    assert (answer.status_code, answer.json()) == (200, DEFAULTS | {"a": 1})


def test_patch_of_a_missing_queue_answers_404(api: ZaqarTestClient) -> None:
    refused(api.patch("q", _change("add", "a", 1)), 404, "q")
    assert api.get("/queues").json()["queues"] == []


def test_patch_applies_all_operations_or_none(api: ZaqarTestClient) -> None:
    api.create("q", a=1)
    assert api.patch("q", _change("add", "b", 2), _change("remove", "zz")).status_code == 409
    bad = _change("add", "_default_message_ttl", 59)
    refused(api.patch("q", _change("add", "b", 2), bad), 400, "_default_message_ttl")
    assert api.get("/queues/q").json() == DEFAULTS | {"a": 1}


@pytest.mark.parametrize("op", ["replace", "remove"])
def test_operation_on_a_missing_key_is_a_conflict(api: ZaqarTestClient, op: str) -> None:
    api.create("q")
    answer = api.patch("q", _change(op, "a", 1))
    refused(answer, 409, "a")
    assert answer.json()["title"] == "Resource conflict"


@pytest.mark.parametrize("name", list(DEFAULTS))
def test_reserved_attributes_can_always_be_removed_or_replaced(
    api: ZaqarTestClient, name: str
) -> None:
    api.create("q")
    assert api.patch("q", _change("remove", name)).status_code == 200
    assert api.patch("q", _change("replace", name, None)).status_code == 200
    assert api.get("/queues/q").json() == DEFAULTS


def test_removing_a_reserved_attribute_restores_the_default(api: ZaqarTestClient) -> None:
    api.create("q", _default_message_ttl=60)
    assert api.patch("q", _change("remove", "_default_message_ttl")).json() == DEFAULTS
    api.post("q", {"body": 1})
    assert api.list("q").json()["messages"][0]["ttl"] == 3600


def test_a_changed_attribute_takes_effect_at_once(api: ZaqarTestClient) -> None:
    api.create("q")
    api.patch("q", _change("add", "_default_message_ttl", 61))
    api.patch("q", _change("replace", "_max_messages_post_size", 60))
    api.post("q", {"body": 1})
    assert api.list("q").json()["messages"][0]["ttl"] == 61
    refused(api.post("q", {"body": "x" * 60}), 400, "at most 60 bytes")


def test_queue_that_takes_one_byte_refuses_posts_and_is_consumed(api: ZaqarTestClient) -> None:
    api.post("q", {"body": 1})
    api.patch("q", _change("add", "_max_messages_post_size", 1))
    refused(api.post("q", {"body": 2}), 400, "this queue takes at most 1 bytes a request")
    assert api.pop("q", 1).json()["messages"][0]["body"] == 1
    api.patch("q", _change("remove", "_max_messages_post_size"))
    assert api.post("q", {"body": 3}).status_code == 201


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/metadata/a~1b", "a/b"),
        ("/metadata/a~0b", "a~b"),
        ("/metadata/a~01", "a~1"),
        ("/METADATA/k", "k"),
        (" / metadata / k ", "k"),
        ("/metadata/a.b c", "a.b c"),
        ("/metadata/ü", "ü"),
    ],
)
def test_path_is_parsed_into_a_key(api: ZaqarTestClient, path: str, key: str) -> None:
    api.create("q")
    answer = api.patch("q", {"op": "add", "path": path, "value": 1})
    assert (answer.status_code, answer.json()) == (200, DEFAULTS | {key: 1})


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ("add", "object"),
        (1, "object"),
        (None, "object"),
        ([], "object"),
        ({}, '"op"'),
        ({"op": "move", "path": "/metadata/a", "value": 1}, '"op"'),
        ({"op": "test", "path": "/metadata/a", "value": 1}, '"op"'),
        ({"op": 1, "path": "/metadata/a", "value": 1}, '"op"'),
        ({"op": ["add"], "path": "/metadata/a", "value": 1}, '"op"'),
        ({"path": "/metadata/a", "value": 1}, '"op"'),
        ({"op": "add", "path": "/metadata/a"}, '"value"'),
        ({"op": "replace", "path": "/metadata/a"}, '"value"'),
        ({"op": "add", "value": 1}, '"path"'),
        ({"op": "remove"}, '"path"'),
        ({"op": "add", "path": 5, "value": 1}, '"path"'),
        ({"op": "add", "path": None, "value": 1}, '"path"'),
        ({"op": "remove", "path": ["/metadata/a"]}, '"path"'),
        ({"op": "remove", "path": True}, '"path"'),
        ({"op": "replace", "path": 1, "value": 1}, '"path"'),
        ({"op": "replace", "path": {"a": 1}, "value": 1}, '"path"'),
        ({"op": "add", "path": "", "value": 1}, '"path"'),
        ({"op": "add", "path": "/", "value": 1}, '"path"'),
        ({"op": "add", "path": "metadata/a", "value": 1}, '"path"'),
        ({"op": "add", "path": "/metadata", "value": 1}, '"path"'),
        ({"op": "add", "path": "/metadata/", "value": 1}, '"path"'),
        ({"op": "add", "path": "/metadata/a/b", "value": 1}, '"path"'),
        ({"op": "add", "path": "/other/a", "value": 1}, '"path"'),
        ({"op": "remove", "path": "/other/a"}, '"path"'),
    ],
)
def test_invalid_operations_are_refused(api: ZaqarTestClient, change: object, word: str) -> None:
    api.create("q", a=1)
    answer = api.patch("q", {"op": "add", "path": "/metadata/z", "value": 1}, change)
    refused(answer, 400, "Operation 1", word)
    assert answer.json()["title"] == "Invalid request body"
    assert api.get("/queues/q").json() == DEFAULTS | {"a": 1}


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"{}", "array"),
        (b'{"op": "add", "path": "/metadata/a", "value": 1}', "array"),
        (b"1", "array"),
        (b"null", "array"),
        (b"[", "parsed"),
        (b"[NaN]", "parsed"),
    ],
)
def test_invalid_patch_documents_are_refused(
    api: ZaqarTestClient, content: bytes, word: str
) -> None:
    api.create("q")
    answer = api.request("PATCH", "/queues/q", content=content, headers={"Content-Type": PATCH})
    refused(answer, 400, word)
    assert answer.json()["title"] == "Invalid request body"


@pytest.mark.parametrize("kind", ["application/json", f"{PATCH}; charset=utf-8", "", "text/plain"])
def test_other_content_types_are_refused(api: ZaqarTestClient, kind: str) -> None:
    api.create("q")
    headers = {"Content-Type": kind}
    answer = api.request("PATCH", "/queues/q", content=b"[]", headers=headers)
    refused(answer, 415, PATCH)


def test_metadata_may_not_grow_beyond_its_limit(api: ZaqarTestClient) -> None:
    api.create("q", a="x" * 40000)
    answer = api.patch("q", _change("add", "b", "x" * 30000))
    refused(answer, 400, "Queue metadata", "65536")
    answer = api.patch("q", _change("add", "b", "x" * 70000))
    refused(answer, 400, "Queue metadata", "65536")


def test_concurrent_patches_are_all_applied(api: ZaqarTestClient) -> None:
    api.create("q")

    def add(key: str) -> int:
        while (answer := api.patch("q", _change("add", key, 1))).status_code == 409:
            pass
        return answer.status_code

    keys = [f"k{number}" for number in range(24)]
    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(add, keys)) == {200}
    assert api.get("/queues/q").json() == DEFAULTS | dict.fromkeys(keys, 1)
