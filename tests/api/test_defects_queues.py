# SPDX-License-Identifier: Apache-2.0
"""Queues: guarantees that are known to be broken elsewhere.

R1 to R34, S8 and S12 are numbers of a list of defects; each test is named after the
guarantee of this service.  R23 is about subscriptions and R26 of pools.
"""

from __future__ import annotations

import fnmatch
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.api.client import ZaqarTestClient, refused
from tests.api.round_trips import CountedStore
from tests.support.backends import Backend
from tests.support.stores import OWN_KEYS
from zaqar_redis.keyspace import control_keys, keys


def test_stats_are_right_after_a_claim_has_expired(store: CountedStore) -> None:
    """R6."""
    store.post("a", "b")
    store.claim(ttl=60, limit=1)
    assert store.counts() == (1, 1, 2)
    store.clock.tick(60)
    assert store.counts() == (2, 0, 2)
    store.clock.tick(7200)
    assert store.counts() == (0, 0, 0)


def test_small_pages_of_queues_reach_the_end(api: ZaqarTestClient) -> None:
    """R10, for queues."""
    for name in "abc":
        api.create(name)
    answer = api.get("/queues", limit=1)
    seen = []
    while queues := answer.json()["queues"]:
        seen += [queue["name"] for queue in queues]
        assert len(seen) <= 3
        answer = api.follow(answer.json()["links"][0]["href"])
    assert seen == ["a", "b", "c"]


def test_no_queue_name_is_special(api: ZaqarTestClient) -> None:
    """R15."""
    names = ["Service.one", "catalog", "flavors", "pools", "queues_set"]
    for name in names:
        assert api.create(name).status_code == 201
    assert [queue["name"] for queue in api.get("/queues").json()["queues"]] == names
    api.request("DELETE", "/queues/queues_set")
    names.remove("queues_set")
    assert [queue["name"] for queue in api.get("/queues").json()["queues"]] == names


def test_dots_in_names_are_part_of_the_name(api: ZaqarTestClient) -> None:
    """R15, for dead letters, and for projects with dots."""
    api.create("my.queue", _max_claim_count=1, _dead_letter_queue="my.dlq")
    api.send("my.queue", 1)
    api.release("my.queue", api.hold("my.queue")[0])
    api.claim("my.queue")
    assert api.bodies("my.dlq") == [1]
    assert api.bodies("my") == []
    dotted = api.another_client(f"{api.project}.b")
    api.send("b.c", "mine")
    dotted.send("c", "theirs")
    assert (api.bodies("b.c"), dotted.bodies("c")) == (["mine"], ["theirs"])


def test_a_deleted_queue_leaves_nothing_behind(api: ZaqarTestClient, redis_server: Backend) -> None:
    """R22."""
    api.create("q", _default_message_delay=600)
    api.post("q", *[{"body": 1, "delay": 0}] * 10, {"body": 2})
    api.hold("q", 5)
    api.request("DELETE", "/queues/q")
    with redis_server.client() as client:
        found = [key for key in client.scan_iter(count=10_000) if api.project.encode() in key]
    # The catalogue keeps the entry of a deleted queue for a minute.
    assert [key for key in found if not key.startswith(control_keys.CONTROL.prefix)] == []
    api.send("q", 1)
    assert api.counts("q") == (1, 0, 1)


def test_queues_are_filtered_by_name_and_metadata(api: ZaqarTestClient) -> None:
    """R25."""
    api.create("red-1", size=1)
    api.create("red-2", size=2)
    api.create("blue-1", size=1)

    def found(**params: str) -> list[str]:
        return [queue["name"] for queue in api.get("/queues", **params).json()["queues"]]

    assert found(name="red") == ["red-1", "red-2"]
    assert found(size="1") == ["blue-1", "red-1"]
    assert found(name="red", size="1") == ["red-1"]


@pytest.mark.parametrize("name", ["queues:x", "sweeper", "x:queues:y", "zr:queues:z", "queues"])
def test_keys_of_a_tenant_cannot_collide_with_internal_keys(name: str) -> None:
    """R27."""
    for of_queue in (keys.of_queue(name, "q"), keys.of_queue("p", name)):
        for slot in keys.QueueKeys.__slots__:
            key = getattr(of_queue, slot).decode()
            assert not fnmatch.fnmatchcase(key, keys.LISTS.decode())
            assert key != keys.SWEEPER.decode()


def test_a_queue_is_created_once(api: ZaqarTestClient) -> None:
    """R32."""
    for number in range(5):
        with ThreadPoolExecutor(8) as pool:
            statuses = pool.map(
                lambda owner, queue=f"q{number}": api.create(queue, owner=owner).status_code,
                range(8),
            )
            assert sorted(statuses) == [201] + [204] * 7
    assert api.get("/queues", with_count=True).json()["count"] == 5


def test_listing_queues_costs_the_same_however_many_they_are(store: CountedStore) -> None:
    """R33."""
    costs = []
    for number in (1, 30):
        store.create(f"q{number}")
        for place in range(number):
            store.create(f"q{number}.{place}")
        costs.append(store.trips(partial(store.queues, limit=number)))
    assert costs == [2, 2]


def test_sweeping_removes_what_has_expired(store: CountedStore, redis_server: Backend) -> None:
    """S8."""
    store.post(*["x"] * 350, ttl=60)
    store.claim(ttl=60, limit=20)
    of_queue = keys.of_queue(store.project, "q")
    with redis_server.client() as client:
        assert client.hlen(of_queue.bodies) == 350
        store.clock.tick(3600)
        while store.run(store.driver.queues.sweep(store.project, "q")):
            pass
        left = [slot for slot in OWN_KEYS if client.exists(getattr(of_queue, slot))]
    assert left == ["queue"]


def test_creating_a_queue_again_changes_nothing(api: ZaqarTestClient) -> None:
    """S12: as the API defines it; the status distinguishes the two cases."""
    assert api.create("q", colour="blue").status_code == 201
    assert api.create("q", colour="red", size=1).status_code == 204
    shown = api.get("/queues/q").json()
    assert shown["colour"] == "blue"
    assert "size" not in shown
    refused(api.create("q", _default_message_ttl=1), 400, "_default_message_ttl")
