# SPDX-License-Identifier: Apache-2.0
"""Restores of queues: identical to the original, all or nothing."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from tests.spark import writing
from tests.spark.writing import BatchWrite, TaskFailed
from tests.support.spark_reads import BatchRead, SparkTestStore, pickled
from zaqar_redis import clock, errors
from zaqar_redis.keyspace import envelope
from zaqar_redis.records import NewMessage
from zaqar_redis.spark.queue_restore import NotRestored
from zaqar_redis.spark.writing.rows import BadRow
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.redis.bulk.ledger import RedisLedger
from zaqar_redis.storage.redis.catalogue import RedisCatalogue
from zaqar_redis.storage.redis.transfer import RedisTransfer

COLUMNS = (
    "rank,created,expires,body,ttl,delay,epoch,claim_count,client_id,dead_letter_from,"
    "checksum,encrypted,attributes"
)
EVERYTHING = (
    "rank,id,epoch,body,created,expires,ttl,delay,client_id,claim_count,dead_letter_from,"
    "checksum,encrypted,attributes,record"
)


def archived(store: SparkTestStore, queue: str = "q", columns: str = COLUMNS) -> pa.Table:
    return BatchRead(store.source(subscribe=queue, columns=columns, includeExpired=True)).table()


def batches(table: pa.Table) -> list[pa.RecordBatch]:
    return list(table.combine_chunks().to_batches())


class RestoreWrite(BatchWrite):
    def abort(self) -> None:
        pickled(self._writer).abort([])


def restore(store: SparkTestStore, table: pa.Table, **options: object) -> RestoreWrite:
    given = {"queue": "copy", "preserve": True} | options
    return RestoreWrite(store.source(**given), writing.schema_of(table))


def all_rows(store: SparkTestStore, queue: str) -> list[dict[str, Any]]:
    return BatchRead(store.source(subscribe=queue, columns=EVERYTHING)).rows()


def move_lock(store: SparkTestStore, queue: str = "copy") -> str:
    return str(RedisTransfer(store.client).move_lock(store.project, queue).run() or "")


def listed(store: SparkTestStore) -> list[str]:
    return [queue.name for queue in store.queues.list(store.project, "", 9, None).run().items]


def changed(table: pa.Table, column: str, values: list[Any]) -> pa.Table:
    place = table.schema.get_field_index(column)
    return table.set_column(place, column, pa.array(values, table.schema.field(column).type))


def fill_with_history(store: SparkTestStore) -> None:
    """Creates a queue with gaps, claims, a delay, dead letters and checksums."""
    store.create(_default_message_delay=1)
    store.post("old", ago=50, ttl=3000)
    store.post("delayed", delay=500)
    store.post(*range(20), delay=0)
    drafts = [
        NewMessage(b'"letter"', checksum=bytes(range(16)), origin="orders"),
        NewMessage(b"\x00\xff", encrypted=True, attributes={"n": 2**64 - 1, "photo": b"\xff"}),
    ]
    tails = [(3000, 0, envelope.tail(draft, b"client-of-16-byt")) for draft in drafts]
    RedisLedger(store.client, clock.store).append(
        store.project, "q", tails, size=0, default_ttl=60, encrypted=True
    ).run()
    store.remove(3, 4, 5, 10)
    taken = store.claim(3)
    assert taken.claim_id
    store.claims.delete(store.project, "q", taken.claim_id).run()
    store.claim(1)


def test_restored_queue_equals_the_original(store: SparkTestStore) -> None:
    fill_with_history(store)
    before = all_rows(store, "q")
    table = archived(store)
    assert table.num_rows == len(before) == 20

    writing.write_all(restore(store, table), batches(table))

    assert all_rows(store, "copy") == before
    assert store.watermarks("copy").epoch == store.watermarks("q").epoch
    assert store.last_rank("copy") == store.last_rank("q")
    assert listed(store) == ["copy", "q"]


def test_post_after_restore_gets_the_next_rank(store: SparkTestStore) -> None:
    store.post("a", "b", "c")
    table = archived(store)
    store.delete()
    writing.write_all(restore(store, table, queue="q"), batches(table))
    ids = set(store.ids().values())
    store.post("d")
    assert store.last_rank() == 4
    assert ids < set(store.ids().values())


def test_restored_claims_and_delays_keep_their_times(store: SparkTestStore) -> None:
    fill_with_history(store)
    table = archived(store)
    writing.write_all(restore(store, table), batches(table))
    taken = store.claim(100, "copy")
    assert [message.rank for message in taken.messages] == [
        rank for rank in store.ids("copy") if rank != 2
    ]
    counts = {message.rank: message.claim_count for message in taken.messages}
    assert counts[1] == 3  # claimed twice before the archive
    assert counts[20] == 1


def test_tasks_may_restore_ranks_in_any_order(store: SparkTestStore) -> None:
    store.post(*range(5000))
    table = archived(store, columns="rank,created,expires,body")
    odd = [batch.take(pa.array(range(1, batch.num_rows, 2))) for batch in batches(table)]
    even = [batch.take(pa.array(range(0, batch.num_rows, 2))) for batch in batches(table)]
    writing.write_all(restore(store, table), odd, even)
    assert store.bodies("copy") == list(range(5000))


def test_rows_of_one_epoch_only_keep_ids(store: SparkTestStore) -> None:
    store.post("a", "b")
    table = archived(store)
    two = changed(table, "epoch", ["0123456789abcdef", "fedcba9876543210"])
    writing.write_all(restore(store, two), batches(two))
    assert store.bodies("copy") == ["a", "b"]
    assert store.watermarks("copy").epoch not in two["epoch"].to_pylist()


def test_expired_rows_are_not_restored(store: SparkTestStore) -> None:
    store.post("short", "too short", ttl=60, ago=100)
    store.post("long")
    store.post("shorter", ttl=60, ago=61)
    table = archived(store)
    assert table.num_rows == 4
    written: Any = writing.write_all(restore(store, table), batches(table))
    assert [(each.rows, each.expired) for each in written] == [(1, 3)]
    assert store.bodies("copy") == ["long"]
    assert store.last_rank("copy") == 4


def test_partially_restored_queue_is_locked(store: SparkTestStore) -> None:
    store.post(*range(10))
    table = archived(store)
    write = restore(store, table)
    write.task(0, batches(table.slice(0, 5)))
    with pytest.raises(errors.MoveLocked):
        store.claim(1, "copy")
    with pytest.raises(errors.MoveLocked):
        store.post("mine", queue="copy")
    assert listed(store) == ["q"]
    write.task(1, batches(table.slice(5)))
    write.commit()
    assert len(store.claim(10, "copy").messages) == 10


def test_restore_task_may_be_retried(store: SparkTestStore) -> None:
    store.post(*range(3000))
    table = archived(store)
    write = restore(store, table)
    with pytest.raises(TaskFailed):
        write.task(0, writing.failing(batches(table.slice(0, 2000))))
    write.task(0, batches(table.slice(0, 2000)), attempt=1)
    write.task(1, batches(table.slice(2000)))
    write.commit()
    assert store.bodies("copy") == list(range(3000))


def test_failed_restore_leaves_nothing(store: SparkTestStore) -> None:
    store.post(*range(10))
    table = archived(store)
    keys = set(store.keys(f"zr:{{{store.project}/*"))
    write = restore(store, table)
    write.task(0, batches(table.slice(0, 5)))
    write.abort()
    assert set(store.keys(f"zr:{{{store.project}/*")) == keys
    store.post("mine", queue="copy")
    assert store.bodies("copy") == ["mine"]


def test_next_restore_removes_leftovers_of_a_crashed_one(store: SparkTestStore) -> None:
    store.post(*range(10))
    table = archived(store)
    crashed = restore(store, table)
    crashed.task(0, batches(table))
    assert move_lock(store).startswith("into:import-")
    half = table.slice(0, 5)
    writing.write_all(restore(store, half), batches(half))
    assert store.bodies("copy") == list(range(5))
    assert move_lock(store) == ""
    with pytest.raises(errors.MoveLocked):  # the first restore was still running
        crashed.task(1, batches(table))
    crashed.abort()
    assert store.bodies("copy") == list(range(5))


def test_restore_leaves_an_existing_queue_unchanged(store: SparkTestStore) -> None:
    store.post("a")
    store.post("mine", queue="copy")
    with pytest.raises(errors.BadConfiguration, match='"copy" exists already'):
        restore(store, archived(store))
    assert store.bodies("copy") == ["mine"]


def test_restore_leaves_a_moving_queue_unchanged(store: SparkTestStore) -> None:
    store.post("a")
    store.post("b", queue="copy")
    RedisCatalogue(store.client, clock.store).put(store.project, "copy", DEFAULT_POOL).run()
    assert RedisTransfer(store.client).freeze(store.project, "copy", "token-of-a-mover").run()
    with pytest.raises(errors.BadConfiguration, match="being moved"):
        restore(store, archived(store))
    assert move_lock(store) == "out:token-of-a-mover"


def test_duplicate_rank_is_refused(store: SparkTestStore) -> None:
    store.post("a", "b")
    table = archived(store)
    twice = pa.concat_tables([table, table])
    write = restore(store, twice)
    write.task(0, batches(twice))
    with pytest.raises(NotRestored, match=r"4 rows .* 2 ranks"):
        write.commit()
    assert move_lock(store) == ""
    assert store.bodies("copy") == []


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("rank", 0, '"rank" is 0'),
        ("rank", 2**53, '"rank" is 9007199254740992'),
        ("rank", None, '"rank" is null'),
        ("created", None, '"created" is null'),
        ("body", None, '"body" is null'),
        ("body", b"{", "not JSON"),
        ("epoch", "xyz", "16 hexadecimal digits"),
        ("dead_letter_from", "a b", "no queue's name"),
        ("checksum", b"short", "16"),
        ("delay", -1, '"delay" is -1'),
    ],
)
def test_invalid_row_is_reported(store: SparkTestStore, column: str, value: Any, why: str) -> None:
    store.post("a")
    table = changed(archived(store), column, [value])
    with pytest.raises(BadRow, match=why):
        restore(store, table).task(0, batches(table))


@pytest.mark.parametrize(
    ("columns", "options", "why"),
    [
        ("rank,created,body", {}, '"expires"'),
        (COLUMNS + ",pool", {}, '"pool"'),
        (COLUMNS, {"ttl": 60}, '"ttl"'),
        (COLUMNS, {"delivery": "ledger"}, '"delivery"'),
        (COLUMNS, {"putSize": 5}, '"putSize"'),
    ],
)
def test_invalid_restore_options_are_refused_before_any_task(
    store: SparkTestStore, columns: str, options: dict[str, object], why: str
) -> None:
    store.post("a")
    table = archived(store, columns=columns)
    with pytest.raises(errors.BadConfiguration, match=why):
        restore(store, table, **options)
    assert move_lock(store) == ""


def test_empty_queue_is_restored(store: SparkTestStore) -> None:
    before = time.time()
    store.create()
    table = archived(store)
    writing.write_all(restore(store, table), batches(table))
    created = store.queues.get(store.project, "copy").run()
    assert created is not None
    assert before - 1 <= created.created / 1000 <= time.time() + 1
    store.post("a", queue="copy")
    assert store.last_rank("copy") == 1
