# SPDX-License-Identifier: Apache-2.0
"""Queues that take so many messages only, and queues that are paused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.test_figures import figures
from tests.support.stores import ContractStore, findings, names
from zaqar_redis import errors, formats
from zaqar_redis.keyspace import control_keys, keys
from zaqar_redis.records import IdempotencyKey

_DEAD = {"_overflow": "dead_letter", "_dead_letter_queue": "dead"}


def _update(store: ContractStore, **metadata: Any) -> None:
    assert store.run(store.driver.queues.update(store.project, store.existing_queue(), metadata))


def _sweep(store: ContractStore) -> None:
    """Lets another round begin."""
    store.clock.tick(1)
    store.command("DEL", b"zr:sweeper")
    store.sweep()


@pytest.mark.parametrize("posted", [["c", "d"], ["c", "d", "e", "f"]])
def test_post_to_a_full_queue_is_refused_whole_and_counted(
    store: ContractStore, posted: list[str]
) -> None:
    store.create(_max_messages=3)
    store.post("a", "b")
    with pytest.raises(errors.QueueFull) as refusal:
        store.post(*posted)
    assert "at most 3 messages" in str(refusal.value)
    assert refusal.value.retry == (10 if len(posted) <= 3 else None)
    assert store.listed() == ["a", "b"]
    assert store.stats().counters.refused == len(posted)
    store.post("c")
    assert store.listed() == ["a", "b", "c"]


def test_claimed_and_delayed_messages_count_and_expired_ones_do_not(store: ContractStore) -> None:
    store.create(_max_messages=3)
    store.post("claimed", "short", ttl=60)
    store.claim(limit=1, ttl=600)
    store.post("delayed", delay=600, ttl=6000)
    with pytest.raises(errors.QueueFull):
        store.post("a")
    store.clock.tick(61)
    store.post("a")
    assert store.listed() == ["claimed", "delayed", "a"]


def test_oldest_messages_that_can_be_claimed_make_room(store: ContractStore) -> None:
    store.create(_max_messages=4, _overflow="drop_oldest")
    store.post("held")
    claim = store.claim(limit=1).claim_id
    store.post("later", delay=600)
    store.post("a", "b")
    store.post("c")
    assert store.listed() == ["held", "later", "b", "c"]
    store.post("d", "e")
    assert store.listed() == ["held", "later", "d", "e"]
    assert store.held(claim) == ["held"]
    counters = store.stats().counters
    assert (counters.dropped, counters.refused, counters.deleted) == (3, 0, 0)


@pytest.mark.parametrize("overflow", [{"_overflow": "drop_oldest"}, _DEAD])
def test_full_queue_that_has_nothing_to_claim_refuses_and_loses_nothing(
    store: ContractStore, overflow: dict[str, Any]
) -> None:
    store.create(_max_messages=2, **overflow)
    store.post("a", "b")
    store.claim(limit=1)
    for refused in (["c", "d"], ["c", "d", "e"]):
        with pytest.raises(errors.QueueFull):
            store.post(*refused)
    assert store.listed() == ["a", "b"]
    store.post("c")
    assert store.listed() == ["a", "c"]


def test_expired_messages_before_the_oldest_are_not_counted_as_dropped(
    store: ContractStore,
) -> None:
    store.create(_max_messages=2, _overflow="drop_oldest")
    store.post("short", ttl=60)
    store.post("a", ttl=6000)
    store.clock.tick(61)
    store.post("b", "c", ttl=6000)
    assert store.listed() == ["b", "c"]
    counters = store.stats().counters
    assert (counters.expired, counters.dropped) == (1, 1)


def test_oldest_messages_become_dead_letters(store: ContractStore) -> None:
    store.reset()
    store.create(_max_messages=3, **_DEAD)
    store.post("a", "b", "c", ttl=600, attributes={"n": 1})
    store.clock.tick(10)
    store.post("d", "e")
    assert store.listed() == ["c", "d", "e"]
    stats = store.stats()
    assert (stats.total, stats.claimed) == (3, 0)
    assert (stats.counters.dead_lettered, stats.counters.dropped) == (2, 0)
    assert findings(store) == []
    _sweep(store)
    dead = store.page(queue="dead").items
    assert [(each.origin, each.ttl, each.attributes) for each in dead] == [("q", 600, {"n": 1})] * 2
    assert names(dead) == ["a", "b"]
    assert store.stats().counters.dead_lettered == 2
    assert findings(store) == []


@pytest.mark.parametrize("script", ["message_exhausted", "dead_letter_post", "message_drop"])
def test_process_that_dies_while_it_moves_overflow_leaves_one_dead_letter(
    store: ContractStore, script: str
) -> None:
    store.reset()
    store.create(_max_messages=1, **_DEAD)
    store.post("a")
    store.post("b")
    with store.dying_before(script):
        store.sweep()
    for _ in range(3):
        store.clock.tick(60)
        _sweep(store)
    assert (store.listed("dead"), store.listed()) == (["a"], ["b"])
    assert (store.counts(), store.counts("dead")) == ((1, 0, 1), (1, 0, 1))
    assert store.stats().counters.dead_lettered == 1
    assert findings(store) == []


def test_full_dead_letter_queue_takes_all_dead_letters(store: ContractStore) -> None:
    store.reset()
    store.create("dead", _max_messages=1, _paused="posts")
    store.create(_max_messages=1, **_DEAD)
    store.post("a")
    store.post("b")
    store.post("c")
    _sweep(store)
    assert store.listed("dead") == ["a", "b"]


def test_lowered_limit_takes_effect_with_the_next_posts(store: ContractStore) -> None:
    store.create(_max_messages=5000)
    store.post_many(2500)
    _update(store, _max_messages=10, _overflow="drop_oldest")
    store.post("a")
    assert store.stats().total == 1500
    store.post("b")
    store.post("c")
    assert store.stats().total == 10
    assert store.stats().counters.dropped == 2493


def test_limit_that_is_removed_has_no_effect(store: ContractStore) -> None:
    store.create(_max_messages=1)
    store.post("a")
    _update(store)
    store.post("b")
    assert store.listed() == ["a", "b"]


def test_repeated_post_to_a_queue_that_is_full_now_has_its_first_answer(
    store: ContractStore,
) -> None:
    store.create(_max_messages=1)
    key = IdempotencyKey.of_day("once")
    first = store.post("a", idempotency_key=key)
    again = store.post("a", idempotency_key=key)
    assert (again.ids, again.replayed) == (first.ids, True)


@pytest.mark.parametrize("paused", ["posts", "claims", "all"])
def test_paused_queue_refuses_posts_or_gives_nothing(store: ContractStore, paused: str) -> None:
    store.create()
    store.post("a", "b")
    held = store.claim(limit=1).claim_id
    _update(store, _paused=paused)
    if paused == "claims":
        store.post("c")
    else:
        with pytest.raises(errors.QueuePaused):
            store.post("c")
    claimed = store.claim()
    assert names(claimed.messages) == (["b"] if paused == "posts" else [])
    if paused != "posts":
        assert claimed.next_visible_ms
        assert store.pop(1) == []
        assert "b" in store.visible()
    # What is claimed goes on.
    assert store.renew(held, 300)
    _update(store)
    store.post("d")
    assert "d" in store.listed()


def test_topic_has_no_limits(store: ContractStore) -> None:
    store.create("topic:t", _max_messages=1, _paused="posts")
    store.post("a", "b", queue="topic:t")
    assert len(store.listed("topic:t")) == 2


def test_message_claimed_too_often_becomes_a_dead_letter_and_is_not_dropped(
    store: ContractStore,
) -> None:
    store.reset()
    store.create(
        _max_messages=2, _overflow="drop_oldest", _max_claim_count=1, _dead_letter_queue="dead"
    )
    store.post("a", "b")
    store.release(store.claim(limit=1).claim_id)
    store.post("c", "d")
    assert store.listed() == ["c", "d"]
    counters = store.stats().counters
    assert (counters.dropped, counters.dead_lettered) == (1, 1)
    _sweep(store)
    assert store.listed("dead") == ["a"]


def test_overflow_comes_back_when_there_is_no_queue_for_it_any_more(store: ContractStore) -> None:
    store.reset()
    store.create(_max_messages=1, **_DEAD)
    store.post("a", ttl=600)
    store.post("b", ttl=60)
    store.post("c", ttl=6000)
    _update(store, _max_messages=1)
    store.clock.tick(60)
    _sweep(store)
    assert store.listed() == ["a", "c"]
    assert (store.get(store.page().items[0].id)[0].ttl) == 600
    counters = store.stats().counters
    assert (counters.expired, counters.dead_lettered, counters.dropped) == (1, 0, 0)
    assert findings(store) == []


def test_hundreds_of_messages_wait_to_become_dead_letters(store: ContractStore) -> None:
    store.reset()
    store.create(_max_messages=2, **_DEAD)
    for _ in range(300):
        store.post("a", "b")
    stats = store.stats()
    assert (stats.total, stats.counters.dead_lettered) == (2, 598)
    assert stats.oldest
    assert stats.newest
    assert (stats.oldest.rank, stats.newest.rank) == (599, 600)
    found = figures(store)
    assert (found.total, found.oldest) == (2, stats.oldest.created)


@pytest.mark.parametrize("overflow", [{"_overflow": "drop_oldest"}, _DEAD])
def test_thousands_of_expired_messages_are_not_taken_for_the_oldest(
    store: ContractStore, overflow: dict[str, Any]
) -> None:
    store.create(_max_messages=5000, **overflow)
    store.post_many(1500, ttl=60)
    store.post("a", "b", ttl=6000)
    _update(store, _max_messages=2, **overflow)
    store.clock.tick(61)
    store.post("c", "d")
    assert store.visible() == ["c", "d"]
    counters = store.stats().counters
    assert (counters.expired, counters.dropped + counters.dead_lettered) == (1500, 2)


#: Bytes of a stored message, but for its body with quotes.
_ENVELOPE = 58


@pytest.fixture
def bounded(store: ContractStore) -> Iterator[ContractStore]:
    """A store of its own that no older release works on."""
    store.reset()  # the checker reads the whole store
    store.upgrade()
    yield store
    store.reset()


def _size(*names: str) -> int:
    return sum(_ENVELOPE + len(name) + 2 for name in names)


def test_post_beyond_the_bytes_of_a_queue_is_refused_whole_and_counted(
    bounded: ContractStore,
) -> None:
    bounded.create(_max_bytes=_size("a", "bb", "c"))
    bounded.post("a", "bb")
    with pytest.raises(errors.QueueFull) as refusal:
        bounded.post("dd")
    assert '"_max_bytes"' in str(refusal.value)
    assert f"at most {_size('a', 'bb', 'c')} bytes" in str(refusal.value)
    assert f"for {_size('dd')} more" in str(refusal.value)
    assert refusal.value.retry == 10
    bounded.post("c")
    with pytest.raises(errors.QueueFull) as refusal:
        bounded.post("x" * 500)
    assert refusal.value.retry is None
    assert bounded.listed() == ["a", "bb", "c"]
    assert bounded.stats().counters.refused == 2


@pytest.mark.parametrize(
    "way", ["delete", "pop", "claim", "purge", "expire", "list", "sweep", "move"]
)
def test_messages_that_leave_a_queue_leave_their_bytes(bounded: ContractStore, way: str) -> None:
    bounded.create("other")
    bounded.create(_max_bytes=_size("old", "new"))
    [old] = bounded.post("old", ttl=60).ids
    if way == "delete":
        bounded.delete(old)
    elif way == "pop":
        assert bounded.pop(1) == ["old"]
    elif way == "claim":
        claim = bounded.claim(limit=1, ttl=600).claim_id
        bounded.delete(old, claims=[claim or ""])
    elif way == "purge":
        bounded.run(bounded.driver.queues.purge(bounded.project, "q"))
    elif way in ("expire", "list", "sweep"):
        bounded.clock.tick(61)
        if way == "list":
            assert bounded.listed() == []
        elif way == "sweep":
            _sweep(bounded)
    else:
        bounded.move(old)
    bounded.post("new", "new")
    assert findings(bounded) == []
    with pytest.raises(errors.QueueFull):
        bounded.post("new")


def test_as_many_messages_make_room_as_have_the_bytes(bounded: ContractStore) -> None:
    bounded.create(_max_bytes=_size("a", "b", "c", "d"), _overflow="drop_oldest")
    bounded.post("a", "b", "c", "d")
    bounded.post("x" * (_size("b") + 1))
    assert bounded.listed() == ["c", "d", "x" * (_size("b") + 1)]
    bounded.claim(limit=1, ttl=600)
    with pytest.raises(errors.QueueFull):  # claimed ones stay
        bounded.post("y" * (_size("b", "c", "d") - 10))
    assert bounded.stats().counters.dropped == 2
    assert findings(bounded) == []


def test_messages_beyond_the_bytes_become_dead_letters(bounded: ContractStore) -> None:
    bounded.create("dead", _max_bytes=_size("a"))
    bounded.create(_max_bytes=_size("a"), **_DEAD)
    for name in "abc":
        bounded.post(name)
    assert findings(bounded) == []
    _sweep(bounded)
    assert (bounded.listed(), bounded.listed("dead")) == (["c"], ["a", "b"])
    assert findings(bounded) == []


def test_parked_messages_that_come_back_count_again(bounded: ContractStore) -> None:
    bounded.create(_max_bytes=_size("a"), **_DEAD)
    bounded.post("a")
    bounded.post("b")
    _update(bounded, _max_bytes=_size("a"))
    _sweep(bounded)
    assert bounded.listed() == ["a", "b"]
    assert findings(bounded) == []
    with pytest.raises(errors.QueueFull):
        bounded.post("c")


def test_limit_of_bytes_counts_what_the_queue_has_already(bounded: ContractStore) -> None:
    bounded.create()
    bounded.post("a", "b")
    _update(bounded, _max_bytes=_size("a", "b", "c"))
    bounded.post("c")
    assert findings(bounded) == []
    with pytest.raises(errors.QueueFull):
        bounded.post("d")
    _update(bounded)
    bounded.post("d")
    _update(bounded, _max_bytes=_size("a", "b", "c"))
    assert findings(bounded) == []


def test_more_messages_than_can_be_counted_refuse_a_limit_of_bytes(bounded: ContractStore) -> None:
    bounded.create()
    of_queue = keys.of_queue(bounded.project, "q")
    for first in range(0, 20_001, 5000):
        ranks = range(first, min(first + 5000, 20_001))
        bounded.command("ZADD", of_queue.expiry, *(each for rank in ranks for each in (rank, rank)))
    with pytest.raises(errors.Conflict) as refusal:
        _update(bounded, _max_bytes=1000)
    assert '"_max_bytes"' in str(refusal.value)
    assert bounded.existing_queue().metadata == {}


def test_check_counts_the_bytes_again(real: ContractStore) -> None:
    real.reset()
    real.upgrade()
    real.create(_max_bytes=1000)
    real.post("a")
    real.command("HSET", keys.of_queue(real.project, "q").queue, "bytes", 5)
    assert len(findings(real, repair=True)) == 1
    assert findings(real) == []
    real.reset()


def test_limit_of_bytes_waits_for_older_releases(store: ContractStore) -> None:
    store.command("HSET", control_keys.CONTROL.format, "needs", formats.BYTES - 1)
    with pytest.raises(errors.Conflict):
        store.create(_max_bytes=1000)
    store.upgrade()
    store.create(_max_bytes=1000)


def test_rules_of_a_queue_apply_to_posts_that_follow_plain_ones(store: ContractStore) -> None:
    store.create()
    store.post("a")
    _update(store, _max_messages=1)
    with pytest.raises(errors.QueueFull):
        store.post("b")
    # From now on its posts take one call again.
    assert keys.of_queue(store.project, "q").has_rules
    _update(store)
    store.post("b")
    store.run(store.driver.queues.delete(store.project, "q"))
    store.post("c")
    assert store.listed() == ["c"]
