# SPDX-License-Identifier: Apache-2.0
"""Readers of ranges know where a queue begins and ends, and change nothing by asking."""

from __future__ import annotations

import pytest

from tests.contract.blocking import Blocking
from tests.contract.stores import STRANGE_IDS
from zaqar_redis import errors
from zaqar_redis.records import Top


def top(store: Blocking) -> Top:
    found = store.ranges.top(store.project, "q").run()
    assert found
    return found


def seek(store: Blocking, created: int) -> int | None:
    return store.ranges.seek(store.project, "q", created).run()


def post_each_second(store: Blocking, number: int) -> list[str]:
    ids = []
    for each in range(number):
        ids += store.post(f"m{each}")
        store.clock.tick(1)
    return ids


def test_there_is_no_top_of_no_queue(blocking: Blocking) -> None:
    assert blocking.ranges.top(blocking.project, "q").run() is None
    assert seek(blocking, 0) is None
    assert blocking.ranges.of_claim(blocking.project, "q", "0" * 32).run() is None
    assert blocking.command("KEYS", f"*{blocking.project}*") == []


def test_an_empty_queue_begins_where_the_next_message_goes(blocking: Blocking) -> None:
    blocking.create()
    first = top(blocking)
    assert (first.first, first.following, first.count, first.size) == (1, 1, 0, 0)
    assert seek(blocking, 0) == 1
    blocking.remove(*blocking.post("a", "b", "c"))
    then = top(blocking)
    assert (then.first, then.following, then.count, then.size) == (4, 4, 0, 0)
    assert seek(blocking, 0) == 4
    blocking.post("d")
    assert (top(blocking).first, top(blocking).following) == (4, 5)


def test_the_top_of_a_queue_with_holes(blocking: Blocking) -> None:
    ids = blocking.post(*[f"m{number}" for number in range(2000)])
    blocking.remove(*ids[:700], *ids[900:950], ids[-1])
    found = top(blocking)
    assert (found.first, found.following, found.count) == (701, 2001, 1249)


def test_a_remade_queue_has_another_epoch(blocking: Blocking) -> None:
    blocking.post("a", "b")
    before = top(blocking)
    blocking.destroy()
    assert blocking.ranges.top(blocking.project, "q").run() is None
    blocking.post("c")
    after = top(blocking)
    assert after.epoch != before.epoch
    assert (after.first, after.following, after.count) == (1, 2, 1)


def test_the_size_is_the_mean_of_what_is_stored(blocking: Blocking) -> None:
    blocking.post("x" * 100)
    one = top(blocking).size
    assert one == blocking.command("HSTRLEN", blocking.key("bodies"), 1)
    blocking.post("x" * 300)
    assert top(blocking).size == one + 100
    # Half of them long, in the middle: the sample is taken from everywhere.
    blocking.destroy()
    blocking.post(*["s" * 100] * 250, *["l" * 900] * 500, *["s" * 100] * 250)
    assert top(blocking).size == one + 400


def test_looking_changes_nothing(blocking: Blocking) -> None:
    blocking.create(_default_message_delay=100)
    blocking.post("a", "b", ttl=60)
    blocking.claim(1, ttl=60)
    blocking.clock.tick(1000)  # all of it is over, and nobody has tidied
    slots = ("messages", "ready", "claimed", "delayed", "expiry", "claims", "leases")
    before = [blocking.command("DUMP", blocking.key(slot)) for slot in slots]
    assert top(blocking).count == 2
    assert seek(blocking, 0) == 1
    assert [blocking.command("DUMP", blocking.key(slot)) for slot in slots] == before


def test_seek_finds_the_first_of_a_time_or_later(blocking: Blocking) -> None:
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


def test_seek_finds_the_first_of_many_of_one_time(blocking: Blocking) -> None:
    blocking.post(*"abcde")
    blocking.clock.tick(1)
    middle = blocking.clock()
    blocking.post(*[f"m{number}" for number in range(1500)])
    blocking.clock.tick(1)
    blocking.post("last")
    assert seek(blocking, middle) == 6
    assert seek(blocking, middle + 1) == 1506


def test_a_claim_that_prolonged_its_messages_does_not_mislead(blocking: Blocking) -> None:
    begun = blocking.clock()
    post_each_second(blocking, 10)
    blocking.claim(5, ttl=7200)
    assert [seek(blocking, begun + 1000 * second) for second in range(10)] == list(range(1, 11))


def test_what_a_claim_holds_comes_as_it_is_stored(blocking: Blocking) -> None:
    ids = blocking.post(*[f"m{number}" for number in range(30)])
    taken = blocking.claim(20)
    assert taken.claim_id
    blocking.remove(ids[3])
    held = blocking.ranges.of_claim(blocking.project, "q", taken.claim_id).run()
    assert held
    assert held.now == blocking.clock()
    assert held.epoch == top(blocking).epoch
    assert [int(rank) for rank in held.ranks] == [*range(1, 4), *range(5, 21)]
    stored = blocking.command("HMGET", blocking.key("bodies"), *held.ranks)
    assert list(held.envelopes) == stored
    assert set(held.holds) == {taken.claim_id.encode() + b"1"}


@pytest.mark.parametrize("claim", STRANGE_IDS)
def test_a_strange_claim_is_none(blocking: Blocking, claim: str) -> None:
    blocking.post("a")
    blocking.claim(1)
    assert blocking.ranges.of_claim(blocking.project, "q", claim).run() is None
    assert blocking.claims.consume(blocking.project, "q", claim).run() is None
    assert blocking.bodies() == ["a"]


def test_a_claim_is_consumed_once(blocking: Blocking) -> None:
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


def test_a_claim_whose_lease_ended_is_not_consumed(blocking: Blocking) -> None:
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


def test_nobody_looks_into_a_queue_that_moves(blocking: Blocking) -> None:
    blocking.post("a")
    claim = blocking.claim(1).claim_id
    assert claim
    blocking.command("SET", blocking.key("gate"), "out:x")
    for verb in (
        blocking.ranges.top(blocking.project, "q"),
        blocking.ranges.seek(blocking.project, "q", 0),
        blocking.ranges.of_claim(blocking.project, "q", claim),
        blocking.claims.consume(blocking.project, "q", claim),
    ):
        with pytest.raises(errors.Gated):
            verb.run()


def test_a_seek_costs_no_more_than_halving(blocking: Blocking) -> None:
    """Counted by Redis itself: bodies read for one search among 4000 messages."""
    for _ in range(4):
        blocking.post(*["x"] * 1000)
        blocking.clock.tick(1)
    blocking.command("CONFIG", "RESETSTAT")
    assert seek(blocking, blocking.clock() - 2000) == 2001
    read = blocking.command("INFO", "commandstats").decode()
    (line,) = [line for line in read.splitlines() if line.startswith("cmdstat_hget:")]
    assert int(line.partition("calls=")[2].partition(",")[0]) <= 13
