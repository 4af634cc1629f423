# SPDX-License-Identifier: Apache-2.0
"""What time changes: expiry, delays, leases, dead letters; at the store, whose clock we own."""

from __future__ import annotations

from tests.api.store import Store


def test_a_message_lives_for_its_ttl_and_not_longer(store: Store) -> None:
    ids = [*store.post("q", "short", ttl=60), *store.post("q", "long", ttl=61)]
    store.advance(59.999)
    assert store.list("q") == ["short", "long"]
    assert [message.age for message in store.get("q", *ids)] == [59, 59]
    store.advance(0.001)
    assert [message.id for message in store.get("q", *ids)] == [ids[1]]
    assert store.list("q") == ["long"]
    assert store.counts("q") == (1, 0, 1)
    store.advance(1)
    assert store.claim("q").claim_id is None
    assert store.pop("q") == []
    assert store.counts("q") == (0, 0, 0)


def test_a_delay_ends_when_it_should(store: Store) -> None:
    store.create("q", _default_message_delay=100)
    store.post("q", "default")
    store.post("q", "own", delay=50)
    store.post("q", "none", delay=0)
    assert store.list("q") == ["none"]
    assert store.list("q", delayed=True) == ["default", "own", "none"]
    store.advance(49.999)
    assert store.list("q") == ["none"]
    store.advance(0.001)
    assert store.list("q") == ["own", "none"]
    store.advance(50)
    assert store.list("q") == ["default", "own", "none"]
    assert len(store.claim("q").messages) == 3


def test_a_delay_counts_towards_the_ttl(store: Store) -> None:
    store.create("q", _default_message_delay=900)
    store.post("q", "never seen", ttl=60)
    store.advance(60)
    assert store.list("q", delayed=True) == []
    store.advance(900)
    assert store.claim("q").claim_id is None


def test_a_claim_lasts_for_its_ttl_and_not_longer(store: Store) -> None:
    store.post("q", "a", "b")
    claim = store.held("q", ttl=60, limit=1)
    store.advance(59.999)
    assert store.list("q") == ["b"]
    store.advance(0.001)
    assert store.list("q") == ["a", "b"]
    assert store.do(store.driver.claims.get(store.project, "q", claim)) is None
    assert store.renew("q", claim) is False
    assert store.counts("q") == (2, 0, 2)


def test_a_renewed_claim_starts_anew(store: Store) -> None:
    store.post("q", "a")
    claim = store.held("q", ttl=60)
    store.advance(59)
    assert store.renew("q", claim, ttl=100)
    found = store.do(store.driver.claims.get(store.project, "q", claim))
    assert found is not None
    assert (found.age, found.ttl) == (0, 100)
    store.advance(99.5)
    found = store.do(store.driver.claims.get(store.project, "q", claim))
    assert found is not None
    assert found.age == 99
    store.advance(0.5)
    assert store.list("q") == ["a"]


def test_a_lapsed_claim_returns_its_messages_in_their_place(store: Store) -> None:
    store.post("q", "a", "b", "c")
    store.held("q", ttl=60, limit=2)
    store.post("q", "d")
    store.advance(60)
    assert [message.rank for message in store.claim("q").messages] == [1, 2, 3, 4]


def test_a_lapsed_claim_deletes_and_releases_nothing(store: Store) -> None:
    store.post("q", "a")
    old = store.held("q", ttl=60)
    store.advance(60)
    new = store.held("q", ttl=60)
    store.release("q", old)
    assert store.counts("q") == (0, 1, 1)
    found = store.do(store.driver.claims.get(store.project, "q", new))
    assert found is not None
    assert len(found.messages) == 1


def test_grace_is_life_after_the_claim(store: Store) -> None:
    (message,) = store.post("q", "a", ttl=60)
    store.held("q", ttl=100, grace=70)
    assert store.get("q", message)[0].ttl == 170
    store.advance(169.999)
    assert store.list("q") == ["a"]
    store.advance(0.001)
    assert store.list("q") == []


def test_age_goes_on_while_a_message_is_claimed(store: Store) -> None:
    (message,) = store.post("q", "a", ttl=60)
    store.advance(30)
    store.held("q", ttl=300)
    store.advance(200)
    assert store.get("q", message)[0].age == 230


def test_claims_that_lapse_count(store: Store) -> None:
    store.create("q", _max_claim_count=2, _dead_letter_queue="dlq")
    store.post("q", "a")
    for _ in range(2):
        store.held("q", ttl=60)
        store.advance(60)
    assert store.claim("q").claim_id is None
    assert store.counts("q") == (0, 0, 0)
    assert store.list("dlq") == ["a"]


def test_a_dead_letter_lives_for_the_ttl_that_was_set(store: Store) -> None:
    store.create(
        "q", _max_claim_count=1, _dead_letter_queue="dlq", _dead_letter_queue_messages_ttl=999
    )
    store.post("q", "a", ttl=300)
    store.release("q", store.held("q", ttl=60))
    assert store.claim("q").claim_id is None
    (letter,) = store.do(store.page("dlq")).items
    assert (letter.ttl, letter.age, letter.origin) == (999, 0, "q")
    store.advance(998.999)
    assert store.list("dlq") == ["a"]
    store.advance(0.001)
    assert store.list("dlq") == []


def test_oldest_and_newest_follow_expiry(store: Store) -> None:
    first, second, third = (store.post("q", "x", ttl=ttl)[0] for ttl in (60, 200, 100))

    def ends() -> tuple[str, str]:
        found = store.stats("q")
        assert found.oldest
        assert found.newest
        return found.oldest.id, found.newest.id

    assert ends() == (first, third)
    store.advance(60)
    assert ends() == (second, third)
    store.advance(40)
    assert ends() == (second, second)


def test_who_waits_is_told_when_something_is_due(store: Store) -> None:
    assert store.claim("q").due is None
    store.create("q", _default_message_delay=100)
    store.post("q", "later")
    assert store.claim("q").due == 100_000
    store.post("q", "held", delay=0)
    store.held("q", ttl=60)
    store.advance(10)
    assert store.claim("q").due == 50_000
    assert store.do(store.page("q")).due == 50_000
