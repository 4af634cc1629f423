# SPDX-License-Identifier: Apache-2.0
"""What every store guarantees for pages of messages."""

from __future__ import annotations

import uuid

import pytest

from tests.support.stores import CLIENT, OTHER_CLIENT, STRANGE_IDS, ContractStore, names


def test_pages_follow_one_another_without_gap_or_overlap(store: ContractStore) -> None:
    store.post_many(25)
    found: list[str] = []
    marker: str | None = None
    for size in (10, 10, 5, 0):
        page = store.page(marker, 10)
        assert len(page.items) == size
        found += names(page.items)
        marker = page.marker or marker
    assert found == [str(number) for number in range(25)]


def test_a_marker_outlives_its_message(store: ContractStore) -> None:
    ids = store.post_many(10).ids
    store.delete(ids[0], ids[4])
    assert names(store.page(ids[0], 2).items) == ["1", "2"]
    assert names(store.page(ids[4], 2).items) == ["5", "6"]
    assert store.pop(limit=8) == ["1", "2", "3", "5", "6", "7", "8", "9"]
    store.post("new")
    assert names(store.page(ids[9]).items) == ["new"]


@pytest.mark.parametrize("marker", STRANGE_IDS)
def test_unknown_marker_yields_an_empty_page(store: ContractStore, marker: str) -> None:
    store.post_many(3)
    page = store.page(marker)
    assert (page.items, page.marker) == ([], "")


def test_marker_of_another_queue_or_epoch_yields_an_empty_page(store: ContractStore) -> None:
    [other] = store.post("a", queue="other").ids
    [earlier] = store.post("a").ids
    store.run(store.driver.queues.delete(store.project, "q"))
    store.post("b", "c")
    assert store.page(other).items == []
    assert store.page(earlier).items == []


def test_marker_of_the_last_message_yields_later_ones(store: ContractStore) -> None:
    *_, last = store.post("a", "b").ids
    assert store.page(last).items == []
    store.post("c")
    assert names(store.page(last).items) == ["c"]


def test_a_missing_queue_has_no_messages(store: ContractStore) -> None:
    assert store.page().items == []
    assert store.page(str(uuid.uuid4())).items == []
    assert store.get(str(uuid.uuid4())) == []
    assert store.pop() == []
    store.delete(str(uuid.uuid4()))
    assert store.queue() is None


def test_a_page_is_filled_across_hidden_messages(store: ContractStore) -> None:
    store.post("first")
    for _ in range(3):
        store.post_many(700)
        store.post("others", client=OTHER_CLIENT)
    page = store.page(limit=3, hide=CLIENT)
    assert names(page.items) == ["others"] * 3
    assert store.page(page.marker, hide=CLIENT).items == []
    short = store.page(limit=4, hide=CLIENT)
    assert names(short.items) == ["others"] * 3
    assert names(store.page(limit=2, hide=OTHER_CLIENT).items) == ["first", "0"]


def test_a_page_is_filled_across_claimed_messages(store: ContractStore) -> None:
    store.post_many(1300)
    for _ in range(13):
        store.claim(limit=100)
    store.post("free", "free too")
    assert names(store.page(limit=2).items) == ["free", "free too"]
    assert names(store.page(limit=2, delayed=True).items) == ["free", "free too"]
    claimed = store.page(limit=2, claimed=True).items
    assert names(claimed) == ["0", "1"]
    assert all(message.claim_id for message in claimed)


def test_a_page_is_filled_across_delayed_messages(store: ContractStore) -> None:
    store.create(_default_message_delay=30)
    store.post_many(1300)
    store.post("now", delay=0)
    store.claim(limit=1)
    store.post("now too", delay=0)
    assert names(store.page(limit=2).items) == ["now too"]
    assert names(store.page(limit=2, claimed=True).items) == ["now", "now too"]
    assert names(store.page(limit=2, delayed=True).items) == ["0", "1"]


@pytest.mark.parametrize("number", [8000])
def test_thousands_of_expired_messages_at_the_head_are_skipped(
    store: ContractStore, number: int
) -> None:
    def post_behind_expiring(queue: str) -> None:
        store.post_many(number, queue=queue, ttl=60)
        store.post("a", "b", queue=queue, ttl=6000)

    for queue in ("listed", "claimed", "popped"):
        post_behind_expiring(queue)
    store.clock.tick(60)
    assert names(store.page(limit=10, queue="listed").items) == ["a", "b"]
    assert names(store.claim(limit=10, queue="claimed").messages) == ["a", "b"]
    assert store.pop(limit=10, queue="popped") == ["a", "b"]
    post_behind_expiring("popped")
    store.clock.tick(60)
    assert store.pop(limit=1, queue="popped") == ["a"]
