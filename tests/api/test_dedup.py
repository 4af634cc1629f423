# SPDX-License-Identifier: Apache-2.0
"""``dedup_id`` and ``_content_dedup``: a message that is posted again is not there twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import ZaqarTestClient, refused


def posted(api: ZaqarTestClient, *messages: object, **how: Any) -> tuple[list[str], list[int]]:
    """Posts messages; returns their paths, and which are duplicates."""
    answer = api.post("q", *messages, **how)
    assert answer.status_code == 201, answer.text
    document = answer.json()
    assert len(document["resources"]) == len(messages)
    return document["resources"], document.get("duplicates", [])


def test_duplicates_have_the_paths_of_the_first_ones(api: ZaqarTestClient) -> None:
    [first], none = posted(api, {"body": 1, "dedup_id": "a"})
    assert none == []
    answer = api.post(
        "q", *({"body": body, "dedup_id": each} for body, each in ((2, "a"), (3, "b"), (4, "b")))
    )
    document = answer.json()
    assert document["duplicates"] == [0, 2]
    assert document["resources"][0] == first
    assert document["resources"][1] == document["resources"][2]
    assert api.bodies("q") == [1, 3]
    shown = api.follow(first).json()
    assert (shown["dedup_id"], "attributes" in shown) == ("a", False)
    assert [each["body"] for each in api.follow(answer.headers["Location"]).json()["messages"]]


def test_consumed_message_is_a_duplicate_still(api: ZaqarTestClient) -> None:
    first, _ = posted(api, {"body": 1, "dedup_id": "a"})
    api.pop("q", 1)
    assert posted(api, {"body": 1, "dedup_id": "a"}) == (first, [0])
    assert api.bodies("q") == []


def test_bodies_identify_messages_whatever_their_attributes(api: ZaqarTestClient) -> None:
    api.create("q", _content_dedup=True)
    first, _ = posted(api, {"body": {"n": 1}})
    again = {"body": {"n": 1}, "attributes": {"a": 1}, "ttl": 60}
    assert posted(api, again) == (first, [0])
    [_, other], duplicates = posted(api, again, {"body": {"n": 1}, "dedup_id": "own"})
    assert duplicates == [0]
    assert other not in first
    assert len(api.bodies("q")) == 2


def test_texts_and_bytes_are_compared_and_not_how_json_spells_them(api: ZaqarTestClient) -> None:
    api.create("q", _content_dedup=True)
    text = {"content_type": "text/plain"}
    first, _ = posted(api, {"body": "é/\r"} | text)
    spelt = b'{"messages": [{"body": "\\u00e9\\/\\u000d", "content_type": "text/plain"}]}'
    answer = api.request("POST", "/queues/q/messages", content=spelt)
    assert answer.json()["duplicates"] == [0]
    same = {"body": "w6kvDQ==", "body_encoding": "base64", "content_type": "a/b"}
    assert posted(api, same) == (first, [0])
    assert posted(api, {"body": "é/\r"}, {"body": "w6kvDQ=="} | text)[1] == []


@pytest.mark.parametrize("key", [None, "once"])
def test_bodies_are_compared_before_encryption(rich: ZaqarTestClient, key: str | None) -> None:
    rich.create("q", _content_dedup=True, _enable_encrypt_messages=True)
    first, _ = posted(rich, {"body": "secret"})
    for _ in range(2):
        (again, new), duplicates = posted(rich, {"body": "secret"}, {"body": "other"}, key=key)
        assert [again] == first
        assert 0 in duplicates
    assert duplicates == ([0, 1] if key is None else [0])  # a retry gets the first answer
    assert rich.bodies("q") == ["secret", "other"]
    assert rich.follow(new).status_code == 200


def test_retried_post_has_the_same_answer(api: ZaqarTestClient) -> None:
    posted(api, {"body": 1, "dedup_id": "a"})
    messages = [{"body": 2, "dedup_id": "b"}, {"body": 1, "dedup_id": "a"}, {"body": 3}]
    first, again = (api.post("q", *messages, key="once") for _ in range(2))
    assert first.json()["duplicates"] == [1]
    assert again.json() == first.json()
    assert again.headers["Idempotency-Replayed"] == "true"
    refused(api.post("q", *messages[:2], key="once"), 422, "Idempotency-Key")
    assert api.bodies("q") == [1, 2, 3]


def test_topics_deduplicate_too(api: ZaqarTestClient) -> None:
    message = {"messages": [{"body": 1, "dedup_id": "a"}]}
    first, again = (api.request("POST", "/topics/t/messages", message).json() for _ in range(2))
    assert again == first | {"duplicates": [0]}


@pytest.mark.parametrize("dedup_id", ["", "é" * 65, "a\nb", "x" * 129])
def test_bad_dedup_id_is_refused(api: ZaqarTestClient, dedup_id: str) -> None:
    answer = api.post("q", {"body": 1}, {"body": 2, "dedup_id": dedup_id})
    refused(answer, 400, "dedup_id", "128", "messages[1]")
    assert api.bodies("q") == []
    assert posted(api, {"body": 1, "dedup_id": "é" * 64})[1] == []


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        ({"_content_dedup": "yes"}, ["_content_dedup", "boolean"]),
        ({"_content_dedup": 1}, ["_content_dedup", "boolean"]),
        ({"_dedup_window": 0}, ["_dedup_window", "604800"]),
        ({"_dedup_window": 604_801}, ["_dedup_window", "604800"]),
        ({"_dedup_window": True}, ["_dedup_window", "integer"]),
    ],
)
def test_bad_metadata_are_refused(
    api: ZaqarTestClient, metadata: dict[str, object], named: list[str]
) -> None:
    refused(api.create("q", **metadata), 400, *named)
