# SPDX-License-Identifier: Apache-2.0
"""Attributes of messages: typed values beside the body, for those who ask for them."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

from tests.api.client import ZaqarTestClient, refused

ATTRIBUTES = {
    "kind": "order",
    "empty": "",
    "text": "ünï©ode \U0001f600",
    "number": -3,
    "large": 2**64 - 1,
    "price": 1.5,
    "photo.small": {"binary": base64.b64encode(bytes(range(256))).decode()},
}
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def _post(api: ZaqarTestClient, attributes: Any = ATTRIBUTES, **headers: str) -> str:
    messages = [{"body": 1, "attributes": attributes}, {"body": 2}]
    answer = api.request("POST", "/queues/q/messages", {"messages": messages}, headers=headers)
    assert answer.status_code == 201, answer.text
    first: str = answer.json()["resources"][0]
    return first.removeprefix("/v2")


def _shown(answer: httpx.Response) -> list[Any]:
    return [each.get("attributes") for each in answer.json()["messages"]]


def test_attributes_are_shown_to_those_who_ask(api: ZaqarTestClient) -> None:
    first = _post(api)
    asked: dict[str, Any] = {"with_attributes": True}
    assert api.get(first, **asked).json()["attributes"] == ATTRIBUTES
    assert _shown(api.list("q", **asked)) == [ATTRIBUTES, None]
    ids = first.rpartition("/")[2]
    assert _shown(api.get("/queues/q/messages", ids=ids, **asked)) == [ATTRIBUTES]
    assert _shown(api.get("/queues/q/peek")) == [ATTRIBUTES, None]
    claimed = api.request("POST", "/queues/q/claims", limit=2, **asked)
    assert _shown(claimed) == [ATTRIBUTES, None]
    claim = claimed.headers["Location"].removeprefix("/v2")
    assert _shown(api.get(claim, **asked)) == [ATTRIBUTES, None]
    api.request("DELETE", claim)
    popped = api.request("DELETE", "/queues/q/messages", pop=2, **asked)
    assert _shown(popped) == [ATTRIBUTES, None]


def test_attributes_are_hidden_from_those_who_do_not_ask(api: ZaqarTestClient) -> None:
    first = _post(api)
    claim, held = api.hold("q", 1)
    assert "attributes" not in api.get(first).json() | held[0]
    assert _shown(api.list("q", include_claimed=True)) == [None, None]
    assert _shown(api.claimed("q", claim)) == [None]
    api.release("q", claim)
    assert _shown(api.pop("q", 2)) == [None, None]


def test_page_links_go_on_with_attributes(api: ZaqarTestClient) -> None:
    for _ in range(2):
        _post(api)
    page = api.list("q", limit=2, with_attributes=True).json()
    (link,) = page["links"]
    assert "with_attributes=true" in link["href"]
    assert _shown(api.follow(link["href"])) == [ATTRIBUTES, None]


def test_span_of_a_request_is_an_attribute_of_its_messages(api: ZaqarTestClient) -> None:
    _post(api, {"kind": "order"}, traceparent=PARENT)
    _post(api, {"traceparent": "own"}, traceparent=PARENT)
    _post(api, None, traceparent="nonsense")
    assert _shown(api.list("q", with_attributes=True)) == [
        {"traceparent": PARENT, "kind": "order"},
        {"traceparent": PARENT},
        {"traceparent": "own"},
        {"traceparent": PARENT},
        None,
        None,
    ]


TEN = {f"a{number}": number for number in range(10)}


def test_ten_attributes_fit_beside_the_span(api: ZaqarTestClient) -> None:
    first = _post(api, TEN, traceparent=PARENT)
    found = api.get(first, with_attributes=True).json()["attributes"]
    assert found == {"traceparent": PARENT} | TEN


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        (TEN | {"more": 1}, '"attributes" has 11 names, and may have 10'),
        ({"": 1}, "the name ''"),
        ({"a b": 1}, "the name 'a b'"),
        ({"ü": 1}, "the name 'ü'"),
        ({"x" * 257: 1}, "the name"),
        ({"n": 2**64}, "n must be a number of 64 bits"),
        ({"n": -(2**63) - 1}, "n must be a number of 64 bits"),
        ({"n": True}, "attributes"),
        ({"n": None}, "attributes"),
        ({"n": [1]}, "attributes"),
        ({"n": {"binary": "no base64!"}}, "attributes"),
        ({"n": {"binary": 1}}, "attributes"),
        ({"n": {"other": "eA=="}}, "attributes"),
        ({"n": {}}, "attributes"),
        ([], "attributes"),
        ("text", "attributes"),
    ],
)
def test_invalid_attributes_are_refused_and_nothing_is_posted(
    api: ZaqarTestClient, attributes: Any, why: str
) -> None:
    answer = api.post("q", {"body": 1}, {"body": 2, "attributes": attributes})
    refused(answer, 400, why)
    assert api.get("/queues").json()["queues"] == []


def test_attributes_count_for_the_size_of_a_post(api: ZaqarTestClient) -> None:
    api.create("q", _max_messages_post_size=200)
    answer = api.post("q", {"body": 1, "attributes": {"a": "x" * 200}})
    refused(answer, 400, "200 bytes")
