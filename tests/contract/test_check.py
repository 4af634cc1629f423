# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to keys from outside is found, and mended without losing a message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract.conftest import BACKENDS
from tests.contract.stores import PooledStore, Store, checked, findings, opened
from zaqar_redis.keyspace import keys
from zaqar_redis.records import Finding, Move, Pool
from zaqar_redis.storage.control import DEFAULT

SERVERS = ("redis", "valkey")


@pytest.fixture(scope="module", params=SERVERS)
def server_uri(request: pytest.FixtureRequest) -> Iterator[str]:
    with BACKENDS[request.param]() as uri:
        yield uri


@pytest.fixture
def whole(server_uri: str, project: str) -> Iterator[Store]:
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


def content(store: Store) -> dict[bytes, list[bytes]]:
    """Every key as Redis keeps it."""
    (found,) = store.command("KEYS", "*")
    return {key: store.command("DUMP", key) for key in found}


def of(store: Store, slot: str, queue: str = "q") -> bytes:
    key: bytes = getattr(keys.of_queue(store.project, queue), slot)
    return key


def drop(slot: str) -> Callable[[Store], Any]:
    return lambda store: store.command("DEL", of(store, slot))


def do(*words: str) -> Callable[[Store], Any]:
    """A Redis command; a word that is a key's slot stands for the key."""

    def done(store: Store) -> Any:
        slots = keys.QueueKeys.__slots__
        return store.command(*(of(store, word) if word in slots else word for word in words))

    return done


#: What happens, what is said, and how many messages are left.
DAMAGE: list[tuple[Callable[[Store], Any], str, int]] = [
    (drop("messages"), "1201 messages are there, but not in the queue", 1201),
    (drop("ready"), "neither claimable nor claimed nor delayed", 1201),
    (drop("claimed"), "neither claimable nor claimed nor delayed", 1201),
    (drop("delayed"), "1 messages are neither", 1201),
    (drop("expiry"), "1201 messages expire at another time", 1201),
    (drop("bodies"), "1201 messages have no body", 0),
    (drop("holds"), "20 claimed messages are held by no claim", 1201),
    (drop("claims"), "1 claims or ledger entries have lost their end", 1201),
    (drop("leases"), "1 claims or ledger entries have lost their end", 1201),
    (drop("queue"), "metadata and settings are lost", 1201),
    (do("HDEL", "queue", "rank"), "take the places of others", 1201),
    (do("HDEL", "queue", "epoch"), "metadata and settings are lost", 1201),
    (do("HDEL", "bodies", "700"), "1 messages have no body", 1200),
    (do("ZREM", "messages", "700"), "1 messages are there, but not in the queue", 1201),
    (do("ZADD", "messages", "5000", "700"), "1 messages are out of order", 1201),
    (do("ZADD", "ready", "3", "700"), "1 messages are out of order", 1201),
    (do("ZADD", "ready", "1", "1"), "1 messages are in two states", 1201),
    (do("ZADD", "delayed", "5", "1", "5", "900"), "2 messages are in two states", 1201),
    (do("ZADD", "expiry", "5", "700"), "1 messages expire at another time", 1201),
    (do("ZADD", "ready", "9999", "9999"), "1 entries are of messages that are not there", 1201),
    (do("ZADD", "expiry", "9999", "9999"), "1 entries are of messages", 1201),
    (do("HSET", "holds", "9999", "x"), "1 entries are of messages", 1201),
    (do("HSET", "ledger", "r", "x"), "1 claims or ledger entries have lost their end", 1201),
    (do("ZADD", "ledger_ends", "5", "r"), "1 claims or ledger entries have lost their end", 1201),
    (do("HSET", "idempotency", "r", "x"), "1 sets of idempotency records have lost", 1201),
    (do("HSET", "letters_old", "till", "5"), "1 sets of idempotency records have lost", 1201),
    (drop("due"), "the sweeper does not know when something of it is due", 1201),
]


@pytest.mark.parametrize(("happens", "text", "left"), DAMAGE)
def test_damage_is_found_and_mended(
    whole: Store, happens: Callable[[Store], Any], text: str, left: int
) -> None:
    before = content(whole)
    happens(whole)
    damaged = content(whole)
    assert damaged != before
    found = findings(whole)
    assert text in " | ".join(finding.what for finding in found)
    assert any(finding.damage for finding in found)
    assert not any(finding.mended for finding in found)
    assert content(whole) == damaged, "a look changes nothing"
    assert all(finding.mended for finding in findings(whole, repair=True))
    assert findings(whole) == []
    assert len(whole.listed()) == left
    whole.post("new", delay=0)
    assert whole.listed()[-1] == "new"
    whole.clock.tick(601)
    assert len(whole.claim(100, ttl=600).messages) == min(100, left + 1)
    assert findings(whole) == []


HOOK = "http://example.org/hook"

SUBSCRIBED: list[tuple[Callable[[Store], Any], str, bool]] = [
    (drop("subscriptions"), "3 subscriptions are there in part", False),
    (drop("subscription_ends"), "1 subscriptions are there in part", False),
    (drop("subscription_ids"), "1 subscriptions could not be found", True),
    (drop("subscribers"), "1 subscriptions could not be found", True),
    (do("HSET", "subscribers", HOOK, "x"), "1 subscriptions could not be found", True),
    (do("HSET", "subscribers", "mailto:a@b", "x"), "1 subscriptions are there in part", True),
    (do("ZADD", "subscription_ids", "0", "x"), "1 subscriptions are there in part", True),
    (do("ZADD", "subscription_ends", "9", "x"), "1 subscriptions are there in part", True),
]


@pytest.mark.parametrize(("happens", "text", "left"), SUBSCRIBED)
def test_damaged_subscriptions_are_found_and_mended(
    whole: Store, happens: Callable[[Store], Any], text: str, left: bool
) -> None:
    of_store = whole.driver.subscriptions
    whole.run(of_store.create(whole.project, "q", HOOK, ttl=600, options={}))
    assert findings(whole) == []
    happens(whole)
    found = findings(whole)
    assert text in " | ".join(finding.what for finding in found)
    assert all(finding.mended for finding in findings(whole, repair=True))
    assert findings(whole) == []
    known = whole.run(of_store.find(whole.project, "q", HOOK))
    assert (known is not None) == left
    assert len(whole.run(of_store.list(whole.project, "q", "", 10)).items) == int(left)


#: Commands of damage that only an operator can judge.
BEYOND_REPAIR: list[tuple[Callable[[Store], Any], str]] = [
    (do("HSET", "bodies", "700", "nonsense"), "1 messages cannot be read"),
    (do("HSET", "bodies", "x", "nonsense"), "1 messages cannot be read"),
    (lambda store: store.command("SET", "zr:nonsense", 1), "zr:nonsense is none"),
    (lambda store: store.command("SET", "zr:{a/b}:nonsense", 1), "{a/b}:nonsense is none"),
    (
        lambda store: store.command("SET", of(store, "expiry", "other"), 1),
        "not of their type: zr:{",
    ),
]


@pytest.mark.parametrize(("happens", "text"), BEYOND_REPAIR)
def test_what_cannot_be_mended_is_named_and_stays(
    whole: Store, happens: Callable[[Store], Any], text: str
) -> None:
    happens(whole)
    for repair in (False, True, False):
        (finding,) = findings(whole, repair)
        assert text in finding.what
        assert (finding.damage, finding.mended) == (True, False)


def test_every_queue_is_read_also_one_that_is_not_listed(whole: Store) -> None:
    whole.create("other")
    whole.command("ZREM", keys.of_project(whole.project).queues, "q")
    whole.command("ZADD", keys.of_project(whole.project).queues, 0, "ghost")
    found = {step.queue: step for step in checked(whole) if step.queue}
    assert set(found) == {"q", "other", "ghost"}
    assert found["q"].messages == 1201
    for queue, what in (("q", "it is not listed"), ("ghost", "it is listed, but not there")):
        assert found[queue].findings == (Finding(what=what, damage=False),)
    findings(whole, repair=True)
    assert [queue.name for queue in whole.queues().items] == ["other", "q"]
    assert findings(whole) == []


def test_other_keys_in_the_same_database_are_none_of_our_business(whole: Store) -> None:
    whole.command("SET", "session:1", "x")
    assert findings(whole) == []


@pytest.fixture(scope="module")
def pools_uri() -> Iterator[str]:
    with BACKENDS["pooled"]() as uri:
        yield uri


@pytest.fixture
def pools(pools_uri: str, project: str) -> Iterator[PooledStore]:
    """Thirty queues over two pools, one deleted, and one at home."""
    with opened(pools_uri, project) as store:
        assert isinstance(store, PooledStore)
        store.reset()
        for number in range(30):
            store.post(str(number), queue=f"q{number:02}")
        store.create("gone")
        store.run(store.driver.queues.delete(store.project, "gone"))
        assert findings(store) == []
        yield store
        store.reset()


def place(store: PooledStore, queue: str) -> str:
    pool = store.run(store.driver.control.catalogue.locate(store.project, queue)).pool
    assert pool
    return pool


def control(store: PooledStore, *words: Any) -> Any:
    return store.run(store.driver.places.home.driver._client.command(*words))  # type: ignore[attr-defined]


def entry(store: Store, queue: str = "q05") -> bytes:
    return keys.entry(store.project, queue)


def lists(store: PooledStore) -> keys.PlaceKeys:
    return keys.PlaceKeys(store.project, place(store, "q05"))


CATALOGUE: list[tuple[Callable[[PooledStore], Any], str]] = [
    (
        lambda store: control(store, "ZREM", lists(store).queues, entry(store)),
        "where it is not listed",
    ),
    (
        lambda store: control(store, "HDEL", keys.CONTROL.catalogue, entry(store)),
        "the catalogue has it nowhere",
    ),
    (
        lambda store: control(store, "ZADD", keys.PlaceKeys("", DEFAULT).queues, 0, entry(store)),
        "listed for default",
    ),
    (
        lambda store: control(store, "HINCRBY", lists(store).project, place(store, "q05"), 3),
        "of its queues here, and counts",
    ),
    (lambda store: control(store, "DEL", keys.CONTROL.catalogue), "has it nowhere"),
]


@pytest.mark.parametrize(("happens", "text"), CATALOGUE)
def test_a_damaged_catalogue_is_mended(
    pools: PooledStore, happens: Callable[[PooledStore], Any], text: str
) -> None:
    happens(pools)
    found = findings(pools)
    assert text in " | ".join(finding.what for finding in found)
    findings(pools, repair=True)
    assert findings(pools) == []
    pools.driver.places.hear(None)
    for number in range(30):
        assert pools.listed(f"q{number:02}") == [str(number)]
    assert len(pools.queues().items) == 30


def test_a_lost_catalogue_is_made_anew_from_the_stores(pools: PooledStore) -> None:
    kept = {pool.name: pool for pool in pools.run(pools.driver.control.pools.list()).items}
    for key in control(pools, "KEYS", "zr:{control}:*"):
        control(pools, "DEL", key)
    for pool in kept.values():
        pools.run(pools.driver.control.pools.put(pool, canonical=pool.uri))
    pools.driver.places.hear(None)
    missing = [finding for finding in findings(pools) if "not in the catalogue" in finding.what]
    assert len(missing) == 30
    assert all(finding.mended for finding in findings(pools, repair=True))
    assert findings(pools) == []
    assert all(pools.listed(f"q{number:02}") == [str(number)] for number in range(30))


def test_a_queue_in_two_stores_is_named(pools: PooledStore) -> None:
    home = pools.driver.places.home.driver
    pools.run(home.queues.create(pools.project, "q05", {}))
    (finding,) = findings(pools, repair=True)
    assert finding == Finding(what=f"it is here, but the catalogue says {place(pools, 'q05')}")


def test_a_pool_that_was_forgotten_is_named(pools: PooledStore) -> None:
    control(pools, "HDEL", keys.CONTROL.pools, place(pools, "q05"))
    pools.driver.places.hear(None)
    found = [step for step in checked(pools, repair=True) if step.queue == "q05" and step.findings]
    assert [step.findings[0].what for step in found] == [
        f"the catalogue has it in {place(pools, 'q05')}, and there is no such pool"
    ]


def test_what_a_mover_left_behind_is_settled(pools: PooledStore) -> None:
    source = place(pools, "q05")
    target = "p2" if source == "p1" else "p1"
    move = Move(token="0" * 32, source=source, target=target)
    pools.run(pools.driver.control.catalogue.begin(pools.project, "q05", move))
    there = pools.run(pools.driver.places.place(target)).driver.transfer
    assert there
    pools.run(there.stage(pools.project, "q05", move.token))
    (finding,) = findings(pools)
    assert finding == Finding(what=f"its move to {target} was never ended", damage=False)
    findings(pools, repair=True)
    assert findings(pools) == []
    pools.run(there.stage(pools.project, "q05", move.token))
    (finding,) = findings(pools)
    assert finding == Finding(what="half a copy of it was left here", damage=False)
    assert [finding.mended for finding in findings(pools, repair=True)] == [True]
    assert findings(pools) == []
    assert pools.listed("q05") == ["5"]


def test_a_queue_that_is_switching_is_said_not_to_have_been_read(pools: PooledStore) -> None:
    transfer = pools.run(pools.driver.places.place(place(pools, "q05"))).driver.transfer
    assert transfer
    pools.run(transfer.freeze(pools.project, "q05", "0" * 32))
    found = findings(pools)
    pools.run(transfer.open(pools.project, "q05", "out:" + "0" * 32))
    assert found == [Finding("it is on the move, and was not read", damage=False)]


def test_a_place_without_a_queue_is_given_up(pools: PooledStore) -> None:
    pool = place(pools, "q05")
    driver = pools.run(pools.driver.places.place(pool)).driver
    pools.run(driver.queues.delete(pools.project, "q05"))
    (finding,) = findings(pools)
    assert (finding.what, finding.damage) == (
        "it has a place in the catalogue, but is not there",
        False,
    )
    findings(pools, repair=True)
    assert findings(pools) == []
    pools.run(pools.driver.forget_deleted(0))
    assert pools.run(pools.driver.control.catalogue.locate(pools.project, "q05")).pool is None


def test_a_store_that_lost_everything_is_damage(pools: PooledStore) -> None:
    driver = pools.run(pools.driver.places.place("p1")).driver
    for placed in pools.run(pools.driver.control.catalogue.queues_of("p1", "", 100)):
        pools.run(driver.queues.delete(placed.project, placed.queue))
    (damage,) = (finding for finding in findings(pools) if finding.damage)
    assert damage.what.startswith("none of its")
    assert "has lost its data" in damage.what
    findings(pools, repair=True)
    assert findings(pools) == []


def test_a_pool_that_is_away_is_a_finding(pools: PooledStore, pools_uri: str) -> None:
    away = Pool(name="p3", uri="unix:///no/such/socket", weight=0)
    pools.run(pools.driver.control.pools.put(away, canonical=away.uri))
    pools.driver.places.hear(None)
    found = [step for step in checked(pools) if step.findings]
    pools.run(pools.driver.control.pools.delete("p3"))
    pools._parts.pop()  # nobody can tidy up there
    assert [(step.store, step.queue) for step in found] == [("p3", "")]
