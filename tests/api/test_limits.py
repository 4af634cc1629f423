# SPDX-License-Identifier: Apache-2.0
"""The operator's limits and defaults: each option is tested at its bound."""

from __future__ import annotations

import httpx
import pytest

from tests.api.client import ZaqarTestClient, refused
from tests.support import fixtures, servers

OPTIONS: dict[str, dict[str, object]] = {
    "transport": {
        "max_queues_per_page": 3,
        "max_messages_per_page": 4,
        "max_messages_per_claim_or_pop": 5,
        "max_queue_metadata": 200,
        "max_messages_post_size": 300,
        "max_message_ttl": 100,
        "max_message_delay": 50,
        "max_claim_ttl": 80,
        "max_claim_grace": 90,
        "default_message_ttl": 79,
        "default_claim_ttl": 61,
        "default_claim_grace": 75,
        "client_id_uuid_safe": "off",
        "min_length_client_id": 3,
        "max_length_client_id": 40,
        "max_wait": 7,
    }
}


small_service = fixtures.service(OPTIONS)


@pytest.fixture
def small(
    http: httpx.Client, small_service: servers.RunningService, project: str
) -> ZaqarTestClient:
    return ZaqarTestClient(http, small_service.url, project)


def test_queues_per_page(small: ZaqarTestClient) -> None:
    for name in "abcde":
        small.create(name)
    for limit, status in ((2, 200), (3, 200), (4, 400)):
        answer = small.get("/queues", limit=limit)
        assert answer.status_code == status
        if status == 400:
            refused(answer, 400, "limit", "3")
    # A default above the limit is reduced to it.
    assert len(small.get("/queues").json()["queues"]) == 3


def test_messages_per_page(small: ZaqarTestClient) -> None:
    ids = small.send("q", *range(6))
    for limit, status in ((3, 200), (4, 200), (5, 400)):
        assert small.list("q", limit=limit).status_code == status
        assert small.get("/queues/q/messages", ids=",".join(ids[:limit])).status_code == status
    assert len(small.bodies("q")) == 4
    refused(small.delete_many("q", *ids[:5]), 400, '"ids"', "4")
    assert small.delete_many("q", *ids[:4]).status_code == 204


@pytest.mark.parametrize("verb", ["claim", "pop"])
def test_messages_per_claim_or_pop(small: ZaqarTestClient, verb: str) -> None:
    for number, taken in ((4, True), (5, True), (6, False)):
        small.send("q", *range(8))
        answer = small.claim("q", number) if verb == "claim" else small.pop("q", number)
        if taken:
            assert len(answer.json()["messages"]) == number
        else:
            refused(answer, 400, "limit" if verb == "claim" else "pop", "5")
    if verb == "claim":
        assert len(small.claim("q").json()["messages"]) == 5


def test_size_of_metadata(small: ZaqarTestClient) -> None:
    frame = len(b'{"a":""}')
    for size, status in ((199, 201), (200, 201), (201, 400)):
        content = b'{"a":"%s"}' % (b"x" * (size - frame))
        answer = small.request("PUT", f"/queues/q{size}", content=content)
        assert answer.status_code == status
    refused(answer, 400, "Queue metadata", "200")


def test_size_of_a_post(small: ZaqarTestClient) -> None:
    frame = len(b'{"messages":[{"body":""}]}')
    for size, status in ((299, 201), (300, 201), (301, 400)):
        content = b'{"messages":[{"body":"%s"}]}' % (b"x" * (size - frame))
        answer = small.request("POST", "/queues/q/messages", content=content)
        assert answer.status_code == status
    refused(answer, 400, "Messages", "300")
    # A queue's own limit may be lower, and not higher.
    assert small.create("r", _max_messages_post_size=300).status_code == 201
    refused(small.create("s", _max_messages_post_size=301), 400, "_max_messages_post_size", "300")
    assert small.get("/queues/s").json()["_max_messages_post_size"] == 300


@pytest.mark.parametrize(
    ("field", "attribute", "most"),
    [("ttl", "_default_message_ttl", 100), ("delay", "_default_message_delay", 50)],
)
def test_ttl_and_delay_over_the_maximum_are_refused(
    small: ZaqarTestClient, field: str, attribute: str, most: int
) -> None:
    for value, status in ((most - 1, 201), (most, 201), (most + 1, 400)):
        posted = small.post("q", {"body": 1, field: value})
        created = small.create(f"q{value}", **{attribute: value})
        assert (posted.status_code, created.status_code) == (status, status)
    refused(posted, 400, field, str(most))
    refused(created, 400, attribute, str(most))


@pytest.mark.parametrize(("field", "most"), [("ttl", 80), ("grace", 90)])
def test_lease_over_the_maximum_is_refused(small: ZaqarTestClient, field: str, most: int) -> None:
    small.send("q", *range(3))
    claim, _ = small.hold("q", 1)
    for value, status in ((most - 1, 201), (most, 201), (most + 1, 400)):
        assert small.claim("q", 1, **{field: value}).status_code == status
        renewed = small.renew("q", claim, **{field: value})
        assert renewed.status_code == (204 if status == 201 else 400)
    refused(renewed, 400, field, str(most))


def test_configured_defaults_apply(small: ZaqarTestClient) -> None:
    assert small.get("/queues/q").json()["_default_message_ttl"] == 79
    small.send("q", 1)
    assert small.list("q").json()["messages"][0]["ttl"] == 79
    claim, (message,) = small.hold("q")
    assert message["ttl"] == 79  # it outlives the claim
    assert small.claimed("q", claim).json()["ttl"] == 61
    assert small.renew("q", claim, ttl=80).status_code == 204
    assert small.claimed("q", claim).json()["messages"][0]["ttl"] == 80 + 75


@pytest.mark.parametrize(("length", "status"), [(2, 400), (3, 200), (40, 200), (41, 400)])
def test_length_of_client_ids(small: ZaqarTestClient, length: int, status: int) -> None:
    client = ZaqarTestClient(small.http, small.url, small.project, "c" * length)
    assert client.list("q").status_code == status


def test_wait_over_the_maximum_is_refused(small: ZaqarTestClient) -> None:
    small.send("q", 1)
    for wait, status in ((6, 200), (7, 200), (8, 400)):
        assert small.list("q", wait=wait).status_code == status
