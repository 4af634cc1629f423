# SPDX-License-Identifier: Apache-2.0
"""Queues whose groups take turns.  The model test walks all of it; here is what is promised."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract import grouped
from tests.contract.test_feed import HintRecorder
from tests.contract.test_moving import move_queue
from tests.support.stores import TTL, ContractStore, PooledContractStore, findings, names
from zaqar_redis import errors
from zaqar_redis.keyspace import keys


def _fair(store: ContractStore, **metadata: Any) -> None:
    store.create(_group_mode="fair", **metadata)


def _many(group: str, number: int) -> list[str]:
    return [f"{group}{each}" for each in range(1, number + 1)]


def test_groups_take_turns_however_many_messages_each_has(store: ContractStore) -> None:
    _fair(store)
    grouped.post(store, *_many("a", 5), "b1", "c1", "c2", "1", "2")
    assert store.pop(4) == ["a1", "b1", "c1", "1"]
    grouped.post(store, "b2", "d1")
    assert sorted(grouped.claim(store, 5)[0]) == ["2", "a2", "b2", "c2", "d1"]
    assert store.pop() == ["a3", "a4", "a5"]


def test_one_claim_takes_as_many_turns_as_it_has_room_for(store: ContractStore) -> None:
    _fair(store)
    grouped.post(store, *_many("a", 40), *_many("b", 3), *_many("c", 40))
    taken, _ = grouped.claim(store, 29)
    turns = [*(f"{group}{at}" for at in (1, 2, 3) for group in "abc")]
    turns += [f"{group}{at}" for at in range(4, 14) for group in "ac"]
    assert sorted(taken) == sorted(turns)
    assert [int(each[1:]) for each in taken] == [int(each[1:]) for each in turns]


def test_weight_is_how_many_turns_a_group_has_to_one_of_others(store: ContractStore) -> None:
    _fair(store, _group_weights={"a": 3, "b": 1})
    grouped.post(store, *_many("a", 60), *_many("b", 60), *_many("c", 60))
    taken = [store.pop(1)[0][0] for _ in range(25)] + [each[0] for each in store.pop(25)]
    assert (taken.count("a"), taken.count("b"), taken.count("c")) == (30, 10, 10)
    assert {taken[at : at + 5].count("a") for at in range(0, 50, 5)} == {3}


def test_group_that_was_empty_gains_nothing_by_that(store: ContractStore) -> None:
    _fair(store)
    grouped.post(store, *_many("a", 20))
    taken = []
    for number in range(1, 11):
        grouped.post(store, f"b{number}")
        taken += store.pop(2)
    assert [sum(each[0] == group for each in taken) for group in "ab"] == [10, 10]


@pytest.mark.parametrize("end", ["deleted", "released", "lapsed"])
def test_no_more_of_a_group_are_held_than_its_concurrency(store: ContractStore, end: str) -> None:
    _fair(store, _group_concurrency=2)
    ids = grouped.post(store, *_many("a", 4), "b1")
    assert grouped.claim(store, 9)[0] == ["a1", "b1", "a2"]
    assert store.claim(9).claim_id is None
    store.run(store.driver.queues.purge(store.project, "q"))
    ids = grouped.post(store, *_many("a", 4))
    _, claim = grouped.claim(store, 1)
    recorder = HintRecorder(store).watch()
    assert grouped.claim(store, 5, ttl=600)[0] == ["a2"]
    assert store.claim(5).claim_id is None
    if end == "deleted":
        store.delete(ids[0], claims=[claim or ""])
    elif end == "released":
        store.release(claim)
    else:
        store.clock.tick(61)
        store.stats()
    recorder.wait()
    assert grouped.claim(store, 5)[0] == (["a3"] if end == "deleted" else ["a1"])
    assert findings(store) == []


def test_pop_takes_no_more_of_a_group_at_once_than_its_concurrency(store: ContractStore) -> None:
    _fair(store, _group_concurrency=2)
    grouped.post(store, *_many("a", 4), "b1")
    assert (store.pop(), store.pop(), store.pop()) == (["a1", "b1", "a2"], ["a3", "a4"], [])


def test_group_rests_behind_each_of_its_messages_that_is_taken(store: ContractStore) -> None:
    _fair(store, _group_rate=4)
    ids = grouped.post(store, *_many("a", 4), *_many("b", 2))
    taken, claim = grouped.claim(store, 9, ttl=600)
    assert taken == ["a1", "b1"]
    assert store.claim(9).claim_id is None
    store.clock.tick(0.249)
    assert store.pop() == []
    store.clock.tick(0.001)
    assert sorted(store.pop()) == ["a2", "b2"]
    grouped.post(store, "b3", "c1")
    assert store.pop() == ["c1"]
    store.release(claim)
    store.delete(ids[2], force=True)
    assert findings(store) == []
    store.clock.tick(0.25)
    assert sorted(store.pop()) == ["a1", "b1"]
    for _ in range(3):
        store.clock.tick(0.25)
        store.stats()
    assert sorted(store.pop()) == ["a4", "b3"]
    assert findings(store) == []


def test_group_that_rests_is_due_when_it_ends(store: ContractStore) -> None:
    _fair(store, _group_rate=1 / 60)
    grouped.post(store, "a1", "a2")
    page = store.claim(1, ttl=600)
    assert names(page.messages) == ["a1"]
    assert store.stats().delayed == 1
    recorder = HintRecorder(store).watch()
    store.clock.tick(60)
    store.sweep()
    recorder.wait()
    assert store.stats().delayed == 0
    grouped.post(store, "b1")
    assert sorted(store.pop()) == ["a2", "b1"]


def test_message_that_comes_back_later_is_not_in_flight(store: ContractStore) -> None:
    _fair(store, _group_concurrency=1, _redelivery_delay=100)
    ids = grouped.post(store, "a1", "a2")
    _, claim = grouped.claim(store)
    store.release_some(claim, ids[0], delay=30)
    assert grouped.claim(store, 1, ttl=600)[0] == ["a2"]
    store.clock.tick(30)
    assert store.claim(1).claim_id is None
    assert findings(store) == []
    store.delete(ids[1], force=True)
    assert grouped.claim(store)[0] == ["a1"]


@pytest.mark.parametrize("gone", ["expired", "deleted", "moved", "dead"])
def test_group_goes_on_behind_a_message_that_is_gone(store: ContractStore, gone: str) -> None:
    dead: dict[str, Any] = {"_dead_letter_queue": "dead", "_max_claim_count": 1}
    _fair(store, _group_concurrency=1, **(dead if gone == "dead" else {}))
    (first,) = grouped.post(store, "a1")
    if gone == "expired":
        store.clock.tick(TTL - 1)
    grouped.post(store, "a2", "b1")
    if gone == "dead":
        assert grouped.claim(store)[0] == ["a1"]
        store.clock.tick(61)
        assert sorted(grouped.claim(store, 2)[0]) == ["a2", "b1"]
        assert store.listed("dead") == ["a1"]
    elif gone == "expired":
        store.clock.tick(1)
        store.stats()
    elif gone == "deleted":
        store.delete(first)
    else:
        assert store.move(first) == [first]
    assert findings(store) == []
    assert sorted(store.pop()) == ([] if gone == "dead" else ["a2", "b1"])


def test_settings_of_groups_change_at_any_time_and_the_mode_while_the_queue_is_empty(
    store: ContractStore,
) -> None:
    _fair(store, _group_concurrency=1)
    ids = grouped.post(store, *_many("a", 6))
    assert grouped.claim(store, 9)[0] == ["a1"]

    grouped.update(store, _group_mode="fair", _group_concurrency=3)
    store.delete(ids[0], force=True)
    assert grouped.claim(store, 9)[0] == ["a2", "a3", "a4"]
    grouped.update(store, _group_mode="fair", _group_rate=1)
    assert findings(store) == []
    assert grouped.claim(store, 9)[0] == ["a5"]
    grouped.update(store, _group_mode="fair")
    grouped.post(store, "a7", "b1")
    assert findings(store) == []
    assert sorted(store.pop()) == ["a6", "a7", "b1"]
    grouped.post(store, "a8")
    for mode in (None, "ordered"):
        with pytest.raises(errors.Conflict, match="has messages"):
            grouped.update(store, _group_mode=mode)


def test_concurrency_that_is_set_later_counts_what_is_claimed_already(
    store: ContractStore,
) -> None:
    _fair(store)
    grouped.post(store, *_many("a", 7), *_many("b", 2))
    taken, first = grouped.claim(store, 3)
    assert sorted(taken) == ["a1", "a2", "b1"]
    grouped.update(store, _group_mode="fair", _group_concurrency=3)
    assert findings(store) == []
    assert sorted(grouped.claim(store, 9)[0]) == ["a3", "b2"]
    grouped.update(store, _group_mode="fair")
    assert grouped.claim(store, 2)[0] == ["a4", "a5"]
    grouped.update(store, _group_mode="fair", _group_concurrency=4)
    store.release(first)
    assert findings(store) == []
    assert sorted(grouped.claim(store, 9)[0]) == ["a1", "b1"]
    assert findings(store) == []


def test_rests_of_groups_do_not_outlive_their_rate(real: ContractStore) -> None:
    _fair(real, _group_rate=1)
    grouped.post(real, "a1", "b1")
    assert sorted(real.pop()) == ["a1", "b1"]
    where = real.project, real.existing_queue()
    assert real.run(real.driver.queues.update(*where, {"_group_mode": "ordered"}))
    assert real.command("EXISTS", keys.of_queue(real.project, "q").groups) == [0]
    grouped.post(real, "a2", "a3")
    assert real.pop() == ["a2", "a3"]
    assert findings(real) == []


def test_turn_that_got_lost_after_a_release_is_found(real: ContractStore) -> None:
    real.reset()
    _fair(real, _group_concurrency=1)
    grouped.post(real, "a1", "a2")
    _, claim = grouped.claim(real)
    real.release(claim)
    real.command("ZREM", keys.of_queue(real.project, "q").ready, 1)
    assert findings(real) != []
    findings(real, repair=True)
    assert grouped.claim(real)[0] == ["a1"]


def test_moved_queue_goes_on_with_what_is_in_flight(pools: PooledContractStore) -> None:
    pools.create()
    pools.run(pools.driver.queues.delete(pools.project, "q"))
    _fair(pools, _group_concurrency=2, _group_weights={"b": 2})
    ids = grouped.post(pools, *_many("a", 4), *_many("b", 4), *_many("c", 2))
    grouped.post(pools, "d1", delay=300)
    _, claim = grouped.claim(pools, 5, ttl=600)
    pools.release_some(claim, ids[0], delay=100)
    _, target = pools.route()
    move_queue(pools, target)
    assert findings(pools) == []
    before = pools.held(claim) or []
    taken = grouped.claim(pools, 9, ttl=600)[0]
    assert sorted([each[0] for each in [*before, *taken]]) == ["a", "a", "b", "b", "c", "c"]
    pools.clock.tick(301)
    assert grouped.claim(pools, 9)[0] == ["d1"]


def test_group_rests_in_another_store_too(pools: PooledContractStore) -> None:
    pools.create()
    pools.run(pools.driver.queues.delete(pools.project, "q"))
    _fair(pools, _group_rate=1 / 100)
    grouped.post(pools, *_many("a", 4), "b1")
    grouped.post(pools, "a5", delay=50)
    assert grouped.claim(pools, 2, ttl=600)[0] == ["a1", "b1"]
    grouped.post(pools, "b2")
    delayed = pools.stats().delayed
    move_queue(pools, pools.other_pool())
    assert findings(pools) == []
    assert (pools.stats().delayed, pools.pop()) == (delayed, [])
    pools.clock.tick(60)
    assert pools.pop() == []
    pools.clock.tick(40)
    assert sorted(pools.pop()) == ["a2", "b2"]


@pytest.mark.parametrize("rate", [None, 1, 1 / 50])
def test_other_rate_ends_or_shortens_the_rests(store: ContractStore, rate: float | None) -> None:
    _fair(store, _group_rate=1 / 86400)
    grouped.post(store, *_many("a", 3), "b1")
    assert sorted(store.pop()) == ["a1", "b1"]
    recorder = HintRecorder(store).watch()
    where = store.project, store.existing_queue()
    metadata = {"_group_mode": "fair", "_group_rate": rate}
    assert store.run(store.driver.queues.update(*where, metadata))
    if rate is None:
        recorder.wait()
        assert store.pop() == ["a2", "a3"]
    else:
        assert findings(store) == []  # the sweeper knows when
        assert store.pop() == []
        store.clock.tick(1 / rate)
        assert store.pop() == ["a2"]
    assert findings(store) == []


_DAMAGE: dict[str, tuple[Any, ...]] = {
    "a lost entry that waits": ("ZREM", "groups", "a\x00w\x013"),
    "a lost entry that holds": ("ZREM", "groups", "a\x00h\x011"),
    "a stray that holds": ("ZADD", "groups", 0, "a\x00h\x01999"),
    "a group without a turn": ("ZREM", "ready", 5),
    "a turn that never comes": ("ZADD", "ready", 1000, 5),
    "one that is not first": ("ZADD", "ready", 1, 4),
    "all groups": ("DEL", "groups"),
    "one that is not held any more": ("ZADD", "groups", 0, "a\x00h\x013"),
}


@pytest.mark.parametrize("damage", _DAMAGE)
def test_check_repairs_the_turns(real: ContractStore, damage: str) -> None:
    real.reset()
    _fair(real, _group_concurrency=2)
    grouped.post(real, *_many("a", 4), *_many("b", 2))
    grouped.claim(real, 1, ttl=600)
    assert findings(real) == []
    command, slot, *words = _DAMAGE[damage]
    key = getattr(keys.of_queue(real.project, "q"), str(slot))
    real.command(str(command), key, *words)
    assert findings(real) != []
    findings(real, repair=True)
    assert findings(real) == []
    assert sorted(grouped.claim(real, 9)[0]) == ["a2", "b1", "b2"]


def test_check_repairs_the_turn_of_a_group_that_rests(real: ContractStore) -> None:
    real.reset()
    _fair(real, _group_rate=1)
    grouped.post(real, *_many("a", 3))
    assert grouped.claim(real, 1)[0] == ["a1"]
    assert findings(real) == []
    real.command("DEL", keys.of_queue(real.project, "q").delayed)
    assert findings(real) != []
    findings(real, repair=True)
    assert findings(real) == []
    assert real.claim(9).claim_id is None
    real.clock.tick(1)
    assert grouped.claim(real, 9)[0] == ["a2"]


def test_claims_across_pages_give_each_group_its_turn(store: ContractStore) -> None:
    _fair(store)
    groups = [f"g{chr(97 + at // 26)}{chr(97 + at % 26)}" for at in range(150)]
    grouped.post(store, *[f"{group}{number}" for group in groups for number in (1, 2)])
    taken = [each[:-1] for _ in range(30) for each in store.pop(10)]
    assert sorted(taken[:150]) == sorted(taken[150:]) == groups
