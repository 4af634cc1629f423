# SPDX-License-Identifier: Apache-2.0
"""What is kept for a time is as small as doc/keys.md says, and goes when it says.

Whatever is made at a rate and kept for a time takes rate x time x bytes of memory.
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

from tests.contract.blocking import Blocking, chunk_of
from tests.contract.conftest import BACKENDS
from tests.contract.stores import PooledStore, opened
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.realtime.engine import Keep, Once, Since
from zaqar_redis.realtime.engines.redis import RedisHistory, RedisPresence
from zaqar_redis.records import Draft, Job, Move, Retry
from zaqar_redis.storage.drivers.redis.control import Catalogue, Jobs
from zaqar_redis.storage.drivers.redis.letters import WINDOW, Letters
from zaqar_redis.storage.drivers.redis.live import Live
from zaqar_redis.storage.drivers.redis.subscriptions import Subscriptions
from zaqar_redis.storage.drivers.redis.transfer import Transfer

#: More than Redis keeps in a compact form, which costs less (512 fields of a hash), and just
#: more than fit a table before it doubles.
NUMBER = 520
DOCUMENT = Path(__file__).parents[2] / "doc" / "keys.md"
UUID = "00000000-0000-4000-8000-{:012}"


def documented() -> dict[str, int]:
    """Bytes of each thing in the table."""
    text = DOCUMENT.read_text().partition("## What is kept for a time")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \| ([\d ]+)[^|]* \|", text, re.MULTILINE)
    return {name: int(number.replace(" ", "")) for name, number in rows}


class Kept(NamedTuple):
    #: makes so many of it in the queue "q"
    make: Callable[[Blocking, int], object]
    #: slots of the queue that hold it
    slots: tuple[str, ...]
    #: seconds behind which it is over
    seconds: int
    #: seconds for which it is there in any case; 0: the same
    least: int = 0


def _post(store: Blocking, number: int) -> None:
    store.post(*[""] * number, ttl=60)


def _post_with_keys(store: Blocking, number: int) -> None:
    for each in range(number):
        store.post("", retry=Retry(UUID.format(each), bytes(16), 600_000))


def _claim(store: Blocking, number: int) -> None:
    store.post(*[""] * number, ttl=3600)
    for _ in range(number):
        store.claim(1, ttl=60)


def _bury(store: Blocking, number: int) -> None:
    for each in range(number):
        letter = Draft(body=b'""', ttl=60)
        retry = Retry(f"dead {UUID.format(each)}", b"", WINDOW)
        store.messages.bury(store.project, "q", letter, client=bytes(16), retry=retry).run()


def _redrive(store: Blocking, number: int) -> None:
    store.create()
    tails = [(UUID.format(each), 60, chunk_of("")[0][2]) for each in range(number)]
    Letters(store.client, store.clock).post(store.project, "q", tails).run()


def _write(store: Blocking, number: int) -> None:
    for each in range(number):
        store.write(1000, 1000, chunk_of("", ttl=60), name=f"{UUID.format(0)}:{each}")


def _subscribe(store: Blocking, number: int) -> None:
    store.create()
    _subscribe_to_none(store, number)


def _subscribe_to_none(store: Blocking, number: int) -> None:
    of = Subscriptions(store.client, store.clock)
    for each in range(number):
        of.create(store.project, "q", f"http://example.org/{each:040}", ttl=60, options={}).run()


_MESSAGE = ("messages", "bodies", "ready", "expiry")
_SUBSCRIPTION = ("subscriptions", "subscribers", "subscription_ids", "subscription_ends")

SWEPT = {
    "message": Kept(_post, _MESSAGE, 60),
    "claim": Kept(_claim, ("claims", "leases", "holds", "claimed"), 60),
    "idempotency record": Kept(_post_with_keys, ("idempotency", "idempotency_old"), 1200, 600),
    "dead letter that came": Kept(_bury, ("letters", "letters_old"), 2 * 86_400, 86_400),
    "dead letter that came back": Kept(_redrive, ("letters", "letters_old"), 2 * 86_400, 86_400),
    "ledger entry": Kept(_write, ("ledger", "ledger_ends"), 90 * 86_400),
    "subscription": Kept(_subscribe, _SUBSCRIPTION, 60),
    "subscription to a queue that is not there": Kept(_subscribe_to_none, _SUBSCRIPTION, 60),
}


def used(store: Blocking, *of: bytes) -> int:
    return sum(store.command("MEMORY", "USAGE", key, "SAMPLES", 0) or 0 for key in of)


def _sweep(store: Blocking) -> None:
    while store.queues.sweep(store.project, "q").run():
        pass


@pytest.mark.parametrize("name", SWEPT)
def test_what_is_kept_is_small_and_goes_when_its_time_is_over(
    blocking: Blocking, name: str
) -> None:
    kept = SWEPT[name]
    kept.make(blocking, NUMBER)
    slots = [blocking.key(slot) for slot in kept.slots]
    compact = {b"listpack", b"ziplist"}
    assert not compact & {blocking.command("OBJECT", "ENCODING", slot) for slot in slots}
    assert 0 < used(blocking, *slots) / NUMBER <= documented()[name]
    there = blocking.command("EXISTS", *slots)
    least = kept.least or kept.seconds
    blocking.clock.tick(least - 1)
    _sweep(blocking)
    assert blocking.command("EXISTS", *slots) == there
    blocking.clock.tick(kept.seconds - least + 1)
    _sweep(blocking)
    slots = [blocking.key(slot) for slot in kept.slots if slot != "holds"]  # of messages
    assert blocking.command("EXISTS", *slots) == 0
    blocking.destroy()


class Expiring(NamedTuple):
    #: makes one of it, of the number
    make: Callable[[Blocking, keyspace.AsyncClient, int], Awaitable[None]]
    #: its keys
    keys: Callable[[str, int], list[bytes]]
    #: seconds for which Redis keeps it at most
    seconds: int


def _queue(*slots: str) -> Callable[[str, int], list[bytes]]:
    return lambda project, each: [
        getattr(keys.of_queue(project, f"queue-{each}"), slot) for slot in slots
    ]


def _channel(*slots: str) -> Callable[[str, int], list[bytes]]:
    return lambda project, each: [
        getattr(keys.of_channel(f"{project}/channel-{each}"), slot) for slot in slots
    ]


async def _publish(store: Blocking, client: keyspace.AsyncClient, each: int) -> None:
    keep = Keep(size=10, ttl=60, meta_ttl=2_592_000)
    await RedisHistory(client).publish(f"{store.project}/channel-{each}", b'"x"', keep)


async def _publish_once(store: Blocking, client: keyspace.AsyncClient, each: int) -> None:
    once = Once(key=UUID.format(each))
    await RedisHistory(client).publish(f"{store.project}/channel-1", b'"x"', None, once)


async def _look_at_channel(store: Blocking, client: keyspace.AsyncClient, each: int) -> None:
    keep = Keep(size=10, ttl=60, meta_ttl=2_592_000)
    channel = f"{store.project}/channel-{each}"
    await RedisHistory(client).history(channel, Since(limit=0), keep)


async def _enter(store: Blocking, client: keyspace.AsyncClient, each: int) -> None:
    presence = RedisPresence(client, store.clock)
    await presence.add(f"{store.project}/channel-{each}", UUID.format(each), "user", b"{}", 60)


async def _follow(store: Blocking, client: keyspace.AsyncClient, each: int) -> None:
    live = Live(client, store.clock)
    queue = f"queue-{each}"
    await live.history(store.project, queue, first=1, last=9, limit=1, reverse=False)


async def _close(store: Blocking, client: keyspace.AsyncClient, each: int) -> None:
    await Transfer(client).close(store.project, f"queue-{each}")


async def _put_aside(store: Blocking, client: keyspace.AsyncClient, each: int) -> None:
    queue = f"queue-{each}"
    store.stages.put(store.project, queue, "writer", "token", 0, chunk_of("")).run()


def _once(project: str, each: int) -> list[bytes]:
    of = keys.of_channel(f"{project}/channel-1")
    return [keys.OnceKeys(of, UUID.format(each)).once]


EXPIRING = {
    "place of a channel": Expiring(_look_at_channel, _channel("channel"), 2_592_000),
    "history of a channel": Expiring(_publish, _channel("history"), 60),
    "client in a channel": Expiring(_enter, _channel("presence", "present", "users"), 120),
    "key of a publication": Expiring(_publish_once, _once, 300),
    "epoch of a queue that is not there": Expiring(_follow, _queue("unborn"), 86_400),
    "gate of a queue that left": Expiring(_close, _queue("gate"), 300),
    "chunk that waits": Expiring(_put_aside, _queue("stages"), 86_400),
}


def _are_kept_for(seconds: int, store: Blocking, of: Sequence[bytes], began: float) -> bool:
    """Whether these keys, which were made since *began*, go when so many seconds are over."""
    left = [store.command("PTTL", key) / 1000 for key in of]
    passed = time.monotonic() - began + 1
    return all(seconds - passed <= each <= seconds for each in left)


@pytest.mark.parametrize("name", EXPIRING)
def test_what_redis_forgets_by_itself_is_small_and_has_an_end(
    blocking: Blocking, name: str
) -> None:
    kept, number = EXPIRING[name], 20

    async def made() -> None:
        client = keyspace.client(blocking.uri, BatchSettings())
        await client.start()
        for each in range(number):
            await kept.make(blocking, client, each)
        await client.close()

    began = time.monotonic()
    asyncio.run(made())
    of = [key for each in range(number) for key in kept.keys(blocking.project, each)]
    assert _are_kept_for(kept.seconds, blocking, of, began)
    assert 0 < used(blocking, *of) / number <= documented()[name]
    blocking.command("DEL", *of)


@pytest.fixture
def pools(project: str) -> Iterator[tuple[PooledStore, Blocking]]:
    """With the control store as it is inside."""
    with BACKENDS["pooled"]() as uri, opened(uri, project) as store:
        assert isinstance(store, PooledStore)
        inside = Blocking(uri.removeprefix("pooled://").split("|")[0], project, store.clock)
        with contextlib.closing(inside.client):
            yield store, inside


def test_the_place_of_a_deleted_queue_is_small_and_forgotten(
    pools: tuple[PooledStore, Blocking],
) -> None:
    store, inside = pools
    of = keys.CONTROL
    before = used(inside, of.catalogue, of.deleted, keys.pool_queues("p1"), keys.pool_queues("p2"))
    for each in range(NUMBER):
        store.create(f"queue-{each}")
        store.run(store.driver.queues.delete(store.project, f"queue-{each}"))
    after = used(inside, of.catalogue, of.deleted, keys.pool_queues("p1"), keys.pool_queues("p2"))
    assert 0 < (after - before) / NUMBER <= documented()["place of a deleted queue"]
    assert store.run(store.driver.forget_deleted(0)) == NUMBER
    assert inside.command("EXISTS", of.catalogue, of.deleted, keys.pool_queues("p1")) == 0


def test_records_of_moves_and_jobs_go_with_them(pools: tuple[PooledStore, Blocking]) -> None:
    store, inside = pools
    catalogue, jobs = Catalogue(inside.client, store.clock), Jobs(inside.client)
    store.create()
    place = catalogue.locate(store.project, "q").run()
    move = Move(token="0" * 32, source=place.pool or "", target="p1")
    catalogue.begin(store.project, "q", move).run()
    jobs.put("drain:p1", Job(running=True)).run()
    assert 0 < used(inside, keys.CONTROL.moves) <= documented()["record of a move"]
    assert 0 < used(inside, keys.CONTROL.jobs) <= documented()["record of a job"]
    catalogue.end(store.project, "q", move.token).run()
    jobs.end("drain:p1").run()
    assert inside.command("EXISTS", keys.CONTROL.moves, keys.CONTROL.jobs) == 0


def test_the_epoch_of_a_queue_in_no_pool_is_small_and_has_an_end(
    pools: tuple[PooledStore, Blocking],
) -> None:
    store, inside = pools
    catalogue = Catalogue(inside.client, store.clock)
    began = time.monotonic()
    for each in range(NUMBER):
        catalogue.promise(store.project, f"queue-{each}").run()
    of = [
        keys.EntryKeys(keys.entry(store.project, f"queue-{each}")).unborn for each in range(NUMBER)
    ]
    assert _are_kept_for(86_400, inside, of, began)
    assert 0 < used(inside, *of) / NUMBER <= documented()["epoch of a queue that is in no pool"]


def test_what_is_noted_as_due_is_small_and_goes_with_what_is_due(blocking: Blocking) -> None:
    queues = [f"queue-{each}" for each in range(NUMBER)]
    for queue in queues:
        blocking.post("", ttl=60, queue=queue)
    of = {keys.of_queue(blocking.project, queue).due for queue in queues}
    assert 0 < used(blocking, *of) / NUMBER <= documented()["queue with something due"]

    def noted() -> list[object]:
        return [
            blocking.command(
                "ZSCORE",
                keys.of_queue(blocking.project, queue).due,
                keys.entry(blocking.project, queue),
            )
            for queue in queues
        ]

    assert None not in noted()
    blocking.clock.tick(60)
    for queue in queues:
        blocking.queues.sweep(blocking.project, queue).run()
    assert set(noted()) == {None}
    for queue in queues:
        blocking.queues.delete(blocking.project, queue).run()


def test_the_table_names_nothing_that_is_not_tested() -> None:
    others = {
        "place of a deleted queue",
        "record of a move",
        "record of a job",
        "epoch of a queue that is in no pool",
        "queue with something due",
    }
    assert set(documented()) == {*SWEPT, *EXPIRING, *others}
