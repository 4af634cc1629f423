# SPDX-License-Identifier: Apache-2.0
"""Expiry, delays, leases and dead letters, tested on a store with a manual clock."""

from __future__ import annotations

from tests.support.stores import ContractStore


def test_a_message_lives_for_its_ttl_and_not_longer(store: ContractStore) -> None:
    ids = [*store.post("short", ttl=60).ids, *store.post("long", ttl=61).ids]
    store.clock.tick(59.999)
    assert store.visible() == ["short", "long"]
    assert [message.age for message in store.get(*ids)] == [59, 59]
    store.clock.tick(0.001)
    assert [message.id for message in store.get(*ids)] == [ids[1]]
    assert store.visible() == ["long"]
    assert store.counts() == (1, 0, 1)
    store.clock.tick(1)
    assert store.claim().claim_id is None
    assert store.pop() == []
    assert store.counts() == (0, 0, 0)


def test_delay_ends_on_time(store: ContractStore) -> None:
    store.create("q", _default_message_delay=100)
    store.post("default")
    store.post("own", delay=50)
    store.post("none", delay=0)
    assert store.visible() == ["none"]
    assert store.visible(delayed=True) == ["default", "own", "none"]
    store.clock.tick(49.999)
    assert store.visible() == ["none"]
    store.clock.tick(0.001)
    assert store.visible() == ["own", "none"]
    store.clock.tick(50)
    assert store.visible() == ["default", "own", "none"]
    assert len(store.claim().messages) == 3


def test_a_delay_counts_towards_the_ttl(store: ContractStore) -> None:
    store.create("q", _default_message_delay=900)
    store.post("never seen", ttl=60)
    store.clock.tick(60)
    assert store.visible(delayed=True) == []
    store.clock.tick(900)
    assert store.claim().claim_id is None


def test_a_claim_lasts_for_its_ttl_and_not_longer(store: ContractStore) -> None:
    store.post("a", "b")
    claim = store.claim(ttl=60, limit=1).claim_id
    store.clock.tick(59.999)
    assert store.visible() == ["b"]
    store.clock.tick(0.001)
    assert store.visible() == ["a", "b"]
    assert store.held(claim) is None
    assert store.renew(claim, 60) is False
    assert store.counts() == (2, 0, 2)


def test_renewal_restarts_the_lease(store: ContractStore) -> None:
    store.post("a")
    claim = store.claim(ttl=60).claim_id
    store.clock.tick(59)
    assert store.renew(claim, ttl=100)
    found = store.run(store.driver.claims.get(store.project, "q", claim or ""))
    assert found is not None
    assert (found.age, found.ttl) == (0, 100)
    store.clock.tick(99.5)
    found = store.run(store.driver.claims.get(store.project, "q", claim or ""))
    assert found is not None
    assert found.age == 99
    store.clock.tick(0.5)
    assert store.visible() == ["a"]


def test_expired_claim_returns_its_messages_to_their_positions(store: ContractStore) -> None:
    store.post("a", "b", "c")
    store.claim(ttl=60, limit=2)
    store.post("d")
    store.clock.tick(60)
    assert [message.rank for message in store.claim().messages] == [1, 2, 3, 4]


def test_expired_claim_deletes_and_releases_nothing(store: ContractStore) -> None:
    store.post("a")
    old = store.claim(ttl=60).claim_id
    store.clock.tick(60)
    new = store.claim(ttl=60).claim_id
    store.release(old)
    assert store.counts() == (0, 1, 1)
    found = store.run(store.driver.claims.get(store.project, "q", new or ""))
    assert found is not None
    assert len(found.messages) == 1


def test_message_outlives_its_claim_by_the_grace(store: ContractStore) -> None:
    (message,) = store.post("a", ttl=60).ids
    store.claim(ttl=100, grace=70)
    assert store.get(message)[0].ttl == 170
    store.clock.tick(169.999)
    assert store.visible() == ["a"]
    store.clock.tick(0.001)
    assert store.visible() == []


def test_age_grows_while_a_message_is_claimed(store: ContractStore) -> None:
    (message,) = store.post("a", ttl=60).ids
    store.clock.tick(30)
    store.claim(ttl=300)
    store.clock.tick(200)
    assert store.get(message)[0].age == 230


def test_expired_claims_count_towards_max_claim_count(store: ContractStore) -> None:
    store.create("q", _max_claim_count=2, _dead_letter_queue="dlq")
    store.post("a")
    for _ in range(2):
        store.claim(ttl=60)
        store.clock.tick(60)
    assert store.claim().claim_id is None
    assert store.counts() == (0, 0, 0)
    assert store.visible("dlq") == ["a"]


def test_dead_letter_gets_the_configured_ttl(store: ContractStore) -> None:
    store.create(
        "q", _max_claim_count=1, _dead_letter_queue="dlq", _dead_letter_queue_messages_ttl=999
    )
    store.post("a", ttl=300)
    store.release(store.claim(ttl=60).claim_id)
    assert store.claim().claim_id is None
    (dead_letter,) = store.page(queue="dlq").items
    assert (dead_letter.ttl, dead_letter.age, dead_letter.origin) == (999, 0, "q")
    store.clock.tick(998.999)
    assert store.visible("dlq") == ["a"]
    store.clock.tick(0.001)
    assert store.visible("dlq") == []


def test_oldest_and_newest_follow_expiry(store: ContractStore) -> None:
    first, second, third = (store.post("x", ttl=ttl).ids[0] for ttl in (60, 200, 100))

    def ends() -> tuple[str, str]:
        found = store.stats()
        assert found.oldest
        assert found.newest
        return found.oldest.id, found.newest.id

    assert ends() == (first, third)
    store.clock.tick(60)
    assert ends() == (second, third)
    store.clock.tick(40)
    assert ends() == (second, second)


def test_empty_claims_and_pages_return_next_visible_ms(store: ContractStore) -> None:
    assert store.claim().next_visible_ms is None
    store.create("q", _default_message_delay=100)
    store.post("later")
    assert store.claim().next_visible_ms == 100_000
    store.post("held", delay=0)
    store.claim(ttl=60)
    store.clock.tick(10)
    assert store.claim().next_visible_ms == 50_000
    assert store.page().next_visible_ms == 50_000
