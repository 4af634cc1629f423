# SPDX-License-Identifier: Apache-2.0
"""Our service and stock Zaqar over our stores share all queues: either can take over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import servers
from tests.support.backends import NewStore
from tests.support.tiers import in_gate
from tests.upstream import stock
from tests.upstream.rest_client import RestClient


@pytest.fixture(scope="module", params=["plain", "pools"])
def urls(request: pytest.FixtureRequest, new_store: NewStore) -> Iterator[tuple[str, str]]:
    """The URLs of our service and of stock Zaqar, on the same store, with a pool or without."""
    pooling = request.param == "pools"
    options: dict[str, dict[str, object]] = {"DEFAULT": {"admin_mode": True}}
    with (
        new_store() as default_pool,
        new_store() as one,
        servers.service(default_pool.uri, options=options) as ours,
        stock.zaqar(default_pool.uri, "--workers", "2", pooling=pooling) as theirs,
    ):
        if pooling:
            document = {"uri": one.over_tcp(), "weight": 10}
            RestClient(ours.url, "nobody").ask("PUT", "/pools/one", document)
        yield ours.url, theirs
        with one.client() as client:
            assert bool(client.dbsize()) == pooling, "queues are in the expected store"


@pytest.fixture(params=in_gate(["ours first", "stock first"], "stock first"))
def services(
    request: pytest.FixtureRequest, urls: tuple[str, str], project: str
) -> tuple[RestClient, RestClient]:
    first, second = (RestClient(url, project) for url in urls)
    return (first, second) if request.param == "ours first" else (second, first)


def test_queues_and_messages(services: tuple[RestClient, RestClient]) -> None:
    one, other = services
    metadata = {"colour": "grün", "_default_message_ttl": 300, "_max_messages_post_size": 1000}
    one.ask("PUT", "/queues/orders", metadata)
    shown = other.ask("GET", "/queues/orders")
    assert {name: shown[name] for name in metadata} == metadata
    ids = one.post("orders", {"n": 1}, "ä", [1, None], 4.5)
    assert other.listed("orders") == one.listed("orders")
    assert [each["id"] for each in other.listed("orders")] == ids
    assert other.ask("GET", f"/queues/orders/messages/{ids[1]}")["body"] == "ä"
    other.ask("DELETE", f"/queues/orders/messages/{ids[0]}")
    other.post("orders", "last")
    assert [each["body"] for each in one.listed("orders")] == ["ä", [1, None], 4.5, "last"]
    assert [each["body"] for each in one.listed("orders", marker=ids[2])] == [4.5, "last"]
    assert one.stats("orders") == other.stats("orders") == (4, 0)
    listed = [each["name"] for each in other.ask("GET", "/queues")["queues"]]
    assert listed == ["orders"]
    other.ask("POST", "/queues/orders/purge", {"resource_types": ["messages"]})
    assert one.listed("orders") == []
    other.ask("DELETE", "/queues/orders")
    assert one.ask("GET", "/queues")["queues"] == []


def test_topics(services: tuple[RestClient, RestClient]) -> None:
    one, other = services
    metadata = {"colour": "grün", "_default_message_ttl": 300}
    one.ask("PUT", "/topics/news", metadata)
    one.ask("PUT", "/queues/news")
    shown = other.ask("GET", "/topics/news")
    assert {name: shown[name] for name in metadata} == metadata
    for service in services:
        assert [each["name"] for each in service.ask("GET", "/topics")["topics"]] == ["news"]
        assert [each["name"] for each in service.ask("GET", "/queues")["queues"]] == ["news"]
        stats = service.ask("GET", "/topics/news/stats")["messages"]
        assert (stats["free"], stats["claimed"], stats["total"]) == (0, 0, 0)
    other.ask("DELETE", "/topics/news")
    assert one.ask("GET", "/topics")["topics"] == []
    assert [each["name"] for each in one.ask("GET", "/queues")["queues"]] == ["news"]
    one.ask("DELETE", "/queues/news")


def test_duplicates(services: tuple[RestClient, RestClient]) -> None:
    one, _ = services
    one.ask("PUT", "/queues/once", {"_content_dedup": True})
    [first] = one.post("once", "body")
    for number, service in enumerate(services):
        [again, new] = service.post("once", "body", number)
        assert (again, new != first) == (first, True)
    assert len(one.listed("once")) == 3


def test_delays(services: tuple[RestClient, RestClient]) -> None:
    one, other = services
    one.ask("PUT", "/queues/late", {"_default_message_delay": 300})
    other.post("late", "later")
    other.post("late", "now", delay=0)
    for service in services:
        assert [each["body"] for each in service.listed("late")] == ["now"]
        assert len(service.listed("late", include_delayed="true")) == 2


def test_claims(services: tuple[RestClient, RestClient]) -> None:
    one, other = services
    one.ask("PUT", "/queues/jobs", {})
    one.post("jobs", *range(6))
    claim, bodies = one.claim("jobs", 4)
    assert bodies == [0, 1, 2, 3]
    path = f"/queues/jobs/claims/{claim}"
    held = other.ask("GET", path)["messages"]
    assert [message["body"] for message in held] == bodies
    other.ask("DELETE", held[0]["href"].removeprefix("/v2"))
    other.ask("PATCH", path, {"ttl": 600, "grace": 60})
    assert one.ask("GET", path)["ttl"] == 600
    second, bodies = other.claim("jobs", 10)
    assert bodies == [4, 5], "messages claimed by one are not given to the other"
    one.ask("DELETE", f"/queues/jobs/claims/{second}")
    other.ask("DELETE", path)
    assert one.claim("jobs", 10)[1] == [1, 2, 3, 4, 5]


def test_dead_letters(services: tuple[RestClient, RestClient]) -> None:
    one, other = services
    one.ask("PUT", "/queues/dead", {})
    one.ask("PUT", "/queues/jobs", {"_max_claim_count": 1, "_dead_letter_queue": "dead"})
    other.post("jobs", "poison")
    for service in (one, other):
        taken = service.ask("POST", "/queues/jobs/claims", {"ttl": 300, "grace": 60})
        if taken and taken["messages"]:
            claim = taken["messages"][0]["href"].partition("claim_id=")[2]
            service.ask("DELETE", f"/queues/jobs/claims/{claim}")
    assert [each["body"] for each in one.listed("dead")] == ["poison"]
    assert one.listed("jobs") == []
