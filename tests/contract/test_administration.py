# SPDX-License-Identifier: Apache-2.0
"""What operators do with messages and claims: peek, list claims, move, copy."""

from __future__ import annotations

import re

import pytest

from tests.support.stores import CLIENT, STRANGE_IDS, ContractStore, names
from zaqar_redis.keyspace import keys
from zaqar_redis.records import Attributes, PeekPage


def _states(page: PeekPage) -> dict[str, str]:
    return dict(
        zip(
            names([each.message for each in page.items]),
            [each.state for each in page.items],
            strict=True,
        )
    )


def _every_state(store: ContractStore) -> str | None:
    """Posts a message of each state; returns the claim of the claimed one."""
    store.post("expired", ttl=60)
    store.clock.tick(61)
    store.post("claimed")
    claim = store.claim(1, ttl=300).claim_id
    store.post("free")
    store.post("delayed", delay=100)
    return claim


def test_peek_shows_messages_of_all_states_with_what_holds_them(store: ContractStore) -> None:
    store.post("dead")  # the claim settles: what is expired is gone when it is made
    claim = _every_state(store)
    store.post("also expired", ttl=60)
    store.clock.tick(61)
    page = store.peek()
    assert _states(page) == {
        "dead": "claimed",
        "claimed": "free",
        "free": "free",
        "delayed": "delayed",
        "also expired": "expired",
    }
    held, *_, delayed, _expired = page.items
    assert (held.message.claim_id, held.message.claim_count) == (claim, 1)
    now = store.clock()
    assert (held.until, delayed.until) == (now + 239_000, now + 39_000)
    assert page.items[1].message.claim_id is None
    assert page.marker == ""


@pytest.mark.parametrize("state", ["free", "claimed", "delayed", "expired"])
def test_peek_with_a_state_shows_only_its_messages(store: ContractStore, state: str) -> None:
    store.post("claimed")
    store.claim(1, ttl=300)
    store.post("free")
    store.post("delayed", delay=100)
    store.post("expired", ttl=60)
    store.clock.tick(61)
    assert _states(store.peek(state)) == {state: state}


def test_peek_changes_nothing(store: ContractStore) -> None:
    store.post_many(3)
    claim = store.claim(1, ttl=60).claim_id
    store.clock.tick(61)  # the claim has expired, and nobody has settled that
    held = keys.of_queue(store.project, "q").claimed
    assert sum(store.command("ZCARD", held)) == 1
    assert _states(store.peek("free")) == {"0": "free", "1": "free", "2": "free"}
    assert store.peek("free").items[0].message.claim_count == 1
    assert store.claims().items == []
    assert sum(store.command("ZCARD", held)) == 1
    assert store.held(claim) is None


def test_peek_pages_cover_every_message_once(store: ContractStore) -> None:
    store.post_many(1205)
    store.claim(700, ttl=300)
    for state, expected in (("", 1205), ("claimed", 700), ("free", 505), ("delayed", 0)):
        found: list[str] = []
        after: str | None = None
        while after != "":
            page = store.peek(state, after, 100)
            assert len(page.items) <= 100
            found += names([each.message for each in page.items])
            after = page.marker
        assert len(found) == len(set(found)) == expected
        assert found == sorted(found, key=int)


def test_peek_at_nothing_and_behind_strange_ids_is_empty(store: ContractStore) -> None:
    assert store.peek() == PeekPage(items=())
    store.post("one")
    assert [store.peek(after=id).items for id in STRANGE_IDS] == [()] * len(STRANGE_IDS)


def test_claims_are_listed_with_what_they_still_hold(store: ContractStore) -> None:
    assert store.claims().items == []
    store.post_many(10)
    long = store.claim(2, ttl=600)
    short = store.claim(3, ttl=100)
    ended = store.claim(1, ttl=60)
    store.clock.tick(61)
    store.delete(short.messages[0].id, claims=[short.claim_id])
    found = store.claims().items
    assert [(each.id, each.ttl, each.age, each.messages) for each in found] == [
        (short.claim_id, 100, 61, 2),
        (long.claim_id, 600, 61, 2),
    ]
    assert ended.claim_id not in {each.id for each in found}
    store.delete(*[each.id for each in long.messages], claims=[long.claim_id])
    assert [each.id for each in store.claims().items] == [short.claim_id]


def test_pages_of_claims_cover_every_claim_once(store: ContractStore) -> None:
    store.post_many(250)
    made = [store.claim(1, ttl=300).claim_id for _ in range(250)]  # all end at one moment
    found: list[str] = []
    after = ""
    while True:
        page = store.claims(after, 20)
        found += [each.id for each in page.items]
        after = page.marker
        if not after:
            break
    assert sorted(found) == sorted(each for each in made if each)


@pytest.mark.parametrize("client", [CLIENT, "7 of 9, 12 é\n\u00f5\U0001f6005"])
def test_a_claim_names_its_client_until_it_ends(store: ContractStore, client: str) -> None:
    store.post("a", "b", "free")
    claim = store.claim(2, ttl=60, client=client).claim_id

    def shown() -> tuple[list[str], list[str]]:
        peeked = [each.claim_client for each in store.peek().items]
        return [each.client for each in store.claims().items], peeked

    assert shown() == ([client], [client, client, ""])
    store.clock.tick(50)
    assert store.renew(claim, ttl=60)
    store.clock.tick(50)
    assert shown() == ([client], [client, client, ""])
    assert store.held(claim) == ["a", "b"]
    store.clock.tick(11)
    assert shown() == ([], ["", "", ""])


def test_the_record_of_a_claim_is_one_that_the_version_before_reads(store: ContractStore) -> None:
    """It takes the first number for the TTL, and the others for ranks."""
    store.post("a", "b")
    store.claim(1, ttl=60, client="12 34 5")
    store.claim(1, ttl=61)
    stored = store.command("HVALS", keys.of_queue(store.project, "q").claims)
    named, unnamed = sorted((record for part in stored for record in part), key=len, reverse=True)
    assert re.fullmatch(rb"60 [^\d ]+ 1", named)
    assert unnamed == b"61 2"  # as the version before writes it
    assert [each.client for each in store.claims().items] == ["12 34 5", ""]


def test_moved_messages_are_in_the_other_queue_alone(store: ContractStore) -> None:
    store.create("other")
    ids = store.post("a", "b", "c", ttl=500).ids
    store.post("later", delay=100)
    assert store.move(ids[2], ids[0]) == [ids[2], ids[0]]
    assert store.visible("other") == ["c", "a"]
    assert store.listed() == ["b", "later"]
    assert [each.message.ttl for each in store.peek(queue="other").items] == [500, 500]
    assert store.counts() == (2, 0, 2)


def test_move_leaves_claimed_missing_and_strange_messages(store: ContractStore) -> None:
    store.create("other")
    ids = store.post("claimed", "deleted", "free").ids
    claim = store.claim(1).claim_id
    store.delete(ids[1])
    assert store.move(*ids, *STRANGE_IDS) == [ids[2]]
    assert store.visible("other") == ["free"]
    assert store.held(claim) == ["claimed"]


def test_a_claim_that_comes_first_keeps_its_message_from_a_move(store: ContractStore) -> None:
    store.create("other")
    ids = store.post_many(20).ids
    claimed = store.claim(10)
    moved = store.move(*ids)
    assert moved == list(ids[10:])
    assert store.held(claimed.claim_id) == [str(number) for number in range(10)]
    assert len(store.listed("other")) == 10


@pytest.mark.parametrize(
    ("script", "after"), [("dead_letter_post", 0), ("dead_letter_post", 1), ("message_drop", 0)]
)
def test_a_move_that_is_interrupted_loses_and_doubles_nothing(
    store: ContractStore, script: str, after: int
) -> None:
    store.create("other")
    ids = store.post("a", "b", "later", delay=None).ids
    with store.dying_before(script, after):
        store.move(*ids)
    assert store.claim().messages == ()  # they are held
    assert sorted({*store.listed(), *store.listed("other")}) == ["a", "b", "later"]
    store.clock.tick(61)
    assert store.move(*ids) == list(ids)
    assert store.listed("other") == ["a", "b", "later"]
    assert store.listed() == []


def test_a_delayed_message_whose_move_is_interrupted_stays_delayed(store: ContractStore) -> None:
    store.create("other")
    ids = store.post("later", delay=200).ids
    with store.dying_before("dead_letter_post"):
        store.move(*ids)
    store.clock.tick(100)
    assert store.visible() == []
    store.clock.tick(101)
    assert store.visible() == ["later"]


def test_a_dead_letter_goes_back_as_it_was(store: ContractStore) -> None:
    attributes: Attributes = {
        "kind": "order",
        "number": 2**64 - 1,
        "price": 0.5,
        "photo": b"\x00\xff",
    }
    store.create("q", _dead_letter_queue="dead", _max_claim_count=1)
    store.create("dead")
    store.post("poison", attributes=attributes)
    store.claim(ttl=60)
    store.clock.tick(61)
    store.claim()  # finds it claimed once too often
    [dead] = store.peek(queue="dead").items
    assert (dead.message.origin, dead.message.attributes) == ("q", attributes)
    store.create("elsewhere")
    assert store.move(dead.message.id, queue="dead", target="elsewhere") == [dead.message.id]
    [moved] = store.peek(queue="elsewhere").items
    assert moved.message.origin == "q"  # a later redrive brings it back
    assert store.move(moved.message.id, queue="elsewhere", target="q", restore=True)
    [back] = store.peek(queue="q").items
    assert (back.message.origin, back.message.claim_count) == ("", 0)
    assert back.message.attributes == attributes


def test_copies_stay_where_they_were_too_and_are_made_once(store: ContractStore) -> None:
    store.create("other")
    ids = store.post("a", "b").ids
    claim = store.claim(1).claim_id
    assert store.copy(*ids) == store.copy(*ids) == list(ids)
    assert store.visible("other") == ["a", "b"]
    assert store.held(claim) == ["a"]
    assert store.visible() == ["b"]
    assert store.move(ids[1]) == [ids[1]]  # a move does not take the copy for it
    assert store.visible("other") == ["a", "b", "b"]
