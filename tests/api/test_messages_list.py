# SPDX-License-Identifier: Apache-2.0
"""Listing messages: order, pages, own messages, claimed ones."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.api.client import ZaqarTestClient, refused


def _pages(api: ZaqarTestClient, queue: str, **params: Any) -> list[list[Any]]:
    """Returns the bodies of every page, following links until an empty one."""
    answer = api.list(queue, **params)
    pages: list[list[Any]] = []
    while messages := answer.json()["messages"]:
        pages.append([message["body"] for message in messages])
        (link,) = answer.json()["links"]
        assert link["rel"] == "next"
        answer = api.follow(link["href"])
    assert answer.json() == {"messages": [], "links": []}
    return pages


def _flat(pages: list[list[Any]]) -> list[Any]:
    return [body for page in pages for body in page]


def test_list_of_a_missing_queue_is_empty(api: ZaqarTestClient) -> None:
    answer = api.list("q")
    assert (answer.status_code, answer.json()) == (200, {"messages": [], "links": []})
    assert api.get("/queues").json()["queues"] == []


def test_shape_of_a_listing(api: ZaqarTestClient) -> None:
    began = time.monotonic()
    (message,) = api.send("q", {"a": 1})
    document = api.list("q").json()
    assert document["messages"] == [
        {
            "id": message,
            "href": f"/v2/queues/q/messages/{message}",
            "ttl": 3600,
            "age": document["messages"][0]["age"],
            "body": {"a": 1},
        }
    ]
    assert 0 <= document["messages"][0]["age"] <= time.monotonic() - began + 1


def test_messages_are_listed_in_the_order_of_posting(api: ZaqarTestClient) -> None:
    for start in range(0, 25, 5):
        api.send("q", *range(start, start + 5))
    assert _pages(api, "q") == [list(range(10)), list(range(10, 20)), list(range(20, 25))]
    assert _pages(api, "q", limit=20) == [list(range(20)), list(range(20, 25))]
    assert _flat(_pages(api, "q", limit=1)) == list(range(25))


@pytest.mark.parametrize(
    ("limit", "status"), [(-1, 400), (0, 400), (1, 200), (19, 200), (20, 200), (21, 400), (99, 400)]
)
def test_limit_of_a_listing_is_checked(api: ZaqarTestClient, limit: int, status: int) -> None:
    api.send("q", *range(21))
    answer = api.list("q", limit=limit)
    if status == 400:
        refused(answer, 400, "limit", "1", "20")
    else:
        assert len(answer.json()["messages"]) == limit


def test_next_link_repeats_the_parameters(api: ZaqarTestClient) -> None:
    ids = api.send("q", 1, 2, 3)
    answer = api.list("q", limit=2, include_claimed=True, include_delayed=False)
    url = urlsplit(answer.json()["links"][0]["href"])
    assert url.path == "/v2/queues/q/messages"
    assert parse_qs(url.query) == {
        "limit": ["2"],
        "echo": ["true"],
        "include_claimed": ["true"],
        "include_delayed": ["false"],
        "marker": [ids[1]],
    }


def test_message_id_can_be_used_as_marker(api: ZaqarTestClient) -> None:
    ids = api.send("q", *range(5))
    assert api.bodies("q", marker=ids[0]) == [1, 2, 3, 4]
    assert api.bodies("q", marker=ids[3]) == [4]
    assert api.bodies("q", marker=ids[4]) == []


@pytest.mark.parametrize("marker", ["x", "0", "5f2b1c9e-0000-0000-0000-000000000001", "'", "ä\x00"])
def test_an_unknown_marker_yields_an_empty_page(api: ZaqarTestClient, marker: str) -> None:
    api.send("q", 1)
    answer = api.list("q", marker=marker)
    assert (answer.status_code, answer.json()) == (200, {"messages": [], "links": []})


def test_own_messages_are_hidden_without_echo(api: ZaqarTestClient, other: ZaqarTestClient) -> None:
    for number in range(6):
        (api if number % 2 else other).send("q", number)
    assert api.bodies("q", echo=False) == [0, 2, 4]
    assert other.bodies("q", echo=False) == [1, 3, 5]
    assert api.another_client().bodies("q", echo=False) == list(range(6))
    assert [item["body"] for item in api.get("/queues/q/messages").json()["messages"]] == [0, 2, 4]
    assert _pages(api, "q", echo=False, limit=1) == [[0], [2], [4]]


def test_page_is_filled_across_many_own_messages(
    api: ZaqarTestClient, other: ZaqarTestClient
) -> None:
    api.send("q", *["mine"] * 1200)
    other.send("q", "yours")
    api.send("q", *["mine"] * 600)
    other.send("q", "yours too")
    assert _pages(api, "q", echo=False, limit=1) == [["yours"], ["yours too"]]
    assert _pages(api, "q", echo=False) == [["yours", "yours too"]]


def test_claimed_messages_are_hidden_without_include_claimed(api: ZaqarTestClient) -> None:
    api.send("q", *range(4))
    claim, _ = api.hold("q", 2)
    assert api.bodies("q") == [2, 3]
    assert api.bodies("q", include_claimed=True) == [0, 1, 2, 3]
    assert _pages(api, "q", include_claimed=True, limit=1) == [[0], [1], [2], [3]]
    hrefs = [
        message["href"].partition("?")[2]
        for message in api.list("q", include_claimed=True).json()["messages"]
    ]
    assert hrefs == [f"claim_id={claim}"] * 2 + [""] * 2
    api.release("q", claim)
    assert api.bodies("q") == [0, 1, 2, 3]
    assert "claim_id" not in api.list("q", include_claimed=True).text


def test_claimed_and_delayed_messages_are_included_separately(api: ZaqarTestClient) -> None:
    api.create("q", _default_message_delay=600)
    api.post("q", {"body": "claimed", "delay": 0})
    api.hold("q")
    api.post("q", {"body": "delayed"}, {"body": "free", "delay": 0})
    assert api.bodies("q") == ["free"]
    assert api.bodies("q", include_claimed=True) == ["claimed", "free"]
    assert api.bodies("q", include_delayed=True) == ["delayed", "free"]
    both = api.bodies("q", include_claimed=True, include_delayed=True)
    assert both == ["claimed", "delayed", "free"]
    assert _pages(api, "q", include_delayed=True, limit=1) == [["delayed"], ["free"]]
