# SPDX-License-Identifier: Apache-2.0
"""What stores promise that need sweeping."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable

import pytest

from tests import servers
from tests.contract.blocking import Blocking, chunk_of
from tests.contract.stores import CLIENT, Store, drafts, findings, opened
from zaqar_redis.keyspace import keys
from zaqar_redis.records import Retry, Stats
from zaqar_redis.storage.drivers.redis import RedisDriver, ledger


@pytest.fixture
def empty(store: Store) -> Store:
    """The sweeper looks at every queue: only those of this test shall be there."""
    store.reset()
    return store


def _next_turn(store: Store) -> None:
    store.command("DEL", keys.SWEEPER)


def _kept(store: Store, project: str, queue: str) -> int:
    """Messages that take up room, whether or not anybody may still see them."""
    return sum(store.command("HLEN", keys.of_queue(project, queue).bodies))


def test_messages_that_expired_in_idle_queues_are_removed(empty: Store) -> None:
    for queue in ("a", "b", "c.d"):
        empty.post_many(350, queue=queue, ttl=60)
        empty.post("stays", queue=queue, ttl=600)
    empty.clock.tick(61)
    assert empty.sweep() == 3 * 350
    for queue in ("a", "b", "c.d"):
        assert _kept(empty, empty.project, queue) == 1
        assert empty.listed(queue) == ["stays"]


def test_queues_of_every_project_are_swept(empty: Store) -> None:
    projects = ["", "plain", "a/b", "{a}", "%", "ü"]
    for project in projects:
        empty.project = project
        empty.post("old", ttl=60)
    empty.clock.tick(61)
    assert empty.sweep() == len(projects)
    assert [_kept(empty, project, "q") for project in projects] == [0] * len(projects)


def test_many_queues_are_swept_in_one_round(empty: Store) -> None:
    for number in range(205):
        empty.post("old", queue=f"q{number}", ttl=60)
    empty.clock.tick(61)
    assert empty.sweep() == 205


def test_lapsed_claims_and_ended_delays_are_settled(empty: Store) -> None:
    empty.create(_default_message_delay=30)
    empty.post("later")
    empty.post("now", delay=0)
    taken = empty.claim()
    assert len(taken.messages) == 1
    empty.clock.tick(61)
    # A claim, the message it held, and the message that was delayed.
    assert empty.sweep() == 3
    assert empty.listed() == ["later", "now"]
    assert empty.stats().claimed == 0


def test_what_is_alive_is_left_alone(empty: Store) -> None:
    empty.create(_default_message_delay=300)
    empty.post("later")
    empty.post("held", "free", delay=0)
    claim = empty.claim(limit=1, ttl=600).claim_id
    empty.clock.tick(60)
    before = empty.stats()
    assert empty.sweep() == 0
    assert empty.stats() == before != Stats()
    assert empty.held(claim) == ["held"]


def test_a_turn_lasts_as_long_as_was_asked(empty: Store) -> None:
    with opened(empty.uri, empty.project) as other:
        empty.sweep(0.01)
        empty.post("old", ttl=60)
        empty.clock.tick(61)
        other.clock.now = empty.clock.now
        servers.wait_for(lambda: other.sweep() == 1, "the next turn")


def test_one_process_sweeps_at_a_time(empty: Store) -> None:
    with opened(empty.uri, empty.project) as other:
        empty.post("old", ttl=60)
        empty.clock.tick(61)
        other.clock.now = empty.clock.now
        assert empty.sweep() == 1
        empty.post("old", ttl=60)
        empty.clock.tick(61)
        other.clock.now = empty.clock.now
        assert other.sweep() == 0
        _next_turn(other)
        assert other.sweep() == 1


def _noted(store: Store, queue: str = "q") -> list[float]:
    """When something of the queue is due, as the index of each store has it."""
    index = keys.of_queue(store.project, queue).due
    scores = store.command("ZSCORE", index, keys.entry(store.project, queue))
    return [float(score) for score in scores if score is not None]


def test_idle_queues_cost_a_turn_nothing(real: Store) -> None:
    def calls() -> list[bytes]:
        _next_turn(real)
        real.command("CONFIG", "RESETSTAT")
        assert real.sweep() == 0
        (stats,) = real.command("INFO", "commandstats")
        # An index that is there is read, one of each slot at most.
        return re.findall(rb"cmdstat_(?!config|info|zrangebyscore)([\w|]+):calls=(\d+)", stats)

    real.reset()
    real.sweep()
    without = calls()
    for number in range(200):
        real.create(f"empty{number}")
        real.post("stays", queue=f"full{number}")
    assert calls() == without


def _post(store: Store) -> None:
    store.post("x", ttl=60)


def _post_with_key(store: Store) -> None:
    store.post("x", ttl=3600, retry=Retry("k", b"f", window=30_000))


def _post_what_expires_sooner(store: Store) -> None:
    store.post("x", ttl=3600)
    store.post("y", ttl=60)


def _delay(store: Store) -> None:
    store.create(_default_message_delay=900)
    store.post("x", "y", ttl=3600, delay=60)


def _claim(store: Store) -> None:
    store.post("x", ttl=3600)
    store.claim(1, ttl=60)


def _hold_for_less(store: Store) -> None:
    store.post("x", ttl=3600)
    assert store.renew(store.claim(1, ttl=600).claim_id, ttl=60)


def _bury(store: Store) -> None:
    """A process dies when it has taken a dead letter, before that is anywhere else."""
    store.create(_max_claim_count=1, _dead_letter_queue="dead")
    store.post("x")
    store.release(store.claim(1, ttl=60).claim_id)
    store.clock.tick(61)
    store.sweep(0)
    with store.dying_before("letter_post"):
        store.pop(1)


def _subscribe(store: Store) -> None:
    store.run(
        store.driver.subscriptions.create(store.project, "q", "http://a.b", ttl=60, options={})
    )


def _subscribe_for_less(store: Store) -> None:
    of = store.driver.subscriptions
    subscription = store.run(of.create(store.project, "q", "http://a.b", ttl=900, options={}))
    assert subscription
    assert store.run(of.update(store.project, "q", subscription, ttl=60))


def _subscribe_to_a_queue(store: Store) -> None:
    store.create()
    _subscribe(store)


@pytest.mark.parametrize(
    "happens",
    [
        _post,
        _post_with_key,
        _post_what_expires_sooner,
        _delay,
        _claim,
        _hold_for_less,
        _bury,
        _subscribe,
        _subscribe_for_less,
        _subscribe_to_a_queue,
    ],
)
def test_whatever_becomes_due_is_tidied_in_the_next_turn(
    empty: Store, happens: Callable[[Store], None]
) -> None:
    happens(empty)
    _next_turn(empty)
    assert empty.sweep() == 0
    assert min(_noted(empty)) == empty.clock.now + 60_000
    empty.clock.tick(61)
    _next_turn(empty)
    assert empty.sweep() > 0
    assert all(at > empty.clock.now for at in _noted(empty))
    assert not any(finding.damage for finding in findings(empty))


def test_entries_of_the_ledger_become_due_without_messages(blocking: Blocking) -> None:
    def is_due() -> bool:
        at = blocking.command("ZSCORE", blocking.key("due"), keys.entry(blocking.project, "q"))
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
        sealed=False,
    ).run()
    blocking.clock.tick(61)
    assert is_due()
    sweep()
    assert not is_due()
    of = blocking.ledger
    of.end(blocking.project, "q", name="w", batch=0, chunk=1, digest="00").run()
    blocking.stages.end(blocking.project, "q", "other", 0).run()
    blocking.clock.tick(ledger.WINDOW / 1000 - 1)
    sweep()
    assert blocking.command("HLEN", blocking.key("ledger")) == 2
    blocking.clock.tick(2)
    assert is_due()
    sweep()
    assert blocking.command("EXISTS", blocking.key("ledger"), blocking.key("ledger_ends")) == 0


def test_a_queue_that_is_deleted_is_not_due_any_more(empty: Store) -> None:
    empty.post("x", ttl=60)
    assert _noted(empty)
    empty.run(empty.driver.queues.delete(empty.project, "q"))
    assert _noted(empty) == []


def test_a_post_that_is_due_later_than_another_is_not_noted(real: Store) -> None:
    real.reset()
    real.create()
    real.post("x", ttl=60)
    (before,) = _noted(real)
    real.clock.tick(1)
    real.post("y", ttl=60)
    assert _noted(real) == [before]


def test_a_queue_whose_process_died_before_it_was_listed_is_tidied(real: Store) -> None:
    real.reset()
    with real.dying_before("queue_listed"):
        real.post("x", ttl=60)
    real.clock.tick(61)
    assert real.sweep() == 1
    real.post("y", ttl=60)
    assert [queue.name for queue in real.queues().items] == ["q"]
    assert findings(real) == []


def test_a_turn_of_a_moment_gives_every_queue_a_step(real: Store) -> None:
    real.reset()
    real.post_many(1000, queue="large", ttl=60)
    real.post("x", queue="small", ttl=60)
    real.clock.tick(61)
    settled = real.sweep(0.001)
    assert _kept(real, real.project, "small") == 0
    assert settled >= 101
    while settled < 1001:
        _next_turn(real)
        settled += real.sweep(0.001)
    assert _kept(real, real.project, "large") == 0


def test_a_full_store_is_swept_of_what_has_expired(real: Store) -> None:
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
    assert _kept(real, real.project, "q") == 0
    assert _noted(real, "early") == [real.clock.now + 539_000]


def test_the_command_finds_what_the_index_has_lost(real: Store) -> None:
    real.reset()
    real.post("x", ttl=60)
    real.post("y", ttl=600)
    before = _noted(real)
    real.command("DEL", keys.of_queue(real.project, "q").due)
    assert real.sweep(0) == 0
    assert _noted(real) == before
    real.clock.tick(61)
    assert real.sweep() == 1


def test_what_is_due_is_noted_whatever_happens_in_turns(real: Store) -> None:
    """Posts, claims, deletions and moves of the clock, beside sweepers: in any order."""
    real.reset()
    chosen = random.Random(13)
    of = real.driver
    assert isinstance(of, RedisDriver)

    async def act(queue: str) -> None:
        for _ in range(60):
            match chosen.randrange(6):
                case 0 | 1:
                    some = drafts(["x"] * chosen.choice([1, 5]), chosen.choice([60, 300]), None)
                    await of.messages.post(
                        real.project, queue, some, client=CLIENT, default_ttl=60, size=0
                    )
                case 2:
                    taken = await of.claims.create(
                        real.project, queue, ttl=chosen.choice([60, 120]), grace=60, limit=3
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
    _next_turn(real)
    real.sweep()
    assert [_kept(real, real.project, f"q{number}") for number in range(4)] == [0] * 4
    assert findings(real) == []
