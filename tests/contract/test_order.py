# SPDX-License-Identifier: Apache-2.0
"""Queues that are claimed by priority, and whose groups are claimed in order.

The model test walks all of it; here is what is promised, one by one.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract import grouped
from tests.contract.test_feed import HintRecorder
from tests.contract.test_moving import move_queue
from tests.support.stores import CLIENT, TTL, ContractStore, PooledContractStore, findings, names
from zaqar_redis import errors, message_fields
from zaqar_redis.keyspace import control_keys, keys
from zaqar_redis.records import Message, NewMessage

# -- priorities


def test_highest_priority_is_claimed_first_and_the_oldest_of_each(store: ContractStore) -> None:
    store.create(_priorities="strict")
    grouped.post(store, "low", "high:31", "mid:7", "low too:0", "mid too:7")
    grouped.post(store, "higher:30")
    claim = store.claim(limit=3).claim_id
    assert store.held(claim) == ["high", "higher", "mid"]
    store.release(claim)
    assert store.pop() == ["high", "higher", "mid", "mid too", "low", "low too"]


def test_priority_stays_through_delay_release_and_lapse(store: ContractStore) -> None:
    store.create(_priorities="strict", _redelivery_delay=10)
    grouped.post(store, "low")
    grouped.post(store, "later:3", delay=30)
    grouped.post(store, "high:5")
    assert grouped.claim(store)[0] == ["high"]
    assert grouped.claim(store)[0] == ["low"]
    store.clock.tick(71)
    assert store.pop() == ["high", "later", "low"]
    assert store.stats().total == 0


def test_priorities_have_no_entries_and_those_of_older_releases_go_with_their_messages(
    real: ContractStore,
) -> None:
    real.reset()
    real.create(_priorities="strict")
    grouped.post(real, "high:9", "low")
    key = keys.of_queue(real.project, "q").order
    assert real.command("EXISTS", key) == [0]
    real.command("HSET", key, 1, "09 ")
    assert findings(real) == []
    assert real.pop() == ["high", "low"]
    assert real.command("EXISTS", key) == [0]


def test_with_aging_a_step_of_priority_overtakes_so_many_messages(store: ContractStore) -> None:
    store.create(_priorities=2)
    grouped.post(store, "a", "b", "c", "d", "e:1", "f:2", "g")
    assert store.pop() == ["a", "f", "b", "e", "c", "d", "g"]
    grouped.update(store, _priorities=1)
    grouped.post(store, "a", "b", "c:1", "d:1", "e:2")
    assert store.pop() == ["a", "c", "b", "e", "d"]


def test_messages_are_listed_as_they_were_posted_with_their_fields(store: ContractStore) -> None:
    store.create(_priorities="strict", _group_mode="ordered")
    grouped.post(store, "a1:3", "b1", "a2", "high:31")
    store.claim(1)
    assert store.listed() == ["a1", "b1", "a2", "high"]
    page: list[Message] = [*store.page(claimed=False).items]
    assert names(page) == ["a1", "b1", "a2"]
    assert [message_fields.shown(each.attributes or {}) for each in page] == [
        {"priority": 3, "group": "a"},
        {"group": "b"},
        {"group": "a"},
    ]


def test_queues_without_these_settings_claim_by_age(store: ContractStore) -> None:
    grouped.post(store, "a1", "a2:9", "b1:31")
    assert grouped.claim(store, 2)[0] == ["a1", "a2"]
    assert store.pop() == ["b1"]


def test_priorities_can_begin_and_end_while_there_are_messages(store: ContractStore) -> None:
    store.create()
    grouped.post(store, "old:9")
    store.upgrade()
    grouped.update(store, _priorities="strict")
    grouped.post(store, "low", "high:1")
    assert grouped.claim(store)[0] == ["high"]
    grouped.update(store)
    grouped.post(store, "next:9")
    store.clock.tick(61)
    assert findings(store) == []
    assert store.pop() == ["old", "low", "high", "next"]
    assert store.command("EXISTS", keys.of_queue(store.project, "q").order) in ([0], [0, 0, 0])


def test_full_queue_drops_the_lowest_priority_first(store: ContractStore) -> None:
    store.create(_priorities="strict", _max_messages=4, _overflow="drop_oldest")
    grouped.post(store, "high:2", "low", "mid:1", "low too")
    grouped.post(store, "a", "b")
    assert store.listed() == ["high", "mid", "a", "b"]
    grouped.post(store, "c", "d", "e:2")
    assert store.listed() == ["high", "c", "d", "e"]
    assert store.stats().counters.dropped == 5


# -- ordered groups


def test_group_is_held_by_one_claim_and_groups_run_side_by_side(store: ContractStore) -> None:
    store.create(_group_mode="ordered")
    ids = grouped.post(store, "a1", "a2", "b1", "free", "a3", "b2")
    _, claim = grouped.claim(store)
    assert store.held(claim) == ["a1"]
    assert grouped.claim(store, 9, ttl=600)[0] == ["b1", "b2", "free"]
    assert store.claim(9).claim_id is None
    store.delete(ids[0], claims=[claim or ""])
    assert grouped.claim(store, 1)[0] == ["a2"]
    store.clock.tick(61)
    assert grouped.claim(store, 9)[0] == ["a2", "a3"]


def test_claim_takes_what_follows_in_a_group_before_it_takes_another_group(
    store: ContractStore,
) -> None:
    store.create(_group_mode="ordered")
    grouped.post(store, "a1", "b1", "a2", "b2", "a3", "c1")
    assert grouped.claim(store, 5)[0] == ["a1", "a2", "a3", "b1", "b2"]
    assert grouped.claim(store, 5)[0] == ["c1"]
    store.clock.tick(61)
    assert store.pop(4) == ["a1", "a2", "a3", "b1"]
    assert store.pop(5) == ["b2", "c1"]


def test_message_that_comes_back_later_holds_up_its_group(store: ContractStore) -> None:
    store.create(_group_mode="ordered", _redelivery_delay=100)
    ids = grouped.post(store, "a1", "a2", "b1")
    _, claim = grouped.claim(store, 3)
    store.release_some(claim, ids[0], ids[2], delay=30)
    store.release_some(claim, ids[1], delay=0)
    assert store.claim(9).claim_id is None
    store.clock.tick(30)
    assert grouped.claim(store, 9)[0] == ["a1", "a2", "b1"]
    store.clock.tick(61)
    assert store.claim(9).claim_id is None
    store.clock.tick(100)
    assert store.pop() == ["a1", "a2", "b1"]


def test_message_posted_with_a_delay_holds_up_nothing_and_takes_its_place(
    store: ContractStore,
) -> None:
    store.create(_group_mode="ordered")
    grouped.post(store, "a1", delay=60)
    grouped.post(store, "a2", "a3")
    assert store.pop(1) == ["a2"]
    store.clock.tick(60)
    assert store.pop() == ["a1", "a3"]


@pytest.mark.parametrize("gone", ["expired", "deleted", "moved", "dead"])
def test_group_goes_on_behind_a_message_that_is_gone(store: ContractStore, gone: str) -> None:
    dead: dict[str, Any] = {"_dead_letter_queue": "dead", "_max_claim_count": 1}
    store.create(_group_mode="ordered", **(dead if gone == "dead" else {}))
    (first,) = grouped.post(store, "a1")
    if gone == "expired":
        store.clock.tick(TTL - 1)
    grouped.post(store, "a2", "b1")
    if gone == "dead":
        assert grouped.claim(store)[0] == ["a1"]
        store.clock.tick(61)
        store.stats()
    recorder = HintRecorder(store).watch()
    if gone == "dead":
        assert grouped.claim(store)[0] == ["a2"]
        assert store.listed("dead") == ["a1"]
    elif gone == "expired":
        store.clock.tick(1)
        store.stats()
    elif gone == "deleted":
        store.delete(first)
    else:
        assert store.move(first) == [first]
    recorder.wait()
    assert findings(store) == []
    assert store.pop() == (["b1"] if gone == "dead" else ["a2", "b1"])


def test_priority_of_its_first_message_decides_when_a_group_has_its_turn(
    store: ContractStore,
) -> None:
    store.create(_group_mode="ordered", _priorities="strict")
    grouped.post(store, "a1", "a2:9", "b1:5", "b2", "c1:7")
    assert grouped.claim(store, 1)[0] == ["c1"]
    assert grouped.claim(store, 2)[0] == ["b1", "b2"]
    assert grouped.claim(store, 2)[0] == ["a1", "a2"]


def test_release_of_a_group_hints_at_once(store: ContractStore) -> None:
    store.create(_group_mode="ordered")
    ids = grouped.post(store, "a1", "a2")
    _, claim = grouped.claim(store)
    recorder = HintRecorder(store).watch()
    store.delete(ids[0], claims=[claim or ""])
    recorder.wait(1)


def test_groups_may_have_any_names(store: ContractStore) -> None:
    store.create(_group_mode="ordered")
    long = "ü" * 64
    groups = ["a", "a b", "ab", "é", long, long[:-1] + "x", "w", "h"]
    for number in range(2):
        store.send(
            [
                NewMessage(
                    body=b'"%d"' % number,
                    ttl=TTL,
                    attributes={"x": 1} | {message_fields.GROUP: group},
                    checksum=b"0" * 16,
                    origin="other",
                )
                for group in groups
            ]
        )
    for _ in groups:
        assert grouped.claim(store)[0] == ["0"]
    assert store.claim(1).claim_id is None
    assert store.listed("q") == ["0"] * len(groups) + ["1"] * len(groups)


def test_group_mode_changes_while_the_queue_is_empty_only(store: ContractStore) -> None:
    store.create(_group_mode="ordered")
    grouped.post(store, "a1", "a2")
    with pytest.raises(errors.Conflict, match="has messages"):
        grouped.update(store)
    grouped.update(store, _group_mode="ordered", _priorities="strict")
    assert grouped.claim(store)[0] == ["a1"]
    assert store.claim(9).claim_id is None
    store.run(store.driver.queues.purge(store.project, "q"))
    grouped.update(store)
    grouped.post(store, "a1", "a2")
    with pytest.raises(errors.Conflict, match="has messages"):
        grouped.update(store, _group_mode="ordered")
    assert (grouped.claim(store)[0], grouped.claim(store)[0]) == (["a1"], ["a2"])


@pytest.mark.parametrize("metadata", [{"_group_mode": "ordered"}, {"_priorities": 5}])
def test_order_waits_for_the_upgrade_of_the_store(
    real: ContractStore, metadata: dict[str, Any]
) -> None:
    real.reset()
    with pytest.raises(errors.Conflict, match="zaqar-redis upgrade"):
        real.run(real.driver.queues.create(real.project, "q", metadata))
    assert real.queue() is None
    real.create()
    with pytest.raises(errors.Conflict, match="zaqar-redis upgrade"):
        grouped.update(real, **metadata)
    assert real.existing_queue().metadata == {}


def test_sweeper_moves_the_dead_letters_of_a_group_one_behind_the_other(
    real: ContractStore,
) -> None:
    real.reset()
    real.create(_group_mode="ordered", _dead_letter_queue="dead", _max_claim_count=1)
    grouped.post(real, "a1", "a2", "a3", "b1")
    real.claim(9, ttl=60)
    real.clock.tick(61)
    real.stats()
    real.command("HSET", keys.of_queue(real.project, "q").queue, "exhausted", 1)
    for _ in range(4):
        real.command("DEL", keys.SWEEPER)
        real.sweep(0)
    assert sorted(real.listed("dead")) == ["a1", "a2", "a3", "b1"]
    assert findings(real) == []


def test_attributes_of_older_releases_are_no_fields(store: ContractStore) -> None:
    store.create(_group_mode="ordered", _priorities="strict")
    for attributes in (
        *({"_priority": 2**40}, {"_priority": -1}, {"_priority": "high"}),
        *({"_group": b"\x00a"}, {"_group": 1.5}, {"_group": "a\nb"}, {"_group": ""}),
    ):
        store.post("a", "b", attributes=attributes)
    assert store.pop() == ["a", "b"] * 7
    assert findings(store) == []


# -- what operators do


def _fill(store: ContractStore) -> tuple[str | None, tuple[str, ...]]:
    """Of the group a one is held, of b one comes back later, c waits, d is delayed."""
    store.create(_group_mode="ordered", _priorities="strict")
    ids = grouped.post(store, "a1", "a2:3", "b1", "b2", "c1:9", "c2", "free:1")
    grouped.post(store, "d1", delay=300)
    grouped.post(store, "d2")
    _, claim = grouped.claim(store, 1, ttl=600)
    store.release(claim)
    _, claim = grouped.claim(store, 6, ttl=600)
    assert store.held(claim) == ["c1", "c2", "free", "a1", "a2", "b1"]
    store.release_some(claim, ids[2], delay=120)
    store.release_some(claim, ids[1], ids[4], ids[5])
    return claim, ids


def _drain(store: ContractStore, claim: str | None) -> list[list[str]]:
    found = [store.pop(3)]
    store.clock.tick(121)
    found.append(store.pop())
    store.release(claim)
    found.append(store.pop())
    store.clock.tick(180)
    return [*found, store.pop()]


_DRAINED = [["c1", "c2", "d2"], ["b1", "b2"], ["free", "a1", "a2"], ["d1"]]


def test_moved_queue_keeps_its_order(pools: PooledContractStore) -> None:
    pools.create()
    claim, _ = _fill_and_reset(pools)
    source, target = pools.route()
    assert move_queue(pools, target) == 9
    assert pools.pool_of() == target
    assert findings(pools) == []
    assert _drain(pools, claim) == _DRAINED
    assert source != target


def test_delayed_message_that_a_move_has_held_holds_up_nothing_in_another_pool(
    pools: PooledContractStore,
) -> None:
    pools.create(_group_mode="ordered")
    (later,) = grouped.post(pools, "a1", delay=900)
    grouped.post(pools, "a2")
    with pools.dying_before("dead_letter_post"):
        pools.move(later)
    move_queue(pools, pools.other_pool())
    assert pools.pop() == ["a2"]
    pools.clock.tick(901)
    assert pools.pop() == ["a1"]


def test_ordered_queue_stays_where_the_other_store_was_not_upgraded(
    pools: PooledContractStore,
) -> None:
    pools.create()
    claim, _ = _fill_and_reset(pools)
    source, target = pools.route()
    for client in pools.clients():
        pools.run(client.command("HSET", control_keys.CONTROL.format, "needs", 1))
    with pytest.raises(errors.CannotMove, match="zaqar-redis upgrade"):
        move_queue(pools, target)
    assert pools.pool_of() == source
    assert _drain(pools, claim) == _DRAINED


def _fill_and_reset(store: ContractStore) -> tuple[str | None, tuple[str, ...]]:
    store.run(store.driver.queues.delete(store.project, "q"))
    return _fill(store)


_DAMAGE = {
    "a stray that holds up a group": ("ZADD", "groups", 0, "c\x00h\x03999"),
    "a lost entry that waits": ("ZREM", "groups", "c\x00w\x016"),
    "a lost entry that holds": ("ZREM", "groups", "a\x00h\x011"),
    "a group that nobody can claim": ("ZREM", "ready", 5),
    "one that is not next": ("ZADD", "ready", 6, 6),
    "all groups": ("DEL", "groups"),
    "a stray record": ("HSET", "order", 999, "03 a"),
}


@pytest.mark.parametrize("damage", _DAMAGE)
def test_check_repairs_the_order(real: ContractStore, damage: str) -> None:
    real.reset()
    claim, _ = _fill(real)
    assert findings(real) == []
    command, slot, *words = _DAMAGE[damage]
    key = getattr(keys.of_queue(real.project, "q"), str(slot))
    real.command(str(command), key, *words)
    assert findings(real) != []
    findings(real, repair=True)
    assert findings(real) == []
    if damage not in {"a lost entry that holds", "all groups"}:  # the next may have been claimed
        assert _drain(real, claim) == _DRAINED


def test_deletion_and_purge_leave_nothing(real: ContractStore) -> None:
    real.reset()
    before = real.key_count()
    _fill(real)
    real.run(real.driver.queues.purge(real.project, "q"))
    of_queue = keys.of_queue(real.project, "q")
    assert real.command("EXISTS", of_queue.order, of_queue.groups) == [0]
    grouped.post(real, "a1", "a2")
    assert real.pop(1) == ["a1"]
    real.run(real.driver.queues.delete(real.project, "q"))
    assert real.key_count() - before <= 1  # the mark of the format


def test_ids_of_another_client_are_hidden_in_an_ordered_queue(store: ContractStore) -> None:
    store.create(_group_mode="ordered")
    grouped.post(store, "a1", "a2")
    page = store.page(hide=CLIENT)
    assert [*page.items] == []
