# SPDX-License-Identifier: Apache-2.0
"""Guarantees that are known to be broken elsewhere.

R1 to R34 and S1 to S12 are numbers of a list of defects; each test is named after the guarantee
of this service.  Those that are not here are kept by the tests of their subject.  S6, a check of
a pool's URI that changes the running configuration, cannot be: settings are frozen.
"""

from __future__ import annotations

import asyncio
import fnmatch
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import msgspec
import pytest

from tests.api.client import ZaqarTestClient, refused
from tests.api.round_trips import CountedStore
from tests.support.backends import Backend
from zaqar_redis import rules
from zaqar_redis.api.settings import ApiSettings
from zaqar_redis.keyspace import control_keys, keys


def test_no_key_with_messages_has_a_ttl_in_redis(
    store: CountedStore, redis_server: Backend
) -> None:
    """R2."""
    store.post("a", ttl=60)
    store.claim(ttl=300, grace=60)
    with redis_server.client() as client:
        tag = keys.of_queue(store.project, "q").queue
        found = [key for key in client.scan_iter(count=10_000) if key.startswith(tag)]
        assert {client.ttl(key) for key in found} == {-1}


@pytest.mark.parametrize("verb", ["release", "renew"])
async def test_a_deleted_message_stays_deleted(api: ZaqarTestClient, verb: str) -> None:
    """R5."""
    ids = api.send("q", *range(20))
    claim, _ = api.hold("q", 20)
    path = f"{api.url}/v2/queues/q"
    headers = {"Client-ID": api.client, "X-Project-ID": api.project}
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        requests = [http.delete(f"{path}/messages", params={"ids": one}) for one in ids]
        for place in (5, 10, 15):
            change = (
                http.delete(f"{path}/claims/{claim}")
                if verb == "release"
                else http.patch(f"{path}/claims/{claim}", json={"ttl": 100})
            )
            requests.insert(place, change)
        assert {answer.status_code for answer in await asyncio.gather(*requests)} == {204}
    for message in ids:
        assert api.message("q", message).status_code == 404
    assert api.counts("q") == (0, 0, 0)


def test_claim_and_pop_take_one_round_trip(store: CountedStore) -> None:
    """R18, and R21."""
    store.post(*"abcdefghijklmno")
    assert [store.trips(lambda: store.claim(5)) for _ in range(2)] == [1, 1]
    assert store.counts() == (5, 10, 15)
    assert store.trips(lambda: store.pop(5)) == 1
    assert store.counts() == (0, 10, 10)


def test_concurrent_pops_never_share_a_message(api: ZaqarTestClient) -> None:
    """R21, with many clients."""
    api.send("q", *range(300))

    def drain(_: int) -> list[int]:
        mine: list[int] = []
        while popped := api.pop("q", 7).json()["messages"]:
            mine += [message["body"] for message in popped]
        return mine

    with ThreadPoolExecutor(4) as pool:
        shares = list(pool.map(drain, range(4)))
    assert sorted(body for share in shares for body in share) == list(range(300))


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


def test_creating_a_queue_again_changes_nothing(api: ZaqarTestClient) -> None:
    """S12: as the API defines it; the status distinguishes the two cases."""
    assert api.create("q", colour="blue").status_code == 201
    assert api.create("q", colour="red", size=1).status_code == 204
    shown = api.get("/queues/q").json()
    assert shown["colour"] == "blue"
    assert "size" not in shown
    refused(api.create("q", _default_message_ttl=1), 400, "_default_message_ttl")


@pytest.mark.parametrize("kind", ["plain", "signing"])
@pytest.mark.parametrize("signature", ["", "x", "0" * 64])
def test_given_signature_is_always_checked(
    api: ZaqarTestClient, rich: ZaqarTestClient, kind: str, signature: str
) -> None:
    """S1: empty or not, and whether the service has a key or not."""
    client = api if kind == "plain" else rich
    client.send("q", "private")
    for headers in (
        {"URL-Signature": signature},
        {"URL-Signature": signature, "URL-Methods": "GET", "URL-Paths": "/v2/queues"},
    ):
        for path in ("/queues", "/queues/q/messages?echo=true"):
            answer = client.request("GET", path, headers=headers)
            assert answer.status_code == 404
            assert "private" not in answer.text


@pytest.mark.parametrize("name", ["EXTRA-SPEC", "X-Auth-Token", "X-Roles", "X-Identity-Status"])
def test_no_other_header_replaces_required_identity_headers(
    api: ZaqarTestClient, name: str
) -> None:
    """S1: two headers identify the client, and no third one replaces them."""
    for missing in ("Client-ID", "X-Project-ID"):
        identity = {"Client-ID": api.client, "X-Project-ID": api.project}
        del identity[missing]
        answer = api.http.get(f"{api.url}/v2/queues", headers=identity | {name: "admin"})
        refused(answer, 400, missing)
    assert api.request("GET", "/health", headers={name: "admin"}).status_code == 404


def test_settings_cannot_be_changed_while_running() -> None:
    """S6."""
    settings = ApiSettings()
    with pytest.raises(AttributeError):
        settings.admin_mode = True  # type: ignore[misc]  # the object must be frozen
    with pytest.raises(AttributeError):
        settings.limits.max_wait = 0  # type: ignore[misc]  # the object must be frozen
    assert msgspec.structs.replace(settings.limits, max_wait=0) != rules.Limits()


def test_filters_given_twice_are_refused(api: ZaqarTestClient) -> None:
    """S7."""
    api.create("q", colour="blue")
    refused(api.get("/queues?colour=blue&colour=red"), 400, "colour")
    answer = api.get("/queues", colour="blue,red")
    assert (answer.status_code, answer.json()["queues"]) == (200, [])
