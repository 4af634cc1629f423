# SPDX-License-Identifier: Apache-2.0
"""A clock that is set back: nothing comes early or twice, and what begins afterwards is on time."""

from __future__ import annotations

import msgspec
import pytest

from tests.contract.test_dedup import post as post_deduplicated
from tests.support.stores import ContractStore, names, new_messages

_BACK = 3600


def test_lease_lasts_until_its_time_when_the_clock_is_set_back(store: ContractStore) -> None:
    store.post("a")
    claim = store.claim(ttl=60).claim_id
    store.clock.tick(-_BACK)
    assert store.held(claim) == ["a"]
    store.clock.tick(_BACK + 59)
    assert names(store.claim().messages) == []
    store.clock.tick(1)
    assert names(store.claim().messages) == ["a"]


def test_later_lease_ends_on_time_when_the_clock_was_set_back(store: ContractStore) -> None:
    store.post("a")
    store.claim(ttl=60)
    store.clock.tick(-_BACK)
    store.post("b", "c")
    store.claim(1, ttl=60)
    assert store.pop() == ["c"]
    store.clock.tick(60)
    assert names(store.claim().messages) == ["b"]


def test_renewed_lease_counts_from_the_clock_that_was_set_back(store: ContractStore) -> None:
    ids = store.post("a", "b").ids
    claim = store.claim(ttl=60).claim_id
    store.clock.tick(-_BACK)
    assert store.renew_some(claim, ids[0], ttl=60) == (ids[0],)
    store.clock.tick(60)
    assert names(store.claim().messages) == ["a"]
    assert store.held(claim) == ["b"]
    assert store.renew(claim, 60)
    store.clock.tick(60)
    assert sorted(names(store.claim().messages)) == ["a", "b"]


@pytest.mark.parametrize("delay", [None, 30])
def test_released_message_waits_from_the_clock_that_was_set_back(
    store: ContractStore, delay: int | None
) -> None:
    store.create(_redelivery_delay=20)
    ids = store.post("a").ids
    claim = store.claim(ttl=60).claim_id
    store.clock.tick(-_BACK)
    assert store.release_some(claim, *ids, delay=delay) == ids
    assert store.claim().next_visible_ms == (delay or 20) * 1000
    store.clock.tick(delay or 20)
    assert names(store.claim().messages) == ["a"]


def test_message_waits_for_its_redelivery_delay_when_the_clock_is_set_back(
    store: ContractStore,
) -> None:
    store.create(_redelivery_delay=20)
    store.post("a")
    store.release(store.claim(ttl=60).claim_id)
    store.clock.tick(-_BACK)
    assert names(store.claim().messages) == []
    store.clock.tick(_BACK + 19)
    assert names(store.claim().messages) == []
    store.clock.tick(1)
    assert names(store.claim().messages) == ["a"]


@pytest.mark.parametrize("at", [True, False])
def test_scheduled_message_is_not_early_when_the_clock_is_set_back(
    store: ContractStore, at: bool
) -> None:
    (new,) = new_messages(["a"], 2 * _BACK, None if at else 100)
    due = store.clock.now + 100_000
    store.send([msgspec.structs.replace(new, deliver_at=due) if at else new])
    store.clock.tick(-_BACK)
    store.sweep()
    store.clock.tick(_BACK + 99)
    assert (names(store.claim().messages), store.pop()) == ([], [])
    store.clock.tick(1)
    assert names(store.claim().messages) == ["a"]


def test_duplicate_is_found_when_the_clock_is_set_back(store: ContractStore) -> None:
    first = post_deduplicated(store, "d").ids
    store.clock.tick(-_BACK)
    assert post_deduplicated(store, "d").ids == first


def test_message_is_deleted_and_dead_once_when_the_clock_is_set_back(store: ContractStore) -> None:
    store.create(_dead_letter_queue="dead", _max_claim_count=1)
    ids = store.post("a", "b").ids
    claim = store.claim(ttl=60).claim_id
    store.clock.tick(-_BACK)
    store.delete(ids[1], claims=[claim])
    store.release(claim)
    assert names(store.claim().messages) == []
    assert store.listed("dead") == ["a"]
    assert store.listed() == []
