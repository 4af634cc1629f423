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
