# SPDX-License-Identifier: Apache-2.0
"""Listing queues: pages, details, counts, filters."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.client import ZaqarTestClient, refused
from tests.api.test_queues import DEFAULTS


def _names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [queue["name"] for queue in answer.json()["queues"]]


def _next(answer: httpx.Response) -> str:
    (link,) = answer.json()["links"]
    assert link["rel"] == "next"
    return str(link["href"])


def _all(api: ZaqarTestClient, **params: Any) -> list[list[str]]:
    """Returns every page, following links until an empty one."""
    answer = api.get("/queues", **params)
    pages = []
    while names := _names(answer):
        pages.append(names)
        answer = api.follow(_next(answer))
    return pages


def _flat(pages: list[list[str]]) -> list[str]:
    return [name for page in pages for name in page]


def test_list_without_queues_is_empty(api: ZaqarTestClient) -> None:
    assert api.get("/queues").json() == {"queues": [], "links": []}


def test_items_of_a_listing(api: ZaqarTestClient) -> None:
    api.create("q", colour="blue")
    answer = api.get("/queues")
    assert answer.json()["queues"] == [{"name": "q", "href": "/v2/queues/q"}]
    assert _next(answer) == "/v2/queues?marker=q"


def test_detailed_listing_has_metadata(api: ZaqarTestClient) -> None:
    api.create("q", colour="blue")
    api.create("r")
    answer = api.get("/queues", detailed=True)
    found = {queue["name"]: queue["metadata"] for queue in answer.json()["queues"]}
    assert found == {"q": DEFAULTS | {"colour": "blue"}, "r": DEFAULTS}
    assert "detailed=true" in _next(answer)


def test_pages_are_ordered_by_name_and_end(api: ZaqarTestClient) -> None:
    names = [f"q.{number:02}" for number in range(23)]
    for name in reversed(names):
        api.create(name)
    assert [len(page) for page in _all(api)] == [10, 10, 3]
    assert _flat(_all(api)) == names
    assert [len(page) for page in _all(api, limit=7)] == [7, 7, 7, 2]
    assert _flat(_all(api, limit=1)) == names


def test_a_marker_need_not_name_a_queue(api: ZaqarTestClient) -> None:
    for name in ("a", "c"):
        api.create(name)
    assert _names(api.get("/queues", marker="b")) == ["c"]
    assert _names(api.get("/queues", marker="zzz")) == []
    assert _names(api.get("/queues", marker="ä{}\x00 ")) == []


def test_deleted_marker_queue_does_not_disturb_paging(api: ZaqarTestClient) -> None:
    for name in "abcd":
        api.create(name)
    answer = api.get("/queues", limit=2)
    api.request("DELETE", "/queues/b")
    assert _names(api.follow(_next(answer))) == ["c", "d"]


@pytest.mark.parametrize(
    ("limit", "status"), [(-1, 400), (0, 400), (1, 200), (19, 200), (20, 200), (21, 400), (99, 400)]
)
def test_limit_of_a_listing_is_checked(api: ZaqarTestClient, limit: int, status: int) -> None:
    for number in range(21 if limit >= 19 else 2):
        api.create(f"q{number}")
    answer = api.get("/queues", limit=limit)
    if status == 400:
        refused(answer, 400, "limit", "1", "20")
    else:
        assert len(_names(answer)) == limit


def test_with_count_returns_the_number_of_queues(api: ZaqarTestClient) -> None:
    assert "count" not in api.get("/queues", with_count=True).json()
    for number in range(12):
        api.create(f"q{number}")
    answer = api.get("/queues", with_count=True, limit=2, name="q1")
    assert answer.json()["count"] == 12
    assert "with_count=true" in _next(answer)
    assert "count" not in api.get("/queues", with_count=False).json()
    refused(api.get("/queues", with_count="maybe"), 400, "with_count")


def test_with_stats_each_queue_has_its_detailed_statistics(api: ZaqarTestClient) -> None:
    for name in ("empty", "full"):
        api.create(name)
    api.post("full", {"body": 1}, {"body": 2, "delay": 60})
    assert "stats" not in api.get("/queues", with_stats=False).json()["queues"][1]
    listed = api.get("/queues", with_stats=True).json()["queues"]
    assert [queue["name"] for queue in listed] == ["empty", "full"]
    for queue in listed:
        alone = api.get(f"/queues/{queue['name']}/stats", detailed=True).json()
        assert queue["stats"]["counters"] == alone["counters"]
        of_one = {"bytes"}
        assert queue["stats"]["messages"].keys() == alone["messages"].keys() - of_one
    assert listed[1]["stats"]["messages"]["delayed"] == 1
    refused(api.get("/queues", with_stats="maybe"), 400, "with_stats")


def test_filter_by_a_part_of_the_name(api: ZaqarTestClient) -> None:
    for name in ("red.apple", "green.apple", "pear", "apple-pie"):
        api.create(name)
    assert _names(api.get("/queues", name="apple")) == ["apple-pie", "green.apple", "red.apple"]
    assert _all(api, name="apple", limit=2) == [["apple-pie", "green.apple"], ["red.apple"]]
    # A name is a text, not a pattern.
    assert _names(api.get("/queues", name="red.a")) == ["red.apple"]
    assert _names(api.get("/queues", name="r.*")) == []
    assert _names(api.get("/queues", name="(")) == []


@pytest.mark.parametrize(
    ("stored", "asked", "matches"),
    [
        ("blue", "blue", True),
        (1, "true", False),
        (True, "1", False),
        (False, "0", False),
        ("blue", "red", False),
        (30, "30", True),
        ("30", "30", True),
        (30, "31", False),
        (True, "true", True),
        (True, "True", False),
        (1.5, "1.5", True),
        (["a"], '["a"]', True),
        ({"a": 1}, "blue", False),
        (7, "[" * 5000, False),
        (7, "9" * 5000, False),
        (7, "NaN", False),
    ],
)
def test_filter_by_metadata(
    api: ZaqarTestClient, stored: object, asked: str, matches: bool
) -> None:
    api.create("q", colour=stored)
    api.create("plain")
    assert _names(api.get("/queues", colour=asked)) == (["q"] if matches else [])


def test_filters_are_combined_and_repeated_in_the_link(api: ZaqarTestClient) -> None:
    for number in range(14):
        api.create(f"q{number:02}", colour="blue" if number % 2 else "red", size=number % 3)
    wanted = [f"q{number:02}" for number in range(14) if number % 2 and number % 3 == 1]
    assert len(wanted) == 3
    assert _flat(_all(api, limit=1, colour="blue", size="1")) == wanted
    assert _flat(_all(api, limit=1, colour="blue", size="1", name="q0")) == wanted[:2]


def test_matching_queue_behind_many_others_is_found(api: ZaqarTestClient) -> None:
    for number in range(120):
        api.create(f"q{number:03}")
    api.create("r", colour="blue")
    assert _names(api.get("/queues", colour="blue", limit=1)) == ["r"]


def test_reserved_attributes_are_filtered_by_their_set_value(api: ZaqarTestClient) -> None:
    api.create("q", _default_message_ttl=60)
    api.create("r")
    assert _names(api.get("/queues", _default_message_ttl="60")) == ["q"]


def test_other_projects_are_not_listed(api: ZaqarTestClient) -> None:
    api.create("q")
    assert _names(api.another_client(f"{api.project}-2").get("/queues")) == []
