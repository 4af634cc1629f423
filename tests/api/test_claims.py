# SPDX-License-Identifier: Apache-2.0
"""Claims: create, show, renew, release; and the dead-letter queue."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.client import ZaqarTestClient, refused

UNKNOWN = "0d9fbb8a-7c5a-4d2e-9a44-0b9a3a9a1c55"


def test_create_claim(api: ZaqarTestClient) -> None:
    ids = api.send("q", *range(3))
    answer = api.claim("q", 2, ttl=100, grace=60)
    assert answer.status_code == 201
    assert set(answer.json()) == {"messages"}
    path, _, claim = answer.headers["Location"].rpartition("/")
    assert path == "/v2/queues/q/claims"
    messages = answer.json()["messages"]
    assert [message["id"] for message in messages] == ids[:2]
    for message in messages:
        assert set(message) == {"id", "href", "ttl", "age", "body"}
        assert message["href"] == f"/v2/queues/q/messages/{message['id']}?claim_id={claim}"


def test_number_of_claims_is_shown_on_request(api: ZaqarTestClient) -> None:
    first, _ = api.send("q", 1, 2)
    claim, _ = api.hold("q", 1)
    api.release("q", claim)
    answer = api.request("POST", "/queues/q/claims", limit=5, detailed=True)
    shown = answer.json()["messages"]
    assert [message["claim_count"] for message in shown] == [2, 1]
    again = api.get(answer.headers["Location"].removeprefix("/v2"), detailed=True)
    assert again.json()["messages"] == shown
    listed = api.list("q", include_claimed=True, detailed=True, limit=1).json()
    assert listed["messages"] == shown[:1]
    assert "detailed=true" in listed["links"][0]["href"]
    for found in (
        api.list("q", ids=first, detailed=True).json()["messages"][0],
        api.get(f"/queues/q/messages/{first}", detailed=True).json(),
    ):
        assert found == shown[0]


def test_number_of_claims_is_shown_of_messages_that_are_free_again(api: ZaqarTestClient) -> None:
    ids = api.send("q", 1, 2, 3)
    for limit in (1, 2):
        claim, _ = api.hold("q", limit)
        api.release("q", claim)
    for found in (
        api.list("q", detailed=True).json()["messages"],
        api.list("q", include_claimed=True, detailed=True).json()["messages"],
        api.list("q", ids=",".join(ids), detailed=True).json()["messages"],
        [api.get(f"/queues/q/messages/{id}", detailed=True).json() for id in ids],
    ):
        assert [message["claim_count"] for message in found] == [2, 1, 0]
        assert not any("claim_id" in message["href"] for message in found)


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"ttl": null, "grace": null}'])
def test_claim_without_lease_gets_the_defaults(api: ZaqarTestClient, content: bytes | None) -> None:
    api.send("q", *range(11))
    answer = api.request("POST", "/queues/q/claims", content=content)
    assert answer.status_code == 201
    assert len(answer.json()["messages"]) == 10
    assert api.follow(answer.headers["Location"]).json()["ttl"] == 300


def test_unknown_fields_of_a_claim_are_ignored(api: ZaqarTestClient) -> None:
    api.send("q", 1, 2)
    answer = api.request("POST", "/queues/q/claims", {"limit": 1, "colour": "blue"}, size=1)
    assert len(answer.json()["messages"]) == 2


@pytest.mark.parametrize("lazy", [True, False])
def test_claim_without_claimable_messages_answers_204(api: ZaqarTestClient, lazy: bool) -> None:
    if not lazy:
        api.create("q")
    answer = api.claim("q")
    assert (answer.status_code, answer.content) == (204, b"")
    assert "Location" not in answer.headers
    names = [queue["name"] for queue in api.get("/queues").json()["queues"]]
    assert names == ([] if lazy else ["q"])


def test_concurrent_claimers_never_share_a_message(api: ZaqarTestClient) -> None:
    api.send("q", *range(200))

    def drain(_: int) -> list[int]:
        mine = []
        while (answer := api.claim("q", 3)).status_code == 201:
            mine += [message["body"] for message in answer.json()["messages"]]
        return mine

    with ThreadPoolExecutor(6) as pool:
        shares = list(pool.map(drain, range(6)))
    assert sorted(body for share in shares for body in share) == list(range(200))


@pytest.mark.parametrize(
    ("limit", "status"), [(-1, 400), (0, 400), (1, 201), (19, 201), (20, 201), (21, 400)]
)
def test_limit_of_a_claim_is_checked(api: ZaqarTestClient, limit: int, status: int) -> None:
    api.send("q", *range(21))
    answer = api.claim("q", limit)
    if status == 400:
        refused(answer, 400, "limit", "1", "20")
        assert api.counts("q") == (21, 0, 21)
    else:
        assert len(answer.json()["messages"]) == limit


@pytest.mark.parametrize("field", ["ttl", "grace"])
@pytest.mark.parametrize("value", [60, 61, 43199, 43200])
def test_lease_within_its_range_is_accepted(api: ZaqarTestClient, field: str, value: int) -> None:
    api.send("q", 1)
    claim, _ = api.hold("q", **{field: value})
    assert api.renew("q", claim, **{field: value}).status_code == 204


@pytest.mark.parametrize("field", ["ttl", "grace"])
@pytest.mark.parametrize("value", [59, 0, -5, 43201, 10**9, 2**63, 10**40])
def test_lease_out_of_its_range_is_refused(api: ZaqarTestClient, field: str, value: int) -> None:
    api.send("q", 1)
    answer = api.claim("q", **{field: value})
    assert answer.status_code == 400
    assert field in answer.text
    claim, _ = api.hold("q")
    answer = api.renew("q", claim, **{field: value})
    assert answer.status_code == 400
    assert field in answer.text


@pytest.mark.parametrize("field", ["ttl", "grace"])
@pytest.mark.parametrize("value", ["60", 60.5, True, [60], {}])
def test_lease_of_the_wrong_type_is_refused(api: ZaqarTestClient, field: str, value: Any) -> None:
    api.send("q", 1)
    refused(api.claim("q", **{field: value}), 400, field)
    claim, _ = api.hold("q")
    refused(api.renew("q", claim, **{field: value}), 400, field)


def test_show_claim(api: ZaqarTestClient) -> None:
    ids = api.send("q", 1, 2, 3)
    began = time.monotonic()
    claim, _ = api.hold("q", 2, ttl=100)
    answer = api.claimed("q", claim)
    assert answer.status_code == 200
    document = answer.json()
    assert set(document) == {"age", "ttl", "messages", "href"}
    assert document["ttl"] == 100
    assert 0 <= document["age"] <= time.monotonic() - began + 1
    assert document["href"] == f"/v2/queues/q/claims/{claim}"
    assert [message["id"] for message in document["messages"]] == ids[:2]
    assert document["messages"][0]["href"].endswith(f"?claim_id={claim}")


def test_show_claim_omits_deleted_messages(api: ZaqarTestClient) -> None:
    ids = api.send("q", 1, 2)
    claim, _ = api.hold("q")
    api.delete("q", ids[0], claim)
    assert [item["id"] for item in api.claimed("q", claim).json()["messages"]] == ids[1:]
    api.delete("q", ids[1], claim)
    assert api.claimed("q", claim).json()["messages"] == []


@pytest.mark.parametrize("claim", ["x", UNKNOWN, UNKNOWN.replace("-", ""), "%2A", "%00", "a.b"])
def test_unknown_claim_is_not_found_and_its_release_is_accepted(
    api: ZaqarTestClient, claim: str
) -> None:
    for _ in range(2):
        refused(api.claimed("q", claim), 404, "Claim")
        refused(api.renew("q", claim, ttl=60), 404, "Claim")
        assert api.release("q", claim).status_code == 204
        api.send("q", 1)
        api.hold("q")


def test_renew_claim(api: ZaqarTestClient) -> None:
    api.send("q", 1)
    claim, _ = api.hold("q", ttl=60)
    answer = api.renew("q", claim, ttl=500)
    assert (answer.status_code, answer.content) == (204, b"")
    assert api.claimed("q", claim).json()["ttl"] == 500
    # A missing value gets the default, not the old value.
    assert api.renew("q", claim).status_code == 204
    assert api.claimed("q", claim).json()["ttl"] == 300


def test_renew_needs_a_document(api: ZaqarTestClient) -> None:
    api.send("q", 1)
    claim, _ = api.hold("q")
    answer = api.request("PATCH", f"/queues/q/claims/{claim}")
    refused(answer, 400, "empty")


def test_messages_outlive_their_claim_by_the_grace(api: ZaqarTestClient) -> None:
    api.send("q", "short", ttl=60)
    api.send("q", "long", ttl=5000)
    claim, (short, long) = api.hold("q", ttl=100, grace=70)
    assert (short["ttl"], long["ttl"]) == (170, 5000)
    assert api.message("q", short["id"]).json()["ttl"] == 170
    api.renew("q", claim, ttl=1000, grace=60)
    ttls = [item["ttl"] for item in api.claimed("q", claim).json()["messages"]]
    assert ttls == [1060, 5000]


def test_release_is_idempotent_and_frees_at_once(api: ZaqarTestClient) -> None:
    ids = api.send("q", 1, 2)
    claim, _ = api.hold("q")
    for _ in range(2):
        answer = api.release("q", claim)
        assert (answer.status_code, answer.content) == (204, b"")
    assert api.claimed("q", claim).status_code == 404
    assert api.counts("q") == (2, 0, 2)
    assert [message["id"] for message in api.hold("q")[1]] == ids


def test_claim_counts_are_shown_by_pop(api: ZaqarTestClient) -> None:
    api.send("q", 1)
    for _ in range(3):
        api.release("q", api.hold("q")[0])
    (popped,) = api.pop("q", 1).json()["messages"]
    assert popped["claim_count"] == 4  # a pop counts as a claim


def test_claim_of_a_deleted_queue_is_gone(api: ZaqarTestClient) -> None:
    api.send("q", 1)
    claim, _ = api.hold("q")
    api.request("DELETE", "/queues/q")
    assert api.renew("q", claim, ttl=60).status_code == 404
    assert api.claimed("q", claim).status_code == 404
    assert api.release("q", claim).status_code == 204


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("ttl", [None, 999])
def test_message_over_max_claim_count_goes_to_the_dead_letter_queue(
    api: ZaqarTestClient, most: int, ttl: int | None
) -> None:
    api.create(
        "q", _max_claim_count=most, _dead_letter_queue="my.dlq", _dead_letter_queue_messages_ttl=ttl
    )
    api.send("q", {"n": 1}, {"n": 2}, ttl=100)
    for _ in range(most):
        claim, messages = api.hold("q", ttl=60)
        assert len(messages) == 2
        assert api.bodies("my.dlq") == []
        api.release("q", claim)
    assert api.claim("q").status_code == 204
    assert api.counts("q") == (0, 0, 0)
    dead = api.list("my.dlq").json()["messages"]
    assert [(item["body"], item["ttl"]) for item in dead] == [
        ({"n": 1}, ttl or 100),
        ({"n": 2}, ttl or 100),
    ]
    names = [queue["name"] for queue in api.get("/queues").json()["queues"]]
    assert names == ["my.dlq", "q"]
    # A dead letter is an ordinary message, and its claim count restarts.
    _, held = api.hold("my.dlq")
    assert [message["body"] for message in held] == [{"n": 1}, {"n": 2}]


def test_pop_moves_exhausted_messages_to_dead_letter_queue(api: ZaqarTestClient) -> None:
    api.create("q", _max_claim_count=1, _dead_letter_queue="dlq")
    api.send("q", 1)
    api.release("q", api.hold("q")[0])
    assert api.pop("q", 1).json() == {"messages": []}
    assert api.bodies("dlq") == [1]


@pytest.mark.parametrize("metadata", [{"_max_claim_count": 1}, {"_dead_letter_queue": "dlq"}, {}])
def test_dead_letters_need_both_attributes(
    api: ZaqarTestClient, metadata: dict[str, object]
) -> None:
    api.create("q", **metadata)
    api.send("q", 1)
    for _ in range(4):
        api.release("q", api.hold("q")[0])
    assert api.bodies("q") == [1]
    assert api.bodies("dlq") == []


def test_encrypted_dead_letters_stay_readable(rich: ZaqarTestClient) -> None:
    rich.create("q", _max_claim_count=1, _dead_letter_queue="dlq", _enable_encrypt_messages=True)
    rich.send("q", "secret")
    rich.release("q", rich.hold("q")[0])
    assert rich.claim("q").status_code == 204
    assert rich.bodies("dlq") == ["secret"]
    # A checksum of the plain body would reveal what encryption hides.
    assert "checksum" not in rich.list("dlq").json()["messages"][0]


def test_leases_of_single_messages_are_renewed(api: ZaqarTestClient) -> None:
    ids = api.send("q", 1, 2)
    claim, _ = api.hold("q", ttl=60)
    answer = api.renew("q", claim, ids=[ids[1], UNKNOWN], ttl=600)
    assert answer.status_code == 200
    assert answer.json() == {"renewed": [ids[1]], "left": [UNKNOWN]}
    assert api.claimed("q", claim).json()["ttl"] == 600


def test_single_messages_are_released(api: ZaqarTestClient) -> None:
    ids = api.send("q", 1, 2, 3)
    claim, _ = api.hold("q")
    answer = api.release_some("q", claim, ids=[ids[2], UNKNOWN], delay=0)
    assert answer.status_code == 200
    assert answer.json() == {"released": [ids[2]], "left": [UNKNOWN]}
    assert [message["id"] for message in api.hold("q")[1]] == [ids[2]]
    assert [message["id"] for message in api.claimed("q", claim).json()["messages"]] == ids[:2]


@pytest.mark.parametrize("document", [{}, {"delay": 0}])
def test_all_messages_of_a_claim_are_released(
    api: ZaqarTestClient, document: dict[str, int]
) -> None:
    ids = api.send("q", 1, 2)
    claim, _ = api.hold("q")
    answer = api.release_some("q", claim, **document)
    assert (answer.status_code, answer.json()) == (200, {"released": ids, "left": []})
    refused(api.release_some("q", claim, **document), 404, claim)
    assert api.counts("q") == (2, 0, 2)


def test_released_messages_wait_for_the_delay(api: ZaqarTestClient) -> None:
    (only,) = api.send("q", 1)
    claim, _ = api.hold("q")
    api.release_some("q", claim, delay=900)
    assert api.claim("q").status_code == 204
    (item,) = api.get("/queues/q/peek").json()["messages"]
    assert (item["id"], item["state"], item["claim_count"]) == (only, "delayed", 1)


def test_renewed_and_released_messages_of_an_unknown_claim_are_not_found(
    api: ZaqarTestClient,
) -> None:
    ids = api.send("q", 1)
    for claim in ("0" * 32, "nothing"):
        refused(api.renew("q", claim, ids=ids), 404, claim)
        refused(api.release_some("q", claim, ids=ids), 404, claim)


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({"ids": []}, "ids"),
        ({"ids": [UNKNOWN] * 21}, "ids"),
        ({"ids": "x"}, "ids"),
        ({"ids": [1]}, "ids"),
        ({"delay": -1}, "delay"),
        ({"delay": 901}, "delay"),
        ({"delay": "1"}, "delay"),
        ({"id": [UNKNOWN]}, "id"),
    ],
)
def test_bad_release_is_refused_and_changes_nothing(
    api: ZaqarTestClient, document: dict[str, Any], named: str
) -> None:
    api.send("q", 1)
    claim, _ = api.hold("q")
    refused(api.release_some("q", claim, **document), 400, named)
    assert api.counts("q") == (0, 1, 1)


@pytest.mark.parametrize(
    ("attributes", "named"),
    [
        ({"_min_claim_ttl": 0}, ["_min_claim_ttl", "1", "60"]),
        ({"_min_claim_ttl": 61}, ["_min_claim_ttl", "1", "60"]),
        ({"_min_claim_ttl": "5"}, ["_min_claim_ttl", "integer"]),
        ({"_redelivery_delay": -1}, ["_redelivery_delay", "0, an", "1", "900", "an object"]),
        ({"_redelivery_delay": 901}, ["_redelivery_delay", "1", "900"]),
        ({"_redelivery_delay": "5"}, ["_redelivery_delay", "integer"]),
        ({"_redelivery_delay": True}, ["_redelivery_delay", "integer"]),
        ({"_redelivery_delay": False}, ["_redelivery_delay", "integer"]),
        ({"_redelivery_delay": 0.0}, ["_redelivery_delay", "integer"]),
        ({"_redelivery_delay": {}}, ["minimum_delay", "_redelivery_delay"]),
        ({"_redelivery_delay": {"minimum_delay": 9, "maximum_delay": 8}}, ["maximum_delay"]),
        (
            {"_redelivery_delay": {"minimum_delay": 9, "maximum_delay": 901}},
            ["maximum_delay", "900"],
        ),
        ({"_redelivery_delay": {"minimum_delay": 9, "backoff_function": "x"}}, ["exponential"]),
        ({"_redelivery_delay": {"minimum_delay": 9, "jitter": 1.1}}, ["jitter", "0", "1"]),
    ],
)
def test_attributes_of_leases_out_of_range_are_refused(
    api: ZaqarTestClient, attributes: dict[str, Any], named: list[str]
) -> None:
    refused(api.request("PUT", "/queues/q", attributes), 400, *named)
    assert api.request("PUT", "/queues/q", {}).status_code == 201


def test_short_claims_are_for_queues_that_allow_them(api: ZaqarTestClient) -> None:
    api.request("PUT", "/queues/q", {"_min_claim_ttl": 1})
    api.send("q", 1)
    claim, _ = api.hold("q", ttl=1)
    assert api.claimed("q", claim).status_code in (200, 404)  # its second may be over
    unless_set = '"_min_claim_ttl"', "60 unless set"
    refused(api.claim("other", ttl=59), 400, "at least 60 seconds", *unless_set)
    refused(api.claim("other", ttl=43201), 400, "between 1 and 43200 seconds", *unless_set)


def test_misspelt_field_of_a_redelivery_delay_is_named(api: ZaqarTestClient) -> None:
    answer = api.request(
        "PUT", "/queues/q", {"_redelivery_delay": {"minimum_delay": 5, "max_delay": 9}}
    )
    assert "_redelivery_delay.max_delay" in answer.headers["Ignored"]


def test_reason_of_a_release_is_shown_with_the_next_delivery_and_the_dead_letter(
    api: ZaqarTestClient,
) -> None:
    api.create("q", _max_claim_count=2, _dead_letter_queue="dead")
    api.send("q", "a")
    for number, last, reason in ((1, None, "no paper"), (2, "no paper", "no ink")):
        claim, _ = api.hold("q")
        (held,) = api.get(f"/queues/q/claims/{claim}?detailed=true").json()["messages"]
        assert (held["claim_count"], held.get("reason")) == (number, last)
        assert held["first_claimed"].endswith("Z")
        plain = api.claimed("q", claim).json()["messages"][0]
        assert not {"first_claimed", "reason"} & plain.keys()
        assert api.release_some("q", claim, reason=reason).json()["left"] == []
    api.send("p", "a")
    claim, _ = api.hold("p")
    api.release_some("p", claim, reason="no paper")
    (popped,) = api.delete_many("p", pop=1, detailed=True).json()["messages"]
    assert (popped["reason"], popped["first_claimed"][-1]) == ("no paper", "Z")
    assert api.claim("q").status_code == 204
    (letter,) = api.list("dead", echo=True, with_attributes=True).json()["messages"]
    assert (letter["reason"], "attributes" in letter) == ("no ink", False)


@pytest.mark.parametrize("reason", ["", "x" * 257, "a\nb", 5])
def test_wrong_reason_is_refused_and_releases_nothing(api: ZaqarTestClient, reason: object) -> None:
    api.send("q", "a")
    claim, _ = api.hold("q")
    refused(api.release_some("q", claim, reason=reason), 400, "reason")
    assert len(api.claimed("q", claim).json()["messages"]) == 1
