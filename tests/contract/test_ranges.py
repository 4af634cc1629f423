# SPDX-License-Identifier: Apache-2.0
"""Watermarks and seeks of range readers are correct, and reading changes nothing."""

from __future__ import annotations

import pytest

from tests.support.blocking import BlockingStore
from tests.support.stores import STRANGE_IDS
from zaqar_redis import errors
from zaqar_redis.records import Watermarks


def watermarks(store: BlockingStore) -> Watermarks:
    found = store.ranges.watermarks(store.project, "q").run()
    assert found
    return found


def seek(store: BlockingStore, created: int) -> int | None:
    return store.ranges.seek(store.project, "q", created).run()


def post_each_second(store: BlockingStore, number: int) -> list[str]:
    ids = []
    for each in range(number):
        ids += store.post(f"m{each}")
        store.clock.tick(1)
    return ids


def test_watermarks_of_missing_queue_are_none(blocking: BlockingStore) -> None:
    assert blocking.ranges.watermarks(blocking.project, "q").run() is None
    assert seek(blocking, 0) is None
    assert blocking.ranges.raw_claim(blocking.project, "q", "0" * 32).run() is None
    assert blocking.command("KEYS", f"*{blocking.project}*") == []


def test_first_rank_of_empty_queue_is_its_next_rank(blocking: BlockingStore) -> None:
    blocking.create()
    first = watermarks(blocking)
    assert (first.first, first.next_rank, first.count, first.size) == (1, 1, 0, 0)
    assert seek(blocking, 0) == 1
    blocking.remove(*blocking.post("a", "b", "c"))
    then = watermarks(blocking)
    assert (then.first, then.next_rank, then.count, then.size) == (4, 4, 0, 0)
    assert seek(blocking, 0) == 4
    blocking.post("d")
    assert (watermarks(blocking).first, watermarks(blocking).next_rank) == (4, 5)


def test_watermarks_of_queue_with_deleted_messages_skip_the_holes(blocking: BlockingStore) -> None:
    ids = blocking.post(*[f"m{number}" for number in range(2000)])
    blocking.remove(*ids[:700], *ids[900:950], ids[-1])
    found = watermarks(blocking)
    assert (found.first, found.next_rank, found.count) == (701, 2001, 1249)


def test_recreated_queue_has_new_epoch(blocking: BlockingStore) -> None:
    blocking.post("a", "b")
    before = watermarks(blocking)
    blocking.delete()
    assert blocking.ranges.watermarks(blocking.project, "q").run() is None
    blocking.post("c")
    after = watermarks(blocking)
    assert after.epoch != before.epoch
    assert (after.first, after.next_rank, after.count) == (1, 2, 1)


def test_watermark_size_is_mean_stored_message_size(blocking: BlockingStore) -> None:
    blocking.post("x" * 100)
    one = watermarks(blocking).size
    assert one == blocking.command("HSTRLEN", blocking.key("bodies"), 1)
    blocking.post("x" * 300)
    assert watermarks(blocking).size == one + 100
    # The long half is in the middle: the sample is spread over the whole queue.
    blocking.delete()
    blocking.post(*["s" * 100] * 250, *["l" * 900] * 500, *["s" * 100] * 250)
    assert watermarks(blocking).size == one + 400


def test_reading_watermarks_and_seeking_do_not_change_keys(blocking: BlockingStore) -> None:
    blocking.create(_default_message_delay=100)
    blocking.post("a", "b", ttl=60)
    blocking.claim(1, ttl=60)
    blocking.clock.tick(1000)  # everything has expired, and nothing was swept
    slots = ("messages", "ready", "claimed", "delayed", "expiry", "claims", "leases")
    before = [blocking.command("DUMP", blocking.key(slot)) for slot in slots]
    assert watermarks(blocking).count == 2
    assert seek(blocking, 0) == 1
    assert [blocking.command("DUMP", blocking.key(slot)) for slot in slots] == before


def test_seek_returns_first_rank_at_or_after_a_time(blocking: BlockingStore) -> None:
    begun = blocking.clock()
    ids = post_each_second(blocking, 40)
    for second in range(40):
        assert seek(blocking, begun + 1000 * second) == second + 1
        assert seek(blocking, begun + 1000 * second + 1) == second + 2
    assert seek(blocking, 0) == 1
    assert seek(blocking, begun - 1) == 1
    assert seek(blocking, 2**52) == 41
    blocking.remove(ids[0], *ids[10:20], ids[-1])
    assert seek(blocking, 0) == 2
    assert seek(blocking, begun + 9000) == 10
    assert seek(blocking, begun + 9001) == 21
    assert seek(blocking, begun + 15000) == 21
    assert seek(blocking, begun + 39000) == 41


def test_seek_with_equal_times_returns_the_lowest_rank(blocking: BlockingStore) -> None:
    blocking.post(*"abcde")
    blocking.clock.tick(1)
    middle = blocking.clock()
    blocking.post(*[f"m{number}" for number in range(1500)])
    blocking.clock.tick(1)
    blocking.post("last")
    assert seek(blocking, middle) == 6
    assert seek(blocking, middle + 1) == 1506


def test_seek_ignores_expiry_extended_by_a_claim(blocking: BlockingStore) -> None:
    begun = blocking.clock()
    post_each_second(blocking, 10)
    blocking.claim(5, ttl=7200)
    assert [seek(blocking, begun + 1000 * second) for second in range(10)] == list(range(1, 11))


def test_messages_of_a_claim_are_returned_as_stored(blocking: BlockingStore) -> None:
    ids = blocking.post(*[f"m{number}" for number in range(30)])
    taken = blocking.claim(20)
    assert taken.claim_id
    blocking.remove(ids[3])
    held = blocking.ranges.raw_claim(blocking.project, "q", taken.claim_id).run()
    assert held
    assert held.now == blocking.clock()
    assert held.epoch == watermarks(blocking).epoch
    assert [int(rank) for rank in held.ranks] == [*range(1, 4), *range(5, 21)]
    stored = blocking.command("HMGET", blocking.key("bodies"), *held.ranks)
    assert list(held.envelopes) == stored
    assert set(held.holds) == {taken.claim_id.encode() + b"1"}


@pytest.mark.parametrize("claim", STRANGE_IDS)
def test_unknown_claim_id_returns_none(blocking: BlockingStore, claim: str) -> None:
    blocking.post("a")
    blocking.claim(1)
    assert blocking.ranges.raw_claim(blocking.project, "q", claim).run() is None
    assert blocking.claims.consume(blocking.project, "q", claim).run() is None
    assert blocking.bodies() == ["a"]


def test_a_claim_is_consumed_once(blocking: BlockingStore) -> None:
    ids = blocking.post(*[f"m{number}" for number in range(1500)])
    taken = blocking.claim(1000)
    other = blocking.claim(100)
    assert taken.claim_id
    assert other.claim_id
    blocking.remove(ids[5], ids[999])
    consume = blocking.claims.consume
    assert consume(blocking.project, "q", taken.claim_id).run() == 998
    assert consume(blocking.project, "q", taken.claim_id).run() is None
    assert blocking.bodies() == [f"m{number}" for number in range(1000, 1500)]
    for slot in ("messages", "bodies", "expiry"):
        size = "HLEN" if slot == "bodies" else "ZCARD"
        assert blocking.command(size, blocking.key(slot)) == 500
    assert blocking.command("ZCARD", blocking.key("claimed")) == 100
    assert blocking.command("HLEN", blocking.key("holds")) == 100
    assert blocking.command("HKEYS", blocking.key("claims")) == [other.claim_id.encode()]
    assert blocking.claims.get(blocking.project, "q", taken.claim_id).run() is None


def test_a_claim_whose_lease_ended_is_not_consumed(blocking: BlockingStore) -> None:
    blocking.post(*"abc")
    first = blocking.claim(3, ttl=60)
    assert first.claim_id
    blocking.clock.tick(61)
    consume = blocking.claims.consume
    assert consume(blocking.project, "q", first.claim_id).run() is None
    second = blocking.claim(2)
    assert second.claim_id
    assert consume(blocking.project, "q", first.claim_id).run() is None
    assert blocking.bodies() == ["a", "b", "c"]
    assert consume(blocking.project, "q", second.claim_id).run() == 2
    assert blocking.bodies() == ["c"]


def test_reads_of_a_queue_under_move_lock_are_refused(blocking: BlockingStore) -> None:
    blocking.post("a")
    claim = blocking.claim(1).claim_id
    assert claim
    blocking.command("SET", blocking.key("move_lock"), "out:x")
    for verb in (
        blocking.ranges.watermarks(blocking.project, "q"),
        blocking.ranges.seek(blocking.project, "q", 0),
        blocking.ranges.raw_claim(blocking.project, "q", claim),
        blocking.claims.consume(blocking.project, "q", claim),
    ):
        with pytest.raises(errors.MoveLocked):
            verb.run()


def test_seek_reads_logarithmically_many_bodies(blocking: BlockingStore) -> None:
    """Redis counts the bodies read by one search among 4000 messages."""
    for _ in range(4):
        blocking.post(*["x"] * 1000)
        blocking.clock.tick(1)
    blocking.command("CONFIG", "RESETSTAT")
    assert seek(blocking, blocking.clock() - 2000) == 2001
    read = blocking.command("INFO", "commandstats").decode()
    (line,) = [line for line in read.splitlines() if line.startswith("cmdstat_hget:")]
    assert int(line.partition("calls=")[2].partition(",")[0]) <= 13
