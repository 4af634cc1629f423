# SPDX-License-Identifier: Apache-2.0
"""What every store guarantees for claims and dead letters."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.stores import ContractStore, names
from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.records import Claim, Lease

_TO_DEAD = {"_dead_letter_queue": "dead"}


def _create_with_dead_letters(store: ContractStore, most: int = 2, **more: Any) -> None:
    store.create(_max_claim_count=most, _dead_letter_queue="dead", **more)


def _claim_and_expire(store: ContractStore, times: int, limit: int = 100) -> None:
    for _ in range(times):
        assert store.claim(limit=limit, ttl=60).messages
        store.clock.tick(60)


def details(store: ContractStore, claim: str | None) -> Claim:
    found = store.run(store.driver.claims.get(store.project, "q", claim or ""))
    assert found
    return found


@pytest.mark.transports
def test_a_claim_takes_the_oldest_claimable(store: ContractStore) -> None:
    ids = store.post("a", "b", "c").ids
    taken = store.claim(limit=2)
    assert names(taken.messages) == ["a", "b"]
    assert [message.claim_id for message in taken.messages] == [taken.claim_id] * 2
    assert [message.claim_count for message in taken.messages] == [1, 1]
    assert names(store.claim().messages) == ["c"]
    assert store.get(ids[0])[0].claim_id == taken.claim_id


def test_claim_without_claimable_messages_is_not_created(store: ContractStore) -> None:
    assert store.claim().claim_id is None
    assert store.queue() is None
    store.create()
    empty = store.claim()
    assert (empty.claim_id, empty.messages, empty.next_visible_ms) == (None, (), None)
    of_queue = keys.of_queue(store.project, "q")
    assert sum(store.command("EXISTS", of_queue.claims, of_queue.leases)) == 0


def test_empty_claim_returns_next_visible_ms(store: ContractStore) -> None:
    store.post("a")
    store.claim(ttl=60)
    store.clock.tick(20)
    assert store.claim().next_visible_ms == 40_000
    store.create("later", _default_message_delay=30)
    store.post("b", queue="later")
    assert store.claim(queue="later").next_visible_ms == 30_000


def test_a_message_is_held_by_one_claim_only(store: ContractStore) -> None:
    store.post("a", "b", "c")
    one, two = store.claim(limit=1), store.claim(limit=1)
    store.release(one.claim_id)
    three = store.claim(limit=2)
    # The one that was released and the one that was free; not the second claim's.
    assert names(three.messages) == ["a", "c"]
    assert store.held(two.claim_id) == ["b"]
    assert store.held(one.claim_id) is None


def test_messages_behind_a_claimed_or_delayed_one_are_claimed(store: ContractStore) -> None:
    store.create(_default_message_delay=300)
    store.post("free", delay=0)
    store.post("later")
    store.post("held", delay=0)
    release = store.claim(limit=1).claim_id
    store.claim(limit=1, ttl=600)
    store.release(release)
    assert names(store.claim(limit=10).messages) == ["free"]


def test_claim_expires_on_time_and_returns_its_messages_in_order(store: ContractStore) -> None:
    store.post("a", "b", "c")
    claim = store.claim(limit=2, ttl=60).claim_id
    store.clock.tick(59.999)
    assert store.held(claim) == ["a", "b"]
    assert names(store.claim(limit=10).messages) == ["c"]
    store.clock.tick(0.001)
    assert store.held(claim) is None
    assert not store.renew(claim, 60)
    again = store.claim(limit=10)
    assert names(again.messages) == ["a", "b"]
    assert [message.claim_count for message in again.messages] == [2, 2]


def test_thousands_of_messages_of_expired_claims_return_in_order(store: ContractStore) -> None:
    store.post_many(2500)
    for _ in range(25):
        store.claim(limit=100, ttl=60)
    store.post("new")
    store.clock.tick(60)
    assert names(store.claim(limit=5).messages) == ["0", "1", "2", "3", "4"]
    assert store.pop(limit=3) == ["5", "6", "7"]


@pytest.mark.transports
def test_a_thousand_claims_expire_together(store: ContractStore) -> None:
    store.post_many(1000)
    claims = [store.claim(limit=1, ttl=60).claim_id for _ in range(1000)]
    assert len(set(claims)) == 1000
    store.clock.tick(60)
    assert store.pop(limit=1000) == [str(number) for number in range(1000)]
    assert {store.held(claim) is None for claim in claims} == {True}


def test_claim_of_a_thousand_messages_holds_all_of_them(store: ContractStore) -> None:
    store.post_many(1100)
    taken = store.claim(limit=1000)
    assert names(taken.messages) == [str(number) for number in range(1000)]
    assert store.held(taken.claim_id) == names(taken.messages)
    assert store.renew(taken.claim_id, 120)
    store.release(taken.claim_id)
    assert store.stats().free == 1100


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_claim_is_spent_when_its_last_message_is_deleted(
    store: ContractStore, order: tuple[int, ...]
) -> None:
    ids = store.post("a", "b", "c", "d").ids
    claim = store.claim().claim_id
    for position in order:
        assert _spent(store) == []
        store.delete(ids[position], claims=[claim])
    assert _spent(store) == [claim]
    store.delete(ids[order[-1]], claims=[claim])  # a retry whose first response was lost
    assert _spent(store) == [claim]


def test_bulk_delete_spends_each_claim_whose_last_message_it_deletes(store: ContractStore) -> None:
    ids = store.post("a", "b", "c").ids
    one, two = store.claim(limit=1).claim_id, store.claim(limit=2).claim_id
    store.delete(ids[0], ids[1], claims=[one, two])
    assert _spent(store) == [one]
    store.delete(*ids, force=True)
    assert _spent(store) == [one, two]


def test_recently_spent_claim_is_shown_and_renewed_without_messages(store: ContractStore) -> None:
    ids = store.post("a", "b").ids
    claim = store.claim(ttl=60).claim_id
    store.delete(ids[1], claims=[claim])
    store.renew(claim, 60)
    store.delete(ids[0], claims=[claim])
    assert store.held(claim) == []
    assert store.renew(claim, 100)
    store.clock.tick(99.999)
    assert store.held(claim) == []
    store.clock.tick(0.001)
    assert store.held(claim) is None


def test_number_of_recorded_spent_claims_is_limited(store: ContractStore) -> None:
    queue = keys.of_queue(store.project, "q")
    claims = []
    for _ in range(200):
        ids = store.post("a").ids
        claims.append(store.claim(ttl=43_200).claim_id)
        store.delete(*ids, claims=claims[-1:])
        assert sum(store.command("HLEN", queue.claims)) < 64
    kept = sum(store.command("HLEN", queue.claims))
    assert kept >= 32
    assert sum(store.command("ZCARD", queue.leases)) == kept
    assert [store.held(claim) for claim in claims[-kept:]] == [[]] * kept
    assert {store.held(claim) is None for claim in claims[:-kept]} == {True}


@pytest.mark.parametrize("end", ["purge", "delete", "sweep"])
def test_records_of_spent_claims_are_removed_at_their_end(store: ContractStore, end: str) -> None:
    store.delete(*store.post("a").ids, claims=[store.claim(ttl=60).claim_id])
    if end == "sweep":
        store.clock.tick(60)
        store.sweep(0)
    else:
        store.run(getattr(store.driver.queues, end)(store.project, "q"))
    assert _spent(store) == []


def _spent(store: ContractStore) -> list[str]:
    """Returns the claims recorded as spent, oldest first."""
    listed = store.command("LRANGE", keys.of_queue(store.project, "q").spent, 0, -1)
    return [claim.decode() for part in listed for claim in part]


def test_a_claim_shows_its_ttl_and_age(store: ContractStore) -> None:
    store.post("a")
    claim = store.claim(ttl=90).claim_id
    store.clock.tick(12.9)
    found = details(store, claim)
    assert (found.id, found.ttl, found.age) == (claim, 90, 12)
    assert [message.claim_id for message in found.messages] == [claim]
    assert found.messages[0].age == 12


def test_renewing_restarts_the_lease(store: ContractStore) -> None:
    store.post("a", "b")
    claim = store.claim(ttl=60).claim_id
    store.clock.tick(50)
    assert store.renew(claim, 100)
    store.clock.tick(99.999)
    assert store.held(claim) == ["a", "b"]
    found = details(store, claim)
    assert (found.ttl, found.age) == (100, 99)
    assert store.claim().messages == ()
    store.clock.tick(0.001)
    assert names(store.claim().messages) == ["a", "b"]


def test_renewing_may_shorten_the_lease(store: ContractStore) -> None:
    store.post("a")
    claim = store.claim(ttl=600).claim_id
    assert store.renew(claim, 60)
    store.clock.tick(60)
    assert store.held(claim) is None
    assert names(store.claim().messages) == ["a"]


def test_renewing_does_not_count_as_claiming(store: ContractStore) -> None:
    store.post("a")
    claim = store.claim().claim_id
    store.renew(claim, 60)
    store.renew(claim, 60)
    found = details(store, claim)
    assert [message.claim_count for message in found.messages] == [1]


def test_a_message_outlives_its_claim_by_the_grace(store: ContractStore) -> None:
    [message_id] = store.post("a", ttl=60).ids
    start = store.clock.now
    claim = store.claim(ttl=100, grace=50).claim_id
    [message] = store.get(message_id)
    assert (message.ttl, message.expires) == (150, start + 150_000)
    store.clock.tick(99)
    assert store.held(claim) == ["a"]
    store.clock.tick(50.999)
    assert store.listed() == ["a"]
    store.clock.tick(0.001)
    assert store.listed() == []


def test_renewing_lets_a_message_outlive_the_new_lease(store: ContractStore) -> None:
    [message_id] = store.post("a", ttl=60).ids
    claim = store.claim(ttl=60, grace=60).claim_id
    store.clock.tick(30)
    assert store.renew(claim, 200, grace=70)
    assert store.get(message_id)[0].expires == store.clock.now + 270_000
    store.clock.tick(199)
    assert store.held(claim) == ["a"]


def test_message_that_outlives_the_claim_keeps_its_expiry(store: ContractStore) -> None:
    [message_id] = store.post("a", ttl=600).ids
    expires = store.get(message_id)[0].expires
    claim = store.claim(ttl=100, grace=1000).claim_id
    assert store.renew(claim, 200, grace=1000)
    assert (store.get(message_id)[0].ttl, store.get(message_id)[0].expires) == (600, expires)


def test_releasing_makes_messages_claimable_at_once(store: ContractStore) -> None:
    ids = store.post("a", "b").ids
    claim = store.claim().claim_id
    store.delete(ids[0], claims=[claim])
    store.release(claim)
    store.release(claim)
    assert store.held(claim) is None
    assert names(store.claim().messages) == ["b"]


def test_release_of_expired_claim_does_not_free_messages_claimed_since(
    store: ContractStore,
) -> None:
    store.post("a")
    old = store.claim(ttl=60).claim_id
    store.clock.tick(60)
    new = store.claim(ttl=60).claim_id
    store.release(old)
    assert not store.renew(old, 600)
    assert store.held(new) == ["a"]
    assert store.claim().messages == ()


def test_claim_is_found_by_any_spelling_of_its_id(store: ContractStore) -> None:
    store.post("a")
    claim = store.claim().claim_id
    spelled = str(uuid.UUID(claim)).upper()
    assert store.held(spelled) == ["a"]
    assert store.renew(spelled, 60)
    store.release(spelled)
    assert store.held(claim) is None


@pytest.mark.parametrize("claim", ["", "x", "☃", "0" * 32, "g" * 32, "a" * 1000])
def test_unknown_claim_is_not_found(store: ContractStore, claim: str) -> None:
    store.post("a")
    store.claim()
    assert store.held(claim) is None
    assert not store.renew(claim, 60)
    store.release(claim)
    assert store.stats().claimed == 1


def test_a_claim_belongs_to_its_queue(store: ContractStore) -> None:
    store.post("a")
    store.post("b", queue="other")
    claim = store.claim().claim_id
    assert store.held(claim, queue="other") is None
    assert not store.renew(claim, 60, queue="other")
    store.release(claim, queue="other")
    assert store.held(claim) == ["a"]


def test_message_over_max_claim_count_goes_to_dead_letter_queue(store: ContractStore) -> None:
    _create_with_dead_letters(store, 2)
    store.post("a", ttl=600)
    _claim_and_expire(store, 2)
    assert store.claim().claim_id is None
    assert store.listed() == []
    [dead] = store.page(queue="dead").items
    assert names([dead]) == ["a"]
    assert (dead.origin, dead.claim_id, dead.claim_count) == ("q", None, 0)
    assert (dead.ttl, dead.created, dead.age) == (600, store.clock.now, 0)
    assert [queue.name for queue in store.queues().items] == ["dead", "q"]
    assert names(store.claim(queue="dead").messages) == ["a"]


def test_dead_letters_get_the_ttl_set_by_their_origin_queue(store: ContractStore) -> None:
    _create_with_dead_letters(store, 1, _dead_letter_queue_messages_ttl=77)
    store.create("dead", _default_message_ttl=99, _default_message_delay=30)
    store.post("a", ttl=600)
    _claim_and_expire(store, 1)
    store.claim()
    assert [(found.ttl, found.delay) for found in store.page(queue="dead").items] == [(77, 0)]


def test_dead_letters_are_exempt_from_limits_of_the_dead_letter_queue(store: ContractStore) -> None:
    _create_with_dead_letters(store, 1)
    store.create("dead", _max_messages_post_size=1, _enable_encrypt_messages=True)
    store.post("a")
    _claim_and_expire(store, 1)
    store.claim()
    [dead] = store.page(queue="dead").items
    assert (names([dead]), dead.encrypted) == (["a"], False)


def test_claim_is_filled_with_messages_behind_dead_letters(store: ContractStore) -> None:
    _create_with_dead_letters(store, 1)
    store.post_many(70)
    _claim_and_expire(store, 1)
    store.post("a", "b")
    assert names(store.claim(limit=2).messages) == ["a", "b"]
    assert store.listed("dead") == [str(number) for number in range(70)]
    assert store.listed() == ["a", "b"]


def test_claimable_message_behind_many_dead_letters_is_claimed(store: ContractStore) -> None:
    _create_with_dead_letters(store, 1)
    store.post_many(120)
    _claim_and_expire(store, 1, limit=120)
    store.post("a")
    assert names(store.claim(limit=1).messages) == ["a"]
    assert store.stats("dead").total == 120


def test_pop_dead_letters_exhausted_messages(store: ContractStore) -> None:
    _create_with_dead_letters(store, 1)
    store.post("old", "older")
    _claim_and_expire(store, 1)
    store.post("new")
    assert store.pop(limit=2) == ["new"]
    assert store.listed("dead") == ["old", "older"]


@pytest.mark.parametrize(("most", "dead_letters"), [(1, {}), (-1, _TO_DEAD), (0, _TO_DEAD)])
def test_max_claim_count_without_dead_letter_queue_or_below_one_has_no_effect(
    store: ContractStore, most: int, dead_letters: dict[str, str]
) -> None:
    store.create(_max_claim_count=most, **dead_letters)
    store.post("a")
    _claim_and_expire(store, 5)
    assert names(store.claim().messages) == ["a"]


def test_a_queue_is_not_its_own_dead_letter_queue(store: ContractStore) -> None:
    store.create(_max_claim_count=1, _dead_letter_queue="q")
    store.post_many(120)
    assert names(store.claim(limit=1).messages) == ["0"]
    store.clock.tick(60)
    assert names(store.claim(limit=1).messages) == ["0"]
    assert store.stats().total == 120


@pytest.mark.parametrize(
    ("script", "after"), [("dead_letter_post", 0), ("dead_letter_post", 1), ("message_drop", 0)]
)
def test_crash_while_dead_lettering_loses_and_duplicates_nothing(
    store: ContractStore, script: str, after: int
) -> None:
    _create_with_dead_letters(store, 1)
    store.post("a", "b", "c")
    store.create("dead")
    _claim_and_expire(store, 1)
    with store.dying_before(script, after):
        store.claim()
    # Meanwhile no other client may claim them, and they do not count as free.
    assert store.claim().messages == ()
    assert store.pop() == []
    assert store.listed() == ["a", "b", "c"]
    store.clock.tick(60)
    assert store.claim().messages == ()
    assert store.listed() == []
    assert sorted(store.listed("dead")) == ["a", "b", "c"]


def test_message_being_dead_lettered_can_be_force_deleted(store: ContractStore) -> None:
    _create_with_dead_letters(store, 1)
    ids = store.post("a").ids
    store.create("dead")
    _claim_and_expire(store, 1)
    with store.dying_before("dead_letter_post"):
        store.claim()
    with pytest.raises(errors.MessageClaimed):
        store.delete(*ids)
    store.delete(*ids, force=True)
    store.clock.tick(60)
    assert store.claim().messages == ()
    assert store.listed("dead") == []


def test_lease_of_one_message_is_renewed_alone(store: ContractStore) -> None:
    ids = store.post("a", "b").ids
    claim = store.claim(ttl=60).claim_id
    assert store.renew_some(claim, ids[1], ids[1], "?", ttl=300) == (ids[1],)
    assert (details(store, claim).ttl, details(store, claim).age) == (300, 0)
    store.clock.tick(60)
    assert names(store.claim(ttl=300).messages) == ["a"]
    assert names(details(store, claim).messages) == ["b"]
    assert store.claims().items[0].messages == 1
    store.clock.tick(240)
    assert names(store.claim().messages) == ["b"]


def test_shortened_lease_of_one_message_leaves_the_claim_as_it_is(store: ContractStore) -> None:
    store.create(_min_claim_ttl=1)
    ids = store.post("a", "b").ids
    claim = store.claim(ttl=60).claim_id
    assert store.renew_some(claim, ids[0], ttl=1) == (ids[0],)
    store.clock.tick(2)
    assert (details(store, claim).ttl, details(store, claim).age) == (60, 2)
    assert names(details(store, claim).messages) == ["b"]
    with pytest.raises(errors.MessageNotClaimed):
        store.delete(ids[0], claims=[claim or ""])
    assert names(store.claim().messages) == ["a"]


def test_renewed_message_outlives_its_lease_by_the_grace(store: ContractStore) -> None:
    ids = store.post("a", ttl=70).ids
    claim = store.claim(ttl=60).claim_id
    store.renew_some(claim, ids[0], ttl=100, grace=90)
    assert details(store, claim).messages[0].expires == store.clock.now + 190_000


@pytest.mark.parametrize("delay", [None, 0, 30])
def test_one_message_of_a_claim_is_released(store: ContractStore, delay: int | None) -> None:
    ids = store.post("a", "b").ids
    claim = store.claim().claim_id
    assert store.release_some(claim, ids[0], "?", delay=delay) == (ids[0],)
    assert store.release_some(claim, ids[0]) == ()
    assert names(details(store, claim).messages) == ["b"]
    taken = store.claim()
    if delay:
        assert (taken.messages, taken.next_visible_ms) == ((), 30_000)
        assert store.stats().delayed == 1
        store.clock.tick(delay)
        taken = store.claim()
    assert names(taken.messages) == ["a"]
    assert taken.messages[0].claim_count == 2


def test_claim_whose_messages_are_all_released_ends(store: ContractStore) -> None:
    ids = store.post("a", "b").ids
    claim = store.claim().claim_id
    assert store.release_some(claim, delay=5) == ids
    assert store.release_some(claim) is None
    assert store.renew_some(claim, ids[0], ttl=60) is None
    store.clock.tick(5)
    assert names(store.claim().messages) == ["a", "b"]


def test_messages_of_another_claim_are_neither_renewed_nor_released(store: ContractStore) -> None:
    ids = store.post("a", "b").ids
    mine, other = store.claim(limit=1).claim_id, store.claim(limit=1).claim_id
    assert store.renew_some(mine, ids[1], ttl=300) == ()
    assert store.release_some(mine, ids[1]) == ()
    assert names(details(store, other).messages) == ["b"]
    assert details(store, other).ttl == 60


@pytest.mark.parametrize("end", ["released", "lapsed"])
@pytest.mark.parametrize(
    ("redelivery", "delays"),
    [
        (7, [7, 7, 7]),
        ({"minimum_delay": 5, "maximum_delay": 12, "backoff_function": "linear"}, [5, 10, 12, 12]),
        (
            {"minimum_delay": 5, "maximum_delay": 30, "backoff_function": "exponential"},
            [5, 10, 20, 30],
        ),
    ],
)
def test_message_waits_for_the_redelivery_delay_of_its_queue(
    store: ContractStore, redelivery: Any, delays: list[int], end: str
) -> None:
    store.create(_redelivery_delay=redelivery)
    store.post("a")
    for delay in delays:
        claim = store.claim(ttl=60).claim_id
        assert claim
        if end == "released":
            store.release(claim)
        else:
            store.clock.tick(60)
        assert store.claim().next_visible_ms == delay * 1000
        store.clock.tick(delay)


def test_redelivery_delay_counts_from_the_end_of_the_lease(store: ContractStore) -> None:
    store.create(_redelivery_delay=30)
    store.post("a")
    store.claim(ttl=60)
    store.clock.tick(75)  # nobody has looked at the queue for 15 seconds
    assert store.claim().next_visible_ms == 15_000
    store.clock.tick(15)
    assert names(store.claim(ttl=60).messages) == ["a"]
    store.clock.tick(90)
    assert names(store.claim().messages) == ["a"]


def test_jitter_takes_a_part_off_each_delay(store: ContractStore) -> None:
    store.create(_redelivery_delay={"minimum_delay": 100, "jitter": 0.5})
    store.post(*map(str, range(40)))
    store.release(store.claim(limit=40).claim_id)
    ends = [item.until - store.clock.now for item in store.peek().items if item.until]
    assert len(ends) == 40
    assert min(ends) >= 50_000
    assert max(ends) <= 100_000
    assert len(set(ends)) > 20


def test_dead_letter_does_not_wait_for_the_redelivery_delay(store: ContractStore) -> None:
    _create_with_dead_letters(store, most=1, _redelivery_delay=600)
    store.post("a", "b")
    store.release(store.claim(limit=1).claim_id)
    _claim_and_expire(store, times=1)
    assert store.claim().messages == ()
    assert sorted(store.pop(10, "dead")) == ["a", "b"]


def test_redelivery_delay_that_is_removed_has_no_effect(store: ContractStore) -> None:
    store.create(_redelivery_delay=600)
    store.post("a")
    claim = store.claim().claim_id
    queue = store.queue()
    assert queue
    assert store.run(store.driver.queues.update(store.project, queue, {}))
    store.release(claim)
    assert names(store.claim().messages) == ["a"]


def test_released_message_with_a_delay_expires_by_its_own_ttl(store: ContractStore) -> None:
    store.post("a", ttl=120)
    store.release_some(store.claim(ttl=60).claim_id, delay=600)
    store.clock.tick(121)
    assert store.stats().total == 0


@pytest.mark.parametrize(
    ("own", "ttl", "least"),
    [(5, 5, None), (5, 4, 5), (None, 59, 60), (61, 59, 60), (10**30, 59, 60), (True, 59, 60)],
)
def test_shortest_ttl_of_a_claim_is_that_of_its_queue(
    store: ContractStore, own: int | None, ttl: int, least: int | None
) -> None:
    store.create(_min_claim_ttl=own)
    ids = store.post("a", "b").ids
    claim = store.claim(limit=1).claim_id
    if least is None:
        assert store.renew(claim, ttl, ttl_min=60)
        assert store.renew_some(claim, ids[0], ttl=ttl, ttl_min=60) == (ids[0],)
        assert names(store.claim(ttl=ttl, ttl_min=60).messages) == ["b"]
        store.clock.tick(ttl)
        assert names(store.claim().messages) == ["a", "b"]
        return
    for refused in (
        lambda: store.claim(ttl=ttl, ttl_min=60),
        lambda: store.renew(claim, ttl, ttl_min=60),
        lambda: store.renew_some(claim, ids[0], ttl=ttl, ttl_min=60),
    ):
        with pytest.raises(errors.BadRequest, match=f"at least {least} seconds"):
            refused()
    assert store.stats().claimed == 1
    assert details(store, claim).ttl == 60


def test_claim_ends_although_a_message_that_it_released_is_held_by_another(
    store: ContractStore,
) -> None:
    ids = store.post("a", "b", "c").ids
    claim = store.claim(limit=2, ttl=43200).claim_id
    store.release_some(claim, ids[0])
    other = store.claim(limit=1, ttl=43200).claim_id
    store.delete(ids[1], claims=[claim or ""])
    keys_of_queue = keys.of_queue(store.project, "q")
    assert sum(store.command("LLEN", keys_of_queue.spent)) == 1
    assert names(details(store, other).messages) == ["a"]


def test_no_id_renews_and_releases_nothing(store: ContractStore) -> None:
    store.post("a")
    claim = store.claim(ttl=60).claim_id
    of_store = store.driver.claims
    nothing: list[str] = []
    renewed = of_store.update(store.project, "q", claim or "", Lease(300, 60), ids=nothing)
    assert store.run(renewed) == ()
    released = of_store.release(store.project, "q", claim or "", ids=nothing)
    assert store.run(released) == ()
    assert details(store, claim).ttl == 60


@pytest.mark.parametrize(
    "value", [2**62, -5, "9", [1], {"minimum_delay": "x"}, {"jitter": 1}, True]
)
def test_redelivery_delay_that_stock_lets_pass_has_no_effect(
    store: ContractStore, value: Any
) -> None:
    store.create(_redelivery_delay=value)
    store.post("a")
    store.release(store.claim().claim_id)
    assert names(store.claim().messages) == ["a"]


def test_redelivery_in_an_unknown_form_has_no_effect(store: ContractStore) -> None:
    store.create()
    store.command("HSET", keys.of_queue(store.project, "q").queue, "redelivery", "new-9")
    store.post("a")
    store.release(store.claim().claim_id)
    assert names(store.claim().messages) == ["a"]


def test_hundreds_of_lapsed_messages_wait_for_the_redelivery_delay(store: ContractStore) -> None:
    store.create(_redelivery_delay=30)
    store.post(*map(str, range(250)))
    claim = store.claim(limit=250, ttl=60)
    assert len(claim.messages) == 250
    store.clock.tick(60)
    assert store.claim(limit=250).messages == ()
    assert store.stats().delayed == 250
    store.clock.tick(30)
    assert names(store.claim(limit=250).messages) == [*map(str, range(250))]
