# SPDX-License-Identifier: Apache-2.0
"""Expiry, delays, leases and dead letters, tested on a store with a manual clock."""

from __future__ import annotations

from tests.support.project_store import ProjectStore


def test_a_message_lives_for_its_ttl_and_not_longer(store: ProjectStore) -> None:
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


def test_delay_ends_on_time(store: ProjectStore) -> None:
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


def test_a_delay_counts_towards_the_ttl(store: ProjectStore) -> None:
    store.create("q", _default_message_delay=900)
    store.post("q", "never seen", ttl=60)
    store.advance(60)
    assert store.list("q", delayed=True) == []
    store.advance(900)
    assert store.claim("q").claim_id is None


def test_a_claim_lasts_for_its_ttl_and_not_longer(store: ProjectStore) -> None:
    store.post("q", "a", "b")
    claim = store.held("q", ttl=60, limit=1)
    store.advance(59.999)
    assert store.list("q") == ["b"]
    store.advance(0.001)
    assert store.list("q") == ["a", "b"]
    assert store.do(store.driver.claims.get(store.project, "q", claim)) is None
    assert store.renew("q", claim) is False
    assert store.counts("q") == (2, 0, 2)


def test_renewal_restarts_the_lease(store: ProjectStore) -> None:
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


def test_expired_claim_returns_its_messages_to_their_positions(store: ProjectStore) -> None:
    store.post("q", "a", "b", "c")
    store.held("q", ttl=60, limit=2)
    store.post("q", "d")
    store.advance(60)
    assert [message.rank for message in store.claim("q").messages] == [1, 2, 3, 4]


def test_expired_claim_deletes_and_releases_nothing(store: ProjectStore) -> None:
    store.post("q", "a")
    old = store.held("q", ttl=60)
    store.advance(60)
    new = store.held("q", ttl=60)
    store.release("q", old)
    assert store.counts("q") == (0, 1, 1)
    found = store.do(store.driver.claims.get(store.project, "q", new))
    assert found is not None
    assert len(found.messages) == 1


def test_message_outlives_its_claim_by_the_grace(store: ProjectStore) -> None:
    (message,) = store.post("q", "a", ttl=60)
    store.held("q", ttl=100, grace=70)
    assert store.get("q", message)[0].ttl == 170
    store.advance(169.999)
    assert store.list("q") == ["a"]
    store.advance(0.001)
    assert store.list("q") == []


def test_age_grows_while_a_message_is_claimed(store: ProjectStore) -> None:
    (message,) = store.post("q", "a", ttl=60)
    store.advance(30)
    store.held("q", ttl=300)
    store.advance(200)
    assert store.get("q", message)[0].age == 230


def test_expired_claims_count_towards_max_claim_count(store: ProjectStore) -> None:
    store.create("q", _max_claim_count=2, _dead_letter_queue="dlq")
    store.post("q", "a")
    for _ in range(2):
        store.held("q", ttl=60)
        store.advance(60)
    assert store.claim("q").claim_id is None
    assert store.counts("q") == (0, 0, 0)
    assert store.list("dlq") == ["a"]


def test_dead_letter_gets_the_configured_ttl(store: ProjectStore) -> None:
    store.create(
        "q", _max_claim_count=1, _dead_letter_queue="dlq", _dead_letter_queue_messages_ttl=999
    )
    store.post("q", "a", ttl=300)
    store.release("q", store.held("q", ttl=60))
    assert store.claim("q").claim_id is None
    (dead_letter,) = store.do(store.page("dlq")).items
    assert (dead_letter.ttl, dead_letter.age, dead_letter.origin) == (999, 0, "q")
    store.advance(998.999)
    assert store.list("dlq") == ["a"]
    store.advance(0.001)
    assert store.list("dlq") == []


def test_oldest_and_newest_follow_expiry(store: ProjectStore) -> None:
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


def test_empty_claims_and_pages_return_next_visible_ms(store: ProjectStore) -> None:
    assert store.claim("q").next_visible_ms is None
    store.create("q", _default_message_delay=100)
    store.post("q", "later")
    assert store.claim("q").next_visible_ms == 100_000
    store.post("q", "held", delay=0)
    store.held("q", ttl=60)
    store.advance(10)
    assert store.claim("q").next_visible_ms == 50_000
    assert store.do(store.page("q")).next_visible_ms == 50_000
