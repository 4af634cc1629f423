# SPDX-License-Identifier: Apache-2.0
"""Figures of queues, as operators watch them: exact, and read without changing anything."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.support.stores import CLIENT, ContractStore, PooledContractStore
from zaqar_redis.figures import QueueFigures
from zaqar_redis.storage.figures import StoreFigures
from zaqar_redis.storage.redis import figures as redis_figures
from zaqar_redis.storage.redis.figures import RedisFigures


def parts(store: ContractStore) -> list[StoreFigures]:
    """Returns the figures of each Redis of the store."""
    drivers = [store.driver]
    if isinstance(store, PooledContractStore):
        drivers = [each for each in store.run(store.driver.stores()).values() if each]
    return [driver.figures for driver in drivers if driver.figures is not None]


def figures(store: ContractStore, queue: str = "q") -> QueueFigures:
    """Returns the figures of a queue, which is in one of the stores."""
    found = [
        each
        for part in parts(store)
        for each in store.run(part.queues(store.project, [queue, "missing"]))
    ]
    assert len(found) == 1
    return found[0]


def counts(found: QueueFigures) -> tuple[int, int, int, int]:
    return found.free, found.claimed, found.delayed, found.total


def test_figures_count_messages_by_state(store: ContractStore) -> None:
    store.create(_dead_letter_queue="dead", _max_claim_count=3)
    empty = figures(store)
    assert (counts(empty), empty.oldest, empty.holder) == ((0, 0, 0, 0), 0, "")
    assert (empty.dead_letter_queue, empty.created) == ("dead", store.clock())
    began = store.clock()
    store.post("a", "b", "c")
    store.clock.tick(5)
    store.post("later", delay=60)
    claim = store.claim(limit=2, client=CLIENT).claim_id
    now = figures(store)
    assert counts(now) == (1, 2, 1, 4)
    assert (now.oldest, now.at) == (began, began + 5000)
    assert (now.holder, now.held_since) == (claim, began + 5000)
    assert now.holder_client == CLIENT


def test_figures_leave_out_what_has_ended_and_change_nothing(store: ContractStore) -> None:
    store.post("short", ttl=60)
    store.post("long", ttl=600)
    store.post("delayed", ttl=600, delay=30)
    store.claim(limit=2, ttl=60)
    before = store.key_count()
    store.clock.tick(130)  # the grace has ended, too: the first message has expired
    now = figures(store)
    assert counts(now) == (2, 0, 0, 2)
    assert (now.holder, now.counters.expired, now.counters.deleted) == ("", 1, 0)
    assert now.oldest == now.at - 130_000
    assert store.key_count() == before
    store.sweep(0)
    swept = figures(store)
    assert counts(swept) == (2, 0, 0, 2)
    # That a claim has ended is counted when it is settled.
    assert swept.counters == replace(now.counters, released=1)


def test_figures_count_subscriptions_that_have_not_ended(store: ContractStore) -> None:
    store.post("a")
    for number, ttl in enumerate((60, 600)):
        create = store.subscriptions.create
        assert store.run(create(store.project, "q", f"queue:{number}", ttl=ttl, options={}))
    assert figures(store).subscriptions == 2
    store.clock.tick(61)
    now = figures(store)
    assert (now.subscriptions, now.total) == (1, 1)


def test_figures_tell_a_renewed_claim_from_a_new_one(store: ContractStore) -> None:
    store.post("a")
    claim = store.claim(ttl=60).claim_id
    store.clock.tick(50)
    assert store.renew(claim, ttl=60)
    renewed = figures(store)
    assert (renewed.holder, renewed.held_since) == (claim, renewed.at)
    store.release(claim)
    assert figures(store).holder == ""


def test_figures_tell_a_new_queue_from_a_deleted_one(store: ContractStore) -> None:
    store.post("a", "b")
    before = figures(store)
    store.run(store.driver.queues.delete(store.project, "q"))
    assert [store.run(part.queues(store.project, ["q"])) for part in parts(store)] == [
        [] for _ in parts(store)
    ]
    store.post("c")
    after = figures(store)
    assert (before.counters.posted, after.counters.posted) == (2, 1)
    assert before.epoch != after.epoch


def test_names_and_projects_of_a_store_are_listed(store: ContractStore) -> None:
    for name in ("c", "a", "b"):
        store.create(name)
    listed = [store.run(part.names(store.project, "", 10)) for part in parts(store)]
    assert sorted(name for names in listed for name in names) == ["a", "b", "c"]

    async def projects(part: StoreFigures) -> set[str]:
        return {project async for project, topics in part.projects() if not topics}

    assert any(store.project in store.run(projects(part)) for part in parts(store))
    part = next(part for part in parts(store) if len(store.run(part.names(store.project, "", 9))))
    first, *_ = store.run(part.names(store.project, "", 1))
    assert first not in store.run(part.names(store.project, first, 10))


def test_status_of_a_redis_says_how_it_is(real: ContractStore) -> None:
    (part,) = parts(real)
    status = real.run(part.status())
    assert status is not None
    assert status.version
    assert status.run
    assert status.memory_used > 0
    assert (status.role, status.aof, status.loading) == ("master", False, False)
    assert (status.aof_rewrite_works, status.rdb_works, status.evicted) == (True, True, 0)
    assert status.now is not None
    assert 1 <= status.clients < status.clients_max
    assert status.settings is not None
    assert (status.settings.snapshots, status.settings.appendfsync) == (False, "everysec")
    assert (status.settings.port, status.settings.password) == (0, False)
    real.command("ACL", "SETUSER", "default", "resetpass", ">secret")
    locked = real.run(part.status())
    real.command("ACL", "SETUSER", "default", "nopass")
    assert locked is not None
    assert locked.settings is not None
    assert locked.settings.password


def test_redis_that_hides_settings_is_told_less(
    real: ContractStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of an unknown setting Redis says nothing, as hosted ones do of some.
    monkeypatch.setattr(redis_figures, "_SETTINGS", ("save", "hidden"))
    [part] = parts(real)
    status = real.run(part.status())
    assert status is not None
    assert (status.settings, status.clients > 0) == (None, True)


@pytest.mark.parametrize(
    ("refused", "is_told"), [("-info", False), ("-config", True), ("-acl", True)]
)
def test_redis_user_without_the_rights_is_told_less(
    real: ContractStore, refused: str, is_told: bool
) -> None:
    real.command("ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", refused)
    client = real.client(real.uri.replace("unix://", "unix://limited:secret@"))
    real.run(client.start())
    status = real.run(RedisFigures(client, real.clock).status())
    assert (status is not None) == is_told
    if status is not None:
        assert status.settings is None
    real.run(client.close())
    real.command("ACL", "DELUSER", "limited")
