# SPDX-License-Identifier: Apache-2.0
"""A staged batch is published completely and once, wherever its driver dies."""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support import stores
from tests.support.blocking import BlockingStore, both_pools, chunk_of
from tests.support.clock import ManualClock
from zaqar_redis import errors
from zaqar_redis.check_records import CheckResult
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import RedisCommand

DAY_MS = 24 * 3600 * 1000


def put(store: BlockingStore, token: str, *chunks: list[str], name: str = "writer") -> None:
    for number, names in enumerate(chunks):
        store.stages.put(store.project, "q", name, token, number, chunk_of(*names)).run()


def begin(store: BlockingStore, batch: int, *tokens: str, name: str = "writer") -> Sequence[str]:
    return store.stages.begin(store.project, "q", name, batch, tokens).run()


def waiting(store: BlockingStore, token: str, name: str = "writer") -> Sequence[int]:
    return store.stages.chunks(store.project, "q", name, token).run()


def publish(
    store: BlockingStore, token: str, chunk: int, *, name: str = "writer", size: int = 0
) -> bool:
    return store.stages.publish(
        store.project, "q", name, token, chunk, size=size, default_ttl=stores.TTL, encrypted=False
    ).run()


def end(store: BlockingStore, batch: int, name: str = "writer") -> None:
    store.stages.end(store.project, "q", name, batch).run()


def commit(store: BlockingStore, batch: int, *tokens: str, name: str = "writer") -> None:
    """Commits as a driver does once the successful attempts are known."""
    for token in begin(store, batch, *tokens, name=name):
        for chunk in waiting(store, token, name):
            publish(store, token, chunk, name=name)
    end(store, batch, name)


def test_staged_messages_are_invisible_until_published(blocking: BlockingStore) -> None:
    put(blocking, "t0", ["a", "b"], ["c"])
    put(blocking, "t1", ["d"])
    assert blocking.ranges.watermarks(blocking.project, "q").run() is None
    assert waiting(blocking, "t0") == [0, 1]
    assert waiting(blocking, "t1") == [0]
    assert waiting(blocking, "t") == []
    commit(blocking, 0, "t1", "t0")
    assert blocking.bodies() == ["d", "a", "b", "c"]
    assert blocking.last() == (0, 0)
    assert blocking.command("EXISTS", blocking.key("stages")) == 0
    listed = blocking.queues.list(blocking.project, "", 10, None).run()
    assert [queue.name for queue in listed.items] == ["q"]


def test_chunks_are_published_in_the_order_of_their_numbers(blocking: BlockingStore) -> None:
    put(blocking, "t", *[[f"m{number}"] for number in range(25)])
    assert waiting(blocking, "t") == list(range(25))
    commit(blocking, 0, "t")
    assert blocking.bodies() == [f"m{number}" for number in range(25)]


def test_staged_chunks_of_losing_attempts_are_dropped_at_commit(blocking: BlockingStore) -> None:
    put(blocking, "lost", ["a"], ["b"])
    put(blocking, "won", ["a"], ["b"])
    put(blocking, "other", ["x"], name="other writer")
    commit(blocking, 0, "won")
    assert blocking.bodies() == ["a", "b"]
    assert waiting(blocking, "lost") == []
    assert waiting(blocking, "other", "other writer") == [0]
    commit(blocking, 0, "other", name="other writer")
    assert blocking.bodies() == ["a", "b", "x"]


def test_a_chunk_is_published_once(blocking: BlockingStore) -> None:
    put(blocking, "t", ["a"])
    begin(blocking, 0, "t")
    assert publish(blocking, "t", 0)
    assert not publish(blocking, "t", 0)
    assert not publish(blocking, "t", 1)
    assert not publish(blocking, "never", 0)
    assert blocking.bodies() == ["a"]
    assert blocking.last_rank() == 1


def test_chunk_staged_again_by_a_task_is_replaced(blocking: BlockingStore) -> None:
    put(blocking, "t", ["a"])
    put(blocking, "t", ["b"])
    commit(blocking, 0, "t")
    assert blocking.bodies() == ["b"]


class CrashAfterCalls:
    """A client whose process dies after so many calls; the last one is executed."""

    def __init__(self, client: Any, calls: int) -> None:
        self._client = client
        self._left = calls

    def call(self, call: RedisCommand) -> Any:
        if self._left == 0:
            raise stores.ProcessDied
        self._left -= 1
        return self._client.call(call)


def test_commit_killed_at_any_call_is_completed_by_replay(blocking: BlockingStore) -> None:
    """Each driver stages the batch again, in other chunks, and dies one call later."""
    for calls in itertools.count():
        blocking.delete()
        put(blocking, "first", ["a", "b"], ["c"], ["d"])
        blocking.stages.client = CrashAfterCalls(blocking.client, calls)
        died = False
        try:
            commit(blocking, 0, "first")
        except stores.ProcessDied:
            died = True
        blocking.stages.client = blocking.client
        put(blocking, "again", ["a"], ["b", "c", "d"])
        commit(blocking, 0, "again")
        assert blocking.bodies() == ["a", "b", "c", "d"]
        assert blocking.last_rank() == 4
        assert blocking.command("EXISTS", blocking.key("stages")) == 0
        if not died:
            break
    assert calls > 6


def test_interrupted_commit_resumes_with_its_original_attempts(blocking: BlockingStore) -> None:
    put(blocking, "b", ["b1"], ["b2"])
    put(blocking, "a", ["a1"])
    assert begin(blocking, 3, "b", "a") == ("b", "a")
    assert publish(blocking, "b", 0)
    put(blocking, "c", ["c1"])
    assert begin(blocking, 3, "c") == ("b", "a")
    assert waiting(blocking, "b") == [1]
    commit(blocking, 3, "c")
    assert blocking.bodies() == ["b1", "b2", "a1"]
    assert waiting(blocking, "c") == []


def test_committed_batch_is_not_committed_again(blocking: BlockingStore) -> None:
    put(blocking, "t", ["a"])
    commit(blocking, 1, "t")
    put(blocking, "again", ["a"])
    put(blocking, "next", ["b"])
    assert begin(blocking, 1, "again") == ()
    assert begin(blocking, 0, "again") == ()
    assert waiting(blocking, "again") == []
    assert waiting(blocking, "next") == [0]
    commit(blocking, 2, "next")
    assert blocking.bodies() == ["a", "b"]


def test_stale_driver_does_not_remove_chunks_of_the_next_batch(blocking: BlockingStore) -> None:
    put(blocking, "t", ["a"])
    commit(blocking, 1, "t")
    put(blocking, "next", ["b"])
    begin(blocking, 2, "next")
    end(blocking, 1)
    assert waiting(blocking, "next") == [0]
    assert blocking.last() == (1, 0)
    commit(blocking, 2)
    assert blocking.bodies() == ["a", "b"]


def test_empty_batch_is_committed_without_creating_the_queue(blocking: BlockingStore) -> None:
    assert begin(blocking, 0) == ()
    end(blocking, 0)
    assert blocking.ranges.watermarks(blocking.project, "q").run() is None
    assert blocking.command("EXISTS", blocking.key("stages"), blocking.key("ledger")) == 0
    blocking.post("x")
    assert begin(blocking, 0) == ()
    end(blocking, 0)
    assert blocking.last() == (0, 0)
    assert blocking.command("EXISTS", blocking.key("stages")) == 0


def test_writer_names_with_spaces_are_distinct(blocking: BlockingStore) -> None:
    put(blocking, "t", ["a"], name="w")
    put(blocking, "0", ["b"], name="w t")
    begin(blocking, 5, name="w t 0")
    commit(blocking, 0, "0", name="w t")
    assert waiting(blocking, "t", "w") == [0]
    commit(blocking, 0, "t", name="w")
    assert blocking.bodies() == ["b", "a"]


def test_refused_chunk_stays_staged(blocking: BlockingStore) -> None:
    blocking.create(_max_messages_post_size=1000)
    put(blocking, "t", ["a"])
    begin(blocking, 0, "t")
    with pytest.raises(errors.BadRequest, match="at most 1000 bytes"):
        publish(blocking, "t", 0, size=1001)
    assert waiting(blocking, "t") == [0]
    assert publish(blocking, "t", 0, size=1000)
    blocking.delete()
    blocking.create(_enable_encrypt_messages=True)
    put(blocking, "t", ["a"])
    with pytest.raises(errors.EncryptionRequired):
        publish(blocking, "t", 0)
    assert waiting(blocking, "t") == [0]


def test_staged_bodies_of_any_bytes_and_sizes_are_published_unchanged(
    blocking: BlockingStore,
) -> None:
    tails = [bytes(range(256)), b"", b"\x00" * 40, b"x" * 300, b"y" * 70_000, "☃".encode()]
    chunk = [(-1, -1, tail) for tail in tails]
    blocking.stages.put(blocking.project, "q", "writer", "t", 0, chunk).run()
    many = [(60, -1, b"z%d" % number) for number in range(4000)]
    blocking.stages.put(blocking.project, "q", "writer", "t", 1, many).run()
    commit(blocking, 0, "t")
    stored = blocking.command("HMGET", blocking.key("bodies"), *range(1, 4007))
    assert [envelope[29:] for envelope in stored] == tails + [tail for _, _, tail in many]
    assert blocking.command("ZCARD", blocking.key("ready")) == 4006


def test_staged_chunks_expire_after_a_day(blocking: BlockingStore) -> None:
    stages = blocking.key("stages")
    put(blocking, "t", ["a"])
    assert DAY_MS - 60_000 < blocking.command("PTTL", stages) <= DAY_MS
    blocking.command("PEXPIRE", stages, DAY_MS // 2)
    begin(blocking, 0, "t")
    assert blocking.command("PTTL", stages) > DAY_MS - 60_000


def test_staged_chunks_are_deleted_with_their_queue(blocking: BlockingStore) -> None:
    blocking.post("x")
    put(blocking, "t", ["a"], ["b"])
    blocking.delete()
    assert waiting(blocking, "t") == []
    assert blocking.command("EXISTS", blocking.key("stages")) == 0
    put(blocking, "again", ["a"], ["b"])
    commit(blocking, 0, "again")
    assert blocking.bodies() == ["a", "b"]


def test_queue_recreated_during_commit_is_written_by_replay(blocking: BlockingStore) -> None:
    put(blocking, "t", ["a"], ["b"])
    begin(blocking, 0, "t")
    publish(blocking, "t", 0)
    blocking.delete()
    blocking.post("recreated")
    put(blocking, "again", ["a"], ["b"])
    commit(blocking, 0, "again")
    assert blocking.bodies() == ["recreated", "a", "b"]


def _commit_all(uri: str, project: str, token: str) -> None:
    store = BlockingStore(uri, project, ManualClock())
    for batch in range(20):
        put(store, f"{token}.{batch}", *[[f"{batch}.{chunk}"] for chunk in range(10)])
        commit(store, batch, f"{token}.{batch}")
    store.close()


def test_concurrent_drivers_publish_the_same_batches_once(blocking: BlockingStore) -> None:
    spawning = multiprocessing.get_context("spawn")
    drivers = [
        spawning.Process(target=_commit_all, args=(blocking.uri, blocking.project, token))
        for token in ("one", "two")
    ]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join(60)
        assert driver.exitcode == 0
    expected = [f"{batch}.{chunk}" for batch in range(20) for chunk in range(10)]
    assert sorted(blocking.bodies()) == sorted(expected)
    assert blocking.last_rank() == len(expected)
    assert blocking.last() == (19, 0)


def test_staging_in_a_queue_under_move_lock_is_refused(blocking: BlockingStore) -> None:
    put(blocking, "t", ["a"])
    blocking.command("SET", blocking.key("move_lock"), "out:x")
    for act in (
        lambda: put(blocking, "u", ["b"]),
        lambda: begin(blocking, 0, "t"),
        lambda: waiting(blocking, "t"),
        lambda: publish(blocking, "t", 0),
        lambda: end(blocking, 0),
    ):
        with pytest.raises(errors.MoveLocked):
            act()
    blocking.command("DEL", blocking.key("move_lock"))
    commit(blocking, 0, "t")
    assert blocking.bodies() == ["a"]


def test_checker_accepts_staged_chunks(blocking: BlockingStore) -> None:
    def found() -> CheckResult:
        with stores.opened(blocking.uri, blocking.project) as store:
            (one,) = [each for each in stores.checked(store) if each.project == blocking.project]
            return one

    put(blocking, "t", ["a"])
    assert (found().exists, found().findings) == (False, ())
    blocking.post("x")
    assert (found().exists, found().findings) == (True, ())
    blocking.command("DEL", blocking.key("stages"))
    blocking.command("SET", blocking.key("stages"), "x")
    (wrong,) = found().findings
    assert "not of their type" in wrong.what
    assert ":stages" in wrong.what


def test_queue_with_staged_write_is_not_moved(pools: stores.PooledContractStore) -> None:
    pools.post("first")
    catalogue = pools.driver.control.catalogue
    source, target = pools.route()
    source_store, target_store = both_pools(pools)
    put(source_store, "t", ["a"], ["b"])
    begin(source_store, 0, "t")
    publish(source_store, "t", 0)
    with pytest.raises(errors.CannotMove, match="a write of Spark is being staged"):
        pools.run(pools.driver.mover.move(pools.project, "q", source, target))
    assert pools.run(catalogue.moves()) == []
    assert pools.pool_of() == source
    slots = set(keys.QueueKeys.__slots__) - {"move_lock"}
    left = [getattr(keys.of_queue(pools.project, "q"), slot) for slot in slots]
    assert target_store.command("EXISTS", *left) == 0
    commit(source_store, 0, "t")
    assert pools.run(pools.driver.mover.move(pools.project, "q", source, target)) == 3
    assert target_store.bodies() == ["first", "a", "b"]
    put(target_store, "again", ["a"], ["b"])
    commit(target_store, 0, "again")
    assert target_store.bodies() == ["first", "a", "b"]
    assert stores.findings(pools) == []
    source_store.close()
    target_store.close()
