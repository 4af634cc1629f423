# SPDX-License-Identifier: Apache-2.0
"""Priorities and groups over REST."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import ZaqarTestClient


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        ({"_group_mode": "fifo"}, ["_group_mode", "ordered"]),
        ({"_group_mode": True}, ["_group_mode", "ordered"]),
        ({"_group_concurrency": 2}, ["_group_concurrency", "_group_mode", "fair"]),
        ({"_group_mode": "ordered", "_group_rate": 2}, ["_group_rate", "fair"]),
        ({"_group_mode": "fair", "_group_concurrency": 0}, ["_group_concurrency", "1"]),
        ({"_group_mode": "fair", "_group_rate": 1001}, ["_group_rate", "1000"]),
        ({"_group_mode": "fair", "_group_rate": True}, ["_group_rate", "1000"]),
        ({"_group_mode": "fair", "_group_weights": ["a"]}, ["_group_weights", "1000"]),
        ({"_group_mode": "fair", "_group_weights": {"a": 0}}, ['"a"', "_group_weights", "1000"]),
        ({"_group_mode": "fair", "_group_weights": {"": 1}}, ["_group_weights", "128"]),
        ({"_group_mode": "fair", "_priorities": 5}, ["_group_mode", "_priorities"]),
        ({"_priorities": "aging"}, ["_priorities", "strict", "1000000"]),
        ({"_priorities": 0}, ["_priorities", "strict"]),
        ({"_priorities": True}, ["_priorities", "strict"]),
        ({"_priorities": 1_000_001}, ["_priorities", "1000000"]),
        (
            {"_group_mode": "ordered", "_max_messages": 5, "_overflow": "drop_oldest"},
            ["_overflow", "_group_mode", "reject"],
        ),
        (
            {"_priorities": 10, "_max_messages": 5, "_overflow": "drop_oldest"},
            ["_overflow", "_priorities", "reject"],
        ),
    ],
)
def test_wrong_order_is_refused_and_named(
    api: ZaqarTestClient, metadata: dict[str, Any], named: list[str]
) -> None:
    answer = api.create("q", **metadata)
    assert answer.status_code == 400
    assert all(name in answer.json()["description"] for name in named)
    assert api.get("/queues").json()["queues"] == []


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"group": ""}, ["group", "128"]),
        ({"group": "x" * 129}, ["group", "128"]),
        ({"group": "ü" * 65}, ["group", "128"]),
        ({"group": "a\nb"}, ["group", "printable"]),
        ({"group": 5}, ["group"]),
        ({"priority": -1}, ["priority", "31"]),
        ({"priority": 32}, ["priority", "31"]),
        ({"priority": "5"}, ["priority"]),
        ({"attributes": {"_group": 5}}, ["group"]),
        ({"attributes": {"_priority": 2.5}}, ["priority"]),
    ],
)
def test_wrong_field_is_refused_and_nothing_is_posted(
    api: ZaqarTestClient, message: dict[str, Any], named: list[str]
) -> None:
    answer = api.post("q", {"body": 1}, {"body": 2, **message})
    assert answer.status_code == 400
    assert all(name in answer.json()["description"] for name in named)
    assert api.get("/queues").json()["queues"] == []


def _post(api: ZaqarTestClient, queue: str, *messages: dict[str, Any]) -> list[str]:
    resources = api.post(queue, *messages).json()["resources"]
    return [href.rpartition("/")[2] for href in resources]


def test_fields_are_shown_where_messages_are(api: ZaqarTestClient) -> None:
    api.create("q", _priorities=10)
    fields = {"group": "ann", "priority": 31}
    attributes = {"attributes": {"kind": "order"}}
    ids = _post(api, "q", {"body": 1, **fields, **attributes}, {"body": 2, "priority": 0})
    asked = "with_attributes=true&echo=true"
    listed = api.get(f"/queues/q/messages?{asked}").json()["messages"]
    one = api.get(f"/queues/q/messages/{ids[0]}?with_attributes=true").json()
    claimed = api.request("POST", "/queues/q/claims?with_attributes=true").json()["messages"]
    for message in (listed[0], one, claimed[0]):
        assert {name: message[name] for name in (*fields, *attributes)} == fields | attributes
    assert {*fields, "attributes"} & listed[1].keys() == {"priority"}
    plain = api.get(f"/queues/q/messages/{ids[0]}").json()
    assert (plain["group"], "attributes" in plain) == ("ann", False)
    peeked = api.get("/queues/q/peek").json()["messages"]
    assert [each.get("group") for each in peeked] == ["ann", None]
    _post(api, "p", {"body": 1, **fields})
    popped = api.pop("p", 1)
    assert fields.items() <= popped.json()["messages"][0].items()


def test_claims_go_by_priority_and_groups(api: ZaqarTestClient) -> None:
    api.create("q", _priorities="strict", _group_mode="ordered")
    _post(
        api,
        "q",
        {"body": "a1", "group": "a"},
        {"body": "a2", "group": "a", "priority": 31},
        {"body": "b1", "group": "b", "priority": 1},
        {"body": "free"},
    )
    got = [
        api.request("POST", "/queues/q/claims?limit=1").json()["messages"][0]["body"]
        for _ in range(3)
    ]
    assert got == ["b1", "a1", "free"]
    assert api.request("POST", "/queues/q/claims").status_code == 204
    shown = api.get("/queues/q").json()
    assert (shown["_priorities"], shown["_group_mode"]) == ("strict", "ordered")


def test_groups_take_turns_as_their_queue_says(api: ZaqarTestClient) -> None:
    fair = {"_group_concurrency": 2, "_group_rate": 1000, "_group_weights": {"a": 3}}
    assert api.create("q", _group_mode="fair", **fair).status_code == 201
    _post(api, "q", *[{"body": each, "group": each[0]} for each in ("a1", "a2", "b1")])
    taken = api.request("POST", "/queues/q/claims").json()["messages"]
    assert [each["body"] for each in taken] == ["a1", "b1"]
    shown = api.get("/queues/q").json()
    assert {name: shown[name] for name in fair} == fair


def test_groups_of_a_queue_with_messages_cannot_be_changed(api: ZaqarTestClient) -> None:
    api.create("q")
    api.send("q", 1)
    refused = api.patch("q", {"op": "add", "path": "/metadata/_group_mode", "value": "ordered"})
    assert refused.status_code == 409
    assert "_group_mode" in refused.json()["description"]
    changed = api.patch("q", {"op": "add", "path": "/metadata/_priorities", "value": 5})
    assert changed.json()["_priorities"] == 5
    assert "_group_mode" not in api.get("/queues/q").json()
