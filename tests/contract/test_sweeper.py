# SPDX-License-Identifier: Apache-2.0
"""What stores guarantee that need sweeping."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable

import pytest

from tests.support import servers
from tests.support.blocking import BlockingStore, chunk_of
from tests.support.stores import CLIENT, ContractStore, findings, new_messages, opened
from zaqar_redis.keyspace import keys
from zaqar_redis.records import IdempotencyKey, Lease, Stats, SubscriptionChanges
from zaqar_redis.storage.redis import RedisDriver
from zaqar_redis.storage.redis.bulk import ledger


@pytest.fixture
def empty(store: ContractStore) -> ContractStore:
    """An empty store: the sweeper reads every queue, so only those of the test may exist."""
    store.reset()
    return store


def _free_sweeper_lease(store: ContractStore) -> None:
    store.command("DEL", keys.SWEEPER)


def _stored(store: ContractStore, project: str, queue: str) -> int:
    """Counts the messages that take up memory, visible or expired."""
    return sum(store.command("HLEN", keys.of_queue(project, queue).bodies))


def test_messages_that_expired_in_idle_queues_are_removed(empty: ContractStore) -> None:
    for queue in ("a", "b", "c.d"):
        empty.post_many(350, queue=queue, ttl=60)
        empty.post("stays", queue=queue, ttl=600)
    empty.clock.tick(61)
    assert empty.sweep() == 3 * 350
    for queue in ("a", "b", "c.d"):
        assert _stored(empty, empty.project, queue) == 1
        assert empty.listed(queue) == ["stays"]


def test_sweep_of_a_large_queue_tells_each_step(empty: ContractStore) -> None:
    empty.post_many(350, ttl=60)
    empty.clock.tick(61)
    steps: list[tuple[str, int]] = []
    assert empty.driver.sweeper
    for turn in (60, 0):
        settled = empty.run(
            empty.driver.sweeper.sweep(turn, lambda queue, more: steps.append((queue, more)))
        )
        assert sum(more for _, more in steps) == settled
        assert len(steps) > 3 * bool(turn)
        assert steps[-1] == ("q", 0)
        steps.clear()


def test_queues_of_every_project_are_swept(empty: ContractStore) -> None:
    projects = ["", "plain", "a/b", "{a}", "%", "ü"]
    for project in projects:
        empty.project = project
        empty.post("old", ttl=60)
    empty.clock.tick(61)
    assert empty.sweep() == len(projects)
    assert [_stored(empty, project, "q") for project in projects] == [0] * len(projects)


def test_many_queues_are_swept_in_one_round(empty: ContractStore) -> None:
    for number in range(205):
        empty.post("old", queue=f"q{number}", ttl=60)
    empty.clock.tick(61)
    assert empty.sweep() == 205


def test_expired_claims_and_delays_are_settled_by_the_sweep(empty: ContractStore) -> None:
    empty.create(_default_message_delay=30)
    empty.post("later")
    empty.post("now", delay=0)
    taken = empty.claim()
    assert len(taken.messages) == 1
    empty.clock.tick(61)
    # A claim, the message it held, and the delayed message.
    assert empty.sweep() == 3
    assert empty.listed() == ["later", "now"]
    assert empty.stats().claimed == 0


def test_live_messages_claims_and_delays_are_not_swept(empty: ContractStore) -> None:
    empty.create(_default_message_delay=300)
    empty.post("later")
    empty.post("held", "free", delay=0)
    claim = empty.claim(limit=1, ttl=600).claim_id
    empty.clock.tick(60)
    before = empty.stats()
    assert empty.sweep() == 0
    assert empty.stats() == before != Stats()
    assert empty.held(claim) == ["held"]


def test_sweeper_lease_lasts_as_long_as_requested(empty: ContractStore) -> None:
    with opened(empty.uri, empty.project) as other:
        empty.sweep(0.01)
        empty.post("old", ttl=60)
        empty.clock.tick(61)
        other.clock.now = empty.clock.now
        servers.wait_for(lambda: other.sweep() == 1, "the sweeper's lease to end")


def test_one_process_sweeps_at_a_time(empty: ContractStore) -> None:
    with opened(empty.uri, empty.project) as other:
        empty.post("old", ttl=60)
        empty.clock.tick(61)
        other.clock.now = empty.clock.now
        assert empty.sweep() == 1
        empty.post("old", ttl=60)
        empty.clock.tick(61)
        other.clock.now = empty.clock.now
        assert other.sweep() == 0
        _free_sweeper_lease(other)
        assert other.sweep() == 1


def _next_sweeps(store: ContractStore, queue: str = "q") -> list[float]:
    """Returns the queue's next sweep times, in milliseconds, from the index of each store."""
    index = keys.of_queue(store.project, queue).sweep_index
    scores = store.command("ZSCORE", index, keys.entry(store.project, queue))
    return [float(score) for score in scores if score is not None]


def test_idle_queues_add_no_commands_to_a_sweep(real: ContractStore) -> None:
    def calls() -> list[bytes]:
        _free_sweeper_lease(real)
        real.command("CONFIG", "RESETSTAT")
        assert real.sweep() == 0
        (stats,) = real.command("INFO", "commandstats")
        # Each existing index is read, at most one per slot.
        return re.findall(rb"cmdstat_(?!config|info|zrangebyscore)([\w|]+):calls=(\d+)", stats)

    real.reset()
    real.sweep()
    without = calls()
    for number in range(200):
        real.create(f"empty{number}")
        real.post("stays", queue=f"full{number}")
    assert calls() == without


def _post(store: ContractStore) -> None:
    store.post("x", ttl=60)


def _post_with_key(store: ContractStore) -> None:
    store.post("x", ttl=3600, idempotency_key=IdempotencyKey("k", b"f", window=30_000))


def _post_what_expires_sooner(store: ContractStore) -> None:
    store.post("x", ttl=3600)
    store.post("y", ttl=60)


def _delay(store: ContractStore) -> None:
    store.create(_default_message_delay=900)
    store.post("x", "y", ttl=3600, delay=60)


def _claim(store: ContractStore) -> None:
    store.post("x", ttl=3600)
    store.claim(1, ttl=60)


def _hold_for_less(store: ContractStore) -> None:
    store.post("x", ttl=3600)
    assert store.renew(store.claim(1, ttl=600).claim_id, ttl=60)


def _dead_letter(store: ContractStore) -> None:
    """The process dies between taking a dead letter from its queue and posting it."""
    store.create(_max_claim_count=1, _dead_letter_queue="dead")
    store.post("x")
    store.release(store.claim(1, ttl=60).claim_id)
    store.clock.tick(61)
    store.sweep(0)
    with store.dying_before("dead_letter_post"):
        store.pop(1)


def _subscribe(store: ContractStore) -> None:
    store.run(store.subscriptions.create(store.project, "q", "http://a.b", ttl=60, options={}))


def _subscribe_for_less(store: ContractStore) -> None:
    of = store.subscriptions
    subscription = store.run(of.create(store.project, "q", "http://a.b", ttl=900, options={}))
    assert subscription
    assert store.run(of.update(store.project, "q", subscription, SubscriptionChanges(ttl=60)))


def _subscribe_to_a_queue(store: ContractStore) -> None:
    store.create()
    _subscribe(store)


@pytest.mark.parametrize(
    "happens",
    [
        *(_post, _post_with_key, _post_what_expires_sooner, _delay, _claim, _hold_for_less),
        *(_dead_letter, _subscribe, _subscribe_for_less, _subscribe_to_a_queue),
    ],
)
def test_everything_that_expires_is_swept_in_the_next_round(
    empty: ContractStore, happens: Callable[[ContractStore], None]
) -> None:
    happens(empty)
    _free_sweeper_lease(empty)
    assert empty.sweep() == 0
    assert min(_next_sweeps(empty)) == empty.clock.now + 60_000
    empty.clock.tick(61)
    _free_sweeper_lease(empty)
    assert empty.sweep() > 0
    assert all(at > empty.clock.now for at in _next_sweeps(empty))
    assert not any(finding.damage for finding in findings(empty))


def test_ledger_entries_are_swept_in_queues_without_messages(blocking: BlockingStore) -> None:
    def may_be_swept() -> bool:
        at = blocking.command(
            "ZSCORE", blocking.key("sweep_index"), keys.entry(blocking.project, "q")
        )
        return at is not None and float(at) <= blocking.clock.now

    def sweep() -> None:
        while blocking.queues.sweep(blocking.project, "q").run():
            pass

    assert blocking.ledger.post(
        blocking.project,
        "q",
        chunk_of("a", ttl=60),
        name="w",
        batch=0,
        chunk=0,
        digest="00",
        size=0,
        default_ttl=60,
        encrypted=False,
    ).run()
    blocking.clock.tick(61)
    assert may_be_swept()
    sweep()
    assert not may_be_swept()
    of = blocking.ledger
    of.end(blocking.project, "q", name="w", batch=0, chunk=1, digest="00").run()
    blocking.stages.end(blocking.project, "q", "other", 0).run()
    blocking.clock.tick(ledger.LEDGER_WINDOW_MS / 1000 - 1)
    sweep()
    assert blocking.command("HLEN", blocking.key("ledger")) == 2
    blocking.clock.tick(2)
    assert may_be_swept()
    sweep()
    assert blocking.command("EXISTS", blocking.key("ledger"), blocking.key("ledger_ends")) == 0


def test_deleted_queue_leaves_the_expiry_index(empty: ContractStore) -> None:
    empty.post("x", ttl=60)
    assert _next_sweeps(empty)
    empty.run(empty.driver.queues.delete(empty.project, "q"))
    assert _next_sweeps(empty) == []


def test_later_expiry_does_not_change_the_expiry_index(real: ContractStore) -> None:
    real.reset()
    real.create()
    real.post("x", ttl=60)
    (before,) = _next_sweeps(real)
    real.clock.tick(1)
    real.post("y", ttl=60)
    assert _next_sweeps(real) == [before]


def test_unlisted_queue_of_a_crashed_process_is_swept_and_listed_again(real: ContractStore) -> None:
    real.reset()
    with real.dying_before("HDEL"):
        real.post("x", ttl=60)
    real.clock.tick(61)
    assert real.sweep() == 1
    real.post("y", ttl=60)
    assert [queue.name for queue in real.queues().items] == ["q"]
    assert findings(real) == []


def test_shortest_sweep_gives_every_queue_one_step(real: ContractStore) -> None:
    real.reset()
    real.post_many(1000, queue="large", ttl=60)
    real.post("x", queue="small", ttl=60)
    real.clock.tick(61)
    settled = real.sweep(0.001)
    assert _stored(real, real.project, "small") == 0
    assert settled >= 101
    while settled < 1001:
        _free_sweeper_lease(real)
        settled += real.sweep(0.001)
    assert _stored(real, real.project, "large") == 0


def test_expired_messages_are_swept_from_a_full_store(real: ContractStore) -> None:
    real.reset()
    real.post_many(150, ttl=60)
    ids = real.post("deleted", queue="early", ttl=60).ids
    real.post("stays", queue="early", ttl=600)
    real.delete(*ids, queue="early")
    real.clock.tick(61)
    real.command("CONFIG", "SET", "maxmemory", 1)
    try:
        assert real.sweep(0) == 150
    finally:
        real.command("CONFIG", "SET", "maxmemory", 0)
    assert _stored(real, real.project, "q") == 0
    assert _next_sweeps(real, "early") == [real.clock.now + 539_000]


def test_full_sweep_adds_queues_missing_from_the_expiry_index(real: ContractStore) -> None:
    real.reset()
    real.post("x", ttl=60)
    real.post("y", ttl=600)
    before = _next_sweeps(real)
    real.command("DEL", keys.of_queue(real.project, "q").sweep_index)
    assert real.sweep(0) == 0
    assert _next_sweeps(real) == before
    real.clock.tick(61)
    assert real.sweep() == 1


def test_expiry_index_is_right_after_any_interleaving(real: ContractStore) -> None:
    """Runs posts, claims, deletions, clock changes and sweeps in random order."""
    real.reset()
    chosen = random.Random(13)
    of = real.driver
    assert isinstance(of, RedisDriver)

    async def act(queue: str) -> None:
        for _ in range(60):
            match chosen.randrange(6):
                case 0 | 1:
                    some = new_messages(
                        ["x"] * chosen.choice([1, 5]), chosen.choice([60, 300]), None
                    )
                    await of.messages.post(
                        real.project, queue, some, client=CLIENT, default_ttl=60, size=0
                    )
                case 2:
                    taken = await of.claims.create(
                        real.project, queue, Lease(chosen.choice([60, 120]), 60), limit=3
                    )
                    ids = [message.id for message in taken.messages]
                    await of.messages.delete(real.project, queue, ids, claims=None, force=True)
                case 3:
                    await of.queues.delete(real.project, queue)
                case 4:
                    real.clock.tick(chosen.choice([1, 31]))
                case 5:
                    await of.queues.sweep(real.project, queue)

    async def all_at_once() -> None:
        actors = [asyncio.create_task(act(f"q{number % 4}")) for number in range(12)]
        while not all(actor.done() for actor in actors):
            await of.sweeper.sweep(0)
        await asyncio.gather(*actors)

    real.run(all_at_once())
    assert findings(real) == []
    real.clock.tick(1000)
    _free_sweeper_lease(real)
    real.sweep()
    assert [_stored(real, real.project, f"q{number}") for number in range(4)] == [0] * 4
    assert findings(real) == []
