# SPDX-License-Identifier: Apache-2.0
"""A full store refuses what is new, and goes on with everything else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.support import servers
from tests.support.backends import BACKENDS, Backend
from tests.support.blocking import BlockingStore
from tests.support.stores import CLIENT, POOLED, TTL, ContractStore, new_messages, opened
from tests.support.tiers import in_gate
from zaqar_redis import clock, errors
from zaqar_redis.keyspace import blocking, keys
from zaqar_redis.keyspace.routing_keys import RoutingKeys
from zaqar_redis.keyspace.script import Script
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.storage.redis.control import create as create_control
from zaqar_redis.storage.redis.messages import RedisMessages

#: What of its limit a store uses: above the share; and so much that Redis itself refuses.
NEARLY, OVER = 0.97, 10.0
#: Bytes in each Redis: else buffers of connections would be more than what is left.
_BALLAST = 16 * 1024 * 1024


def primaries(backend: Backend) -> list[Any]:
    client = backend.client()
    if isinstance(client, redis.RedisCluster):
        return [client.get_redis_connection(node) for node in client.get_primaries()]
    return [client]


@contextlib.contextmanager
def filled(backend: Backend, share: float) -> Iterator[None]:
    """Limits the memory of each Redis so that *share* of it is in use."""
    nodes = primaries(backend)
    for node in nodes:
        for key in map("ballast-{}".format, range(1000)):
            with contextlib.suppress(redis.ResponseError):  # in a cluster: it is another node's
                node.setrange(key, _BALLAST, b"-")
                break
        node.config_set("maxmemory", round(node.info("memory")["used_memory"] / share))
    try:
        yield
    finally:
        for node in nodes:
            node.config_set("maxmemory", 0)
            node.flushall()


def is_refused(store: ContractStore, queue: str = "q") -> bool:
    try:
        posted = store.post("more", queue=queue)
    except errors.StoreFull:
        return True
    store.delete(*posted.ids, queue=queue)
    return False


def is_not_sent(store: ContractStore, backend: Backend) -> bool:
    """Returns whether a post is refused before Redis gets it."""
    before = refusals_of_redis(backend)
    return is_refused(store) and refusals_of_redis(backend) == before


def refusals_of_redis(backend: Backend) -> int:
    return sum(
        int(node.info("errorstats").get("errorstat_OOM", {"count": 0})["count"])
        for node in primaries(backend)
    )


@pytest.fixture(scope="module", params=in_gate(BACKENDS, "redis"))
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with BACKENDS[request.param]() as found:
        yield found


@pytest.fixture
def full(backend: Backend, project: str) -> Iterator[ContractStore]:
    with opened(backend.uri, project) as store:
        yield store


@pytest.mark.parametrize("share", [NEARLY, OVER])
def test_full_store_refuses_posts_and_goes_on_with_the_rest(
    backend: Backend, full: ContractStore, share: float
) -> None:
    full.create("q", _max_claim_count=2, _dead_letter_queue="dead")
    full.post_many(6)
    first = full.claim(limit=2)
    with filled(backend, share):
        servers.wait_for(lambda: is_not_sent(full, backend), "the store to be full")
        with pytest.raises(errors.StoreFull, match=r"The store .* is full: it takes nothing new"):
            full.create("new")
        claim = full.claim(limit=2)
        assert [message.body for message in claim.messages] == [b'"2"', b'"3"']
        assert full.renew(claim.claim_id, 300)
        full.release(claim.claim_id)
        full.delete(first.messages[0].id, claims=[first.claim_id])
        full.clock.tick(61)  # the first claim ends
        assert full.visible() == ["1", "2", "3", "4", "5"]
        assert full.pop(1) == ["1"]
        assert full.counts() == (4, 0, 4)
        assert is_not_sent(full, backend)
    servers.wait_for(lambda: not is_refused(full), "the store to have memory")


def test_messages_claimed_too_often_reach_the_dead_letter_queue_of_a_full_store(
    backend: Backend, full: ContractStore
) -> None:
    full.create("dead")
    full.create("q", _max_claim_count=1, _dead_letter_queue="dead")
    full.post("exhausted", "next")
    full.release(full.claim(limit=1).claim_id)
    with filled(backend, OVER):
        assert [each.body for each in full.claim(limit=1).messages] == [b'"next"']
        assert full.visible("dead") == ["exhausted"]


def test_expired_messages_of_a_full_store_are_swept_in_turns(
    backend: Backend, full: ContractStore
) -> None:
    full.post_many(3, ttl=60)
    full.clock.tick(61)
    with filled(backend, OVER):
        assert full.sweep(60) >= 3
        assert full.sweep(60) == 0  # somebody has the turn


def test_leases_and_roles_go_on_in_a_full_store(backend: Backend, full: ContractStore) -> None:
    renew, client = Script("lease_renew"), full.client(backend.uri)
    control = create_control(backend.uri, {})
    full.run(client.start())
    full.run(control.start())
    installation = full.run(control.installation())

    def renewed() -> int:
        call = renew(RoutingKeys(), now=full.clock.now, id=full.project, ttl=60_000)
        return int(full.run(client.call(call)))

    with filled(backend, OVER):
        assert [renewed(), renewed()] == [0, 1]
        assert full.run(control.lead(full.project, 60))
        assert full.run(control.lead(full.project, 60))
        assert full.run(control.installation()) == installation
    full.run(control.close())
    full.run(client.close())


def test_store_without_a_limit_or_with_evictions_refuses_nothing(
    backend: Backend, full: ContractStore
) -> None:
    assert not is_refused(full)
    nodes = primaries(backend)
    for node in nodes:
        node.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with filled(backend, NEARLY):
            assert not is_refused(full)
            with opened(backend.uri, full.project) as other:  # it looks when it has connected
                assert [is_refused(other) for _ in range(3)] == [False] * 3
    finally:
        for node in nodes:
            node.config_set("maxmemory-policy", "noeviction")


def test_blocking_callers_of_a_full_store_are_refused(backend: Backend, project: str) -> None:
    with filled(backend, NEARLY), contextlib.closing(BlockingStore(backend.uri, project)) as store:
        before, counted = refusals_of_redis(backend), refusals()
        for _ in range(2):
            with pytest.raises(errors.StoreFull):
                store.post("b")
        assert (refusals_of_redis(backend), refusals()) == (before, counted + 2)
        assert store.claim(1).messages == ()


def refusals() -> int:
    return int(sum(value for _, [value] in metrics.STORE_FULL.rows()))


def test_share_of_zero_leaves_refusals_to_redis(backend: Backend, project: str) -> None:
    settings = BatchSettings(memory_share=0)
    with (
        filled(backend, NEARLY),
        contextlib.closing(blocking.client(backend.uri, settings)) as client,
    ):
        messages = RedisMessages(client, clock.store)
        posted = messages.post(
            project, "q", new_messages("a", None, None), client=CLIENT, default_ttl=TTL, size=0
        ).run()
        assert len(posted.ids) == 1


def test_full_pool_refuses_only_its_own_queues(project: str) -> None:
    with (
        servers.redis_server() as default,
        servers.redis_server() as other,
        opened(f"{POOLED}{default.uri}|{default.uri}?db=1|{other.uri}", project) as store,
    ):
        queues = [f"q{number}" for number in range(20)]
        for queue in queues:
            store.post("first", queue=queue)
        full = Backend(other.uri, other.client, lambda: other.uri)
        with filled(full, NEARLY), other.client() as client:
            own = {queue for queue in queues if client.exists(keys.of_queue(project, queue).queue)}
            assert 0 < len(own) < len(queues)

            def refused() -> set[str]:
                return {queue for queue in queues if is_refused(store, queue)}

            servers.wait_for(lambda: refused() == own, "the pool to be full")
            assert all(store.claim(queue=queue).messages for queue in queues)
