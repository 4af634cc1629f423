# SPDX-License-Identifier: Apache-2.0
"""Idempotency records: valid for a window, removed after two, and small."""

from __future__ import annotations

import pytest

from tests.support.blocking import BlockingStore
from tests.support.stores import (
    OWN_KEYS,
    ContractStore,
    PooledContractStore,
    checked,
    findings,
)
from zaqar_redis.keyspace import keys
from zaqar_redis.records import IdempotencyKey, NewMessage

#: The keys in Redis that hold a queue's idempotency records.
SLOTS = ("idempotency", "idempotency_old")
#: Bytes of a record at most, and a number of records for which a hash table of Redis has just
#: doubled, so that it is as sparse as it gets.
RECORD_MAX, RECORDS = 120, 33_500


def idempotency_key(key: object, window: float = 10) -> IdempotencyKey:
    """Returns a key; *window* in seconds, unless the queue sets one."""
    return IdempotencyKey(key=str(key), fingerprint=bytes(16), window=round(window * 1000))


def is_retry(store: ContractStore, key: object, window: float = 10) -> bool:
    """Posts with the key; whether it was recognised as a retry."""
    return store.post("x", idempotency_key=idempotency_key(key, window)).replayed


def record_count(store: ContractStore, *slots: str) -> int:
    of_queue = keys.of_queue(store.project, "q")
    return sum(store.command("EXISTS", *[getattr(of_queue, slot) for slot in slots or SLOTS]))


def test_key_is_recognised_within_window_and_expires_within_two_under_traffic(
    store: ContractStore,
) -> None:
    for second in range(65):
        assert not is_retry(store, second)
        if second >= 10:
            store.clock.now -= 1  # in the last millisecond of its window
            assert is_retry(store, second - 10)
            store.clock.now += 1
        if second >= 20:
            assert not is_retry(store, second - 20)
        store.clock.tick(1)


def test_key_expires_after_two_idle_windows(store: ContractStore) -> None:
    assert not is_retry(store, "a")
    store.clock.tick(20)
    assert not is_retry(store, "a")


def test_retry_does_not_extend_its_key(store: ContractStore) -> None:
    assert not is_retry(store, "a")
    for _ in range(19):
        store.clock.tick(1)
        assert is_retry(store, "a")
    store.clock.tick(1)
    assert not is_retry(store, "a")


def test_window_of_the_queue_overrides_the_service_window(store: ContractStore) -> None:
    store.create(_idempotency_window=60)
    assert not is_retry(store, "a", window=1)
    store.clock.tick(60)
    assert is_retry(store, "a", window=1)
    store.clock.tick(60)
    assert not is_retry(store, "a", window=3600)


def test_queue_that_drops_its_window_uses_the_service_window(store: ContractStore) -> None:
    store.create(_idempotency_window=3600)
    store.run(store.driver.queues.update(store.project, store.existing_queue(), {}))
    assert not is_retry(store, "a")
    store.clock.tick(20)
    assert not is_retry(store, "a")


@pytest.mark.parametrize("changed", [1, 50, 59, 119])
@pytest.mark.parametrize(("before", "after"), [(60, 7), (7, 60), (60, 59), (3600, 60)])
def test_changed_window_keeps_every_key_at_least_the_shorter_of_both(
    real: ContractStore, before: int, after: int, changed: int
) -> None:
    posted: dict[int, int] = {}
    window = before
    for second in range(changed + 2 * max(7, after) + 5):
        if second == changed:
            real.run(
                real.driver.queues.update(
                    real.project, real.existing_queue(), {"_idempotency_window": after}
                )
            )
            window = after
        elif not second:
            real.create(_idempotency_window=before)
        for earlier, at_least in posted.items():
            if second - earlier == min(at_least, window) - 1:
                assert is_retry(real, earlier)
        assert not is_retry(real, second)
        posted[second] = window
        real.clock.tick(1)


def test_records_of_idle_queue_are_swept(store: ContractStore) -> None:
    assert not is_retry(store, "a")
    store.clock.tick(11)
    assert not is_retry(store, "b")
    assert record_count(store) == 2
    store.clock.tick(9)
    assert store.sweep(0) >= 1
    assert (record_count(store), store.stats().idempotency_records) == (1, 1)
    assert is_retry(store, "b")
    store.clock.tick(11)
    assert store.sweep(0) >= 1
    assert record_count(store) == 0


def test_records_are_counted(store: ContractStore) -> None:
    assert store.stats().idempotency_records == 0
    store.post("a")
    assert store.stats().idempotency_records == 0
    for number in range(5):
        is_retry(store, number)
        is_retry(store, number)
        store.clock.tick(3)
    assert store.stats().idempotency_records == 5
    store.run(store.driver.queues.purge(store.project, "q"))
    assert (store.stats().total, store.stats().idempotency_records) == (0, 5)


def test_records_are_deleted_with_their_queue(store: ContractStore) -> None:
    is_retry(store, "a")
    store.clock.tick(11)
    is_retry(store, "b")
    store.run(store.driver.queues.delete(store.project, "q"))
    assert record_count(store) == 0
    store.create()
    assert not is_retry(store, "a")
    assert not is_retry(store, "b")


def test_records_without_their_queue_are_ignored(real: ContractStore) -> None:
    is_retry(real, "a")
    real.command("DEL", keys.of_queue(real.project, "q").queue)
    assert not is_retry(real, "a")


def test_expired_records_are_not_counted_before_the_sweep(store: ContractStore) -> None:
    is_retry(store, "a")
    window = 10
    store.clock.tick(2 * window - 1)
    assert store.stats().idempotency_records == 1
    store.clock.tick(1)
    assert (record_count(store), store.stats().idempotency_records) == (1, 0)


def test_post_without_a_key_stores_no_record(store: ContractStore) -> None:
    store.post("a")
    assert (
        record_count(store, *SLOTS, "dead_letters", "dead_letters_old", "ledger", "ledger_ends")
        == 0
    )


def post_dead_letter(store: ContractStore) -> None:
    """Posts a dead letter, always the same one."""
    dead_letter, same = NewMessage(body=b'"letter"', ttl=600), idempotency_key("letter", 3600)
    store.run(
        store.driver.messages.dead_letter(
            store.project, "q", dead_letter, client=bytes(16), idempotency_key=same
        )
    )


def _fill(store: BlockingStore, number: int) -> None:
    """Creates records in the form of a post, by a script: only their size matters."""
    store.post("first", idempotency_key=idempotency_key("first"))
    for start in range(0, number, 5000):
        store.client.commands(
            *[
                ("HSET", store.key("idempotency"), keys.idempotency_key(str(each)), _record(each))
                for each in range(start, min(start + 5000, number))
            ]
        )


def _record(rank: int) -> bytes:
    return b"%d 1 " % (10**9 + rank) + bytes(16)


def test_record_size_in_memory_is_bounded(blocking: BlockingStore) -> None:
    blocking.post("a", idempotency_key=idempotency_key("a"))
    (record,) = blocking.command("HMGET", blocking.key("idempotency"), keys.idempotency_key("a"))
    assert len(record) <= len(_record(0))
    _fill(blocking, RECORDS)
    used = blocking.command("MEMORY", "USAGE", blocking.key("idempotency"), "SAMPLES", 0)
    assert used / RECORDS <= RECORD_MAX
    blocking.delete()


def test_expired_records_leave_no_memory(blocking: BlockingStore) -> None:
    """After two windows, messages claimed and deleted one by one leave no key in Redis."""
    for number in range(300):
        blocking.post("a", idempotency_key=idempotency_key(number))
        taken = blocking.claim(1)
        blocking.messages.delete(
            blocking.project,
            "q",
            [taken.messages[0].id],
            claims=[taken.claim_id or ""],
            force=False,
        ).run()
    left = _existing_keys(blocking)
    assert left <= {"queue", "idempotency", "claims", "leases", "spent"}
    assert blocking.command("HLEN", blocking.key("claims")) < 64
    blocking.clock.tick(601)
    while blocking.queues.sweep(blocking.project, "q").run():
        pass
    assert _existing_keys(blocking) == {"queue"}


def _existing_keys(store: BlockingStore) -> set[str]:
    return {slot for slot in OWN_KEYS if store.command("EXISTS", store.key(slot))}


def test_dead_letter_is_deduplicated_for_a_day_whatever_the_queue_window(
    real: ContractStore,
) -> None:
    real.create(_max_claim_count=1, _dead_letter_queue="dead")
    real.create("dead", _idempotency_window=1)
    real.post("a", ttl=14 * 86_400)
    real.claim(ttl=60)
    real.clock.tick(61)
    with real.dying_before("message_drop"):
        real.claim()
    assert real.listed("dead") == ["a"]
    for _ in range(5):
        real.post("other", queue="dead", idempotency_key=idempotency_key("other", 1))
        real.clock.tick(86_400 / 5 - 60)
    assert real.claim().messages == ()
    assert real.listed() == []
    assert real.listed("dead").count("a") == 1
    assert real.stats("dead").idempotency_records <= 2


def test_records_move_with_their_queue_and_keep_their_age(pools: PooledContractStore) -> None:
    for number in range(1500):  # more than one chunk of a move
        is_retry(pools, number)
    pools.clock.tick(11)
    for number in range(1500, 1510):
        is_retry(pools, number)
    post_dead_letter(pools)
    pools.clock.tick(8)
    pools.run(pools.driver.mover.move(pools.project, "q", *pools.route()))
    assert pools.stats().idempotency_records == 1510
    assert record_count(pools) == 2  # in one store only
    assert findings(pools) == []
    assert all(is_retry(pools, number) for number in range(1510))
    before = pools.stats().total
    post_dead_letter(pools)
    assert pools.stats().total == before
    pools.clock.tick(1)  # the end of the second window of the first ones
    assert not is_retry(pools, 0)
    assert all(is_retry(pools, number) for number in range(1500, 1510))


@pytest.mark.parametrize("slot", [*SLOTS, "dead_letters", "dead_letters_old"])
def test_orphaned_records_are_found_and_removed_by_checker(real: ContractStore, slot: str) -> None:
    key = getattr(keys.of_queue(real.project, "q"), slot)
    real.command("HSET", key, "since", 1, "till", 2, "r", "x")
    (found,) = [each for each in checked(real) if each.project == real.project]
    assert not found.exists
    assert [finding.damage for finding in found.findings] == [True]
    checked(real, repair=True)
    assert record_count(real, slot) == 0
