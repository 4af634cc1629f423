# SPDX-License-Identifier: Apache-2.0
"""Damage done to keys from outside is found, and repaired without losing a message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract.conftest import BACKENDS
from tests.support.stores import ContractStore, PooledContractStore, checked, findings, opened
from tests.support.tiers import in_gate
from zaqar_redis.check_records import Finding
from zaqar_redis.keyspace import control_keys, keys
from zaqar_redis.pool_records import Move, Pool
from zaqar_redis.records import LockKind, MoveLock, SubscriptionChanges
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.deliveries import (
    DeliveryCount,
    DeliveryLease,
    DeliveryReads,
    PendingDelivery,
    SettledDeliveries,
)

SERVERS = ("redis", "valkey")


@pytest.fixture(scope="module", params=in_gate(SERVERS))
def server_uri(request: pytest.FixtureRequest) -> Iterator[str]:
    with BACKENDS[request.param]() as uri:
        yield uri


@pytest.fixture
def populated(server_uri: str, project: str) -> Iterator[ContractStore]:
    """A store with messages in every state, and nothing else."""
    with opened(server_uri, project) as store:
        store.reset()
        store.create(_default_message_delay=900)
        store.post(*[f"m{number}" for number in range(1200)], delay=0)
        store.post("later", delay=600)
        store.claim(5, ttl=60)
        store.clock.tick(61)
        store.claim(20, ttl=600)
        assert findings(store) == []
        yield store
        store.reset()


def test_check_of_a_large_queue_tells_each_page_that_it_reads(populated: ContractStore) -> None:
    pages: list[tuple[str, int]] = []

    async def check() -> None:
        assert populated.driver.checker
        async for result in populated.driver.checker.check(
            False, lambda queue, more: pages.append((queue, more))
        ):
            assert result.messages == 1201

    populated.run(check())
    assert {queue for queue, _ in pages} == {"q"}
    # Bodies, messages and ends are of each; each message is ready, claimed or delayed.
    assert sum(more for _, more in pages) >= 4 * 1201
    assert max(more for _, more in pages) < 1201


def content(store: ContractStore) -> dict[bytes, list[bytes]]:
    """Returns the dump of every key."""
    (found,) = store.command("KEYS", "*")
    return {key: store.command("DUMP", key) for key in found}


def key_of(store: ContractStore, slot: str, queue: str = "q") -> bytes:
    key: bytes = getattr(keys.of_queue(store.project, queue), slot)
    return key


def drop(slot: str) -> Callable[[ContractStore], Any]:
    return lambda store: store.command("DEL", key_of(store, slot))


def do(*words: str) -> Callable[[ContractStore], Any]:
    """Returns a Redis command; a word that is a slot's name stands for the key."""

    def done(store: ContractStore) -> Any:
        slots = keys.QueueKeys.__slots__
        return store.command(*(key_of(store, word) if word in slots else word for word in words))

    return done


#: Damage, the text of the finding, and the number of messages left.
DAMAGE: list[tuple[Callable[[ContractStore], Any], str, int]] = [
    (drop("messages"), "1201 messages are stored, but not in the queue", 1201),
    (drop("ready"), "neither claimable nor claimed nor delayed", 1201),
    (drop("claimed"), "neither claimable nor claimed nor delayed", 1201),
    (drop("delayed"), "1 messages are neither", 1201),
    (drop("expiry"), "1201 messages expire at another time", 1201),
    (drop("bodies"), "1201 messages have no body", 0),
    (drop("holds"), "20 claimed messages are held by no claim", 1201),
    (drop("claims"), "1 claims or ledger entries lack their expiry time", 1201),
    (drop("leases"), "1 claims or ledger entries lack their expiry time", 1201),
    (drop("queue"), "metadata and settings are lost", 1201),
    (do("HDEL", "queue", "rank"), "get the ranks of others", 1201),
    (do("HDEL", "queue", "epoch"), "metadata and settings are lost", 1201),
    (do("HDEL", "bodies", "700"), "1 messages have no body", 1200),
    (do("ZREM", "messages", "700"), "1 messages are stored, but not in the queue", 1201),
    (do("ZADD", "messages", "5000", "700"), "1 messages are out of order", 1201),
    (do("ZADD", "ready", "3", "700"), "1 messages are out of order", 1201),
    (do("ZADD", "ready", "1", "1"), "1 messages are in two states", 1201),
    (do("ZADD", "delayed", "5", "1", "5", "900"), "2 messages are in two states", 1201),
    (do("ZADD", "expiry", "5", "700"), "1 messages expire at another time", 1201),
    (do("ZADD", "ready", "9999", "9999"), "1 entries are of messages that do not exist", 1201),
    (do("ZADD", "expiry", "9999", "9999"), "1 entries are of messages", 1201),
    (do("HSET", "holds", "9999", "x"), "1 entries are of messages", 1201),
    (do("HSET", "ledger", "r", "x"), "1 claims or ledger entries lack their expiry time", 1201),
    (
        do("ZADD", "ledger_ends", "5", "r"),
        "1 claims or ledger entries lack their expiry time",
        1201,
    ),
    (do("HSET", "idempotency", "r", "x"), "1 sets of idempotency records have no expiry", 1201),
    (do("HSET", "dead_letters_old", "till", "5"), "1 sets of idempotency records have no", 1201),
    (drop("sweep_index"), "the sweeper does not know when to sweep it", 1201),
    (do("HSET", "queue", "due", "9999999999999"), "the sweeper does not know when", 1201),
]


@pytest.mark.parametrize(("damage", "text", "left"), DAMAGE)
def test_damaged_queue_is_found_and_repaired(
    populated: ContractStore, damage: Callable[[ContractStore], Any], text: str, left: int
) -> None:
    before = content(populated)
    damage(populated)
    damaged = content(populated)
    assert damaged != before
    found = findings(populated)
    assert text in " | ".join(finding.what for finding in found)
    assert any(finding.damage for finding in found)
    assert not any(finding.mended for finding in found)
    assert content(populated) == damaged, "a check without repair changes nothing"
    assert all(finding.mended for finding in findings(populated, repair=True))
    assert findings(populated) == []
    assert len(populated.listed()) == left
    populated.post("new", delay=0)
    assert populated.listed()[-1] == "new"
    populated.clock.tick(601)
    assert len(populated.claim(100, ttl=600).messages) == min(100, left + 1)
    assert findings(populated) == []


HOOK = "http://example.org/hook"

SUBSCRIBED: list[tuple[Callable[[ContractStore], Any], str, bool]] = [
    (drop("subscriptions"), "3 subscriptions are incomplete", False),
    (drop("subscription_ends"), "1 subscriptions are incomplete", False),
    (drop("subscription_ids"), "1 subscriptions could not be found", True),
    (drop("subscribers"), "1 subscriptions could not be found", True),
    (do("HSET", "subscribers", HOOK, "x"), "1 subscriptions could not be found", True),
    (do("HSET", "subscribers", "mailto:a@b", "x"), "1 subscriptions are incomplete", True),
    (do("ZADD", "subscription_ids", "0", "x"), "1 subscriptions are incomplete", True),
    (do("ZADD", "subscription_ends", "9", "x"), "1 subscriptions are incomplete", True),
]


def assert_repaired(
    store: ContractStore, damage: Callable[[ContractStore], Any], text: str
) -> None:
    """Asserts that a check finds a damage, and that its repair leaves nothing to find."""
    assert findings(store) == []
    damage(store)
    found = findings(store)
    assert text in " | ".join(finding.what for finding in found)
    assert all(finding.mended for finding in findings(store, repair=True))
    assert findings(store) == []


@pytest.mark.parametrize(("damage", "text", "left"), SUBSCRIBED)
def test_damaged_subscriptions_are_found_and_repaired(
    populated: ContractStore, damage: Callable[[ContractStore], Any], text: str, left: bool
) -> None:
    of_store = populated.subscriptions
    populated.run(of_store.create(populated.project, "q", HOOK, ttl=600, options={}))
    assert_repaired(populated, damage, text)
    known = populated.run(of_store.find(populated.project, "q", HOOK))
    assert (known is not None) == left
    assert len(populated.run(of_store.list(populated.project, "q", "", 10)).items) == int(left)


@pytest.fixture
def delivering(server_uri: str, project: str) -> Iterator[ContractStore]:
    """A store with an empty queue."""
    with opened(server_uri, project) as store:
        store.reset()
        store.create()
        yield store
        store.reset()


PENDING: list[tuple[Callable[[ContractStore], Any], str]] = [
    (drop("pending"), "keys of pending deliveries do not agree"),
    (drop("pending_ids"), "keys of pending deliveries do not agree"),
    (drop("pending_due"), "keys of pending deliveries do not agree"),
    (drop("pending_ends"), "keys of pending deliveries do not agree"),
    (do("HSET", "pending", "x 1", "nonsense"), "keys of pending deliveries do not agree"),
    (do("ZADD", "pending_due", "5", "x 1"), "keys of pending deliveries do not agree"),
    (do("HDEL", "queue", "subscribed"), "not delivered to its subscriptions"),
    (drop("queue"), "not delivered to its subscriptions"),
    (drop("delivery_index"), "do not know when to deliver"),
]


@pytest.mark.parametrize(("damage", "text"), PENDING)
def test_damaged_deliveries_are_found_and_repaired(
    delivering: ContractStore, damage: Callable[[ContractStore], Any], text: str
) -> None:
    id = _with_deliveries(delivering)
    assert_repaired(delivering, damage, text)
    assert _is_due(delivering)
    delivering.post("delivered", delay=0)
    (entries,) = delivering.command("XLEN", key_of(delivering, "deliveries"))
    (kept,) = delivering.command("HEXISTS", key_of(delivering, "pending"), f"{id} x")
    assert (entries, bool(kept)) == (2, damage is not PENDING[0][0])


def test_deliveries_to_a_paused_subscription_are_no_finding(delivering: ContractStore) -> None:
    id = _with_deliveries(delivering)
    paused = SubscriptionChanges(paused=True)
    delivering.run(delivering.subscriptions.update(delivering.project, "q", id, paused))
    delivering.command("DEL", key_of(delivering, "pending_due"))
    assert findings(delivering) == []


def _with_deliveries(store: ContractStore) -> str:
    """Returns a subscription with a pending delivery and a failed one; a post is entered too."""
    driver = store.driver
    assert driver.deliveries
    where = store.project, "q"
    id = store.run(store.subscriptions.create(*where, HOOK, ttl=600, options={}, delivers=True))
    assert id
    store.post("entered", delay=0)
    expires = store.clock() + 600_000
    settled = SettledDeliveries(
        pending=[PendingDelivery(id, "x", expires, notice=b"{}", due=expires)],
        failed=[PendingDelivery(id, "y", expires, notice=b"{}")],
        counts=[(id, DeliveryCount(failed=1, retried=1))],
    )
    lease = DeliveryLease("t", 30_000)
    store.run(driver.deliveries.take(*where, lease))
    store.run(driver.deliveries.step(*where, lease, settled, DeliveryReads(b"0", 9, 9)))
    store.run(driver.deliveries.release(*where, lease))
    return id


def _is_due(store: ContractStore) -> bool:
    deliveries = store.driver.deliveries
    assert deliveries

    async def found() -> list[tuple[str, str]]:
        return [each async for each in deliveries.due()]

    return (store.project, "q") in store.run(found())


#: Damage that only an operator can judge.
BEYOND_REPAIR: list[tuple[Callable[[ContractStore], Any], str]] = [
    (do("HSET", "bodies", "700", "nonsense"), "1 messages cannot be read"),
    (do("HSET", "bodies", "x", "nonsense"), "1 messages cannot be read"),
    (lambda store: store.command("SET", "zr:nonsense", 1), "zr:nonsense does not belong"),
    (lambda store: store.command("SET", "zr:{a/b}:nonsense", 1), "{a/b}:nonsense does not belong"),
    (
        lambda store: store.command("SET", key_of(store, "expiry", "other"), 1),
        "not of their type: zr:{",
    ),
]


@pytest.mark.parametrize(("damage", "text"), BEYOND_REPAIR)
def test_unrepairable_damage_is_reported_and_left(
    populated: ContractStore, damage: Callable[[ContractStore], Any], text: str
) -> None:
    damage(populated)
    for repair in (False, True, False):
        (finding,) = findings(populated, repair)
        assert text in finding.what
        assert (finding.damage, finding.mended) == (True, False)


def test_unlisted_queue_is_checked_and_listing_repaired(populated: ContractStore) -> None:
    populated.create("other")
    populated.command("ZREM", keys.of_project(populated.project).queues, "q")
    populated.command("ZADD", keys.of_project(populated.project).queues, 0, "ghost")
    found = {step.queue: step for step in checked(populated) if step.queue}
    assert set(found) == {"q", "other", "ghost"}
    assert found["q"].messages == 1201
    for queue, what in (("q", "it is not listed"), ("ghost", "it is listed, but does not exist")):
        assert found[queue].findings == (Finding(what=what, damage=False),)
    findings(populated, repair=True)
    assert [queue.name for queue in populated.queues().items] == ["other", "q"]
    assert findings(populated) == []


def test_foreign_keys_in_the_database_are_ignored(populated: ContractStore) -> None:
    populated.command("SET", "session:1", "x")
    assert findings(populated) == []


@pytest.fixture
def pools(pools: PooledContractStore) -> Iterator[PooledContractStore]:
    """Thirty queues over two pools, one deleted, and one in the default pool."""
    pools.reset()
    for number in range(30):
        pools.post(str(number), queue=f"q{number:02}")
    pools.create("gone")
    pools.run(pools.driver.queues.delete(pools.project, "gone"))
    assert findings(pools) == []
    yield pools
    pools.reset()


def control(store: PooledContractStore, *words: Any) -> Any:
    driver: Any = store.driver.router.stores.default.driver  # the contract has no commands
    return store.run(driver._client.command(*words))


def entry(store: ContractStore, queue: str = "q05") -> bytes:
    return keys.entry(store.project, queue)


def lists(store: PooledContractStore) -> control_keys.CatalogueKeys:
    return control_keys.CatalogueKeys(store.project, store.pool_of("q05"))


CATALOGUE: list[tuple[Callable[[PooledContractStore], Any], str]] = [
    (
        lambda store: control(store, "ZREM", lists(store).queues, entry(store)),
        "where it is not listed",
    ),
    (
        lambda store: control(store, "HDEL", control_keys.CONTROL.catalogue, entry(store)),
        "the catalogue has no entry for it",
    ),
    (
        lambda store: control(
            store, "ZADD", control_keys.CatalogueKeys("", DEFAULT_POOL).queues, 0, entry(store)
        ),
        "listed for default",
    ),
    (
        lambda store: control(store, "HINCRBY", lists(store).project, store.pool_of("q05"), 3),
        "of its queues in this pool, but counts",
    ),
    (lambda store: control(store, "DEL", control_keys.CONTROL.catalogue), "has no entry for it"),
]


@pytest.mark.parametrize(("damage", "text"), CATALOGUE)
def test_damaged_catalogue_is_repaired(
    pools: PooledContractStore, damage: Callable[[PooledContractStore], Any], text: str
) -> None:
    damage(pools)
    found = findings(pools)
    assert text in " | ".join(finding.what for finding in found)
    findings(pools, repair=True)
    assert findings(pools) == []
    pools.driver.router.invalidate(None)
    for number in range(30):
        assert pools.listed(f"q{number:02}") == [str(number)]
    assert len(pools.queues().items) == 30


def test_lost_catalogue_is_rebuilt_from_pools(pools: PooledContractStore) -> None:
    kept = {pool.name: pool for pool in pools.run(pools.driver.control.pools.list()).items}
    for key in control(pools, "KEYS", "zr:{control}:*"):
        control(pools, "DEL", key)
    for pool in kept.values():
        pools.run(pools.driver.control.pools.put(pool, canonical=pool.uri))
    pools.driver.router.invalidate(None)
    missing = [finding for finding in findings(pools) if "not in the catalogue" in finding.what]
    assert len(missing) == 30
    assert all(finding.mended for finding in findings(pools, repair=True))
    assert findings(pools) == []
    assert all(pools.listed(f"q{number:02}") == [str(number)] for number in range(30))


def test_queue_present_in_two_pools_is_reported(pools: PooledContractStore) -> None:
    default = pools.driver.router.stores.default.driver
    pools.run(default.queues.create(pools.project, "q05", {}))
    (finding,) = findings(pools, repair=True)
    assert finding == Finding(
        what=f"it is in this store, but the catalogue names {pools.pool_of('q05')}"
    )


def test_queue_of_unregistered_pool_is_reported(pools: PooledContractStore) -> None:
    control(pools, "HDEL", control_keys.CONTROL.pools, pools.pool_of("q05"))
    pools.driver.router.invalidate(None)
    found = [step for step in checked(pools, repair=True) if step.queue == "q05" and step.findings]
    assert [step.findings[0].what for step in found] == [
        f"the catalogue has it in {pools.pool_of('q05')}, and there is no such pool"
    ]


def test_unfinished_move_is_reported_and_settled(pools: PooledContractStore) -> None:
    source = pools.pool_of("q05")
    target = "p2" if source == "p1" else "p1"
    move = Move(token="0" * 32, source=source, target=target)
    pools.run(pools.driver.control.catalogue.begin(pools.project, "q05", move))
    transfer = pools.run(pools.driver.router.stores.get(target)).driver.transfer
    assert transfer
    pools.run(transfer.begin_import(pools.project, "q05", move.token))
    (finding,) = findings(pools)
    assert finding == Finding(what=f"its move to {target} was never finished", damage=False)
    findings(pools, repair=True)
    assert findings(pools) == []
    pools.run(transfer.begin_import(pools.project, "q05", move.token))
    (finding,) = findings(pools)
    assert finding == Finding(what="an unfinished copy of it was left in this store", damage=False)
    assert [finding.mended for finding in findings(pools, repair=True)] == [True]
    assert findings(pools) == []
    assert pools.listed("q05") == ["5"]


def test_queue_under_move_lock_is_reported_as_not_checked(pools: PooledContractStore) -> None:
    transfer = pools.run(pools.driver.router.stores.get(pools.pool_of("q05"))).driver.transfer
    assert transfer
    pools.run(transfer.freeze(pools.project, "q05", "0" * 32))
    found = findings(pools)
    pools.run(transfer.unlock(pools.project, "q05", MoveLock(LockKind.OUT, "0" * 32)))
    assert found == [Finding("it is being moved, and was not read", damage=False)]


def test_catalogue_entry_without_queue_is_removed(pools: PooledContractStore) -> None:
    pool = pools.pool_of("q05")
    driver = pools.run(pools.driver.router.stores.get(pool)).driver
    pools.run(driver.queues.delete(pools.project, "q05"))
    (finding,) = findings(pools)
    assert (finding.what, finding.damage) == (
        "it has a catalogue entry, but does not exist in its pool",
        False,
    )
    findings(pools, repair=True)
    assert findings(pools) == []
    pools.run(pools.driver.forget_deleted(0))
    assert pools.run(pools.driver.control.catalogue.locate(pools.project, "q05")).pool is None


def test_pool_that_lost_all_its_queues_is_reported_as_damage(pools: PooledContractStore) -> None:
    driver = pools.run(pools.driver.router.stores.get("p1")).driver
    for placed in pools.run(pools.driver.control.catalogue.queues_of("p1", "", 100)):
        pools.run(driver.queues.delete(placed.project, placed.queue))
    (damage,) = (finding for finding in findings(pools) if finding.damage)
    assert damage.what.startswith("none of its")
    assert "has lost its data" in damage.what
    findings(pools, repair=True)
    assert findings(pools) == []


def test_unreachable_pool_is_reported(pools: PooledContractStore) -> None:
    unreachable = Pool(name="p3", uri="unix:///no/such/socket", weight=0)
    pools.run(pools.driver.control.pools.put(unreachable, canonical=unreachable.uri))
    pools.driver.router.invalidate(None)
    found = [step for step in checked(pools) if step.findings]
    pools.run(pools.driver.control.pools.delete("p3"))
    pools._parts.pop()  # it cannot be cleaned up
    assert [(step.store, step.queue) for step in found] == [("p3", "")]
