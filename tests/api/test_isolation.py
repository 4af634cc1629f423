# SPDX-License-Identifier: Apache-2.0
"""Two projects never see each other's data, whatever their names are."""

from __future__ import annotations

import itertools
import uuid

import pytest

from tests.api.client import ZaqarTestClient

#: Names that would collide if they were joined carelessly.
NAMES = [
    *("a", "a.b", "a/b", "a%2Fb", "a%252Fb", "{a}", "{a", "a}", "a}/b", "a:b", "a:messages", "a b"),
    *("a,b", "a|b", "a\\b", "a*", "a?", "[a]", "a'b", 'a"b', "a;b", "a\tb", "..", "a#b", "a&b=c"),
    *("a@b", "~a", "A", "\u00e4", "\u00c3\u00a4", "queues", "p" * 200),
]


@pytest.fixture
def tenants(api: ZaqarTestClient) -> list[ZaqarTestClient]:
    suffix = uuid.uuid4().hex
    return [ZaqarTestClient(api.http, api.url, f"{name}{suffix}") for name in NAMES]


def test_queues_of_the_same_name_are_separate(tenants: list[ZaqarTestClient]) -> None:
    ids = {}
    for place, tenant in enumerate(tenants):
        tenant.create("q", owner=place)
        ids[place] = tenant.send("q", place)[0]
    assert len(set(ids.values())) == len(tenants)
    for place, tenant in enumerate(tenants):
        assert tenant.get("/queues/q").json()["owner"] == place
        assert tenant.bodies("q") == [place]
        assert tenant.counts("q") == (1, 0, 1)
        assert [queue["name"] for queue in tenant.get("/queues").json()["queues"]] == ["q"]
        assert tenant.get("/queues", with_count=True).json()["count"] == 1
    for mine, theirs in itertools.permutations(range(0, len(tenants), 3), 2):
        assert tenants[mine].message("q", ids[theirs]).status_code == 404


def test_operations_of_one_tenant_do_not_affect_others(tenants: list[ZaqarTestClient]) -> None:
    for place, tenant in enumerate(tenants):
        tenant.send("q", place, place)
    for place, tenant in enumerate(tenants):
        claim, (message,) = tenant.hold("q", 1)
        assert message["body"] == place
        for stranger in (tenants[place - 1], tenants[(place + 7) % len(tenants)]):
            assert stranger.claimed("q", claim).status_code == 404
            assert stranger.release("q", claim).status_code == 204
            assert stranger.delete_many("q", message["id"]).status_code == 204
        assert tenant.counts("q") == (1, 1, 2)
        tenant.request("DELETE", "/queues/q")
    for tenant in tenants:
        assert tenant.get("/queues").json()["queues"] == []


def test_dead_letters_stay_in_their_project(api: ZaqarTestClient) -> None:
    stranger = api.another_client(f"{api.project}-2")
    stranger.create("dlq")
    api.create("q", _max_claim_count=1, _dead_letter_queue="dlq")
    api.send("q", "dead")
    api.release("q", api.hold("q")[0])
    api.claim("q")
    assert api.bodies("dlq") == ["dead"]
    assert stranger.bodies("dlq") == []


def test_a_queue_of_any_name_has_its_own_keys(api: ZaqarTestClient) -> None:
    """Names that a store might use for something of its own."""
    names = ["queues", "messages", "q", "q.messages", "q.bodies", "zr", "queues_set", "q.feed"]
    names += ["Service.one", "catalog", "flavors", "pools"]
    for name in names:
        api.send(name, name)
    for name in names:
        assert api.bodies(name) == [name]
    for name in names[1:]:
        api.request("DELETE", f"/queues/{name}")
    assert [queue["name"] for queue in api.get("/queues").json()["queues"]] == ["queues"]
    assert api.bodies("queues") == ["queues"]
