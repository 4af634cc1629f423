# SPDX-License-Identifier: Apache-2.0
"""Chunks written again after a crash are stored once, in whichever pool the queue is."""

from __future__ import annotations

import multiprocessing

import pytest

from tests.support.blocking import BlockingStore, Chunk, both_pools, chunk_of
from tests.support.clock import ManualClock
from tests.support.stores import (
    TTL,
    PooledContractStore,
    checked,
    findings,
    opened,
)
from zaqar_redis import errors
from zaqar_redis.keyspace import envelope
from zaqar_redis.records import IdempotencyKey
from zaqar_redis.storage.redis.bulk.ledger import LEDGER_WINDOW_MS, BatchDigest, ChunkMismatch

DAY = 24 * 3600


def test_chunk_is_written_once(blocking: BlockingStore) -> None:
    assert blocking.last() is None
    assert blocking.write(0, 0, chunk_of("a", "b"))
    assert blocking.last() == (0, 0)
    assert not blocking.write(0, 0, chunk_of("a", "b"))
    assert blocking.write(0, 1, chunk_of("c"))
    assert blocking.bodies() == ["a", "b", "c"]
    assert blocking.last_rank() == 3
    assert blocking.last() == (0, 1)


def test_replay_of_finished_batches_writes_nothing(blocking: BlockingStore) -> None:
    chunks = [(batch, chunk) for batch in range(3) for chunk in range(12)]
    for batch, chunk in chunks:
        assert blocking.write(batch, chunk, chunk_of(f"{batch}.{chunk}"))
    for batch, chunk in chunks:
        assert not blocking.write(batch, chunk, chunk_of(f"{batch}.{chunk}"))
    assert blocking.bodies() == [f"{batch}.{chunk}" for batch, chunk in chunks]
    assert blocking.last_rank() == len(chunks)


def test_replay_does_not_restore_consumed_messages(blocking: BlockingStore) -> None:
    blocking.write(0, 0, chunk_of("a", "b"))
    claim = blocking.claim(10).claim_id
    assert claim
    assert blocking.claims.consume(blocking.project, "q", claim).run() == 2
    assert not blocking.write(0, 0, chunk_of("a", "b"))
    assert blocking.bodies() == []


@pytest.mark.parametrize(
    ("late", "comes_in"), [((4, 10), False), ((5, 8), False), ((5, 10), True), ((6, 0), True)]
)
def test_only_chunks_after_the_last_position_are_written(
    blocking: BlockingStore, late: tuple[int, int], comes_in: bool
) -> None:
    blocking.write(5, 9, chunk_of("nine"))
    assert blocking.write(*late, chunk_of("late")) == comes_in
    assert blocking.bodies() == (["nine", "late"] if comes_in else ["nine"])
    assert blocking.last() == (late if comes_in else (5, 9))


@pytest.mark.parametrize(
    "other", [chunk_of("another"), chunk_of("last", "more"), [(60, -1, chunk_of("last")[0][2])]]
)
def test_the_last_chunk_with_other_messages_is_refused(
    blocking: BlockingStore, other: Chunk
) -> None:
    blocking.write(5, 8, chunk_of("first"))
    blocking.write(5, 9, chunk_of("last"))
    with pytest.raises(ChunkMismatch):
        blocking.write(5, 9, other)
    assert blocking.bodies() == ["first", "last"]
    assert not blocking.write(5, 9, chunk_of("last"))


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (2, 1, 0)])
def test_the_same_chunks_in_another_order_are_refused(
    blocking: BlockingStore, order: tuple[int, ...]
) -> None:
    chunks = [chunk_of(str(number)) for number in range(3)]
    digest = BatchDigest()
    for number, chunk in enumerate(chunks):
        blocking.write(0, number, chunk, digest=digest)
    digest = BatchDigest()
    for number, position in enumerate(order[:2]):
        assert not blocking.write(0, number, chunks[position], digest=digest)
    with pytest.raises(ChunkMismatch):
        blocking.write(0, 2, chunks[order[2]], digest=digest)
    assert blocking.bodies() == ["0", "1", "2"]


def test_chunk_after_the_end_of_its_batch_is_refused(blocking: BlockingStore) -> None:
    digest = BatchDigest()
    blocking.write(0, 0, chunk_of("a"), digest=digest)
    blocking.write(0, 1, chunk_of("b"), digest=digest)
    for _ in range(2):
        blocking.end(0, 2, digest)
    assert blocking.last() == (0, 2)
    with pytest.raises(ChunkMismatch):
        blocking.write(0, 2, chunk_of("c"), digest=digest)
    assert not blocking.write(0, 1, chunk_of("b"))
    assert blocking.write(1, 0, chunk_of("d"))
    blocking.end(0, 2, digest)  # a batch that has ended is ignored
    assert blocking.last() == (1, 0)
    assert blocking.bodies() == ["a", "b", "d"]


def test_batch_end_with_missing_or_different_messages_is_refused(blocking: BlockingStore) -> None:
    digest = BatchDigest()
    blocking.write(0, 0, chunk_of("a"), digest=digest)
    blocking.write(0, 1, chunk_of("b"), digest=digest)
    with pytest.raises(ChunkMismatch):
        blocking.end(0, 0, BatchDigest())
    blocking.end(0, 2, digest)
    with pytest.raises(ChunkMismatch):
        blocking.end(0, 2, BatchDigest())


def test_batch_end_does_not_create_a_queue(blocking: BlockingStore) -> None:
    blocking.end(0, 0, BatchDigest())
    blocking.write(0, 0, chunk_of("a"))
    blocking.delete()
    blocking.end(0, 1, BatchDigest())
    assert blocking.last() is None
    assert blocking.queues.get(blocking.project, "q").run() is None


def test_batch_and_chunk_numbers_up_to_2_53_are_exact(blocking: BlockingStore) -> None:
    batch = 2**53 - 3
    assert blocking.write(batch, 10**15 + 1, chunk_of("a"))
    assert blocking.last() == (batch, 10**15 + 1)
    assert not blocking.write(batch, 10**15 + 1, chunk_of("a"))
    assert blocking.write(batch, 10**15 + 2, chunk_of("b"))
    assert blocking.write(batch + 1, 0, chunk_of("c"))


def test_writers_and_queues_have_independent_positions(blocking: BlockingStore) -> None:
    assert blocking.write(3, 3, chunk_of("a"), name="query:0")
    assert blocking.write(0, 0, chunk_of("b"), name="query:1")
    assert blocking.write(0, 0, chunk_of("c"), name="query")
    assert blocking.last("query:0") == (3, 3)
    assert blocking.last("query:1") == (0, 0)
    assert blocking.ledger.last(blocking.project, "other", "query").run() is None


def test_writer_and_idempotency_key_of_one_name_do_not_collide(blocking: BlockingStore) -> None:
    idempotency_key = IdempotencyKey(key="writer", fingerprint=b"\x00", window=3_600_000)
    blocking.post("a", idempotency_key=idempotency_key)
    assert blocking.last() is None
    assert blocking.write(0, 0, chunk_of("b"))
    assert blocking.post("a", idempotency_key=idempotency_key)
    assert not blocking.write(0, 0, chunk_of("b"))
    assert blocking.bodies() == ["a", "b"]


def test_recreated_queue_has_a_new_ledger(blocking: BlockingStore) -> None:
    blocking.write(7, 7, chunk_of("a"))
    entry = blocking.command("HGETALL", blocking.key("ledger"))
    blocking.delete()
    assert blocking.last() is None
    assert blocking.write(7, 7, chunk_of("b"))
    # Not even when the entry of the first epoch has survived.
    blocking.delete()
    blocking.create()
    blocking.command("HSET", blocking.key("ledger"), *entry)
    blocking.command(
        "ZADD", blocking.key("ledger_ends"), blocking.clock() + LEDGER_WINDOW_MS, entry[0]
    )
    assert blocking.last() is None
    assert blocking.write(7, 7, chunk_of("c"))
    assert blocking.bodies() == ["c"]


def test_write_creates_and_lists_a_missing_queue(blocking: BlockingStore) -> None:
    assert blocking.write(0, 0, chunk_of("a"))
    listed = blocking.queues.list(blocking.project, "", 10, None).run()
    assert [queue.name for queue in listed.items] == ["q"]
    assert blocking.command("HEXISTS", blocking.key("queue"), "unlisted") == 0


def test_written_messages_have_the_same_times_as_posted_ones(blocking: BlockingStore) -> None:
    blocking.write(0, 0, chunk_of("default") + chunk_of("own", ttl=70, delay=30))
    blocking.delete()
    blocking.create(_default_message_ttl=500, _default_message_delay=20)
    blocking.write(0, 0, chunk_of("default") + chunk_of("own", ttl=70, delay=30))
    blocking.write(0, 1, chunk_of("now", delay=0))
    stored = blocking.command("HMGET", blocking.key("bodies"), 1, 2, 3)
    now = blocking.clock()
    heads = [envelope.head(each)[:4] for each in stored]
    assert heads == [
        (now, now + 500_000, 500, 20),
        (now, now + 70_000, 70, 30),
        (now, now + 500_000, 500, 0),
    ]
    assert blocking.command("ZRANGE", blocking.key("delayed"), 0, -1) == [b"1", b"2"]
    assert blocking.command("ZRANGE", blocking.key("ready"), 0, -1) == [b"3"]


def test_delay_applies_in_a_queue_without_default_delay(blocking: BlockingStore) -> None:
    blocking.write(0, 0, chunk_of("none") + chunk_of("own", delay=30))
    stored = blocking.command("HMGET", blocking.key("bodies"), 1, 2)
    assert [envelope.head(each)[3] for each in stored] == [0, 30]
    assert blocking.command("ZRANGE", blocking.key("delayed"), 0, -1) == [b"2"]


def test_ledger_write_sends_hint_to_watchers(blocking: BlockingStore) -> None:
    (listener,) = blocking.client.listeners(blocking.key("feed"))
    with listener:
        assert (listener.get_message(timeout=60) or {})["type"].endswith("subscribe")
        blocking.write(0, 0, chunk_of("a", "b", "c"))
        blocking.write(0, 0, chunk_of("a", "b", "c"))
        blocking.write(0, 1, chunk_of("d"))
        hints = [(listener.get_message(timeout=60) or {})["data"] for _ in range(2)]
    assert hints == [b"3", b"1"]


def test_chunk_over_the_post_size_limit_is_refused_as_a_whole(blocking: BlockingStore) -> None:
    blocking.create(_max_messages_post_size=1000)
    with pytest.raises(errors.BadRequest, match="at most 1000 bytes"):
        blocking.write(0, 0, chunk_of("a"), size=1001)
    assert blocking.last() is None
    assert blocking.last_rank() == 0
    assert blocking.write(0, 0, chunk_of("a"), size=1000)
    # A replayed chunk is not measured again.
    assert not blocking.write(0, 0, chunk_of("a"), size=1001)


def test_queue_with_encryption_refuses_plain_bodies(blocking: BlockingStore) -> None:
    blocking.create(_enable_encrypt_messages=True)
    with pytest.raises(errors.EncryptionRequired):
        blocking.write(0, 0, chunk_of("a"))
    assert blocking.last() is None
    assert blocking.write(0, 0, chunk_of("a", encrypted=True), encrypted=True)


def test_ledger_write_to_queue_under_move_lock_is_refused(blocking: BlockingStore) -> None:
    blocking.post("a")
    blocking.command("SET", blocking.key("move_lock"), "out:x")
    with pytest.raises(errors.MoveLocked):
        blocking.write(0, 0, chunk_of("b"))
    with pytest.raises(errors.MoveLocked):
        blocking.last()
    blocking.command("DEL", blocking.key("move_lock"))
    assert blocking.bodies() == ["a"]
    assert blocking.last() is None


def test_more_messages_than_lua_can_unpack_are_one_chunk(blocking: BlockingStore) -> None:
    names = [f"m{number}" for number in range(3500)]
    assert blocking.write(0, 0, chunk_of(*names))
    assert blocking.bodies() == names


def test_ledger_entry_expires_90_days_after_its_last_write(blocking: BlockingStore) -> None:
    blocking.write(0, 0, chunk_of("a"))
    blocking.clock.tick(89 * DAY)
    assert not blocking.write(0, 0, chunk_of("a"))
    blocking.write(0, 1, chunk_of("b"))
    blocking.clock.tick(89 * DAY)
    assert blocking.last() == (0, 1)
    blocking.clock.tick(1 * DAY)
    assert blocking.last() is None
    while blocking.queues.sweep(blocking.project, "q").run():
        pass
    assert blocking.command("EXISTS", blocking.key("ledger"), blocking.key("ledger_ends")) == 0


def _write_all(uri: str, project: str, chunks: int) -> None:
    store = BlockingStore(uri, project, ManualClock())
    for chunk in range(chunks):
        store.write(4, chunk, chunk_of(*[f"{chunk}.{number}" for number in range(20)]))
    store.close()


def test_processes_that_write_the_same_batch_write_it_once(blocking: BlockingStore) -> None:
    spawning = multiprocessing.get_context("spawn")
    writers = [
        spawning.Process(target=_write_all, args=(blocking.uri, blocking.project, 200))
        for _ in range(2)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    expected = [f"{chunk}.{number}" for chunk in range(200) for number in range(20)]
    assert blocking.bodies() == expected
    assert blocking.last_rank() == len(expected)
    assert blocking.last() == (4, 199)


def test_checker_accepts_ledger_entries(blocking: BlockingStore) -> None:
    blocking.write(0, 0, chunk_of("a"))
    with opened(blocking.uri, blocking.project) as store:
        (found,) = [each for each in checked(store) if each.project == blocking.project]
        assert (found.exists, found.messages, found.findings) == (True, 1, ())


def test_append_without_writer_identity_is_not_deduplicated(blocking: BlockingStore) -> None:
    for _ in range(2):
        blocking.ledger.append(
            blocking.project, "q", chunk_of("a", "b"), size=0, default_ttl=TTL, encrypted=False
        ).run()
    assert blocking.bodies() == ["a", "b", "a", "b"]
    assert blocking.command("EXISTS", blocking.key("ledger")) == 0
    listed = blocking.queues.list(blocking.project, "", 10, None).run()
    assert [queue.name for queue in listed.items] == ["q"]


def test_a_ledger_moves_with_its_queue(pools: PooledContractStore) -> None:
    pools.post("first")
    source_store, target_store = both_pools(pools)
    for part in range(1500):  # more than one chunk of a move
        source_store.write(6, part % 3, chunk_of(f"m{part}"), name=f"query:{part}")
    pools.run(pools.driver.mover.move(pools.project, "q", *pools.route()))
    with pytest.raises(errors.MoveLocked):
        source_store.write(6, 0, chunk_of("m0"), name="query:0")
    for part in range(1500):
        assert target_store.last(f"query:{part}") == (6, part % 3)
    assert not target_store.write(6, 2, chunk_of("m2"), name="query:2")
    assert target_store.write(6, 3, chunk_of("more"), name="query:2")
    assert target_store.bodies() == ["first", *[f"m{part}" for part in range(1500)], "more"]
    assert target_store.last_rank() == 1502
    assert source_store.command("EXISTS", source_store.key("ledger")) == 0
    assert findings(pools) == []
    source_store.close()
    target_store.close()
