# SPDX-License-Identifier: Apache-2.0
"""The store compared with the model: both give the same results."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from tests.contract.compared import FAIR, NAMES, ComparedStore, seen, stored_size
from tests.contract.test_moving import move_queue
from tests.support.stores import ContractStore, PooledContractStore
from tests.support.tiers import in_gate
from zaqar_redis import errors, message_fields
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Script
from zaqar_redis.message_fields import DEDUP_ID
from zaqar_redis.records import IdempotencyKey, NewMessage
from zaqar_redis.storage.redis import RedisDriver, identity

_CHECK = Script("check_queue")
QUEUES = st.sampled_from(NAMES)
SECONDS = st.sampled_from([60, 61, 90, 120, 300])
CLAIM_SECONDS = st.sampled_from([5, 60, 61, 120, 300])
LIMITS = st.integers(1, 7)
GROUPS = st.sampled_from(["", "a", "b", "ab"])
PRIORITIES = st.sampled_from([0, 0, 1, 3])


class ModelComparison(ComparedStore):
    """A state machine whose rules apply one operation to the store and to the model."""

    claims = Bundle("claims")
    retries = Bundle("retries")

    @rule(seconds=st.sampled_from([0.001, 1, 29.999, 30, 60, 61, 120]))
    def time_passes(self, seconds: float) -> None:
        self.store.clock.tick(seconds)
        self.model.now = self.store.clock.now
        for queue in FAIR:  # what becomes free must do so in the same step as in the model
            self.store.stats(queue)

    @rule(
        target=retries,
        queue=QUEUES,
        ttls=st.lists(SECONDS, min_size=1, max_size=5),
        delay=st.sampled_from([None, 0, 10]),
        retried=st.booleans(),
        labels=st.lists(st.tuples(GROUPS, PRIORITIES), min_size=5, max_size=5),
    )
    def post(
        self,
        queue: str,
        ttls: list[int],
        delay: int | None,
        retried: bool,
        labels: list[tuple[str, int]],
    ) -> Any:
        bodies = [str(self.number + index) for index in range(len(ttls))]
        self.number += len(ttls)
        messages = [
            NewMessage(
                body=json.dumps(body).encode(),
                ttl=ttl,
                delay=delay,
                attributes={
                    name: value
                    for name, value in (
                        (message_fields.GROUP, group),
                        (message_fields.PRIORITY, priority),
                    )
                    if value
                }
                or None,
            )
            for body, ttl, (group, priority) in zip(bodies, ttls, labels, strict=False)
        ]
        # Longer than any time that passes in this test.
        idempotency_key = IdempotencyKey(key=f"key {self.number}", fingerprint=b"1", window=10**12)
        size = sum(map(stored_size, messages))
        has_room = not self.model.is_paused(queue, "posts") and self.model.make_room(
            queue, len(messages), size, self.sizes(queue)
        )
        try:
            ids = self.send(queue, messages, idempotency_key if retried else None)
        except (errors.QueueFull, errors.QueuePaused):
            assert not has_room
            return multiple()
        assert has_room
        for body, ttl, message_id, label in zip(bodies, ttls, ids, labels, strict=False):
            rank = self.model.post(queue, body, ttl, delay, "", *label)
            assert identity.parse_message_id(message_id)[1] == rank
            self.ids.setdefault(queue, {})[rank] = message_id
        return (queue, messages, idempotency_key, ids) if retried else multiple()

    def send(
        self, queue: str, messages: list[NewMessage], idempotency_key: IdempotencyKey | None
    ) -> tuple[str, ...]:
        return self.store.send(messages, queue, idempotency_key=idempotency_key).ids

    @rule(
        queue=QUEUES,
        dedup_ids=st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
        ttl=SECONDS,
    )
    def post_identified(self, queue: str, dedup_ids: list[str], ttl: int) -> None:
        messages = [
            NewMessage(json.dumps(each).encode(), ttl=ttl, attributes={DEDUP_ID: each}, dedup="")
            for each in dedup_ids
        ]
        size = stored_size(messages[0])
        ranks = self.model.post_identified(queue, dedup_ids, ttl, size, self.sizes(queue))
        try:
            ids = self.send(queue, messages, None)
        except (errors.QueueFull, errors.QueuePaused):
            assert ranks is None
            return
        assert [identity.parse_message_id(each)[1] for each in ids] == ranks
        self.ids.setdefault(queue, {}).update(zip(ranks or [], ids, strict=True))

    @rule(sent=retries)
    def post_again(
        self, sent: tuple[str, list[NewMessage], IdempotencyKey, tuple[str, ...]]
    ) -> None:
        queue, messages, idempotency_key, ids = sent
        rank = identity.parse_message_id(ids[0])[1]
        if self.ids.get(queue, {}).get(rank) != ids[0]:
            return  # the queue was deleted: in its next epoch this is a new post
        assert self.send(queue, messages, idempotency_key) == ids

    @rule(
        target=claims,
        queue=QUEUES,
        ttl=CLAIM_SECONDS,
        grace=st.sampled_from([60, 120]),
        limit=LIMITS,
    )
    def claim(self, queue: str, ttl: int, grace: int, limit: int) -> Any:
        taken = self.store.claim(limit, queue=queue, ttl=ttl, grace=grace)
        entries = self.model.claim(queue, taken.claim_id or "", ttl, grace, limit)
        assert [seen(message) for message in taken.messages] == self.view(entries)
        assert [message.claim_count for message in taken.messages] == [e.count for e in entries]
        assert bool(taken.claim_id) == bool(entries)
        return (queue, taken.claim_id) if taken.claim_id else multiple()

    @rule(claimed=claims, ttl=CLAIM_SECONDS, grace=st.sampled_from([60, 120]))
    def renew(self, claimed: tuple[str, str], ttl: int, grace: int) -> None:
        queue, claim = claimed
        assert self.store.renew(claim, ttl, grace, queue) == self.model.renew(
            queue, claim, ttl, grace
        )

    @rule(claimed=claims)
    def show_claim(self, claimed: tuple[str, str]) -> None:
        queue, claim = claimed
        store = self.store
        found = store.run(store.driver.claims.get(store.project, queue, claim))
        lease = self.model.lease(queue, claim)
        assert (found is None) == (lease is None)
        if found and lease:
            assert (found.ttl, found.age) == (lease.ttl, (self.model.now - lease.start) // 1000)
            held = self.model.held(queue, claim)
            assert [seen(message) for message in found.messages] == self.view(held)

    @rule(
        claimed=claims,
        places=st.lists(st.integers(0, 5), min_size=1, max_size=3),
        ttl=st.sampled_from([5, 30, 60, 300]),
    )
    def renew_some(self, claimed: tuple[str, str], places: list[int], ttl: int) -> None:
        queue, claim = claimed
        ranks, ids = self.some_of(queue, claim, places)
        renewed = self.store.renew_some(claim, *ids, ttl=ttl, queue=queue)
        expected = self.model.renew_some(queue, claim, ranks, ttl, 60)
        assert self.ranks_of(renewed) == expected

    @rule(
        claimed=claims,
        places=st.lists(st.integers(0, 5), min_size=1, max_size=3),
        delay=st.sampled_from([None, 0, 10, 100]),
    )
    def release_some(self, claimed: tuple[str, str], places: list[int], delay: int | None) -> None:
        queue, claim = claimed
        ranks, ids = self.some_of(queue, claim, places)
        released = self.store.release_some(claim, *ids, delay=delay, queue=queue)
        assert self.ranks_of(released) == self.model.release(queue, claim, ranks, delay)

    @rule(claimed=consumes(claims))
    def release(self, claimed: tuple[str, str]) -> None:
        queue, claim = claimed
        self.store.release(claim, queue)
        self.model.release(queue, claim)

    @rule(claimed=claims, others=st.lists(claims, max_size=1), index=st.integers(0, 3))
    def acknowledge(
        self, claimed: tuple[str, str], others: list[tuple[str, str]], index: int
    ) -> None:
        queue, claim = claimed
        known = self.model.queues.get(queue)
        lease = known.leases.get(claim) if known else None
        ranks = lease.ranks[index : index + 2] if lease else []
        self.delete(queue, ranks or [1], [claim, *(other for _, other in others)], False)

    @rule(
        queue=QUEUES,
        ranks=st.lists(st.integers(1, 25), min_size=1, max_size=3),
        force=st.booleans(),
    )
    def delete_some(self, queue: str, ranks: list[int], force: bool) -> None:
        self.delete(queue, ranks, None, force)

    def delete(self, queue: str, ranks: list[int], claims: list[str] | None, force: bool) -> None:
        refused: type[BaseException] | None = None
        ids = [self.some_id(queue, rank) for rank in ranks]
        known = ranks if self.ids.get(queue) else []
        try:
            self.store.delete(*ids, queue=queue, claims=claims, force=force)
        except errors.Problem as problem:
            refused = type(problem)
        assert refused == self.model.delete(queue, known, claims, force)

    @rule(queue=QUEUES, limit=LIMITS)
    def pop(self, queue: str, limit: int) -> None:
        assert self.store.pop(limit, queue) == [e.body for e in self.model.pop(queue, limit)]

    @rule(
        queue=QUEUES,
        after=st.integers(0, 25),
        limit=LIMITS,
        claimed=st.booleans(),
        delayed=st.booleans(),
    )
    def list_page(self, queue: str, after: int, limit: int, claimed: bool, delayed: bool) -> None:
        marker = self.some_id(queue, after) if after and self.ids.get(queue) else None
        page = self.store.page(marker, limit, queue=queue, claimed=claimed, delayed=delayed)
        entries = [
            entry
            for entry in self.model.alive(queue)
            if entry.rank > (after if marker else 0)
            and (claimed or not self.model.is_held(entry))
            and (delayed or not self.model.is_delayed(queue, entry))
        ][:limit]
        assert [seen(message) for message in page.items] == self.view(entries)
        for message in page.items:
            self.ids.setdefault(queue, {})[message.rank] = message.id

    @rule(queue=QUEUES, ranks=st.lists(st.integers(1, 25), min_size=1, max_size=5))
    def get(self, queue: str, ranks: list[int]) -> None:
        found = self.store.get(*[self.some_id(queue, rank) for rank in ranks], queue=queue)
        alive = {entry.rank: entry for entry in self.model.alive(queue)}
        known = self.ids.get(queue)
        wanted = [alive[rank] for rank in ranks if rank in alive] if known else []
        assert [seen(message) for message in found] == self.view(wanted)

    @rule(queue=QUEUES, sure=st.integers(0, 9))
    def purge(self, queue: str, sure: int) -> None:
        if sure == 0:
            self.store.run(self.store.driver.queues.purge(self.store.project, queue))
            self.model.purge(queue)

    @rule(sure=st.integers(0, 9))
    def delete_queue(self, sure: int) -> None:
        if sure == 0:
            self.store.run(self.store.driver.queues.delete(self.store.project, "dead"))
            self.model.queues.pop("dead", None)
            self.ids.pop("dead", None)

    @rule(queue=QUEUES, other=QUEUES, ranks=st.lists(st.integers(1, 25), max_size=3, unique=True))
    def move(self, queue: str, other: str, ranks: list[int]) -> None:
        if queue == other:
            return
        known = ranks if self.ids.get(queue) else []
        moved = self.store.move(
            *[self.some_id(queue, rank) for rank in known], target=other, queue=queue
        )
        ranks_moved = [identity.parse_message_id(message_id)[1] for message_id in moved]
        assert ranks_moved == self.model.move(queue, known, other)

    @rule(queue=QUEUES, paused=st.sampled_from([None, None, "posts", "claims", "all"]))
    def pause(self, queue: str, paused: str | None) -> None:
        store = self.store
        if found := store.queue(queue):
            metadata = {**found.metadata, "_paused": paused}
            assert store.run(store.driver.queues.update(store.project, found, metadata))
            self.model.queues[queue].paused = paused or ""

    @rule()
    def sweep(self) -> None:
        self.store.sweep()
        self.store.command("DEL", keys.SWEEPER)  # the next round need not wait

    @invariant()
    def groups_have_turns(self) -> None:
        for queue in FAIR:
            self.model.give_turns(queue)

    # No invariant: it settles the queues, so that no other verb would have to.
    @rule()
    def statistics_agree(self) -> None:
        for queue in NAMES:
            stats = self.store.stats(queue)
            alive = self.model.alive(queue)
            held = [entry for entry in alive if self.model.is_held(entry)]
            assert (stats.total, stats.claimed) == (len(alive), len(held))
            ends = [stats.oldest, stats.newest] if stats.oldest and stats.newest else []
            assert [seen(end) for end in ends] == self.view(alive[:1] + alive[-1:])


class WithinOneRedis(ModelComparison):
    """What is seen in the data of one Redis, too."""

    @rule(queue=QUEUES, is_imported=st.booleans())
    def lose_listing(self, queue: str, is_imported: bool) -> None:
        """What a process leaves that dies before it lists a new queue, or an imported one."""
        of_queue = keys.of_queue(self.store.project, queue)
        if not self.store.queue(queue):
            return
        self.store.command("HSET", of_queue.queue, "unlisted", 1)
        self.store.command("HDEL", of_queue.queue, "due")
        if is_imported:
            name = keys.entry(self.store.project, queue)
            self.store.command("ZADD", of_queue.sweep_index, "LT", 0, name)

    @invariant()
    def nothing_ends_before_its_queue_is_due(self) -> None:
        # Claims rely on it: before that they settle nothing.
        driver = self.store.driver
        assert isinstance(driver, RedisDriver)
        for queue in NAMES:
            of_queue = keys.of_queue(self.store.project, queue)
            call = _CHECK(of_queue, now=self.store.clock(), epoch="", repair=0)
            assert self.store.run(driver.queues.client.call(call)) == []


class MovingBetweenPools(ModelComparison):
    """Queues move from pool to pool."""

    store: PooledContractStore

    @rule(queue=QUEUES)
    def relocate(self, queue: str) -> None:
        if self.store.queue(queue):
            move_queue(self.store, self.store.other_pool(queue), queue)


@pytest.mark.timeout(600)  # up to a minute of work, for a machine that does nothing else
@pytest.mark.parametrize("examples", in_gate([30, 120]))
def test_store_returns_the_same_results_as_the_model(real: ContractStore, examples: int) -> None:
    _compare(WithinOneRedis, real, examples)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("examples", in_gate([10, 120]))
def test_queues_that_move_between_pools_return_the_same_results_as_the_model(
    pools: PooledContractStore, examples: int
) -> None:
    _compare(MovingBetweenPools, pools, examples)


def _compare(machine: type[ModelComparison], store: ContractStore, examples: int) -> None:
    run_state_machine_as_test(
        type("Beside", (machine,), {"store": store}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
