# SPDX-License-Identifier: Apache-2.0
"""Queues that are restored: as they were, all or nothing."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from tests.spark import writing
from tests.spark.support import Batch, Store, pickled
from tests.spark.writing import Broken, Context, Write
from zaqar_redis import clock, errors
from zaqar_redis.keyspace import envelope
from zaqar_redis.records import Draft
from zaqar_redis.spark.restoring import NotRestored
from zaqar_redis.spark.rows import BadRow
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.drivers.redis.control import Catalogue
from zaqar_redis.storage.drivers.redis.ledger import Ledger
from zaqar_redis.storage.drivers.redis.transfer import Transfer

COLUMNS = (
    "rank,created,expires,body,ttl,delay,epoch,claim_count,client_id,dead_letter_from,"
    "checksum,encrypted"
)
EVERYTHING = (
    "rank,id,epoch,body,created,expires,ttl,delay,client_id,claim_count,dead_letter_from,"
    "checksum,encrypted,record"
)


def archived(store: Store, queue: str = "q", columns: str = COLUMNS) -> pa.Table:
    return Batch(store.source(subscribe=queue, columns=columns, includeExpired=True)).table()


def batches(table: pa.Table) -> list[pa.RecordBatch]:
    return list(table.combine_chunks().to_batches())


class Restoring(Write):
    def abort(self) -> None:
        pickled(self._writer).abort([])


def restore(store: Store, context: Context, table: pa.Table, **options: object) -> Restoring:
    given = {"queue": "copy", "preserve": True} | options
    return Restoring(store.source(**given), context, writing.schema_of(table))


def everything(store: Store, queue: str) -> list[dict[str, Any]]:
    return Batch(store.source(subscribe=queue, columns=EVERYTHING)).rows()


def gate(store: Store, queue: str = "copy") -> str:
    return Transfer(store.client).gate(store.project, queue).run()


def listed(store: Store) -> list[str]:
    return [queue.name for queue in store.queues.list(store.project, "", 9, None).run().items]


def changed(table: pa.Table, column: str, values: list[Any]) -> pa.Table:
    place = table.schema.get_field_index(column)
    return table.set_column(place, column, pa.array(values, table.schema.field(column).type))


def lived_through(store: Store) -> None:
    """A queue that has seen something: gaps, claims, a delay, dead letters, checksums."""
    store.create(_default_message_delay=1)
    store.post("old", ago=50, ttl=3000)
    store.post("delayed", delay=500)
    store.post(*range(20), delay=0)
    drafts = [
        Draft(b'"letter"', checksum=bytes(range(16)), origin="orders"),
        Draft(b"\x00\xff", sealed=True),
    ]
    tails = [(3000, 0, envelope.tail(draft, b"client-of-16-byt")) for draft in drafts]
    Ledger(store.client, clock.store).append(
        store.project, "q", tails, size=0, default_ttl=60, sealed=True
    ).run()
    store.remove(3, 4, 5, 10)
    taken = store.claim(3)
    assert taken.claim_id
    store.claims.delete(store.project, "q", taken.claim_id).run()
    store.claim(1)


def test_a_queue_comes_back_as_it_was(store: Store, context: Context) -> None:
    lived_through(store)
    before = everything(store, "q")
    table = archived(store)
    assert table.num_rows == len(before) == 20

    writing.whole(restore(store, context, table), batches(table))

    assert everything(store, "copy") == before
    assert store.top("copy").epoch == store.top("q").epoch
    assert store.last_rank("copy") == store.last_rank("q")
    assert listed(store) == ["copy", "q"]


def test_what_comes_next_gets_the_next_rank(store: Store, context: Context) -> None:
    store.post("a", "b", "c")
    table = archived(store)
    store.delete()
    writing.whole(restore(store, context, table, queue="q"), batches(table))
    ids = set(store.ids().values())
    store.post("d")
    assert store.last_rank() == 4
    assert ids < set(store.ids().values())


def test_claims_and_delays_go_by_the_old_times(store: Store, context: Context) -> None:
    lived_through(store)
    table = archived(store)
    writing.whole(restore(store, context, table), batches(table))
    taken = store.claim(100, "copy")
    assert [message.rank for message in taken.messages] == [
        rank for rank in store.ids("copy") if rank != 2
    ]
    counts = {message.rank: message.claim_count for message in taken.messages}
    assert counts[1] == 3  # twice before
    assert counts[20] == 1


def test_tasks_may_bring_ranks_in_any_order(store: Store, context: Context) -> None:
    store.post(*range(5000))
    table = archived(store, columns="rank,created,expires,body")
    odd = [batch.take(pa.array(range(1, batch.num_rows, 2))) for batch in batches(table)]
    even = [batch.take(pa.array(range(0, batch.num_rows, 2))) for batch in batches(table)]
    writing.whole(restore(store, context, table), odd, even)
    assert store.bodies("copy") == list(range(5000))


def test_rows_of_one_epoch_only_keep_ids(store: Store, context: Context) -> None:
    store.post("a", "b")
    table = archived(store)
    two = changed(table, "epoch", ["0123456789abcdef", "fedcba9876543210"])
    writing.whole(restore(store, context, two), batches(two))
    assert store.bodies("copy") == ["a", "b"]
    assert store.top("copy").epoch not in two["epoch"].to_pylist()


def test_what_has_expired_is_left_out(store: Store, context: Context) -> None:
    store.post("short", "too short", ttl=60, ago=100)
    store.post("long")
    store.post("shorter", ttl=60, ago=61)
    table = archived(store)
    assert table.num_rows == 4
    written: Any = writing.whole(restore(store, context, table), batches(table))
    assert [(each.rows, each.expired) for each in written] == [(1, 3)]
    assert store.bodies("copy") == ["long"]
    assert store.last_rank("copy") == 4


def test_nobody_sees_a_part(store: Store, context: Context) -> None:
    store.post(*range(10))
    table = archived(store)
    write = restore(store, context, table)
    write.task(0, batches(table.slice(0, 5)))
    with pytest.raises(errors.Gated):
        store.claim(1, "copy")
    with pytest.raises(errors.Gated):
        store.post("mine", queue="copy")
    assert listed(store) == ["q"]
    write.task(1, batches(table.slice(5)))
    write.commit()
    assert len(store.claim(10, "copy").messages) == 10


def test_a_task_may_be_tried_again(store: Store, context: Context) -> None:
    store.post(*range(3000))
    table = archived(store)
    write = restore(store, context, table)
    with pytest.raises(Broken):
        write.task(0, writing.breaking(batches(table.slice(0, 2000))))
    write.task(0, batches(table.slice(0, 2000)), attempt=1)
    write.task(1, batches(table.slice(2000)))
    write.commit()
    assert store.bodies("copy") == list(range(3000))


def test_a_job_that_fails_leaves_nothing(store: Store, context: Context) -> None:
    store.post(*range(10))
    table = archived(store)
    keys = set(store.command("KEYS", f"zr:{{{store.project}/*"))
    write = restore(store, context, table)
    write.task(0, batches(table.slice(0, 5)))
    write.abort()
    assert set(store.command("KEYS", f"zr:{{{store.project}/*")) == keys
    store.post("mine", queue="copy")
    assert store.bodies("copy") == ["mine"]


def test_the_next_try_clears_what_a_dead_one_left(store: Store, context: Context) -> None:
    store.post(*range(10))
    table = archived(store)
    dead = restore(store, context, table)
    dead.task(0, batches(table))
    assert gate(store).startswith("into:import-")
    half = table.slice(0, 5)
    writing.whole(restore(store, context, half), batches(half))
    assert store.bodies("copy") == list(range(5))
    assert gate(store) == ""
    with pytest.raises(errors.Gated):  # it was not dead at all
        dead.task(1, batches(table))
    dead.abort()
    assert store.bodies("copy") == list(range(5))


def test_a_queue_that_is_there_is_not_touched(store: Store, context: Context) -> None:
    store.post("a")
    store.post("mine", queue="copy")
    with pytest.raises(errors.BadConfiguration, match='"copy" already'):
        restore(store, context, archived(store))
    assert store.bodies("copy") == ["mine"]


def test_a_queue_on_the_move_is_not_touched(store: Store, context: Context) -> None:
    store.post("a")
    store.post("b", queue="copy")
    Catalogue(store.client, clock.store).put(store.project, "copy", DEFAULT).run()
    assert Transfer(store.client).freeze(store.project, "copy", "token-of-a-mover").run()
    with pytest.raises(errors.BadConfiguration, match="on the move"):
        restore(store, context, archived(store))
    assert gate(store) == "out:token-of-a-mover"


def test_a_rank_that_comes_twice_is_refused(store: Store, context: Context) -> None:
    store.post("a", "b")
    table = archived(store)
    twice = pa.concat_tables([table, table])
    write = restore(store, context, twice)
    write.task(0, batches(twice))
    with pytest.raises(NotRestored, match=r"4 rows .* 2 ranks"):
        write.commit()
    assert gate(store) == ""
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
def test_a_bad_row_is_told(
    store: Store, context: Context, column: str, value: Any, why: str
) -> None:
    store.post("a")
    table = changed(archived(store), column, [value])
    with pytest.raises(BadRow, match=why):
        restore(store, context, table).task(0, batches(table))


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
def test_what_means_nothing_is_refused_before_any_task(
    store: Store, context: Context, columns: str, options: dict[str, object], why: str
) -> None:
    store.post("a")
    table = archived(store, columns=columns)
    with pytest.raises(errors.BadConfiguration, match=why):
        restore(store, context, table, **options)
    assert gate(store) == ""


def test_a_queue_without_messages_comes_back_too(store: Store, context: Context) -> None:
    before = time.time()
    store.create()
    table = archived(store)
    writing.whole(restore(store, context, table), batches(table))
    created = store.queues.get(store.project, "copy").run()
    assert created is not None
    assert before - 1 <= created.created / 1000 <= time.time() + 1
    store.post("a", queue="copy")
    assert store.last_rank("copy") == 1
