# SPDX-License-Identifier: Apache-2.0
"""Deduplication: within its window, a message that is posted again is the first one."""

from __future__ import annotations

import pytest

from tests.support.stores import ContractStore, new_messages
from zaqar_redis import errors, message_fields
from zaqar_redis.records import IdempotencyKey, NewMessage, PostResult

#: Milliseconds.
WINDOW = 300_000


def drafts(*dedup_ids: str | None, body: str = "x") -> list[NewMessage]:
    """Returns messages with these dedup ids; None: with none."""
    return [
        NewMessage(
            body=f'"{body}"'.encode(),
            ttl=60,
            attributes={message_fields.DEDUP_ID: each} if each else None,
            dedup="",
        )
        for each in dedup_ids
    ]


def post(store: ContractStore, *dedup_ids: str | None, key: str = "", **how: str) -> PostResult:
    idempotency_key = IdempotencyKey(key, bytes(16), 1000) if key else None
    return store.send(drafts(*dedup_ids, **how), idempotency_key=idempotency_key)


def test_repeated_message_has_the_id_of_the_first_one_until_its_window_ends(
    store: ContractStore,
) -> None:
    first = post(store, "a")
    assert not first.duplicates
    store.clock.now += WINDOW - 1
    again = post(store, "a", body="other")
    assert (again.ids, list(again.duplicates)) == (first.ids, [0])
    store.clock.now += 1  # a duplicate does not extend it
    later = post(store, "a")
    assert later.ids != first.ids
    assert not later.duplicates


def test_duplicates_within_one_post_and_of_others(store: ContractStore) -> None:
    [a] = post(store, "a").ids
    posted = post(store, None, "b", "a", "b", "c", None)
    assert list(posted.duplicates) == [2, 3]
    assert posted.ids[2] == a
    assert posted.ids[3] == posted.ids[1]
    assert [each.id for each in store.page().items] == [
        *(a, posted.ids[0], posted.ids[1], posted.ids[4], posted.ids[5])
    ]


def test_message_that_was_consumed_is_a_duplicate_still(store: ContractStore) -> None:
    first = post(store, "a")
    store.run(store.driver.messages.pop(store.project, "q", 1))
    assert post(store, "a").ids == first.ids
    store.run(store.driver.queues.purge(store.project, "q"))
    assert post(store, "a").ids == first.ids
    assert store.counts() == (0, 0, 0)


def test_bodies_identify_messages_of_a_queue_that_says_so(store: ContractStore) -> None:
    store.create(_content_dedup=True, _dedup_window=10)
    with pytest.raises(errors.DedupIdsRequired):
        post(store, None)
    with pytest.raises(errors.DedupIdsRequired):
        post(store, "a", None)
    assert store.counts() == (0, 0, 0)

    def send(*messages: NewMessage) -> PostResult:
        return store.send(message_fields.identified(messages, messages))

    [first] = send(*drafts(None)).ids
    posted = send(*drafts("a", None), *drafts(None, body="y"))
    assert list(posted.duplicates) == [1]
    assert posted.ids[1] == first
    store.clock.now += 10_000
    assert not send(*drafts(None)).duplicates


def test_only_clients_posts_are_deduplicated(store: ContractStore) -> None:
    store.create(_content_dedup=True)
    plain = new_messages(["x"], 60, None)
    assert store.send(plain).ids != store.send(plain).ids


def test_retry_with_an_idempotency_key_has_the_same_answer(store: ContractStore) -> None:
    post(store, "a")
    for ids in (["b", "a", None], ["a"]):
        key = f"key {len(ids)}"
        first = post(store, *ids, key=key)
        again = post(store, *ids, key=key)
        assert not first.replayed
        assert again.replayed
        assert (again.ids, list(again.duplicates)) == (first.ids, list(first.duplicates))
        assert first.duplicates
        with pytest.raises(errors.IdempotencyKeyReused):
            store.send(drafts("a"), idempotency_key=IdempotencyKey(key, bytes([1] * 16), 1000))
    assert store.counts() == (3, 0, 3)


def test_records_outlive_those_of_idempotency_keys_with_a_shorter_window(
    store: ContractStore,
) -> None:
    first = post(store, "a")
    for second in range(300):
        if second % 7 == 0:
            post(store, None, key=f"key {second}")
        if second % 50 == 0:
            assert post(store, "a").ids == first.ids
        store.clock.tick(1)
    assert post(store, "a").ids != first.ids


def test_duplicates_need_no_room(store: ContractStore) -> None:
    store.create(_max_messages=2)
    first = post(store, "a", "b")
    assert post(store, "b", "a").ids == first.ids[::-1]
    with pytest.raises(errors.QueueFull):
        post(store, "c", "a")
    store.run(store.driver.messages.pop(store.project, "q", 1))
    assert list(post(store, "a", "c").duplicates) == [0]  # what was refused was not noted


def test_changed_window_counts_at_once(store: ContractStore) -> None:
    store.create(_dedup_window=604_800)
    first = post(store, "a")
    store.clock.tick(604_799)
    assert post(store, "a").ids == first.ids
    store.run(store.driver.queues.update(store.project, store.existing_queue(), {}))
    assert post(store, "a").ids != first.ids


def test_records_of_a_long_post_are_counted_and_swept(store: ContractStore) -> None:
    ids = list(map(str, range(2_500)))
    first = post(store, *ids)
    assert store.stats().idempotency_records == len(ids)
    again = post(store, *ids)
    assert (again.ids, list(again.duplicates)) == (first.ids, list(range(len(ids))))
    store.clock.tick(600)
    while store.sweep(0):
        pass
    assert store.stats().idempotency_records == 0


def test_deleted_queue_forgets(store: ContractStore) -> None:
    first = post(store, "a")
    store.run(store.driver.queues.delete(store.project, "q"))
    assert not (again := post(store, "a")).duplicates
    assert again.ids != first.ids
