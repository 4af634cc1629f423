# SPDX-License-Identifier: Apache-2.0
"""What becomes of messages that expire, where the queue sends them to its dead letters."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.contract.test_figures import figures
from tests.support.stores import ContractStore, findings, names

_DAY = 24 * 3600


@pytest.fixture
def expiring(store: ContractStore) -> ContractStore:
    """An empty store with a queue whose expired messages become dead letters."""
    store.reset()
    metadata: dict[str, Any] = {
        "_dead_letter_queue": "dead",
        "_dead_letter_queue_messages_ttl": 7 * _DAY,
    }
    store.create(_on_expiry="dead_letter", **metadata)
    return store


def _sweep(store: ContractStore, seconds: float = 61) -> None:
    """Lets time pass, and another round begin."""
    store.clock.tick(seconds)
    store.command("DEL", b"zr:sweeper")
    store.sweep()


def test_messages_that_expire_become_dead_letters(expiring: ContractStore) -> None:
    expiring.post("a", ttl=60, attributes={"n": 1})
    expiring.post("long", ttl=600)
    expiring.post("b", ttl=60, delay=30)
    expiring.post("c", ttl=60, delay=60)
    _sweep(expiring)
    dead = expiring.page(queue="dead").items
    assert names(dead) == ["a", "b", "c"]
    assert [(each.origin, each.ttl, each.age) for each in dead] == [("q", 7 * _DAY, 0)] * 3
    assert dead[0].attributes == {"n": 1}
    counters = expiring.stats().counters
    assert (counters.dead_lettered, counters.expired, counters.deleted) == (3, 0, 0)
    assert expiring.listed() == ["long"]


def test_more_messages_than_a_step_moves_become_dead_letters(expiring: ContractStore) -> None:
    expiring.post_many(350, ttl=60)
    for _ in range(4):
        _sweep(expiring)
    assert expiring.stats("dead").total == 350
    assert expiring.stats().total == 0


def test_message_whose_claim_lapsed_expires_later(expiring: ContractStore) -> None:
    metadata = {"_on_expiry": "dead_letter", "_dead_letter_queue": "dead"}
    queue = expiring.existing_queue()
    assert expiring.run(expiring.driver.queues.update(expiring.project, queue, metadata))
    expiring.post("a", ttl=60)
    expiring.clock.tick(1)
    expiring.claim(ttl=60, grace=60)
    _sweep(expiring)
    assert expiring.visible() == ["a"]
    _sweep(expiring)
    [dead] = expiring.page(queue="dead").items
    assert (names([dead]), dead.ttl) == (["a"], 120)


def test_message_that_was_claimed_too_often_is_a_dead_letter_when_it_expires(
    store: ContractStore,
) -> None:
    store.reset()
    store.create(_max_claim_count=2, _dead_letter_queue="dead")
    store.post("often", "once", "never", ttl=100)
    for limit in (1, 2):
        store.release(store.claim(ttl=60, limit=limit).claim_id or "")
    _sweep(store, 121)
    assert names(store.page(queue="dead").items) == ["often"]
    assert (store.stats().counters.dead_lettered, store.stats().counters.expired) == (1, 2)
    assert findings(store) == []


def test_expired_message_is_hidden_until_it_is_moved(expiring: ContractStore) -> None:
    [id] = expiring.post("a", ttl=60).ids
    expiring.clock.tick(60)
    assert expiring.claim().messages == ()
    assert expiring.pop() == []
    assert expiring.visible(delayed=True) == []
    assert (expiring.listed(), expiring.get(id)) == ([], [])
    for state in ("", "expired"):
        assert [each.state for each in expiring.peek(state).items] == ["expired"]
    assert not expiring.peek("claimed").items
    expiring.delete(id)
    stats = expiring.stats()
    assert (stats.total, stats.claimed, stats.oldest, stats.newest) == (0, 0, None, None)
    assert (stats.counters.dead_lettered, stats.counters.deleted) == (1, 0)
    assert figures(expiring).counters == stats.counters
    assert findings(expiring) == []
    expiring.clock.tick(600)
    assert expiring.claim().messages == ()
    expiring.post("b")
    assert expiring.stats().oldest == expiring.page().items[0]
    _sweep(expiring)
    assert (expiring.get(id), expiring.listed("dead")) == ([], ["a"])
    assert expiring.stats().counters == msgspec.structs.replace(stats.counters, posted=2)
    assert findings(expiring) == []


def test_counters_of_a_queue_that_nobody_uses_have_dead_letters_before_it_is_swept(
    expiring: ContractStore,
) -> None:
    expiring.post("a", ttl=60)
    expiring.clock.tick(61)
    counters = figures(expiring).counters
    assert (counters.dead_lettered, counters.expired, counters.deleted) == (1, 0, 0)
    _sweep(expiring)
    assert figures(expiring).counters == counters


@pytest.mark.parametrize("attribute", ["_on_expiry", "_dead_letter_queue"])
def test_messages_expire_when_the_attribute_was_removed(
    expiring: ContractStore, attribute: str
) -> None:
    expiring.post("a", ttl=60)
    queue = expiring.existing_queue()
    left = {name: value for name, value in queue.metadata.items() if name != attribute}
    assert expiring.run(expiring.driver.queues.update(expiring.project, queue, left))
    _sweep(expiring)
    assert (expiring.stats().counters.expired, expiring.queue("dead")) == (1, None)


@pytest.mark.parametrize("script", ["message_exhausted", "dead_letter_post", "message_drop"])
def test_process_that_dies_while_it_moves_leaves_one_dead_letter(
    expiring: ContractStore, script: str
) -> None:
    expiring.post("a", ttl=60)
    expiring.clock.tick(61)
    with expiring.dying_before(script):
        expiring.sweep()
    for _ in range(3):
        _sweep(expiring)
    assert expiring.listed("dead") == ["a"]
    assert (expiring.counts(), expiring.counts("dead")) == ((0, 0, 0), (1, 0, 1))


def test_message_that_cannot_be_moved_for_a_day_expires(expiring: ContractStore) -> None:
    expiring.post("a", ttl=60)
    expiring.clock.tick(61)
    with expiring.dying_before("dead_letter_post"):
        expiring.sweep()
    _sweep(expiring, _DAY)
    counters = expiring.stats().counters
    assert (counters.expired, counters.dead_lettered) == (1, 0)
    assert (expiring.listed(), expiring.listed("dead")) == ([], [])


def test_parked_message_expires_when_the_queue_has_no_dead_letters_any_more(
    expiring: ContractStore,
) -> None:
    expiring.post("a", ttl=60)
    expiring.clock.tick(61)
    assert expiring.claim().messages == ()
    assert expiring.run(
        expiring.driver.queues.update(expiring.project, expiring.existing_queue(), {})
    )
    _sweep(expiring)
    assert (expiring.stats().counters.expired, expiring.listed()) == (1, [])


@pytest.mark.parametrize(
    "metadata",
    [
        {"_on_expiry": "alarm", "_dead_letter_queue": "dead"},
        {"_on_expiry": "dead_letter"},
        {"_on_expiry": "dead_letter", "_dead_letter_queue": "q"},
        {"_on_expiry": ["dead_letter"], "_dead_letter_queue": "dead"},
    ],
)
def test_messages_of_other_queues_expire(store: ContractStore, metadata: dict[str, Any]) -> None:
    store.reset()
    store.create(**metadata)
    store.post("a", ttl=60)
    _sweep(store)
    assert store.stats().counters.expired == 1
    assert store.queue("dead") is None
