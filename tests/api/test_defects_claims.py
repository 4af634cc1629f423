# SPDX-License-Identifier: Apache-2.0
"""Claims: guarantees that are known to be broken elsewhere.

R1 to R34 are numbers of a list of defects; each test is named after the guarantee of this service.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.api.client import ZaqarTestClient
from tests.api.round_trips import CountedStore
from tests.support.backends import Backend
from zaqar_redis.keyspace import keys


def test_a_message_held_by_a_live_claim_is_never_claimed_again(api: ZaqarTestClient) -> None:
    """R1."""
    api.send("q", *range(3))
    first, _ = api.hold("q", 1)
    api.hold("q", 1)
    api.release("q", first)
    _, messages = api.hold("q", 3)
    assert [message["body"] for message in messages] == [0, 2]


def test_a_delayed_message_is_never_claimed(api: ZaqarTestClient) -> None:
    """R1, for delays."""
    api.create("q", _default_message_delay=600)
    api.post("q", {"body": "now", "delay": 0}, {"body": "later"})
    _, messages = api.hold("q")
    assert [message["body"] for message in messages] == ["now"]


def test_claimed_message_lives_as_long_as_the_response_says(
    store: CountedStore, redis_server: Backend
) -> None:
    """R2."""
    (message,) = store.post("a", ttl=60).ids
    (claimed,) = store.claim(ttl=300, grace=60).messages
    assert claimed.ttl == 360
    store.clock.tick(359)
    assert store.get(message)
    # No key with messages has a TTL in Redis.
    with redis_server.client() as client:
        tag = keys.of_queue(store.project, "q").queue
        found = [key for key in client.scan_iter(count=10_000) if key.startswith(tag)]
        assert {client.ttl(key) for key in found} == {-1}


def test_a_claim_works_beyond_the_first_ttl_of_its_messages(store: CountedStore) -> None:
    """R3."""
    store.post("a", ttl=60)
    claim = store.claim(ttl=300).claim_id
    store.clock.tick(200)
    assert store.renew(claim, ttl=300)
    store.clock.tick(200)
    store.release(claim)
    assert store.visible() == ["a"]


def test_releasing_or_renewing_does_not_prolong_a_message(store: CountedStore) -> None:
    """R4."""
    messages = store.post("released", "renewed", ttl=400).ids
    released = store.claim(ttl=60, limit=1).claim_id
    renewed = store.claim(ttl=60, limit=1).claim_id
    store.clock.tick(50)
    store.release(released)
    assert store.renew(renewed, ttl=60)
    store.clock.tick(349.999)
    assert len(store.get(*messages)) == 2
    store.clock.tick(0.001)
    assert store.get(*messages) == []
    assert store.claim().messages == ()
    assert store.pop() == []


@pytest.mark.parametrize("verb", ["release", "renew"])
def test_a_deleted_message_stays_deleted(api: ZaqarTestClient, verb: str) -> None:
    """R5."""
    ids = api.send("q", *range(20))
    claim, _ = api.hold("q", 20)

    async def race() -> set[int]:
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
            return {answer.status_code for answer in await asyncio.gather(*requests)}

    assert asyncio.run(race()) == {204}
    for message in ids:
        assert api.message("q", message).status_code == 404
    assert api.counts("q") == (0, 0, 0)


def test_expired_claim_is_not_found_and_its_release_is_accepted(store: CountedStore) -> None:
    """R8."""
    store.post("a")
    claim = store.claim(ttl=60).claim_id
    store.clock.tick(3600)
    assert store.held(claim) is None
    assert store.renew(claim, 60) is False
    store.release(claim)


@pytest.mark.parametrize("verb", ["claim", "pop", "list", "stats"])
def test_any_number_of_expired_messages_at_the_head_is_skipped(
    store: CountedStore, verb: str
) -> None:
    """R17."""
    store.post(*["old"] * 9000, ttl=60)
    store.post("young", ttl=600)
    store.clock.tick(60)
    if verb == "claim":
        assert len(store.claim().messages) == 1
    elif verb == "pop":
        assert store.pop() == ["young"]
    elif verb == "list":
        assert store.visible() == ["young"]
    else:
        assert store.counts() == (1, 0, 1)


def test_claim_takes_one_round_trip(store: CountedStore) -> None:
    """R18."""
    store.post(*"abcdefghij")
    assert [store.trips(lambda: store.claim(10)) for _ in range(2)] == [1, 1]
    assert store.counts() == (0, 10, 10)


def test_claim_without_messages_is_not_created(store: CountedStore, redis_server: Backend) -> None:
    """R19."""
    store.create("q", _default_message_delay=600)
    store.post("later")
    assert store.claim().claim_id is None
    with redis_server.client() as client:
        of_queue = keys.of_queue(store.project, "q")
        assert client.exists(of_queue.claims, of_queue.leases) == 0


def test_dead_letter_is_claimable_in_a_created_queue(api: ZaqarTestClient) -> None:
    """R20."""
    api.create("q", _max_claim_count=1, _dead_letter_queue="dlq")
    api.send("q", "a", "b")
    api.release("q", api.hold("q")[0])
    assert api.claim("q").status_code == 204
    assert "dlq" in [queue["name"] for queue in api.get("/queues").json()["queues"]]
    assert api.counts("dlq") == (2, 0, 2)
    assert api.bodies("dlq") == ["a", "b"]
    (message,) = api.pop("dlq", 1).json()["messages"]
    assert (message["body"], message["claim_count"]) == ("a", 1)


def test_pop_of_exhausted_messages_does_not_fail(api: ZaqarTestClient) -> None:
    """R20, for pop."""
    api.create("q", _max_claim_count=1, _dead_letter_queue="dlq")
    api.send("q", "a")
    api.release("q", api.hold("q")[0])
    answer = api.pop("q", 10)
    assert (answer.status_code, answer.json()) == (200, {"messages": []})
    assert api.bodies("dlq") == ["a"]


def test_pop_takes_one_round_trip(store: CountedStore) -> None:
    """R21."""
    store.post(*"abcdefghij")
    assert store.trips(lambda: store.pop(10)) == 1
    assert store.counts() == (0, 0, 0)


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
