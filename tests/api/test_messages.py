# SPDX-License-Identifier: Apache-2.0
"""Single messages: get, get by ids, delete, delete by ids, pop."""

from __future__ import annotations

import uuid

import httpx
import pytest

from tests.api.client import ZaqarTestClient, refused
from tests.support import fixtures, servers


def test_get_message(api: ZaqarTestClient) -> None:
    first, second = api.send("q", "a", "b")
    answer = api.message("q", second)
    assert answer.status_code == 200
    document = answer.json()
    assert document == {
        "id": second,
        "href": f"/v2/queues/q/messages/{second}",
        "ttl": 3600,
        "age": document["age"],
        "body": "b",
    }
    assert api.message("q", first).json()["body"] == "a"


def test_get_of_a_missing_message_answers_404(api: ZaqarTestClient) -> None:
    (message,) = api.send("q", 1)
    api.delete("q", message)
    for missing in (message, str(uuid.uuid4()), "x", "%00", "a.b", message.upper() + "0"):
        refused(api.message("q", missing), 404, "q")
    refused(api.message("nowhere", message), 404, "nowhere")


def test_get_shows_a_claimed_message_with_its_claim(api: ZaqarTestClient) -> None:
    (message,) = api.send("q", 1)
    claim, _ = api.hold("q")
    href = api.message("q", message).json()["href"]
    assert href == f"/v2/queues/q/messages/{message}?claim_id={claim}"
    assert api.follow(href).status_code == 200
    api.release("q", claim)
    assert "claim_id" not in api.message("q", message).text


def test_get_messages_by_ids(api: ZaqarTestClient) -> None:
    ids = api.send("q", *range(20))
    answer = api.get("/queues/q/messages", ids=",".join(reversed(ids)))
    assert set(answer.json()) == {"messages"}
    found = {item["id"]: item["body"] for item in answer.json()["messages"]}
    assert found == dict(zip(ids, range(20), strict=True))
    repeated = api.get(f"/queues/q/messages?ids={ids[0]}&ids={ids[1]}")
    assert sorted(item["body"] for item in repeated.json()["messages"]) == [0, 1]


def test_get_by_ids_returns_the_existing_messages(api: ZaqarTestClient) -> None:
    ids = api.send("q", 1, 2)
    api.delete("q", ids[0])
    answer = api.get("/queues/q/messages", ids=f"{ids[0]},{ids[1]},nonsense,{uuid.uuid4()}")
    assert [item["body"] for item in answer.json()["messages"]] == [2]


def test_get_by_ids_without_any_match_answers_404(api: ZaqarTestClient) -> None:
    refused(api.get("/queues/q/messages", ids=str(uuid.uuid4())), 404, "q")
    api.send("q", 1)
    refused(api.get("/queues/q/messages", ids=f"x,{uuid.uuid4()}"), 404, "q")


@pytest.mark.parametrize(("number", "status"), [(1, 200), (19, 200), (20, 200), (21, 400)])
def test_number_of_ids_is_limited(api: ZaqarTestClient, number: int, status: int) -> None:
    ids = api.send("q", *range(number))
    answer = api.get("/queues/q/messages", ids=",".join(ids))
    assert answer.status_code == status
    deletion = api.delete_many("q", *ids)
    assert deletion.status_code == (204 if status == 200 else 400)
    assert api.stats("q")["total"] == (0 if status == 200 else number)
    if status == 400:
        refused(answer, 400, '"ids"', "20")
        refused(deletion, 400, '"ids"', "20")


def test_delete_message(api: ZaqarTestClient) -> None:
    ids = api.send("q", 1, 2)
    for _ in range(2):
        answer = api.delete("q", ids[0])
        assert (answer.status_code, answer.content) == (204, b"")
    assert api.bodies("q") == [2]


@pytest.mark.parametrize("message", ["x", "0d9fbb8a-7c5a-4d2e-9a44-0b9a3a9a1c55", "%7B%7D", "*"])
def test_delete_of_a_missing_message_answers_204(api: ZaqarTestClient, message: str) -> None:
    assert api.delete("q", message).status_code == 204
    api.send("q", 1)
    assert api.delete("q", message).status_code == 204
    assert api.delete("q", message, uuid.uuid4().hex).status_code == 204
    assert api.bodies("q") == [1]


def test_a_claimed_message_is_deleted_with_its_claim_only(api: ZaqarTestClient) -> None:
    first, second, free = api.send("q", 1, 2, 3)
    mine, _ = api.hold("q", 1)
    yours, _ = api.hold("q", 1)
    answer = api.delete("q", first)
    refused(answer, 403, "claimed")
    assert answer.json()["title"] == "Unable to delete"
    answer = api.delete("q", first, yours)
    refused(answer, 403, "another claim")
    answer = api.delete("q", free, mine)
    refused(answer, 400, "not currently claimed")
    assert answer.json()["title"] == "Unable to delete"
    for unknown in (uuid.uuid4().hex, str(uuid.uuid4()), "x", "*", mine + "0", "é"):
        refused(api.delete("q", first, unknown), 400, "does not exist or has expired")
    assert api.counts("q") == (1, 2, 3)
    assert api.delete("q", first, mine).status_code == 204
    assert api.delete("q", second, yours).status_code == 204
    assert api.counts("q") == (1, 0, 1)


def test_the_href_of_a_claimed_message_deletes_it(api: ZaqarTestClient) -> None:
    api.send("q", 1)
    _, (message,) = api.hold("q")
    answer = api.request("DELETE", message["href"].removeprefix("/v2"))
    assert answer.status_code == 204
    assert api.stats("q")["total"] == 0


def test_a_released_claim_deletes_nothing(api: ZaqarTestClient) -> None:
    (message,) = api.send("q", 1)
    claim, _ = api.hold("q")
    api.release("q", claim)
    refused(api.delete("q", message, claim), 400, "claim")
    assert api.delete("q", message).status_code == 204


def test_delete_messages_by_ids(api: ZaqarTestClient) -> None:
    ids = api.send("q", *range(4))
    answer = api.delete_many("q", ids[0], "nonsense", ids[2], str(uuid.uuid4()), ids[0])
    assert (answer.status_code, answer.content) == (204, b"")
    assert api.bodies("q") == [1, 3]
    assert api.delete_many("q", ids[0]).status_code == 204


def test_delete_by_ids_deletes_claimed_messages_too(api: ZaqarTestClient) -> None:
    ids = api.send("q", 1, 2)
    api.hold("q", 1)
    assert api.delete_many("q", *ids).status_code == 204
    assert api.counts("q") == (0, 0, 0)


@pytest.mark.parametrize("query", ["", "?ids=&pop=", "?ids=a&pop=1", "?limit=5"])
def test_bulk_delete_needs_either_ids_or_pop(api: ZaqarTestClient, query: str) -> None:
    api.send("q", 1)
    refused(api.request("DELETE", f"/queues/q/messages{query}"), 400, '"ids"', '"pop"')
    assert api.bodies("q") == [1]


def test_pop_messages(api: ZaqarTestClient) -> None:
    ids = api.send("q", *range(5))
    answer = api.pop("q", 2)
    assert answer.status_code == 200
    popped = answer.json()["messages"]
    assert [item["id"] for item in popped] == ids[:2]
    assert [item["body"] for item in popped] == [0, 1]
    for item in popped:
        assert set(item) == {"id", "age", "ttl", "body", "claim_id", "claim_count"}
    assert api.message("q", ids[0]).status_code == 404
    assert api.bodies("q") == [2, 3, 4]
    assert len(api.pop("q", 20).json()["messages"]) == 3
    assert api.pop("q", 1).json() == {"messages": []}


def test_pop_of_a_missing_queue(api: ZaqarTestClient) -> None:
    answer = api.pop("q", 1)
    assert (answer.status_code, answer.json()) == (200, {"messages": []})
    assert api.get("/queues").json()["queues"] == []


@pytest.mark.parametrize(
    ("number", "status"), [(-1, 400), (0, 400), (1, 200), (19, 200), (20, 200), (21, 400)]
)
def test_number_to_pop_is_limited(api: ZaqarTestClient, number: int, status: int) -> None:
    api.send("q", *range(21))
    answer = api.pop("q", number)
    if status == 400:
        refused(answer, 400, "pop", "1", "20")
        assert api.stats("q")["total"] == 21
    else:
        assert len(answer.json()["messages"]) == number


#: A service where bulk deletion must name the claims.
strict_service = fixtures.service({"transport": {"message_delete_with_claim_id": True}})


@pytest.fixture
def strict(
    http: httpx.Client, strict_service: servers.RunningService, project: str
) -> ZaqarTestClient:
    return ZaqarTestClient(http, strict_service.url, project)


def test_strict_bulk_delete_needs_both_ids_and_claims(strict: ZaqarTestClient) -> None:
    ids = strict.send("q", 1)
    claim, _ = strict.hold("q")
    refused(strict.delete_many("q", *ids), 400, "claim_ids")
    refused(strict.delete_many("q", claim_ids=claim), 400, "ids")
    refused(strict.delete_many("q", pop=1, claim_ids=claim), 400, "claim_ids")
    assert strict.counts("q") == (0, 1, 1)
    assert strict.delete_many("q", *ids, claim_ids=claim).status_code == 204
    assert strict.counts("q") == (0, 0, 0)


def test_several_claims_delete_what_they_hold(strict: ZaqarTestClient) -> None:
    ids = strict.send("q", 1, 2, 3)
    claims = [strict.hold("q", 1)[0] for _ in range(3)]
    refused(strict.delete_many("q", *ids, claim_ids=",".join(claims[:2])), 403, "another claim")
    assert strict.counts("q") == (0, 3, 3)
    assert strict.delete_many("q", *ids[:2], claim_ids=",".join(claims[:2])).status_code == 204
    assert strict.counts("q") == (0, 1, 1)


def test_bulk_delete_with_claims_deletes_all_or_nothing(strict: ZaqarTestClient) -> None:
    ids = strict.send("q", 1, 2)
    claim, _ = strict.hold("q", 1)
    refused(strict.delete_many("q", *ids, claim_ids=claim), 400, "not currently claimed")
    refused(strict.delete_many("q", ids[0], claim_ids=uuid.uuid4().hex), 400, "expired")
    assert strict.counts("q") == (1, 1, 2)


def test_pop_needs_no_claim(strict: ZaqarTestClient) -> None:
    strict.send("q", 1)
    assert len(strict.pop("q", 1).json()["messages"]) == 1


def test_claims_that_a_bulk_delete_names_are_checked(api: ZaqarTestClient) -> None:
    ids = api.send("q", 1, 2)
    old, _ = api.hold("q")
    api.release("q", old)
    claim, _ = api.hold("q")
    refused(api.delete_many("q", *ids, claim_ids="x"), 400, "expired")
    refused(api.delete_many("q", *ids, claim_ids=old), 400, "expired")
    refused(api.delete_many("q", pop=1, claim_ids=claim), 400, "claim_ids")
    refused(api.delete_many("q", claim_ids=claim), 400, "ids")
    assert api.counts("q") == (0, 2, 2)
    assert api.delete_many("q", *ids, claim_ids=f"{old},{claim}").status_code == 204
    assert api.counts("q") == (0, 0, 0)
