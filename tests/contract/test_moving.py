# SPDX-License-Identifier: Apache-2.0
"""A queue moves from pool to pool with everything it has, whoever dies on the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests import servers
from tests.contract.conftest import BACKENDS
from tests.contract.stores import CLIENT, POOLED, TTL, Died, Dying, PooledStore, drafts, opened
from tests.contract.test_live import Follower, past
from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.keyspace.client import BlockingClient
from zaqar_redis.records import Job, Message, Move, Pool, Retry
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.pooled.jobs import REBALANCE

RETRY = Retry(key="once", fingerprint=b"1", window=3_600_000)

#: Every script of a move, in the order in which they come.
STEPS = [
    "move_begin",
    "transfer_stage",
    "transfer_read",
    "transfer_write",
    "transfer_freeze",
    "transfer_index",
    "transfer_place",
    "transfer_terms",
    "transfer_keep",
    "transfer_subscribe",
    "transfer_scan",
    "transfer_remember",
    "transfer_settings",
    "transfer_complete",
    "transfer_seal",
    "move_commit",
    "gate_open",
    "project_add",
    "queue_listed",
    "transfer_retire",
    "project_remove",
    "move_end",
]


@pytest.fixture(scope="module")
def pools_uri() -> Iterator[str]:
    with BACKENDS["pooled"]() as uri:
        yield uri


@pytest.fixture
def pools(pools_uri: str, project: str) -> Iterator[PooledStore]:
    with opened(pools_uri, project) as made:
        assert isinstance(made, PooledStore)
        yield made


def place(store: PooledStore, queue: str = "q") -> str | None:
    return store.run(store.driver.control.catalogue.locate(store.project, queue)).pool


def move(store: PooledStore, target: str, queue: str = "q") -> int:
    source = place(store, queue) or DEFAULT
    return store.run(store.driver.mover.move(store.project, queue, source, target))


def other(store: PooledStore, queue: str = "q") -> str:
    return "p2" if place(store, queue) == "p1" else "p1"


def fill(store: PooledStore, number: int = 2500) -> tuple[str | None, str | None]:
    """Messages in every state, claims live and lapsed, an idempotency record; the live claims."""
    store.create(_default_message_delay=900, colour="blue", _max_claim_count=9)
    store.post(*[f"old {each}" for each in range(number)], delay=0)
    store.post("first", "second", delay=0, retry=RETRY)
    store.post("later", delay=600)
    store.post("gone", ttl=60, delay=0)
    lapsed = store.claim(5, ttl=60)
    assert lapsed.claim_id
    store.clock.tick(61)
    held = store.claim(20, ttl=600).claim_id
    prolonged = store.claim(3, ttl=7200).claim_id
    store.delete(store.page(limit=3).items[1].id)
    of = store.driver.subscriptions
    for subscriber in range(1200):
        hook = f"http://example.org/{subscriber}"
        store.run(of.create(store.project, "q", hook, ttl=600, options={"n": subscriber}))
    return held, prolonged


def everything(store: PooledStore, queue: str = "q") -> Any:
    """All that can be seen of the queue, ids and times included."""
    found = store.known(queue)
    messages: list[Message] = []
    after = None
    while True:
        page = store.page(after, 500, queue=queue, claimed=True, delayed=True)
        messages += page.items
        if len(page.items) < 500:
            break
        after = page.marker
    ready = [message.id for message in store.page(limit=500, queue=queue).items]
    of = store.driver.subscriptions
    subscribed = store.run(of.list(store.project, queue, "", 5000)).items
    assert all(
        store.run(of.find(store.project, queue, each.subscriber)) == each
        for each in subscribed[::100]
    )
    return found, messages, ready, store.stats(queue), subscribed


def left_over(store: PooledStore, queue: str = "q") -> list[str]:
    """Kinds of keys that hold the queue, one for each store that has one."""
    of_queue = keys.of_queue(store.project, queue)
    return [
        slot
        for slot in keys.QueueKeys.__slots__
        for answer in store.command("EXISTS", getattr(of_queue, slot))
        if answer
    ]


def test_a_queue_moves_with_everything_it_has(pools: PooledStore) -> None:
    held, prolonged = fill(pools)
    before = everything(pools)
    target = other(pools)
    count = move(pools, target)
    assert count >= 2500
    assert place(pools) == target
    assert everything(pools) == before
    for claim in (held, prolonged):
        assert claim
        assert pools.renew(claim, ttl=600)
    assert len(pools.held(held) or []) == 20
    assert pools.post("first", "second", delay=0, retry=RETRY).replayed
    last = max(message.rank for message in before[1])
    new = pools.post("new", delay=0).ids[0]
    assert pools.get(new)[0].rank > last
    assert [queue.name for queue in pools.queues().items] == ["q"]
    assert pools.run(pools.driver.queues.count(pools.project)) == 1
    # One store has it, and the other a gate.
    found = left_over(pools)
    assert sorted(found) == sorted(set(found))
    assert "gate" in found
    assert pools.run(pools.driver.control.catalogue.moves()) == []


def test_a_queue_moves_there_and_back_and_home(pools: PooledStore) -> None:
    fill(pools, 100)
    before = everything(pools)
    first = place(pools)
    for target in (other(pools), first, DEFAULT, "p1", "p2", DEFAULT):
        assert target
        if target != place(pools):
            move(pools, target)
        assert place(pools) == target
        assert everything(pools) == before


def test_a_queue_that_moved_is_tidied_where_it_is(pools: PooledStore) -> None:
    pools.reset()
    pools.post("long", ttl=600)
    pools.post("short", ttl=60)
    move(pools, other(pools))
    pools.clock.tick(61)
    assert pools.sweep() == 1
    move(pools, other(pools))
    pools.command("DEL", keys.SWEEPER)
    assert pools.sweep() == 0
    pools.clock.tick(600)
    pools.command("DEL", keys.SWEEPER)
    assert pools.sweep() == 1
    assert sum(pools.command("EXISTS", keys.of_queue(pools.project, "q").due)) == 0


def test_an_empty_queue_moves_too(pools: PooledStore) -> None:
    pools.create(colour="red")
    assert move(pools, other(pools)) == 0
    assert pools.known().metadata == {"colour": "red"}


def test_a_deleted_queue_leaves_the_pool_without_a_move(pools: PooledStore) -> None:
    pools.post("a")
    pools.run(pools.driver.queues.delete(pools.project, "q"))
    assert move(pools, other(pools)) == 0
    assert place(pools) is None
    pools.post("b")
    assert pools.listed() == ["b"]


def test_what_happens_while_messages_are_copied_is_not_lost(
    pools: PooledStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Posts, claims, deletions and expiry between the first copy and the last."""
    ids = pools.post(*map(str, range(2500)), ttl=600).ids
    short = pools.post("short", ttl=60).ids[0]
    mover = pools.driver.mover
    copy_live = mover._copy_live
    claimed: list[str | None] = []

    async def and_then(*where: Any) -> int:
        staged = await copy_live(*where)
        driver = pools.driver
        for message in ids[:700]:
            await driver.messages.delete(pools.project, "q", [message], claims=None, force=True)
        taken = await driver.claims.create(pools.project, "q", ttl=3600, grace=60, limit=50)
        claimed.append(taken.claim_id)
        await pools.driver.messages.delete(pools.project, "q", [short], claims=None, force=True)
        return staged

    monkeypatch.setattr(mover, "_copy_live", and_then)
    move(pools, other(pools))
    assert pools.listed() == [str(number) for number in range(700, 2500)]
    assert pools.held(claimed[0]) == [str(number) for number in range(700, 750)]
    held = pools.get(ids[700])[0]
    assert held.ttl == 3660  # prolonged by its claim, after it was copied
    assert pools.stats().claimed == 50


def test_a_queue_that_is_made_anew_while_it_is_copied_keeps_its_new_messages(
    pools: PooledStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their ranks are those of messages that were copied, and are no more."""
    pools.post_many(2500)
    mover = pools.driver.mover
    copy_live = mover._copy_live

    async def and_then(*where: Any) -> int:
        staged = await copy_live(*where)
        await pools.driver.queues.delete(pools.project, "q")
        pools.clock.tick(1)
        await pools.driver.messages.post(
            pools.project, "q", drafts(["new"], TTL, None), client=CLIENT, default_ttl=TTL, size=0
        )
        return staged

    source, target = place(pools), other(pools)
    monkeypatch.setattr(mover, "_copy_live", and_then)
    with pytest.raises(errors.Gated):
        move(pools, target)
    assert place(pools) == source
    assert pools.listed() == ["new"]
    monkeypatch.undo()
    move(pools, target)
    assert pools.listed() == ["new"]


def test_where_a_queue_was_once_nobody_makes_it_after_a_move_back_that_failed(
    pools: PooledStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools.post("old", delay=0)
    home, before = str(place(pools)), other(pools)
    move(pools, before)
    move(pools, home)

    async def fails(*where: Any) -> int:
        raise errors.StoreUnavailable(before)

    monkeypatch.setattr(pools.driver.mover, "_copy_live", fails)
    with pytest.raises(errors.StoreUnavailable):
        move(pools, before)
    monkeypatch.undo()
    # Another worker that has not heard yet that the queue went home.
    remembered = pools.run(pools.driver.places.place(before)).driver
    with pytest.raises(errors.Gated):
        pools.run(
            remembered.messages.post(
                pools.project, "q", drafts(["new"], TTL, 0), client=CLIENT, default_ttl=TTL, size=0
            )
        )
    assert pools.listed() == ["old"]
    move(pools, before)
    assert pools.listed() == ["old"]


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("script", STEPS)
def test_a_mover_that_dies_anywhere_is_made_good(
    pools: PooledStore, script: str, after: int
) -> None:
    held, _ = fill(pools, 2500)
    before = everything(pools)
    source, target = place(pools), other(pools)
    assert source
    if _dies(pools, source, target, script, after):
        # Whoever uses the queue meanwhile finds it whole, or is asked to come back.
        pools.clock.tick(0)
        pools.driver.places.hear(None)
        try:
            assert everything(pools) == before
        except errors.Gated:
            assert place(pools) == source
    mover = pools.driver.mover
    pools.run(mover.settle_all())
    assert pools.run(pools.driver.control.catalogue.moves()) == []
    assert everything(pools) == before
    if place(pools) == source:
        pools.run(mover.move(pools.project, "q", source, target))
    assert place(pools) == target
    assert everything(pools) == before
    assert len(pools.held(held) or []) == 20
    found = left_over(pools)
    assert sorted(found) == sorted(set(found))
    assert [queue.name for queue in pools.queues().items] == ["q"]


def _dies(store: PooledStore, source: str, target: str, script: str, after: int) -> bool:
    """Move with a mover that dies before *script*; False: it was not needed that often."""
    catalogue = store.driver.control.catalogue
    rooms: list[Any] = [driver.transfer for driver, _ in store._parts]
    before = [room.client for room in (*rooms, catalogue)]
    for room in (*rooms, catalogue):
        room.client = Dying(room.client, script, after)
    try:
        store.run(store.driver.mover.move(store.project, "q", source, target))
    except (Died, BaseExceptionGroup):
        return True
    finally:
        for room, client in zip((*rooms, catalogue), before, strict=True):
            room.client = client
    return False


def test_a_move_to_where_it_may_not_go_changes_nothing(pools: PooledStore) -> None:
    fill(pools, 100)
    before = everything(pools)
    source = place(pools)
    assert source
    with pytest.raises(errors.NoSuchPool):
        move(pools, "nowhere")
    with pytest.raises(errors.NotThere):
        pools.run(pools.driver.mover.move(pools.project, "q", other(pools), source))
    assert everything(pools) == before
    assert pools.run(pools.driver.control.catalogue.moves()) == []


def test_two_movers_do_no_harm(pools: PooledStore, pools_uri: str) -> None:
    fill(pools, 2500)
    before = everything(pools)
    source, target = place(pools), other(pools)
    assert source

    async def both() -> list[Any]:
        mover = pools.driver.mover
        return await asyncio.gather(
            *(mover.move(pools.project, "q", source, target) for _ in range(3)),
            return_exceptions=True,
        )

    outcomes = pools.run(both())
    for outcome in outcomes:
        assert isinstance(outcome, (int, errors.Gated, errors.NotThere)), outcome
    pools.run(pools.driver.mover.settle_all())
    assert everything(pools) == before
    found = left_over(pools)
    assert sorted(found) == sorted(set(found))


def test_a_mover_that_is_stopped_leaves_its_role_to_the_next(
    pools: PooledStore, pools_uri: str
) -> None:
    async def stopped(turns: int) -> None:
        tending = asyncio.create_task(pools.driver.jobs.tend())
        for _ in range(turns):
            await asyncio.sleep(0)
        tending.cancel()
        await asyncio.gather(tending, return_exceptions=True)

    home = pools_uri.removeprefix(POOLED).split("|")[0]
    with (
        opened(pools_uri, pools.project) as other_process,
        contextlib.closing(BlockingClient(home, BatchSettings())) as operator,
    ):
        assert isinstance(other_process, PooledStore)
        control = other_process.driver.control
        for turns in range(60):
            operator.command("SCRIPT", "FLUSH")  # a script that is not known takes two trips
            pools.run(stopped(turns))
            assert other_process.run(control.lead("mover", 1)), turns
            other_process.run(control.resign("mover"))


def test_draining_empties_a_pool(pools: PooledStore) -> None:
    names = [f"q{number:03}" for number in range(150)]
    for name in names:
        pools.post(name, queue=name)
    control = pools.driver.control
    pool = pools.run(control.pools.get("p1"))
    assert pool
    draining = Pool(name="p1", uri=pool.uri, weight=pool.weight, draining=True)
    pools.run(control.pools.put(draining, canonical=pool.uri))

    async def drain() -> list[tuple[Any, Any]]:
        return [step async for step in pools.driver.jobs.drain("p1")]

    moved = pools.run(drain())
    ours = [placed.queue for placed, _ in moved if placed.project == pools.project]
    assert 0 < len(ours) < 150
    assert all(count == 1 for placed, count in moved if placed.project == pools.project)
    assert pools.run(control.catalogue.count("p1")) == 0
    assert all(pools.listed(name) == [name] for name in names)
    assert [queue.name for queue in pools.queues(limit=200).items] == names
    pools.run(control.pools.delete("p1"))
    assert pools.listed("q000") == ["q000"]


def test_the_last_pool_of_a_flavor_is_not_drained_past_it(pools: PooledStore) -> None:
    control = pools.driver.control
    pools.run(control.flavors.put("fast", ["p1"]))
    pools.create("q", _flavor="fast")
    before = place(pools)
    pool = pools.run(control.pools.get("p1"))
    assert pool
    draining = msgspec.structs.replace(pool, draining=True)
    pools.run(control.pools.put(draining, canonical=pool.uri))

    async def drain() -> list[Any]:
        return [step async for step in pools.driver.jobs.drain("p1")]

    try:
        ((_, why),) = [step for step in pools.run(drain()) if step[0].project == pools.project]
        assert isinstance(why, errors.CannotMove)
        assert '"fast" has no other pool' in why.text
        assert place(pools) == before == "p1"
    finally:
        pools.run(control.flavors.delete("fast"))


def spread(pools: PooledStore) -> list[Any]:
    """Rebalance; every step of it."""
    jobs = pools.driver.control.jobs
    pools.run(jobs.put(REBALANCE, Job(running=True)))

    async def steps() -> list[Any]:
        return [step async for step in pools.driver.jobs.rebalance()]

    return pools.run(steps())


def counts(pools: PooledStore) -> list[int]:
    found = pools.run(pools.driver.jobs.counts())
    return [found[name] for name in (DEFAULT, "p1", "p2")]


def test_queues_are_spread_by_weight_and_by_flavor(pools_uri: str, project: str) -> None:
    with opened(pools_uri, project) as pools:
        assert isinstance(pools, PooledStore)
        pools.reset()
        control = pools.driver.control
        names = [f"q{number:02}" for number in range(30)]
        for name in names:
            pools.post(name, queue=name)
        first, second = (pools.run(control.pools.get(name)) for name in ("p1", "p2"))
        assert first
        assert second
        heavy = msgspec.structs.replace(first, weight=200)
        pools.run(control.pools.put(heavy, canonical=first.uri))
        assert all(isinstance(outcome, int) for _, outcome in spread(pools))
        assert counts(pools) == [0, 20, 10]
        assert spread(pools) == []
        pools.run(control.flavors.put("fast", ["p2"]))
        queue = pools.known(names[0])
        pools.run(pools.driver.queues.update(project, queue, {"_flavor": "fast"}))
        assert [placed.pool for placed, _ in spread(pools)].count("p2") >= 9
        assert counts(pools) == [0, 29, 1]
        assert place(pools, names[0]) == "p2"
        assert all(pools.listed(name) == [name] for name in names)
        pools.run(control.flavors.delete("fast"))
        pools.run(control.jobs.end(REBALANCE))
        pools.reset()


def test_spreading_stops_when_nobody_wants_it_any_more(pools: PooledStore) -> None:
    for number in range(20):
        pools.post("x", queue=f"q{number}")
    pool = pools.run(pools.driver.control.pools.get("p1"))
    assert pool
    idle = msgspec.structs.replace(pool, weight=0)
    pools.run(pools.driver.control.pools.put(idle, canonical=pool.uri))
    pools.run(pools.driver.control.jobs.put(REBALANCE, Job(running=True)))

    async def begun() -> int:
        moved = 0
        async for _ in pools.driver.jobs.rebalance():
            moved += 1
            await pools.driver.control.jobs.end(REBALANCE)
        return moved

    assert pools.run(begun()) == 1


def test_a_gate_of_a_mover_that_is_gone_lapses(pools: PooledStore) -> None:
    pools.post("a")
    source = place(pools)
    assert source
    transfer = pools.run(pools.driver.places.place(source)).driver.transfer
    assert transfer
    record = Move(token="0" * 32, source=source, target=other(pools))
    pools.run(pools.driver.control.catalogue.begin(pools.project, "q", record))
    pools.run(transfer.freeze(pools.project, "q", record.token))
    with pytest.raises(errors.Gated):
        pools.post("b")
    pools.command("PEXPIRE", keys.of_queue(pools.project, "q").gate, 1)
    servers.wait_for(lambda: pools.run(transfer.gate(pools.project, "q")) == "", "the end of it")
    pools.post("b")
    assert pools.listed() == ["a", "b"]
    pools.run(pools.driver.mover.settle_all())


def test_who_follows_a_queue_follows_it_to_where_it_goes(pools: PooledStore) -> None:
    pools.create()
    follower = Follower(pools)
    pools.post("a")
    assert follower.wait(1) == ["a"]
    move(pools, other(pools))
    pools.wait_for(lambda: follower.gaps > 0, "a gap")
    pools.post("b")
    assert follower.wait(2) == ["a", "b"]
    assert [message.rank for message in follower.messages] == [1, 2]
    assert [message.rank for message in past(pools).messages] == [1, 2]
