# SPDX-License-Identifier: Apache-2.0
"""Records with a lifetime are as small as doc/keys.md says, and expire when it says.

Records that are created at a rate and expire take rate x lifetime x bytes of memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.contract.conftest import BACKENDS
from tests.support.blocking import BlockingStore, chunk_of
from tests.support.stores import PATIENT, PooledContractStore, opened_pools
from zaqar_redis.figures import Alarm, HistoryPoint, LargeQueue
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import control_keys, keys
from zaqar_redis.pool_records import Job, Move
from zaqar_redis.realtime.engine import Dedup, HistoryFilter, HistoryOptions
from zaqar_redis.realtime.engines.redis import RedisHistory, RedisPresence
from zaqar_redis.realtime.engines.topics import RedisTopics
from zaqar_redis.records import IdempotencyKey, NewMessage
from zaqar_redis.storage.redis.bulk.dead_letters import RedisDeadLetters
from zaqar_redis.storage.redis.catalogue import RedisCatalogue
from zaqar_redis.storage.redis.control import RedisJobs
from zaqar_redis.storage.redis.dead_letters import DEAD_LETTER_WINDOW_MS
from zaqar_redis.storage.redis.histories import RedisHistories
from zaqar_redis.storage.redis.live import RedisLive
from zaqar_redis.storage.redis.subscription_deliveries import RedisSubscriptionDeliveries
from zaqar_redis.storage.redis.subscriptions import RedisSubscriptions
from zaqar_redis.storage.redis.transfer import RedisTransfer

#: More than Redis keeps in a compact form, which costs less (512 fields of a hash), and just
#: more than fit a table before it doubles.
NUMBER = 520
DOCUMENT = Path(__file__).parents[2] / "doc" / "keys.md"
UUID = "00000000-0000-4000-8000-{:012}"


def documented() -> dict[str, int]:
    """Returns the documented bytes of each kind of record."""
    text = DOCUMENT.read_text().partition("## Retention")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \| ([\d ]+)[^|]* \|", text, re.MULTILINE)
    return {name: int(number.replace(" ", "")) for name, number in rows}


class BoundedRecord(NamedTuple):
    #: creates so many records in the queue "q"
    make: Callable[[BlockingStore, int], object]
    #: slots of the queue that hold them
    slots: tuple[str, ...]
    #: lifetime in seconds
    seconds: int
    #: minimum lifetime in seconds; 0: the same
    least: int = 0


def _post(store: BlockingStore, number: int) -> None:
    store.post(*[""] * number, ttl=60)


def _post_with_keys(store: BlockingStore, number: int) -> None:
    for each in range(number):
        store.post("", idempotency_key=IdempotencyKey(UUID.format(each), bytes(16), 600_000))


def _post_identified(store: BlockingStore, number: int) -> None:
    messages = [NewMessage(b'""', ttl=60, dedup=UUID.format(each)) for each in range(number)]
    store.messages.post(
        store.project, "q", messages, client=UUID.format(0), default_ttl=60, size=0
    ).run()


def _claim(store: BlockingStore, number: int) -> None:
    store.post(*[""] * number, ttl=3600)
    for _ in range(number):
        store.claim(1, ttl=60, client=UUID.format(0))


def _dead_letter(store: BlockingStore, number: int) -> None:
    for each in range(number):
        dead_letter = NewMessage(body=b'""', ttl=60)
        idempotency_key = IdempotencyKey(f"dead {UUID.format(each)}", b"", DEAD_LETTER_WINDOW_MS)
        store.messages.dead_letter(
            store.project, "q", dead_letter, client=bytes(16), idempotency_key=idempotency_key
        ).run()


def _redrive(store: BlockingStore, number: int) -> None:
    store.create()
    tails = [(UUID.format(each), 60, chunk_of("")[0][2]) for each in range(number)]
    RedisDeadLetters(store.client, store.clock).post(store.project, "q", tails).run()


def _write(store: BlockingStore, number: int) -> None:
    for each in range(number):
        store.write(1000, 1000, chunk_of("", ttl=60), name=f"{UUID.format(0)}:{each}")


def _subscribe(store: BlockingStore, number: int) -> None:
    store.create()
    _subscribe_to_none(store, number)


def _subscribe_to_none(store: BlockingStore, number: int) -> None:
    of = RedisSubscriptions(store.client, store.clock)
    for each in range(number):
        of.create(store.project, "q", f"http://example.org/{each:040}", ttl=60, options={}).run()


def _subscribed(store: BlockingStore) -> str:
    of = RedisSubscriptions(store.client, store.clock)
    at = store.project, "q"
    id = of.create(*at, "queue:other", ttl=3600, options={}, delivers=True).run()
    assert id
    return id


def _enter(store: BlockingStore, number: int) -> None:
    store.create()
    _subscribed(store)
    for _ in range(number):
        store.post("", ttl=60)


def _pend(store: BlockingStore, number: int) -> None:
    store.create()
    id = _subscribed(store)
    deliveries = RedisSubscriptionDeliveries(store.client, store.clock)
    for _ in range(number):
        deliveries.send_notice(store.project, "q", id, b'""', 60).run()


_MESSAGE = ("messages", "bodies", "ready", "expiry")
_RECORDS = ("idempotency", "idempotency_old")
_DEAD_LETTERS = ("dead_letters", "dead_letters_old")
_PENDING = ("pending", "pending_ids", "pending_due", "pending_ends")
_SUBSCRIPTION = ("subscriptions", "subscribers", "subscription_ids", "subscription_ends")

SWEPT = {
    "message": BoundedRecord(_post, _MESSAGE, 60),
    "claim": BoundedRecord(_claim, ("claims", "leases", "holds", "claimed"), 60),
    "idempotency record": BoundedRecord(_post_with_keys, _RECORDS, 1200, 600),
    "record of a dedup id": BoundedRecord(_post_identified, _RECORDS[:1], 600, 300),
    "dead letter received": BoundedRecord(_dead_letter, _DEAD_LETTERS, 2 * 86_400, 86_400),
    "dead letter redriven": BoundedRecord(_redrive, _DEAD_LETTERS, 2 * 86_400, 86_400),
    "ledger entry": BoundedRecord(_write, ("ledger", "ledger_ends"), 90 * 86_400),
    "subscription": BoundedRecord(_subscribe, _SUBSCRIPTION, 60),
    "subscription to a missing queue": BoundedRecord(_subscribe_to_none, _SUBSCRIPTION, 60),
    "post to deliver": BoundedRecord(_enter, ("deliveries",), 60),
    "pending delivery": BoundedRecord(_pend, _PENDING, 60),
}


def used(store: BlockingStore, *names: bytes) -> int:
    return sum(store.command("MEMORY", "USAGE", key, "SAMPLES", 0) or 0 for key in names)


def _sweep(store: BlockingStore) -> None:
    while store.queues.sweep(store.project, "q").run():
        pass


@pytest.mark.parametrize("name", SWEPT)
def test_records_stay_within_documented_size_and_are_swept_after_expiry(
    blocking: BlockingStore, name: str
) -> None:
    record = SWEPT[name]
    record.make(blocking, NUMBER)
    slots = [blocking.key(slot) for slot in record.slots]
    compact = {b"listpack", b"ziplist"}
    assert not compact & {blocking.command("OBJECT", "ENCODING", slot) for slot in slots}
    assert 0 < used(blocking, *slots) / NUMBER <= documented()[name]
    existing = blocking.command("EXISTS", *slots)
    least = record.least or record.seconds
    blocking.clock.tick(least - 1)
    _sweep(blocking)
    assert blocking.command("EXISTS", *slots) == existing
    blocking.clock.tick(record.seconds - least + 1)
    _sweep(blocking)
    # The first is of messages, and in the second the subscription stays.
    others = [slot for slot in record.slots if slot not in ("holds", "pending_due")]
    slots = [blocking.key(slot) for slot in others]
    assert blocking.command("EXISTS", *slots) == 0
    blocking.delete()


class ExpiringKeys(NamedTuple):
    #: creates the record of this number
    make: Callable[[BlockingStore, keyspace.AsyncClient, int], Awaitable[None]]
    #: its keys
    keys: Callable[[str, int], list[bytes]]
    #: longest time to live in Redis, in seconds
    seconds: int


def _queue(*slots: str) -> Callable[[str, int], list[bytes]]:
    return lambda project, each: [
        getattr(keys.of_queue(project, f"queue-{each}"), slot) for slot in slots
    ]


def _channel(*slots: str) -> Callable[[str, int], list[bytes]]:
    return lambda project, each: [
        getattr(keys.of_channel(f"{project}/channel-{each}"), slot) for slot in slots
    ]


def _stored(client: keyspace.AsyncClient) -> RedisHistory:
    return RedisHistory(lambda channel: client, sends=True)


async def _publish(store: BlockingStore, client: keyspace.AsyncClient, each: int) -> None:
    keep = HistoryOptions(size=10, ttl=60, meta_ttl=2_592_000)
    await _stored(client).publish(f"{store.project}/channel-{each}", b'"x"', keep)


async def _publish_once(store: BlockingStore, client: keyspace.AsyncClient, each: int) -> None:
    once = Dedup(key=UUID.format(each))
    await _stored(client).publish(f"{store.project}/channel-1", b'"x"', None, once)


async def _read_channel(store: BlockingStore, client: keyspace.AsyncClient, each: int) -> None:
    keep = HistoryOptions(size=10, ttl=60, meta_ttl=2_592_000)
    channel = f"{store.project}/channel-{each}"
    await _stored(client).history(channel, HistoryFilter(limit=0), keep)


async def _add_presence(store: BlockingStore, client: keyspace.AsyncClient, each: int) -> None:
    presence = RedisPresence(lambda channel: client, store.clock)
    await presence.add(f"{store.project}/channel-{each}", UUID.format(each), "user", b"{}", 60)


async def _reserve_epoch(store: BlockingStore, client: keyspace.AsyncClient, each: int) -> None:
    live = RedisLive(client, store.clock)
    queue = f"queue-{each}"
    await live.history(store.project, queue, first=1, last=9, limit=1, reverse=False)


async def _lock_missing(store: BlockingStore, client: keyspace.AsyncClient, each: int) -> None:
    await RedisTransfer(client).lock_missing(store.project, f"queue-{each}")


async def _stage_write(store: BlockingStore, client: keyspace.AsyncClient, each: int) -> None:
    queue = f"queue-{each}"
    store.stages.put(store.project, queue, "writer", "token", 0, chunk_of("")).run()


def _point(at: int, figure: int) -> HistoryPoint:
    """Returns a point of a queue through which millions of messages have gone."""
    counters = dict.fromkeys(HistoryPoint.__struct_fields__[5:], 70_000 * figure)
    return HistoryPoint(at, figure, figure, figure, at, **counters)


async def _append_point(store: BlockingStore, client: keyspace.AsyncClient, each: int) -> None:
    points = {f"queue-{each}": _point(1_800_000_000, 1000)}
    await RedisHistories(client).append(store.project, points, 1440, 86_400)


async def _put_alarms(store: BlockingStore, client: keyspace.AsyncClient, each: int) -> None:
    alarm = Alarm("warning", f"queue queue-{each}", "t" * 100, "r" * 100)
    alarms = {f"{store.project}-{each}": [alarm] for each in range(20)}
    largest = [LargeQueue("p" * 36, f"queue-{name:020}", 10**6, 10**9) for name in range(3)]
    stores = {f"store-{number}": largest for number in range(20)}
    await RedisHistories(client).put_alarms(alarms, stores, 190)


def _history(project: str, each: int) -> list[bytes]:
    return [control_keys.EntryKeys(keys.entry(project, f"queue-{each}")).queue_history]


def _once(project: str, each: int) -> list[bytes]:
    of = keys.of_channel(f"{project}/channel-1")
    return [keys.DedupKeys(of, UUID.format(each)).once]


EXPIRING = {
    "metadata of a channel": ExpiringKeys(_read_channel, _channel("channel"), 2_592_000),
    "history of a channel": ExpiringKeys(_publish, _channel("history"), 60),
    "client in a channel": ExpiringKeys(
        _add_presence, _channel("presence", "present", "users"), 120
    ),
    "idempotency key of a publication": ExpiringKeys(_publish_once, _once, 300),
    "reserved epoch": ExpiringKeys(_reserve_epoch, _queue("reserved_epoch"), 86_400),
    "tombstone of a queue": ExpiringKeys(_lock_missing, _queue("move_lock"), 300),
    "staged chunk": ExpiringKeys(_stage_write, _queue("stages"), 86_400),
    "history of a queue": ExpiringKeys(_append_point, _history, 86_400),
    "alarms about queues": ExpiringKeys(
        _put_alarms, lambda _, each: [control_keys.CONTROL.queue_alarms] if not each else [], 190
    ),
    "largest queues of a store": ExpiringKeys(
        _put_alarms, lambda _, each: [control_keys.CONTROL.largest_queues] if not each else [], 190
    ),
}


def _expire_after(seconds: int, store: BlockingStore, names: Sequence[bytes], began: float) -> bool:
    """Whether the keys, all created since *began*, expire after so many seconds."""
    left = [store.command("PTTL", key) / 1000 for key in names]
    passed = time.monotonic() - began + 1
    return all(seconds - passed <= each <= seconds for each in left)


@pytest.mark.parametrize("name", EXPIRING)
async def test_keys_with_redis_expiry_stay_within_documented_size_and_ttl(
    blocking: BlockingStore, name: str
) -> None:
    record, number = EXPIRING[name], 20

    began = time.monotonic()
    async with keyspace.connected(blocking.uri, PATIENT) as client:
        for each in range(number):
            await record.make(blocking, client, each)
    of = [key for each in range(number) for key in record.keys(blocking.project, each)]
    assert _expire_after(record.seconds, blocking, of, began)
    assert 0 < used(blocking, *of) / number <= documented()[name]
    blocking.command("DEL", *of)


def test_topics_of_connections_are_small_and_end_with_the_lease_of_their_node(
    blocking: BlockingStore,
) -> None:
    number = 20

    async def with_topics(work: Callable[[RedisTopics], Awaitable[None]]) -> None:
        async with keyspace.connected(blocking.uri, PATIENT) as client:
            await work(RedisTopics(client, blocking.clock))

    async def subscribe(topics: RedisTopics) -> None:
        for each in range(number):
            await topics.subscribe(f"{blocking.project}/{each}", UUID.format(each), "node", 60)

    async def end(topics: RedisTopics) -> None:
        blocking.clock.tick(61)
        await topics.expire()

    asyncio.run(with_topics(subscribe))
    of = blocking.command("KEYS", "zr:{routing}:*")
    assert 0 < used(blocking, *of) / number <= documented()["topic of a connection"]
    asyncio.run(with_topics(end))
    assert blocking.command("KEYS", "zr:{routing}:*") == []


def test_points_of_a_history_are_small_and_no_more_than_allowed(blocking: BlockingStore) -> None:
    histories = RedisHistories(blocking.client)
    for each in range(NUMBER + 100):
        points = {"q": _point(1_800_000_000 + each, 1000 + each)}
        histories.append(blocking.project, points, NUMBER, 60).run()
    assert len(histories.read(blocking.project, "q").run()) == NUMBER
    key = control_keys.EntryKeys(keys.entry(blocking.project, "q")).queue_history
    assert 0 < used(blocking, key) / NUMBER <= documented()["point of a history"]
    blocking.command("DEL", key)


@pytest.fixture
def pools(project: str) -> Iterator[tuple[PooledContractStore, BlockingStore]]:
    """A pooled store, and a blocking client of its control store."""
    with BACKENDS["pooled"]() as uri, opened_pools(uri, project) as store:
        inside = BlockingStore(uri.removeprefix("pooled://").split("|")[0], project, store.clock)
        with contextlib.closing(inside.client):
            yield store, inside


def test_catalogue_entry_of_deleted_queue_is_small_and_removed(
    pools: tuple[PooledContractStore, BlockingStore],
) -> None:
    store, inside = pools
    of = control_keys.CONTROL
    lists = [of.catalogue, of.deleted, *map(control_keys.pool_queues, ("p1", "p2"))]
    before = used(inside, *lists)
    for each in range(NUMBER):
        store.create(f"queue-{each}")
        store.run(store.driver.queues.delete(store.project, f"queue-{each}"))
    each_takes = (used(inside, *lists) - before) / NUMBER
    assert 0 < each_takes <= documented()["catalogue entry of a deleted queue"]
    assert store.run(store.driver.forget_deleted(0)) == NUMBER
    assert inside.command("EXISTS", of.catalogue, of.deleted, control_keys.pool_queues("p1")) == 0


def test_records_of_moves_and_jobs_are_small_and_removed_at_the_end(
    pools: tuple[PooledContractStore, BlockingStore],
) -> None:
    store, inside = pools
    catalogue, jobs = RedisCatalogue(inside.client, store.clock), RedisJobs(inside.client)
    store.create()
    location = catalogue.locate(store.project, "q").run()
    move = Move(token="0" * 32, source=location.pool or "", target="p1")
    catalogue.begin(store.project, "q", move).run()
    jobs.put("drain:p1", Job(running=True)).run()
    assert 0 < used(inside, control_keys.CONTROL.moves) <= documented()["record of a move"]
    assert 0 < used(inside, control_keys.CONTROL.jobs) <= documented()["record of a job"]
    catalogue.end(store.project, "q", move.token).run()
    jobs.end("drain:p1").run()
    assert inside.command("EXISTS", control_keys.CONTROL.moves, control_keys.CONTROL.jobs) == 0


def test_reserved_epoch_without_pool_is_small_and_expires(
    pools: tuple[PooledContractStore, BlockingStore],
) -> None:
    store, inside = pools
    catalogue = RedisCatalogue(inside.client, store.clock)
    began = time.monotonic()
    for each in range(NUMBER):
        catalogue.reserve_epoch(store.project, f"queue-{each}").run()
    entries = [keys.entry(store.project, f"queue-{each}") for each in range(NUMBER)]
    of = [control_keys.EntryKeys(entry).reserved_epoch for entry in entries]
    assert _expire_after(86_400, inside, of, began)
    assert 0 < used(inside, *of) / NUMBER <= documented()["reserved epoch without a pool"]


def test_expiry_index_entry_is_small_and_removed_after_the_sweep(blocking: BlockingStore) -> None:
    queues = [f"queue-{each}" for each in range(NUMBER)]
    for queue in queues:
        blocking.post("", ttl=60, queue=queue)
    of = [blocking.key("sweep_index", queue) for queue in queues]
    assert 0 < used(blocking, *set(of)) / NUMBER <= documented()["sweep index entry"]

    def indexed() -> list[object]:
        entries = [keys.entry(blocking.project, queue) for queue in queues]
        return [blocking.command("ZSCORE", *each) for each in zip(of, entries, strict=True)]

    assert None not in indexed()
    blocking.clock.tick(60)
    for queue in queues:
        blocking.queues.sweep(blocking.project, queue).run()
    assert set(indexed()) == {None}
    for queue in queues:
        blocking.queues.delete(blocking.project, queue).run()


def test_documented_table_of_sizes_has_only_tested_rows() -> None:
    others = {
        *("catalogue entry of a deleted queue", "record of a move", "record of a job"),
        *("reserved epoch without a pool", "sweep index entry", "point of a history"),
        "topic of a connection",
    }
    assert set(documented()) == {*SWEPT, *EXPIRING, *others}
