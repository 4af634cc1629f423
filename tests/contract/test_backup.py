# SPDX-License-Identifier: Apache-2.0
"""A queue comes back from a backup with all its data, on every backend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.contract.test_deliveries import Taker, pend, subscribe
from tests.contract.test_moving import RETRY, everything, fill
from tests.support.stores import (
    POOLED,
    ContractStore,
    PooledContractStore,
    checked,
    names,
    opened_pools,
)
from zaqar_redis import rules
from zaqar_redis.auth.access_keys import AccessKey
from zaqar_redis.backup import backup
from zaqar_redis.backup.backup import Backup, list_queues, save_control, save_schedules
from zaqar_redis.backup.backup_file import BackupReader, reading, writing
from zaqar_redis.backup.backup_records import BackupTrailer
from zaqar_redis.backup.backup_results import BackupResult, BackupStatus
from zaqar_redis.backup.restore import Restore, restore_control
from zaqar_redis.keyspace import keys
from zaqar_redis.records import NewMessage, Quota
from zaqar_redis.schedule_records import Schedule
from zaqar_redis.storage.deliveries import DeliveryCount, SettledDeliveries
from zaqar_redis.storage.pools.import_targets import ImportStatus
from zaqar_redis.storage.redis.transfer import RedisTransfer

#: Not moved along: the latest claims without messages, and what is derived when a queue comes.
_DERIVED = {"spent", "pending_due"}
_READ: dict[bytes, tuple[str, ...]] = {
    b"hash": ("HGETALL",),
    b"zset": ("ZRANGE", "0", "-1", "WITHSCORES"),
    b"stream": ("XRANGE", "-", "+"),
}


def save(store: ContractStore, path: Path) -> list[BackupResult]:
    """Saves the queues of the test's project."""

    async def saved() -> list[BackupResult]:
        with writing(path, "a store") as writer:
            running = Backup(store.driver, writer, int)
            results = [
                await running.save_queue(*each)
                for each in await list_queues(store.driver)
                if each[0] == store.project
            ]
            if isinstance(store, PooledContractStore):
                await save_control(store.driver.control, writer, [store.project])
            complete = sum(each.status is BackupStatus.SAVED for each in results)
            if isinstance(store, PooledContractStore):
                control = store.driver.control
                results += await save_schedules(control, writer, lambda of, _: of == store.project)
            writer.write(BackupTrailer(complete))
        return results

    return store.run(saved())


def opened_restore(store: ContractStore, reader: BackupReader, *, dry_run: bool = False) -> Restore:
    return Restore(
        *(reader, store.driver),
        is_wanted=lambda project, queue: project == store.project,
        dry_run=dry_run,
        on_progress=int,
    )


def restore(store: ContractStore, path: Path, *, dry_run: bool = False) -> list[BackupResult]:
    async def restored() -> list[BackupResult]:
        with reading(path) as (_, reader):
            results = opened_restore(store, reader, dry_run=dry_run).results()
            return [each async for each in results]

    return store.run(restored())


def delete(store: ContractStore, queue: str = "q") -> None:
    store.run(store.driver.queues.delete(store.project, queue))


def raw_client(store: ContractStore, queue: str = "q") -> Any:
    """Returns the client of the store that has the queue."""
    of_queue = keys.of_queue(store.project, queue)
    (client,) = [
        client for client in store.clients() if store.run(client.command("EXISTS", of_queue.queue))
    ]
    return client


def client_of(store: ContractStore, queue: str = "q") -> Callable[..., Any]:
    """Returns how plain commands are sent to the store that has the queue."""
    client = raw_client(store, queue)
    return lambda *parts: store.run(client.command(*parts))


def content(store: ContractStore, queue: str = "q") -> dict[str, Any]:
    """Returns what Redis holds of a queue, by kind of key."""
    of_queue, command = keys.of_queue(store.project, queue), client_of(store, queue)
    found = {}
    for kind in set(keys.GROUPS["queue"]) - _DERIVED:
        key = getattr(of_queue, kind)
        name, *rest = _READ.get(command("TYPE", key), ("EXISTS",))
        answer = command(name, key, *rest)
        if name == "HGETALL":
            answer = dict(zip(answer[::2], answer[1::2], strict=True))
        if answer:
            found[kind] = answer
    found["queue"].pop(b"due", None)  # noted anew in the index of sweeps
    return found


def assert_clean(store: ContractStore) -> None:
    if store.uri.startswith("memory:"):
        return  # fakeredis' Lua cannot read msgpack, as a check of pending deliveries does
    found = [each for each in checked(store) if each.project == store.project]
    assert [finding for each in found for finding in each.findings] == []


def fill_with_every_kind(store: ContractStore) -> tuple[str | None, str | None]:
    held, prolonged = fill(store)
    id = subscribe(store)
    store.post("to deliver", "and this", delay=0)
    taker = Taker(store)
    assert taker.take()
    step = taker.step()
    waiting, late = pend(step, id, attempts=2)
    store.post("to enter", delay=0)
    late = msgspec.structs.replace(late, due=store.clock() + 99_000)
    taker.step(
        SettledDeliveries(
            pending=[waiting, late],
            counts=[(id, DeliveryCount(delivered=7, error="late", status=504))],
        )
    )
    taker.release()
    of_queue, command = keys.of_queue(store.project, "q"), client_of(store)
    for name, end in (("writer", 10**13), ("other", 10**13 + 1)):
        command("HSET", of_queue.ledger, name, "chunk 7")
        command("ZADD", of_queue.ledger_ends, end, name)
    for kind in ("idempotency_old", "dead_letters", "dead_letters_old"):
        record = (b"\x00digest\xff", b"\xfe" * 20, "since", 1, "till", 10**13)
        command("HSET", getattr(of_queue, kind), *record)
    return held, prolonged


def test_restored_queue_has_all_its_data(store: ContractStore, tmp_path: Path) -> None:
    held, prolonged = fill_with_every_kind(store)
    everything(store)  # settles what has ended
    visible, stored = everything(store), content(store)
    assert set(stored) == set(keys.GROUPS["queue"]) - _DERIVED
    (saved,) = save(store, tmp_path / "backup.gz")
    assert (saved.status, saved.messages) == (BackupStatus.SAVED, len(visible[1]))
    assert (everything(store), content(store)) == (visible, stored)  # it is as it was
    delete(store)
    (restored,) = restore(store, tmp_path / "backup.gz")
    assert (restored.status, restored.messages) == (ImportStatus.COPIED, saved.messages)
    assert content(store) == stored
    assert everything(store) == visible
    assert_clean(store)
    for claim in (held, prolonged):
        assert store.renew(claim, ttl=600)
    assert store.post("first", "second", delay=0, idempotency_key=RETRY).replayed
    new = store.post("new", delay=0).ids[0]
    assert store.get(new)[0].rank > max(message.rank for message in visible[1])
    assert Taker(store).is_due()


def test_restored_topic_has_its_history_and_its_size(store: ContractStore, tmp_path: Path) -> None:
    topic = rules.topic("t")
    store.run(store.driver.queues.create(store.project, topic, {"_history_size": 3}))
    store.post(*"abcd", queue=topic)
    before = content(store, topic)
    save(store, tmp_path / "backup")
    delete(store, topic)
    restore(store, tmp_path / "backup")
    assert content(store, topic) == before
    store.post("e", queue=topic)
    assert names(store.page(queue=topic).items) == ["c", "d", "e"]
    assert store.queues().items == []
    assert_clean(store)


def test_messages_and_claims_that_end_before_the_restore_are_gone(
    store: ContractStore, tmp_path: Path
) -> None:
    store.create()
    store.post("short", ttl=60)
    store.post("claimed", "free", ttl=3000)
    store.post("delayed", ttl=3000, delay=50)
    assert store.claim(2, ttl=60, grace=0).claim_id
    save(store, tmp_path / "backup")
    delete(store)
    store.clock.tick(61)
    restore(store, tmp_path / "backup")
    assert store.visible() == ["claimed", "free", "delayed"]
    assert store.claim(10).messages
    store.sweep(0)
    assert_clean(store)


def test_existing_queues_are_left_alone(store: ContractStore, tmp_path: Path) -> None:
    store.post("a")
    store.post("b", queue="other")
    save(store, tmp_path / "backup")
    delete(store, "other")
    store.clock.tick(1)
    store.post("new", queue="other")
    store.post("later")
    found = {each.queue: each.status for each in restore(store, tmp_path / "backup")}
    assert found == {"q": ImportStatus.THERE, "other": ImportStatus.CONFLICT}
    assert (store.visible(), store.visible("other")) == (["a", "later"], ["new"])
    assert_clean(store)


def test_dry_run_says_what_would_be_restored_and_changes_nothing(
    store: ContractStore, tmp_path: Path
) -> None:
    store.post("a", "b")
    save(store, tmp_path / "backup")
    delete(store)
    (found,) = restore(store, tmp_path / "backup", dry_run=True)
    assert (found.status, found.messages) == (ImportStatus.WANTED, 2)
    assert store.queue() is None


def test_large_messages_are_saved_in_small_chunks(
    real: ContractStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    export = RedisTransfer.export_messages

    def measured(self: RedisTransfer, *args: Any) -> Any:
        async def exported() -> Any:
            chunk = await export(self, *args)
            sizes.append(sum(map(len, chunk.items)))
            return chunk

        return exported()

    monkeypatch.setattr(RedisTransfer, "export_messages", measured)
    for number in range(4):
        real.post(*[f"{number} {each} " + "x" * 50_000 for each in range(50)])
    before = content(real)
    save(real, tmp_path / "backup")
    assert len(sizes) > 3
    assert max(sizes) < 4_000_000
    delete(real)
    restore(real, tmp_path / "backup")
    assert content(real) == before


@pytest.mark.parametrize("posts", [0, 1])
def test_queue_that_is_deleted_while_it_is_copied_is_not_mixed_up(
    real: ContractStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, posts: int
) -> None:
    real.post_many(2500)
    export, calls = RedisTransfer.export_messages, 0

    def interrupted(self: RedisTransfer, *args: Any) -> Any:
        async def exported() -> Any:
            nonlocal calls
            calls += 1
            if calls == 2:
                await real.driver.queues.delete(real.project, "q")
                real.clock.tick(1)
                for _ in range(posts):
                    await real.driver.queues.create(real.project, "q", {"new": True})
            return await export(self, *args)

        return exported()

    monkeypatch.setattr(RedisTransfer, "export_messages", interrupted)
    (saved,) = save(real, tmp_path / "backup")
    monkeypatch.undo()
    assert saved.status is (BackupStatus.SAVED if posts else BackupStatus.GONE)
    delete(real)
    restored = restore(real, tmp_path / "backup")
    assert len(restored) == posts
    found = real.queue()
    assert (found.metadata if found else None) == ({"new": True} if posts else None)
    assert real.listed() == []
    assert_clean(real)


def test_queue_that_is_locked_when_its_long_copy_ends_is_tried_again(
    real: ContractStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real.post_many(2500)
    lock = keys.of_queue(real.project, "q").move_lock
    client = raw_client(real)
    export, calls = RedisTransfer.export_messages, 0

    def long(self: RedisTransfer, *args: Any) -> Any:
        async def exported() -> Any:
            nonlocal calls
            calls += 1
            if calls == 2:
                await asyncio.sleep(2.2)
                await client.command("SET", lock, "out:another", "PX", "200")
            return await export(self, *args)

        return exported()

    monkeypatch.setattr(backup, "_LOCK_TIMEOUT", 2.0)
    monkeypatch.setattr(RedisTransfer, "export_messages", long)
    (saved,) = save(real, tmp_path / "backup")
    assert (saved.status, saved.messages) == (BackupStatus.SAVED, 2500), saved.why
    assert real.run(client.command("EXISTS", lock)) == 0


def test_queue_with_a_staged_write_is_left_out_with_the_reason(
    real: ContractStore, tmp_path: Path
) -> None:
    real.post("a")
    client_of(real)("HSET", keys.of_queue(real.project, "q").stages, "chunk", "1")
    (saved,) = save(real, tmp_path / "backup")
    assert saved.status is BackupStatus.FAILED
    assert "a write of Spark is being staged in it" in saved.why
    delete(real)
    assert restore(real, tmp_path / "backup") == []


def test_damaged_queue_is_left_out_and_others_are_saved(
    real: ContractStore, tmp_path: Path
) -> None:
    real.post("a", "b")
    real.post("c", queue="other")
    command, of_queue = client_of(real), keys.of_queue(real.project, "q")
    command("DEL", of_queue.bodies)
    found = {each.queue: each for each in save(real, tmp_path / "backup")}
    assert found["other"].status is BackupStatus.SAVED
    assert found["q"].status is BackupStatus.FAILED
    assert "zaqar-redis check" in found["q"].why
    command("DEL", of_queue.move_lock, *[getattr(of_queue, each) for each in keys.GROUPS["queue"]])
    delete(real)


def test_quotas_and_access_keys_that_are_missing_come_back(
    own_redis: str, project: str, tmp_path: Path
) -> None:
    with opened_pools(f"{POOLED}{own_redis}", project) as store:
        _check_control(store, tmp_path)


def _check_control(store: PooledContractStore, tmp_path: Path) -> None:
    control = store.driver.control
    store.post("a")
    quota = Quota(messages=7)
    key = AccessKey("zk_1", store.project, "u", ("admin",), sealed_secret=b"\x00\xff")
    store.run(control.quotas.put(store.project, quota))
    store.run(control.access_keys.create(key))
    save(store, tmp_path / "backup")
    store.run(control.quotas.delete(store.project))
    store.run(control.access_keys.delete(key.id))

    async def restored() -> list[tuple[int, int]]:
        with reading(tmp_path / "backup") as (_, reader):
            read = opened_restore(store, reader)
            assert [each async for each in read.results()]
            return [await restore_control(control, read.quotas, read.access_keys) for _ in "12"]

    assert store.run(restored()) == [(1, 1), (0, 0)]
    assert store.run(control.quotas.get(store.project)) == quota
    assert store.run(control.access_keys.get(key.id)) == key


def test_schedules_that_are_missing_come_back_and_count_from_now(
    pools: PooledContractStore, tmp_path: Path
) -> None:
    schedules, project = pools.driver.control.schedules, pools.project
    tick = Schedule(
        "q", "* * * * *", NewMessage(b"\xff", encrypted=True, attributes={"b": b"\xff"})
    )
    paused = msgspec.structs.replace(tick, paused=True)
    over = msgspec.structs.replace(tick, until=1)
    given = {"tick": tick, "paused": paused, "over": over}
    for name, schedule in given.items():
        pools.run(schedules.put(project, name, schedule, 0))
    save(pools, tmp_path / "backup")
    for name in given:
        pools.run(schedules.delete(project, name))
    pools.run(schedules.put(project, "paused", tick, 0))
    dry = restore(pools, tmp_path / "backup", dry_run=True)
    assert [(each.queue, each.status) for each in dry] == [
        ("schedule:over", ImportStatus.WANTED),
        ("schedule:paused", ImportStatus.CONFLICT),
        ("schedule:tick", ImportStatus.WANTED),
    ]
    assert pools.run(schedules.get(project, "tick"))[1] is None
    pools.run(schedules.delete(project, "paused"))
    for status in (ImportStatus.COPIED, ImportStatus.THERE):
        restored = restore(pools, tmp_path / "backup")
        assert [each.status for each in restored] == [status] * 3
    found = {name: pools.run(schedules.get(project, name)) for name in given}
    assert {name: stored and stored.schedule for name, (_, stored) in found.items()} == given
    due = {
        name: stored.next - now for name, (now, stored) in found.items() if stored and stored.next
    }
    assert due.keys() == {"tick"}
    assert 0 < due["tick"] <= 60_000
