# SPDX-License-Identifier: Apache-2.0
"""A request does a bounded part of what has piled up in a queue; the sweeper does the rest."""

from __future__ import annotations

import pytest

from tests.support.stores import ContractStore, findings, names

#: Commands of one request at most: a hundred calls, and some for each of 300 dead letters.
_COMMANDS_MAX = 700
_EXHAUSTED = 10_000


def commands(store: ContractStore) -> int:
    """Returns how many scripts the store has run."""
    stats = store.command("INFO", "commandstats")[0].decode()
    lines = [line for line in stats.splitlines() if line.startswith("cmdstat_evalsha")]
    return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in lines)


def sweep(store: ContractStore, rounds: int) -> None:
    for _ in range(rounds):
        store.command("DEL", "zr:sweeper")
        store.sweep(60)


def fill_with_expired(store: ContractStore, number: int) -> None:
    """Posts so many thousands of messages, lets them expire, and has one behind them."""
    store.reset()
    store.create()
    for _ in range(number):
        store.post_many(1000, ttl=60)
    store.post("behind", ttl=600)
    store.clock.tick(61)


@pytest.mark.nightly
def test_messages_behind_ten_thousand_exhausted_ones_become_claimable_by_the_sweeper(
    real: ContractStore,
) -> None:
    real.reset()
    real.create("dead")
    real.create(_max_claim_count=1, _dead_letter_queue="dead")
    for _ in range(10):
        real.post_many(_EXHAUSTED // 10)
    claims = [real.claim(limit=1000).claim_id for _ in range(10)]
    for claim in claims:
        real.release(claim)
    real.post("behind")
    before = commands(real)
    assert real.claim(limit=10).messages == ()
    assert commands(real) - before < _COMMANDS_MAX
    assert real.stats("dead").total > 0
    sweep(real, 2)
    assert names(real.claim(limit=10).messages) == ["behind"]
    assert real.stats("dead").total == _EXHAUSTED
    sweep(real, 1)
    assert real.sweep(60) == 0
    assert findings(real) == []


def test_claim_behind_thousands_of_expired_messages_is_bounded(real: ContractStore) -> None:
    fill_with_expired(real, 15)
    before = commands(real)
    assert real.claim(limit=10).messages == ()
    assert commands(real) - before < 110
    sweep(real, 2)
    assert names(real.claim(limit=10).messages) == ["behind"]


def test_statistics_of_a_queue_with_much_to_settle_are_exact(real: ContractStore) -> None:
    fill_with_expired(real, 5)
    before = commands(real)
    stats = real.stats()
    assert stats.total == 1
    assert (stats.counters.expired, stats.counters.deleted) == (5000, 0)
    assert commands(real) - before == 10


def test_listing_goes_on_behind_many_hidden_messages_page_by_page(real: ContractStore) -> None:
    fill_with_expired(real, 12)
    first = real.page()
    assert (first.items, first.next_visible_ms) == ([], 0)
    assert first.marker
    found: list[str] = []
    pages = 0
    page = first
    while not found:
        page, pages = real.page(page.marker), pages + 1
        found = names(page.items)
    assert (found, pages) == (["behind"], 1)
