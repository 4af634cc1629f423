# SPDX-License-Identifier: Apache-2.0
"""Idempotency records: known for a window, forgotten after two, and small."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.blocking import Blocking
from tests.contract.conftest import BACKENDS
from tests.contract.stores import PooledStore, Store, checked, findings, opened
from zaqar_redis.keyspace import keys
from zaqar_redis.records import Draft, Retry
from zaqar_redis.storage.control import DEFAULT

#: What a queue keeps of idempotency keys.
SLOTS = ("idempotency", "idempotency_old")
#: Bytes of a record at most, and enough records for a table of Redis' that is as empty as
#: they get: just after it has doubled.
RECORD_MAX, RECORDS = 120, 33_500


def retry(key: object, window: float = 10) -> Retry:
    """*window* in seconds; the queue's own counts more."""
    return Retry(key=str(key), fingerprint=bytes(16), window=round(window * 1000))


def known(store: Store, key: object, window: float = 10) -> bool:
    """Whether a post with the key is taken for one that comes again; else it is made."""
    return store.post("x", retry=retry(key, window)).replayed


def kept(store: Store, *slots: str) -> int:
    of_queue = keys.of_queue(store.project, "q")
    return sum(store.command("EXISTS", *[getattr(of_queue, slot) for slot in slots or SLOTS]))


def test_a_key_is_known_for_a_window_and_forgotten_after_two_while_others_come(
    store: Store,
) -> None:
    for second in range(65):
        assert not known(store, second)
        if second >= 10:
            store.clock.now -= 1  # in the last millisecond of its window
            assert known(store, second - 10)
            store.clock.now += 1
        if second >= 20:
            assert not known(store, second - 20)
        store.clock.tick(1)


def test_a_key_is_forgotten_after_two_windows_in_which_nothing_came(store: Store) -> None:
    assert not known(store, "a")
    store.clock.tick(20)
    assert not known(store, "a")


def test_a_repetition_does_not_keep_its_key(store: Store) -> None:
    assert not known(store, "a")
    for _ in range(19):
        store.clock.tick(1)
        assert known(store, "a")
    store.clock.tick(1)
    assert not known(store, "a")


def test_the_window_of_the_queue_comes_first(store: Store) -> None:
    store.create(_idempotency_window=60)
    assert not known(store, "a", window=1)
    store.clock.tick(60)
    assert known(store, "a", window=1)
    store.clock.tick(60)
    assert not known(store, "a", window=3600)


def test_without_its_own_window_a_queue_goes_by_the_services_again(store: Store) -> None:
    store.create(_idempotency_window=3600)
    store.run(store.driver.queues.update(store.project, store.known(), {}))
    assert not known(store, "a")
    store.clock.tick(20)
    assert not known(store, "a")


@pytest.mark.parametrize("changed", [1, 50, 59, 119])
@pytest.mark.parametrize(("before", "after"), [(60, 7), (7, 60), (60, 59), (3600, 60)])
def test_a_changed_window_leaves_every_key_the_shorter_of_the_two(
    real: Store, before: int, after: int, changed: int
) -> None:
    made: dict[int, int] = {}
    window = before
    for second in range(changed + 2 * max(7, after) + 5):
        if second == changed:
            real.run(
                real.driver.queues.update(
                    real.project, real.known(), {"_idempotency_window": after}
                )
            )
            window = after
        elif not second:
            real.create(_idempotency_window=before)
        for earlier, promised in made.items():
            if second - earlier == min(promised, window) - 1:
                assert known(real, earlier)
        assert not known(real, second)
        made[second] = window
        real.clock.tick(1)


def test_records_of_an_idle_queue_go_with_the_sweep(store: Store) -> None:
    assert not known(store, "a")
    store.clock.tick(11)
    assert not known(store, "b")
    assert kept(store) == 2
    store.clock.tick(9)
    assert store.sweep(0) >= 1
    assert (kept(store), store.stats().idempotency_records) == (1, 1)
    assert known(store, "b")
    store.clock.tick(11)
    assert store.sweep(0) >= 1
    assert kept(store) == 0


def test_records_are_counted(store: Store) -> None:
    assert store.stats().idempotency_records == 0
    store.post("a")
    assert store.stats().idempotency_records == 0
    for number in range(5):
        known(store, number)
        known(store, number)
        store.clock.tick(3)
    assert store.stats().idempotency_records == 5
    store.run(store.driver.queues.purge(store.project, "q"))
    assert (store.stats().total, store.stats().idempotency_records) == (0, 5)


def test_records_go_with_their_queue(store: Store) -> None:
    known(store, "a")
    store.clock.tick(11)
    known(store, "b")
    store.run(store.driver.queues.delete(store.project, "q"))
    assert kept(store) == 0
    store.create()
    assert not known(store, "a")
    assert not known(store, "b")


def test_records_without_their_queue_say_nothing(real: Store) -> None:
    known(real, "a")
    real.command("DEL", keys.of_queue(real.project, "q").queue)
    assert not known(real, "a")


def test_records_that_are_over_do_not_count_before_they_are_swept(store: Store) -> None:
    known(store, "a")
    window = 10
    store.clock.tick(2 * window - 1)
    assert store.stats().idempotency_records == 1
    store.clock.tick(1)
    assert (kept(store), store.stats().idempotency_records) == (1, 0)


def test_a_post_without_a_key_keeps_nothing(store: Store) -> None:
    store.post("a")
    assert kept(store, *SLOTS, "letters", "letters_old", "ledger", "ledger_ends") == 0


def bury(store: Store) -> None:
    """Let a dead letter come in, always the same one."""
    letter, same = Draft(body=b'"letter"', ttl=600), retry("letter", 3600)
    store.run(store.driver.messages.bury(store.project, "q", letter, client=bytes(16), retry=same))


def _fill(store: Blocking, number: int) -> None:
    """Make so many records as a post does: in the server, for it is a matter of bytes only."""
    store.post("first", retry=retry("first"))
    for start in range(0, number, 5000):
        store.client.commands(
            *[
                ("HSET", store.key("idempotency"), keys.retry(str(each)), _record(each))
                for each in range(start, min(start + 5000, number))
            ]
        )


def _record(rank: int) -> bytes:
    return b"%d 1 " % (10**9 + rank) + bytes(16)


def test_a_record_takes_few_bytes(blocking: Blocking) -> None:
    blocking.post("a", retry=retry("a"))
    (record,) = blocking.command("HMGET", blocking.key("idempotency"), keys.retry("a"))
    assert len(record) <= len(_record(0))
    _fill(blocking, RECORDS)
    used = blocking.command("MEMORY", "USAGE", blocking.key("idempotency"), "SAMPLES", 0)
    assert used / RECORDS <= RECORD_MAX
    blocking.destroy()


def test_records_that_are_over_leave_no_memory(blocking: Blocking) -> None:
    """What was claimed and deleted one by one is gone, and so are its keys after two windows."""
    for number in range(300):
        blocking.post("a", retry=retry(number))
        taken = blocking.claim(1)
        blocking.messages.delete(
            blocking.project,
            "q",
            [taken.messages[0].id],
            claims=[taken.claim_id or ""],
            force=False,
        ).run()
    left = _there(blocking)
    assert left <= {"queue", "idempotency", "claims", "leases", "spent"}
    assert blocking.command("HLEN", blocking.key("claims")) < 64
    blocking.clock.tick(601)
    while blocking.queues.sweep(blocking.project, "q").run():
        pass
    assert _there(blocking) == {"queue"}


def _there(store: Blocking) -> set[str]:
    """The keys that are there, but for the index of due queues, which others have too."""
    slots = set(keys.QueueKeys.__slots__) - {"due"}
    return {slot for slot in slots if store.command("EXISTS", store.key(slot))}


def test_a_dead_letter_is_known_for_a_day_whatever_the_window_of_the_queue(
    real: Store,
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
        real.post("other", queue="dead", retry=retry("other", 1))
        real.clock.tick(86_400 / 5 - 60)
    assert real.claim().messages == ()
    assert real.listed() == []
    assert real.listed("dead").count("a") == 1
    assert real.stats("dead").idempotency_records <= 2


@pytest.fixture(scope="module")
def pools_uri() -> Iterator[str]:
    with BACKENDS["pooled"]() as uri:
        yield uri


def test_records_move_with_their_queue_and_keep_their_age(pools_uri: str, project: str) -> None:
    with opened(pools_uri, project) as pools:
        assert isinstance(pools, PooledStore)
        for number in range(1500):  # more than a move takes at once
            known(pools, number)
        pools.clock.tick(11)
        for number in range(1500, 1510):
            known(pools, number)
        bury(pools)
        pools.clock.tick(8)
        source = pools.run(pools.driver.control.catalogue.locate(project, "q")).pool or DEFAULT
        target = "p2" if source == "p1" else "p1"
        pools.run(pools.driver.mover.move(project, "q", source, target))
        assert pools.stats().idempotency_records == 1510
        assert kept(pools) == 2  # in one store only
        assert findings(pools) == []
        assert all(known(pools, number) for number in range(1510))
        before = pools.stats().total
        bury(pools)
        assert pools.stats().total == before
        pools.clock.tick(1)  # two windows of the first ones
        assert not known(pools, 0)
        assert all(known(pools, number) for number in range(1500, 1510))


@pytest.mark.parametrize("slot", [*SLOTS, "letters", "letters_old"])
def test_records_of_no_queue_are_found_and_taken_away(real: Store, slot: str) -> None:
    key = getattr(keys.of_queue(real.project, "q"), slot)
    real.command("HSET", key, "since", 1, "till", 2, "r", "x")
    (found,) = [each for each in checked(real) if each.project == real.project]
    assert not found.there
    assert [finding.damage for finding in found.findings] == [True]
    checked(real, repair=True)
    assert kept(real, slot) == 0
