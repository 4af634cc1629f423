# SPDX-License-Identifier: Apache-2.0
"""Peek at messages, list claims, move and copy messages."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.client import ZaqarTestClient, refused


def _peek(api: ZaqarTestClient, queue: str = "q", **query: Any) -> list[dict[str, Any]]:
    """Returns all messages, page by page."""
    answer = api.get(f"/queues/{queue}/peek", **query)
    found: list[dict[str, Any]] = []
    while True:
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["messages"]
        if not page["links"]:
            return found
        answer = api.follow(page["links"][0]["href"])


def _move(api: ZaqarTestClient, source: str = "q", **document: Any) -> httpx.Response:
    return api.request("POST", f"/queues/{source}/move", document)


def _dead_letter(api: ZaqarTestClient) -> str:
    """Makes a dead letter of q, in "dead"; returns its id there."""
    api.create("q", _dead_letter_queue="dead", _max_claim_count=1)
    api.create("dead")
    api.send("q", "poison")
    claim, _ = api.hold("q", ttl=60)
    api.release("q", claim)
    assert api.claim("q").status_code == 204
    [dead] = _peek(api, "dead")
    assert dead["dead_letter_from"] == "q"
    return str(dead["id"])


def test_peek_shows_each_message_with_its_state(api: ZaqarTestClient) -> None:
    ids = api.send("q", "held", "free") + api.send("q", "later", delay=300)
    claim, _ = api.hold("q", 1, ttl=300)
    held, free, later = _peek(api)
    assert [each["id"] for each in (held, free, later)] == ids
    assert [each["state"] for each in (held, free, later)] == ["claimed", "free", "delayed"]
    assert (held["claim"], held["claim_count"], free["claim_count"]) == (claim, 1, 0)
    assert held["href"].endswith(f"?claim_id={claim}")
    assert held["claim_client_id"] == api.client
    assert set(later) - set(free) == {"until"}
    assert free["body"] == "free"


def test_peek_changes_neither_counts_nor_what_others_get(api: ZaqarTestClient) -> None:
    api.send("q", 1, 2)
    before = api.get("/queues/q/stats", detailed=True).json()["counters"]
    _peek(api)
    assert api.get("/queues/q/stats", detailed=True).json()["counters"] == before
    assert len(api.hold("q")[1]) == 2


def test_peek_finds_text_in_bodies_and_states(api: ZaqarTestClient) -> None:
    api.send("q", *({"order": number} for number in range(45)))
    assert len(_peek(api, limit=20)) == 45
    assert [each["body"] for each in _peek(api, contains="44")] == [{"order": 44}]
    api.hold("q", 5)
    assert len(_peek(api, state="claimed", limit=2)) == 5
    assert _peek(api, state="delayed") == []
    assert _peek(api, contains="nowhere") == []


def test_peek_finds_text_that_was_posted_as_escapes(api: ZaqarTestClient) -> None:
    escaped = r'{"messages": [{"body": "\u4e2d\u6587"}, {"body": "\u82f1\u6587"}]}'
    posted = api.request("POST", "/queues/q/messages", content=escaped.encode())
    assert posted.status_code == 201
    assert [each["body"] for each in _peek(api, contains="中文")] == ["中文"]


def test_peek_for_a_text_finds_each_message_once_page_by_page(api: ZaqarTestClient) -> None:
    for begin in range(0, 240, 20):
        api.send("q", *(f"{number}: {number % 2}" for number in range(begin, begin + 20)))
    found = [each["body"] for each in _peek(api, contains=": 0", limit=7)]
    assert found == [f"{number}: 0" for number in range(0, 240, 2)]


def test_peek_at_a_missing_queue_is_empty(api: ZaqarTestClient) -> None:
    assert _peek(api, "missing") == []


def test_peek_refuses_a_state_that_there_is_not(api: ZaqarTestClient) -> None:
    refused(api.get("/queues/q/peek", state="lost"), 400, "state", "free, claimed")
    refused(api.get("/queues/q/peek", limit=0), 400, "limit")


def test_claims_are_listed_page_by_page(api: ZaqarTestClient) -> None:
    api.send("q", *range(6))
    held = {api.hold("q", 2, ttl=100 + number)[0] for number in range(3)}
    page = api.get("/queues/q/claims", limit=2).json()
    rest = api.follow(page["links"][0]["href"]).json()
    claims = page["claims"] + rest["claims"]
    assert {each["id"] for each in claims} == held
    assert {each["client_id"] for each in claims} == {api.client}
    assert [(each["messages"], each["ttl"]) for each in claims] == [(2, 100), (2, 101), (2, 102)]
    assert api.follow(claims[0]["href"]).status_code == 200
    assert api.get("/queues/missing/claims").json() == {"claims": [], "links": []}


def test_messages_move_by_id_or_the_oldest_first(api: ZaqarTestClient) -> None:
    api.create("other")
    ids = api.send("q", *range(5))
    answer = _move(api, queue="other", ids=[ids[3]])
    assert (answer.status_code, answer.json()) == (200, {"moved": [ids[3]], "left": []})
    assert _move(api, queue="other", limit=2).json() == {"moved": ids[:2], "left": []}
    assert (api.bodies("q"), api.bodies("other")) == ([2, 4], [3, 0, 1])


def test_a_claimed_message_is_left(api: ZaqarTestClient) -> None:
    api.create("other")
    ids = api.send("q", "held", "free")
    api.hold("q", 1)
    assert _move(api, queue="other", ids=ids).json() == {"moved": [ids[1]], "left": [ids[0]]}
    assert _move(api, queue="other", limit=10).json() == {"moved": [], "left": []}


def test_copies_stay_too(api: ZaqarTestClient) -> None:
    api.create("other")
    [id] = api.send("q", "one")
    for _ in range(2):
        answer = _move(api, queue="other", ids=[id], copy=True)
        assert answer.json() == {"moved": [id], "left": []}
    assert (api.bodies("q"), api.bodies("other")) == (["one"], ["one"])


def test_dead_letters_go_back_to_where_they_came_from(api: ZaqarTestClient) -> None:
    dead = _dead_letter(api)
    [other] = api.send("dead", "no dead letter")
    assert _move(api, "dead", ids=[dead, other]).json() == {"moved": [dead], "left": [other]}
    assert (api.bodies("q"), api.bodies("dead")) == (["poison"], ["no dead letter"])


def test_dead_letters_of_a_deleted_queue_are_left_and_others_behind_them_moved(
    api: ZaqarTestClient,
) -> None:
    api.create("dead")
    for queue in ("gone", "stays"):
        api.create(queue, _dead_letter_queue="dead", _max_claim_count=1)
        api.send(queue, *(f"{queue} {number}" for number in range(3)))
        claim, _ = api.hold(queue, 3)
        api.release(queue, claim)
        assert api.claim(queue).status_code == 204
    ids = [each["id"] for each in _peek(api, "dead")]
    api.request("DELETE", "/queues/gone")
    left = {"left": ids[:3], "missing_origins": {"gone": 3}}
    assert _move(api, "dead", limit=2).json() == {"moved": ids[3:5], **left}
    assert _move(api, "dead", ids=[*ids[:3], ids[5]]).json() == {"moved": ids[5:], **left}
    assert _move(api, "dead", limit=2).json() == {"moved": [], **left}
    assert api.bodies("stays") == ["stays 0", "stays 1", "stays 2"]
    assert api.bodies("dead") == ["gone 0", "gone 1", "gone 2"]


@pytest.mark.parametrize(
    ("document", "status", "words"),
    [
        ({"queue": "other"}, 400, ("ids", "limit")),
        ({"queue": "other", "ids": ["a"], "limit": 1}, 400, ("ids", "limit")),
        ({"queue": "other", "ids": []}, 400, ("ids", "1 to 20")),
        ({"queue": "other", "limit": 0}, 400, ("limit",)),
        ({"queue": "other", "limit": 21}, 400, ("limit",)),
        ({"queue": "q", "limit": 1}, 400, ("queue",)),
        ({"queue": "no name", "limit": 1}, 400, ("name",)),
        ({"limit": 1, "copy": True}, 400, ("copy",)),
        ({"queue": "missing", "limit": 1}, 404, ("missing",)),
        ({"queue": "other", "limit": "many"}, 400, ("limit",)),
        ({"queue": "other", "limit": 1, "colour": "blue"}, 400, ("colour",)),
    ],
)
def test_a_wrong_move_is_refused(
    api: ZaqarTestClient, document: dict[str, Any], status: int, words: tuple[str, ...]
) -> None:
    api.create("other")
    api.send("q", 1)
    refused(api.request("POST", "/queues/q/move", document), status, *words)
    assert api.bodies("q") == [1]


def test_encrypted_bodies_are_searched_and_moved(rich: ZaqarTestClient) -> None:
    rich.create("q", _enable_encrypt_messages=True)
    rich.create("other")
    rich.send("q", "needle", "hay")
    [found] = _peek(rich, contains="needle")
    assert _move(rich, queue="other", ids=[found["id"]]).json()["moved"] == [found["id"]]
    assert rich.bodies("other") == ["needle"]


def test_oldest_messages_are_moved_without_the_key_of_their_bodies(
    api: ZaqarTestClient, rich: ZaqarTestClient
) -> None:
    rich.create("q", _enable_encrypt_messages=True)
    rich.create("other")
    rich.send("q", "first", "second")
    assert len(_move(api, queue="other", limit=1).json()["moved"]) == 1
    assert rich.bodies("other") == ["first"]
