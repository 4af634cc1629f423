# SPDX-License-Identifier: Apache-2.0
"""Limits and pauses of queues, over REST."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import ZaqarTestClient


def _counters(api: ZaqarTestClient, queue: str) -> dict[str, int]:
    counters: dict[str, int] = api.get(f"/queues/{queue}/stats", detailed=True).json()["counters"]
    return counters


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        ({"_max_messages": 0}, ["_max_messages", "1"]),
        ({"_max_messages": "5"}, ["_max_messages", "integer"]),
        ({"_max_messages": True}, ["_max_messages", "integer"]),
        ({"_max_messages": 2**63}, ["_max_messages"]),
        ({"_max_bytes": 0}, ["_max_bytes", "1"]),
        ({"_max_bytes": 10**15 + 1}, ["_max_bytes", str(10**15)]),
        ({"_max_messages": 5, "_overflow": "drop"}, ["_overflow", "drop_oldest"]),
        ({"_max_messages": 5, "_overflow": 1}, ["_overflow", "drop_oldest"]),
        ({"_overflow": "drop_oldest"}, ["_overflow", "_max_messages", "_max_bytes"]),
        ({"_max_messages": 5, "_overflow": "dead_letter"}, ["_overflow", "_dead_letter_queue"]),
        (
            {"_max_messages": 5, "_overflow": "dead_letter", "_dead_letter_queue": "q"},
            ["_overflow", "another queue"],
        ),
        ({"_paused": True}, ["_paused", "posts", "claims", "all"]),
        ({"_paused": "post"}, ["_paused", "posts", "claims", "all"]),
    ],
)
def test_wrong_limit_is_refused_and_named(
    api: ZaqarTestClient, metadata: dict[str, Any], named: list[str]
) -> None:
    answer = api.create("q", **metadata)
    assert answer.status_code == 400
    assert all(name in answer.json()["description"] for name in named)
    assert api.get("/queues").json()["queues"] == []


def test_full_queue_answers_403_until_there_is_room(api: ZaqarTestClient) -> None:
    assert api.create("q", _max_messages=2).status_code == 201
    ids = api.send("q", 1, 2)
    refused = api.post("q", {"body": 3})
    assert (refused.status_code, refused.json()["title"]) == (403, "Queue full")
    assert "at most 2 messages" in refused.json()["description"]
    assert refused.headers["Retry-After"] == "10"
    assert "Retry-After" not in api.post("q", *({"body": n} for n in range(3))).headers
    assert _counters(api, "q")["refused"] == 4
    api.request("DELETE", f"/queues/q/messages/{ids[0]}")
    api.send("q", 3)


def test_queue_full_of_bytes_answers_403_until_there_is_room(api: ZaqarTestClient) -> None:
    assert api.create("q", _max_bytes=200).status_code == 201
    ids = api.send("q", 1, 2, 3)
    refused = api.post("q", {"body": 4})
    assert (refused.status_code, refused.json()["title"]) == (403, "Queue full")
    assert 'at most 200 bytes ("_max_bytes")' in refused.json()["description"]
    assert refused.headers["Retry-After"] == "10"
    assert "Retry-After" not in api.post("q", {"body": "x" * 200}).headers
    api.request("DELETE", f"/queues/q/messages/{ids[0]}")
    api.send("q", 5)


def test_full_queue_drops_its_oldest_messages(api: ZaqarTestClient) -> None:
    api.create("q", _max_messages=2, _overflow="drop_oldest")
    api.send("q", 1, 2)
    api.send("q", 3)
    assert [each["body"] for each in api.list("q", echo=True).json()["messages"]] == [2, 3]
    assert (_counters(api, "q")["dropped"], _counters(api, "q")["deleted"]) == (1, 0)


def test_paused_queue_answers_403_to_posts_and_204_to_claims(api: ZaqarTestClient) -> None:
    api.create("q")
    api.send("q", 1)
    pause = {"op": "add", "path": "/metadata/_paused", "value": "all"}
    assert api.patch("q", pause).status_code == 200
    refused = api.post("q", {"body": 2})
    assert (refused.status_code, refused.json()["title"]) == (403, "Queue paused")
    assert refused.headers["Retry-After"] == "10"
    assert api.claim("q").status_code == 204
    assert api.request("POST", "/queues/q/claims", wait=1).status_code == 204
    assert api.request("DELETE", "/queues/q/messages", pop=1).json()["messages"] == []
    assert len(api.list("q", echo=True).json()["messages"]) == 1
    api.patch("q", {"op": "remove", "path": "/metadata/_paused"})
    assert api.claim("q").status_code == 201
