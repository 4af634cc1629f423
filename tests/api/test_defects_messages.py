# SPDX-License-Identifier: Apache-2.0
"""Messages: guarantees that are known to be broken elsewhere.

R1 to R34 are numbers of a list of defects; each test is named after the guarantee of this service.
"""

from __future__ import annotations

import uuid
from functools import partial

import pytest

from tests.api.client import ZaqarTestClient, refused
from tests.api.round_trips import CountedStore
from tests.support.backends import Backend


def test_stats_are_right_when_either_end_has_expired(store: CountedStore) -> None:
    """R7."""
    store.post("first", ttl=60)
    (middle,) = store.post("middle", ttl=600).ids
    store.post("last", ttl=60)
    store.clock.tick(60)
    found = store.stats()
    assert (found.free, found.claimed, found.total) == (1, 0, 1)
    assert found.oldest
    assert found.newest
    assert found.oldest.id == found.newest.id == middle


def test_claimed_messages_are_listed_without_a_marker(api: ZaqarTestClient) -> None:
    """R9."""
    api.send("q", 1, 2)
    api.hold("q", 1)
    assert api.bodies("q", include_claimed=True) == [1, 2]


def test_small_pages_reach_the_end(api: ZaqarTestClient) -> None:
    """R10, for messages."""
    api.send("q", 1, 2, 3)
    answer = api.list("q", limit=1)
    seen = []
    for _ in range(3):
        (message,) = answer.json()["messages"]
        seen.append(message["body"])
        answer = api.follow(answer.json()["links"][0]["href"])
    assert seen == [1, 2, 3]
    assert answer.json() == {"messages": [], "links": []}


def test_deleted_marker_does_not_restart_the_listing(api: ZaqarTestClient) -> None:
    """R10, for markers."""
    ids = api.send("q", 1, 2, 3)
    api.delete_many("q", *ids[:2])
    assert api.bodies("q", marker=ids[1]) == [3]
    assert api.bodies("q", marker=str(uuid.uuid4())) == []


def test_hidden_messages_do_not_hide_later_ones(
    api: ZaqarTestClient, other: ZaqarTestClient
) -> None:
    """R11."""
    api.send("q", *["mine"] * 10)
    other.send("q", "yours")
    answer = api.list("q", echo=False)
    assert [message["body"] for message in answer.json()["messages"]] == ["yours"]
    assert len(answer.json()["links"]) == 1


def test_listing_costs_the_same_however_many_are_claimed(store: CountedStore) -> None:
    """R12."""
    costs = []
    for claimed in (0, 1000):
        queue = f"q{claimed}"
        store.post(*["x"] * (claimed + 1), queue=queue)
        for _ in range(claimed // 100):
            store.claim(100, queue=queue)
        assert store.counts(queue) == (1, claimed, claimed + 1)
        costs.append(store.trips(partial(store.page, queue=queue)))
    assert costs == [1, 1]


def test_message_id_is_invalid_in_another_project(api: ZaqarTestClient) -> None:
    """R13."""
    (message,) = api.send("q", "mine")
    stranger = api.another_client(f"{api.project}-2")
    for queue in ("q", "r"):
        stranger.send(queue, "theirs")
        refused(stranger.message(queue, message), 404)
        refused(stranger.get(f"/queues/{queue}/messages", ids=message), 404)
        assert stranger.delete(queue, message).status_code == 204
        assert stranger.delete_many(queue, message).status_code == 204
    assert api.message("q", message).json()["body"] == "mine"
    assert api.stats("q")["total"] == 1


def test_message_id_is_invalid_in_another_queue(api: ZaqarTestClient) -> None:
    """R13, for queues."""
    (message,) = api.send("q", "mine")
    api.send("r", "other")
    assert api.message("r", message).status_code == 404
    assert api.delete_many("r", message).status_code == 204
    assert (api.bodies("q"), api.bodies("r")) == (["mine"], ["other"])


def test_message_id_is_never_used_as_a_key(api: ZaqarTestClient, redis_server: Backend) -> None:
    """R14."""
    name = f"somebody-elses-{uuid.uuid4()}"
    api.send("q", 1)
    with redis_server.client() as client:
        client.hset(name, "uri", "x")
        for message in (name, f"*{name}"):
            assert api.delete("q", message).status_code == 204
            assert api.delete_many("q", message).status_code == 204
            assert api.message("q", message).status_code == 404
        assert client.hgetall(name) == {b"uri": b"x"}


@pytest.mark.parametrize("number", [4000, 8001, 17000])
def test_a_post_may_hold_as_many_messages_as_fit(api: ZaqarTestClient, number: int) -> None:
    """R16."""
    content = b'{"messages":[' + b",".join([b'{"body":1}'] * number) + b"]}"
    assert len(content) < 262144
    answer = api.request("POST", "/queues/q/messages", content=content)
    assert answer.status_code == 201
    assert len(answer.json()["resources"]) == number
    assert api.counts("q") == (number, 0, number)


def test_refused_post_stores_nothing(api: ZaqarTestClient, redis_server: Backend) -> None:
    """R16, for failures."""
    messages = [{"body": 1}] * 50
    assert api.post("q", *messages, {"body": 1, "ttl": 59}).status_code == 400
    api.create("r", _max_messages_post_size=100)
    assert api.post("r", *messages).status_code == 400
    with redis_server.client() as client:
        left = [key for key in client.scan_iter(count=10_000) if api.project.encode() in key]
    assert sorted(key.rpartition(b"/")[2] for key in left if b"/" in key) == [b"r}"]


def test_clients_that_are_not_uuids_can_post(rich: ZaqarTestClient) -> None:
    """R24."""
    named = ZaqarTestClient(rich.http, rich.url, rich.project, "client-number-1")
    named.send("q", "mine")
    assert named.bodies("q", echo=False) == []
    assert rich.bodies("q", echo=False) == ["mine"]


def test_a_missing_queue_lists_as_an_empty_one(api: ZaqarTestClient) -> None:
    """R34."""
    answer = api.list("q")
    assert (answer.status_code, answer.json()) == (200, {"messages": [], "links": []})
    for params in ({"include_claimed": True}, {"marker": str(uuid.uuid4())}, {"limit": 20}):
        assert api.list("q", **params).json() == {"messages": [], "links": []}
