# SPDX-License-Identifier: Apache-2.0
"""Queues that take so many messages only, and queues that are paused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.test_figures import figures
from tests.support.stores import ContractStore, findings, names
from zaqar_redis import errors
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
