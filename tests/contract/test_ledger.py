# SPDX-License-Identifier: Apache-2.0
"""What is written again after a crash comes in once, wherever the queue is by then."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import pytest

from tests.contract.blocking import Blocking, Chunk, chunk_of
from tests.contract.conftest import BACKENDS
from tests.contract.stores import (
    POOLED,
    TTL,
    OwnedClock,
    PooledStore,
    Store,
    checked,
    findings,
    opened,
)
from zaqar_redis import errors
from zaqar_redis.keyspace import envelope
from zaqar_redis.records import Retry
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.driver import NeedsSealing
from zaqar_redis.storage.drivers.redis.ledger import WINDOW, ChunkDiffers, Digest

DAY = 24 * 3600


def test_a_chunk_comes_in_once(blocking: Blocking) -> None:
    assert blocking.last() is None
    assert blocking.write(0, 0, chunk_of("a", "b"))
    assert blocking.last() == (0, 0)
    assert not blocking.write(0, 0, chunk_of("a", "b"))
    assert blocking.write(0, 1, chunk_of("c"))
    assert blocking.bodies() == ["a", "b", "c"]
    assert blocking.last_rank() == 3
    assert blocking.last() == (0, 1)


def test_a_replay_of_finished_batches_writes_nothing(blocking: Blocking) -> None:
    chunks = [(batch, chunk) for batch in range(3) for chunk in range(12)]
    for batch, chunk in chunks:
        assert blocking.write(batch, chunk, chunk_of(f"{batch}.{chunk}"))
    for batch, chunk in chunks:
        assert not blocking.write(batch, chunk, chunk_of(f"{batch}.{chunk}"))
    assert blocking.bodies() == [f"{batch}.{chunk}" for batch, chunk in chunks]
    assert blocking.last_rank() == len(chunks)


def test_what_was_consumed_before_the_replay_does_not_come_back(blocking: Blocking) -> None:
    blocking.write(0, 0, chunk_of("a", "b"))
    claim = blocking.claim(10).claim_id
    assert claim
    assert blocking.claims.consume(blocking.project, "q", claim).run() == 2
    assert not blocking.write(0, 0, chunk_of("a", "b"))
    assert blocking.bodies() == []


@pytest.mark.parametrize(
    ("late", "comes_in"),
    [((4, 10), False), ((5, 8), False), ((5, 10), True), ((6, 0), True)],
)
def test_chunks_are_in_the_order_of_their_numbers(
    blocking: Blocking, late: tuple[int, int], comes_in: bool
) -> None:
    blocking.write(5, 9, chunk_of("nine"))
    assert blocking.write(*late, chunk_of("late")) == comes_in
    assert blocking.bodies() == (["nine", "late"] if comes_in else ["nine"])
    assert blocking.last() == (late if comes_in else (5, 9))


@pytest.mark.parametrize(
    "other", [chunk_of("another"), chunk_of("last", "more"), [(60, -1, chunk_of("last")[0][2])]]
)
def test_the_last_chunk_with_other_messages_is_refused(blocking: Blocking, other: Chunk) -> None:
    blocking.write(5, 8, chunk_of("first"))
    blocking.write(5, 9, chunk_of("last"))
    with pytest.raises(ChunkDiffers):
        blocking.write(5, 9, other)
    assert blocking.bodies() == ["first", "last"]
    assert not blocking.write(5, 9, chunk_of("last"))


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (2, 1, 0)])
def test_the_same_chunks_in_another_order_are_refused(
    blocking: Blocking, order: tuple[int, ...]
) -> None:
    chunks = [chunk_of(str(number)) for number in range(3)]
    digest = Digest()
    for number, chunk in enumerate(chunks):
        blocking.write(0, number, chunk, digest=digest)
    digest = Digest()
    for number, place in enumerate(order[:2]):
        assert not blocking.write(0, number, chunks[place], digest=digest)
    with pytest.raises(ChunkDiffers):
        blocking.write(0, 2, chunks[order[2]], digest=digest)
    assert blocking.bodies() == ["0", "1", "2"]


def test_behind_the_end_of_a_batch_nothing_more_comes_in(blocking: Blocking) -> None:
    digest = Digest()
    blocking.write(0, 0, chunk_of("a"), digest=digest)
    blocking.write(0, 1, chunk_of("b"), digest=digest)
    for _ in range(2):
        blocking.end(0, 2, digest)
    assert blocking.last() == (0, 2)
    with pytest.raises(ChunkDiffers):
        blocking.write(0, 2, chunk_of("c"), digest=digest)
    assert not blocking.write(0, 1, chunk_of("b"))
    assert blocking.write(1, 0, chunk_of("d"))
    blocking.end(0, 2, digest)  # a batch that is over is no business of anybody any more
    assert blocking.last() == (1, 0)
    assert blocking.bodies() == ["a", "b", "d"]


def test_an_end_before_what_came_in_or_with_other_messages_is_refused(blocking: Blocking) -> None:
    digest = Digest()
    blocking.write(0, 0, chunk_of("a"), digest=digest)
    blocking.write(0, 1, chunk_of("b"), digest=digest)
    with pytest.raises(ChunkDiffers):
        blocking.end(0, 0, Digest())
    blocking.end(0, 2, digest)
    with pytest.raises(ChunkDiffers):
        blocking.end(0, 2, Digest())


def test_an_end_makes_no_queue(blocking: Blocking) -> None:
    blocking.end(0, 0, Digest())
    blocking.write(0, 0, chunk_of("a"))
    blocking.destroy()
    blocking.end(0, 1, Digest())
    assert blocking.last() is None
    assert blocking.queues.get(blocking.project, "q").run() is None


def test_large_numbers_are_kept_to_the_last_digit(blocking: Blocking) -> None:
    batch = 2**53 - 3
    assert blocking.write(batch, 10**15 + 1, chunk_of("a"))
    assert blocking.last() == (batch, 10**15 + 1)
    assert not blocking.write(batch, 10**15 + 1, chunk_of("a"))
    assert blocking.write(batch, 10**15 + 2, chunk_of("b"))
    assert blocking.write(batch + 1, 0, chunk_of("c"))


def test_writers_and_queues_know_nothing_of_each_other(blocking: Blocking) -> None:
    assert blocking.write(3, 3, chunk_of("a"), name="query:0")
    assert blocking.write(0, 0, chunk_of("b"), name="query:1")
    assert blocking.write(0, 0, chunk_of("c"), name="query")
    assert blocking.last("query:0") == (3, 3)
    assert blocking.last("query:1") == (0, 0)
    assert blocking.ledger.last(blocking.project, "other", "query").run() is None


def test_an_idempotency_key_of_the_same_name_is_another_thing(blocking: Blocking) -> None:
    retry = Retry(key="writer", fingerprint=b"\x00", window=3_600_000)
    blocking.post("a", retry=retry)
    assert blocking.last() is None
    assert blocking.write(0, 0, chunk_of("b"))
    assert blocking.post("a", retry=retry)
    assert not blocking.write(0, 0, chunk_of("b"))
    assert blocking.bodies() == ["a", "b"]


def test_another_life_of_the_queue_has_another_ledger(blocking: Blocking) -> None:
    blocking.write(7, 7, chunk_of("a"))
    entry = blocking.command("HGETALL", blocking.key("ledger"))
    blocking.destroy()
    assert blocking.last() is None
    assert blocking.write(7, 7, chunk_of("b"))
    # Not even when somebody kept the entry of the first life.
    blocking.destroy()
    blocking.create()
    blocking.command("HSET", blocking.key("ledger"), *entry)
    blocking.command("ZADD", blocking.key("ledger_ends"), blocking.clock() + WINDOW, entry[0])
    assert blocking.last() is None
    assert blocking.write(7, 7, chunk_of("c"))
    assert blocking.bodies() == ["c"]


def test_a_new_queue_is_made_and_listed(blocking: Blocking) -> None:
    assert blocking.write(0, 0, chunk_of("a"))
    listed = blocking.queues.list(blocking.project, "", 10, None).run()
    assert [queue.name for queue in listed.items] == ["q"]
    assert blocking.command("HEXISTS", blocking.key("queue"), "unlisted") == 0


def test_messages_have_the_times_that_a_post_gives_them(blocking: Blocking) -> None:
    blocking.write(0, 0, chunk_of("default") + chunk_of("own", ttl=70, delay=30))
    blocking.destroy()
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


def test_a_delay_counts_in_a_queue_without_a_default(blocking: Blocking) -> None:
    blocking.write(0, 0, chunk_of("none") + chunk_of("own", delay=30))
    stored = blocking.command("HMGET", blocking.key("bodies"), 1, 2)
    assert [envelope.head(each)[3] for each in stored] == [0, 30]
    assert blocking.command("ZRANGE", blocking.key("delayed"), 0, -1) == [b"2"]


def test_whoever_waits_hears_of_it(blocking: Blocking) -> None:
    with blocking.client.listener() as listener:
        listener.subscribe(blocking.key("feed"))
        assert (listener.get_message(timeout=60) or {})["type"] == "subscribe"
        blocking.write(0, 0, chunk_of("a", "b", "c"))
        blocking.write(0, 0, chunk_of("a", "b", "c"))
        blocking.write(0, 1, chunk_of("d"))
        told = [(listener.get_message(timeout=60) or {})["data"] for _ in range(2)]
    assert told == [b"3", b"1"]


def test_a_chunk_larger_than_the_queue_allows_is_refused_whole(blocking: Blocking) -> None:
    blocking.create(_max_messages_post_size=1000)
    with pytest.raises(errors.BadRequest, match="at most 1000 bytes"):
        blocking.write(0, 0, chunk_of("a"), size=1001)
    assert blocking.last() is None
    assert blocking.last_rank() == 0
    assert blocking.write(0, 0, chunk_of("a"), size=1000)
    # What came in is not measured again.
    assert not blocking.write(0, 0, chunk_of("a"), size=1001)


def test_a_queue_that_wants_bodies_encrypted_takes_no_others(blocking: Blocking) -> None:
    blocking.create(_enable_encrypt_messages=True)
    with pytest.raises(NeedsSealing):
        blocking.write(0, 0, chunk_of("a"))
    assert blocking.last() is None
    assert blocking.write(0, 0, chunk_of("a", sealed=True), sealed=True)


def test_nothing_is_written_to_a_queue_that_moves(blocking: Blocking) -> None:
    blocking.post("a")
    blocking.command("SET", blocking.key("gate"), "out:x")
    with pytest.raises(errors.Gated):
        blocking.write(0, 0, chunk_of("b"))
    with pytest.raises(errors.Gated):
        blocking.last()
    blocking.command("DEL", blocking.key("gate"))
    assert blocking.bodies() == ["a"]
    assert blocking.last() is None


def test_more_messages_than_lua_can_unpack_are_one_chunk(blocking: Blocking) -> None:
    names = [f"m{number}" for number in range(3500)]
    assert blocking.write(0, 0, chunk_of(*names))
    assert blocking.bodies() == names


def test_an_entry_is_kept_for_a_quarter_after_its_last_write(blocking: Blocking) -> None:
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
    store = Blocking(uri, project, OwnedClock())
    for chunk in range(chunks):
        store.write(4, chunk, chunk_of(*[f"{chunk}.{number}" for number in range(20)]))
    store.close()


def test_processes_that_write_the_same_batch_write_it_once(blocking: Blocking) -> None:
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


def test_the_checker_finds_nothing_wrong_with_an_entry(blocking: Blocking) -> None:
    blocking.write(0, 0, chunk_of("a"))
    with opened(blocking.uri, blocking.project) as store:
        (found,) = [each for each in checked(store) if each.project == blocking.project]
        assert (found.there, found.messages, found.findings) == (True, 1, ())


def test_without_an_entry_everything_comes_in_again(blocking: Blocking) -> None:
    for _ in range(2):
        blocking.ledger.append(
            blocking.project, "q", chunk_of("a", "b"), size=0, default_ttl=TTL, sealed=False
        ).run()
    assert blocking.bodies() == ["a", "b", "a", "b"]
    assert blocking.command("EXISTS", blocking.key("ledger")) == 0
    listed = blocking.queues.list(blocking.project, "", 10, None).run()
    assert [queue.name for queue in listed.items] == ["q"]


@pytest.fixture(scope="module")
def pools_uri() -> Iterator[str]:
    with BACKENDS["pooled"]() as uri:
        yield uri


def _part(pools: Store, pools_uri: str, name: str) -> Blocking:
    """What Spark uses for the store of that name."""
    uris = pools_uri.removeprefix(POOLED).split("|")
    return Blocking(uris[("p1", "p2").index(name) + 1], pools.project, pools.clock)


def test_a_ledger_moves_with_its_queue(pools_uri: str, project: str) -> None:
    with opened(pools_uri, project) as pools:
        assert isinstance(pools, PooledStore)
        pools.post("first")
        catalogue = pools.driver.control.catalogue
        source = pools.run(catalogue.locate(project, "q")).pool or DEFAULT
        target = "p2" if source == "p1" else "p1"
        here, there = (_part(pools, pools_uri, name) for name in (source, target))
        for part in range(1500):  # more than a move takes at once
            here.write(6, part % 3, chunk_of(f"m{part}"), name=f"query:{part}")
        pools.run(pools.driver.mover.move(project, "q", source, target))
        with pytest.raises(errors.Gated):
            here.write(6, 0, chunk_of("m0"), name="query:0")
        for part in range(1500):
            assert there.last(f"query:{part}") == (6, part % 3)
        assert not there.write(6, 2, chunk_of("m2"), name="query:2")
        assert there.write(6, 3, chunk_of("more"), name="query:2")
        assert there.bodies() == ["first", *[f"m{part}" for part in range(1500)], "more"]
        assert there.last_rank() == 1502
        assert here.command("EXISTS", here.key("ledger")) == 0
        assert findings(pools) == []
        here.close()
        there.close()
