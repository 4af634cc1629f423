# SPDX-License-Identifier: Apache-2.0
"""A queue moves from pool to pool with all its data, also when movers die on the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import msgspec
import pytest

from tests.contract.test_deliveries import Taker, entered, of_subscriptions, pend, state, subscribe
from tests.contract.test_live import LiveRecorder, history_page
from tests.support import servers
from tests.support.stores import (
    CLIENT,
    OWN_KEYS,
    PATIENT,
    POOLED,
    TTL,
    ContractStore,
    Crash,
    CrashBeforeScript,
    PooledContractStore,
    ProcessDied,
    WrappedClient,
    findings,
    names,
    new_messages,
    opened_pools,
)
from tests.support.tiers import in_gate
from zaqar_redis import errors, formats, message_fields, rules
from zaqar_redis.keyspace import blocking, control_keys, keys
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.script import Call, RedisCommand
from zaqar_redis.message_fields import DEDUP_ID
from zaqar_redis.metrics import definitions as metrics
from zaqar_redis.pool_records import Job, Move, Pool
from zaqar_redis.records import Attributes, IdempotencyKey, Lease, LockKind, Message, NewMessage
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.deliveries import DeliveryCount, SettledDeliveries
from zaqar_redis.storage.move.copy import CopyLive, copy_messages
from zaqar_redis.storage.move.states import STATES, MoveState, Settlement
from zaqar_redis.storage.pools.rebalance import REBALANCE_JOB

RETRY = IdempotencyKey(key="once", fingerprint=b"1", window=3_600_000)

#: The scripts and plain commands of a move, in the order of execution.
STEPS = [
    *("move_begin", "transfer_begin_import", "transfer_export_messages"),
    *("transfer_import_messages", "transfer_freeze", "transfer_export_index"),
    *("transfer_import_index", "transfer_export_terms", "transfer_import_terms"),
    *("transfer_import_subscriptions", "transfer_export_records", "transfer_import_records"),
    *("transfer_export_settings", "transfer_import_settings", "transfer_seal", "move_commit"),
    *("move_unlock", "ZADD", "HDEL", "transfer_tombstone", "ZREM", "move_end"),
]


#: The script with which a mover leaves each state of a move.
_NEXT_SCRIPT = {
    "begun": "transfer_begin_import",
    "copying": "transfer_freeze",
    "frozen": "transfer_seal",
    "sealed": "move_commit",
    "imported": "transfer_tombstone",
    "moved": "move_end",
}


def move_queue(
    store: PooledContractStore, target: str, queue: str = "q", copy: CopyLive = copy_messages
) -> int:
    source = store.pool_of(queue)
    return store.run(store.driver.mover.move(store.project, queue, source, target, copy=copy))


def fill(store: ContractStore, number: int = 2500) -> tuple[str | None, str | None]:
    """Creates messages in every state, claims (one expired), a record; the live claims."""
    order = {"_priorities": "strict", "_group_mode": "ordered"}
    store.create(_default_message_delay=900, colour="blue", _max_claim_count=9, **order)
    store.post(*[f"old {each}" for each in range(number)], delay=0)
    fields: Attributes = {message_fields.GROUP: "g", message_fields.CONTENT_TYPE: "text/plain"}
    store.post("first", "second", delay=0, idempotency_key=RETRY, attributes=fields)
    store.post("later", delay=600)
    store.post("gone", ttl=60, delay=0)
    expired = store.claim(5, ttl=60)
    assert expired.claim_id
    store.clock.tick(61)
    held = store.claim(20, ttl=600).claim_id
    prolonged = store.claim(3, ttl=7200, client=CLIENT).claim_id
    store.delete(store.page(limit=3).items[1].id)
    of = store.subscriptions

    async def subscribed(numbers: Iterable[int]) -> None:
        hooks = {f"http://example.org/{n}": {"n": n} for n in numbers}
        await asyncio.gather(
            *(of.create(store.project, "q", hook, ttl=600, options=hooks[hook]) for hook in hooks)
        )

    for first in range(0, 1200, 50):
        store.run(subscribed(range(first, first + 50)))
    return held, prolonged


def everything(store: ContractStore, queue: str = "q") -> Any:
    """Returns everything visible of the queue, with ids and times."""
    found = store.existing_queue(queue)
    messages: list[Message] = []
    after = None
    while True:
        page = store.page(after, 500, queue=queue, claimed=True, delayed=True)
        messages += page.items
        if len(page.items) < 500:
            break
        after = page.marker
    ready = [message.id for message in store.page(limit=500, queue=queue).items]
    of = store.subscriptions
    subscribed = store.run(of.list(store.project, queue, "", 5000)).items
    assert all(
        store.run(of.find(store.project, queue, each.subscriber)) == each
        for each in subscribed[::100]
    )
    return found, messages, ready, store.stats(queue), subscribed


def left_over(store: PooledContractStore, queue: str = "q") -> list[str]:
    """Returns, for each store, the kinds of keys that exist for the queue."""
    of_queue = keys.of_queue(store.project, queue)
    found: dict[str, tuple[Any, ...]] = {
        slot: ("EXISTS", getattr(of_queue, slot)) for slot in OWN_KEYS
    }
    for slot in ("sweep_index", "delivery_index"):
        found[slot] = ("ZSCORE", getattr(of_queue, slot), of_queue.queue[4:-1])
    return [slot for slot, words in found.items() for answer in store.command(*words) if answer]


def test_moved_queue_recognises_duplicates(pools: PooledContractStore) -> None:
    pools.create(_dedup_window=3600)
    message = NewMessage(b'"x"', ttl=TTL, attributes={DEDUP_ID: "a"}, dedup="")
    first = pools.send([message])
    move_queue(pools, pools.other_pool())
    pools.clock.tick(3599)
    again = pools.send([message])
    assert (again.ids, list(again.duplicates)) == (first.ids, [0])
    pools.clock.tick(1)
    assert not pools.send([message]).duplicates


def test_queue_moves_with_all_its_data(pools: PooledContractStore) -> None:
    held, prolonged = fill(pools)
    before = everything(pools)
    target = pools.other_pool()
    count = move_queue(pools, target)
    assert count >= 2500
    assert pools.pool_of() == target
    assert everything(pools) == before
    for claim in (held, prolonged):
        assert claim
        assert pools.renew(claim, ttl=600)
    clients = {each.id: each.client for each in pools.claims().items}
    assert clients == {held: "", prolonged: CLIENT}
    assert len(pools.held(held) or []) == 20
    assert pools.post("first", "second", delay=0, idempotency_key=RETRY).replayed
    last = max(message.rank for message in before[1])
    new = pools.post("new", delay=0).ids[0]
    assert pools.get(new)[0].rank > last
    assert [queue.name for queue in pools.queues().items] == ["q"]
    assert pools.run(pools.driver.queues.count(pools.project)) == 1
    # One store has the queue, and the other a move lock.
    found = left_over(pools)
    assert sorted(found) == sorted(set(found))
    assert "move_lock" in found
    assert pools.run(pools.driver.control.catalogue.moves()) == []


def test_queue_moves_between_pools_and_back_to_default_pool(pools: PooledContractStore) -> None:
    fill(pools, 100)
    before = everything(pools)
    first = pools.pool_of()
    for target in (pools.other_pool(), first, DEFAULT_POOL, "p1", "p2", DEFAULT_POOL):
        if target != pools.pool_of():
            move_queue(pools, target)
        assert pools.pool_of() == target
        assert everything(pools) == before


def test_topic_moves_with_its_history_and_its_size(pools: PooledContractStore) -> None:
    topic = rules.topic("t")
    pools.run(pools.driver.queues.create(pools.project, topic, {"_history_size": 3}))
    pools.post(*"abcd", queue=topic)
    before = everything(pools, topic)
    target = pools.other_pool(topic)
    move_queue(pools, target, topic)
    assert pools.pool_of(topic) == target
    assert everything(pools, topic) == before
    pools.post("e", queue=topic)
    assert names(pools.page(queue=topic).items) == ["c", "d", "e"]
    listing = pools.driver.queues.list(pools.project, "", 10, None, topics=True)
    assert [each.name for each in pools.run(listing).items] == [topic]
    assert pools.queues().items == []


def test_moved_queue_is_swept_in_its_new_pool(pools: PooledContractStore) -> None:
    pools.reset()
    pools.post("long", ttl=600)
    pools.post("short", ttl=60)
    move_queue(pools, pools.other_pool())
    pools.clock.tick(61)
    assert pools.sweep() == 1
    move_queue(pools, pools.other_pool())
    pools.command("DEL", keys.SWEEPER)
    assert pools.sweep() == 0
    pools.clock.tick(600)
    pools.command("DEL", keys.SWEEPER)
    assert pools.sweep() == 1
    assert sum(pools.command("EXISTS", keys.of_queue(pools.project, "q").sweep_index)) == 0


def test_an_empty_queue_moves_too(pools: PooledContractStore) -> None:
    pools.create(colour="red")
    assert move_queue(pools, pools.other_pool()) == 0
    assert pools.existing_queue().metadata == {"colour": "red"}


def test_move_of_a_deleted_queue_only_removes_it_from_the_pool(pools: PooledContractStore) -> None:
    pools.post("a")
    pools.run(pools.driver.queues.delete(pools.project, "q"))
    assert move_queue(pools, pools.other_pool()) == 0
    assert pools.run(pools.driver.control.catalogue.locate(pools.project, "q")).pool is None
    pools.post("b")
    assert pools.listed() == ["b"]


def test_changes_during_copy_are_not_lost(pools: PooledContractStore) -> None:
    """Changes are posts, claims, deletions and expiry between the first copy and the last."""
    ids = pools.post(*map(str, range(2500)), ttl=600).ids
    short = pools.post("short", ttl=60).ids[0]
    claimed: list[str | None] = []

    async def change_after(*where: Any) -> int:
        copied_rank = await copy_messages(*where)
        driver = pools.driver
        for message in ids[:700]:
            await driver.messages.delete(pools.project, "q", [message], claims=None, force=True)
        taken = await driver.claims.create(pools.project, "q", Lease(3600, 60), limit=50)
        claimed.append(taken.claim_id)
        await pools.driver.messages.delete(pools.project, "q", [short], claims=None, force=True)
        return copied_rank

    move_queue(pools, pools.other_pool(), copy=change_after)
    assert pools.listed() == [str(number) for number in range(700, 2500)]
    assert pools.held(claimed[0]) == [str(number) for number in range(700, 750)]
    held = pools.get(ids[700])[0]
    assert held.ttl == 3660  # extended by its claim, after it was copied
    assert pools.stats().claimed == 50


def test_queue_recreated_during_copy_keeps_its_new_messages(pools: PooledContractStore) -> None:
    """The new messages have the ranks of deleted ones that were already copied."""
    pools.post_many(2500)

    async def change_after(*where: Any) -> int:
        copied_rank = await copy_messages(*where)
        await pools.driver.queues.delete(pools.project, "q")
        pools.clock.tick(1)
        await pools.driver.messages.post(
            pools.project,
            "q",
            new_messages(["new"], TTL, None),
            client=CLIENT,
            default_ttl=TTL,
            size=0,
        )
        return copied_rank

    source, target = pools.route()
    with pytest.raises(errors.MoveLocked):
        move_queue(pools, target, copy=change_after)
    assert pools.pool_of() == source
    assert pools.listed() == ["new"]
    move_queue(pools, target)
    assert pools.listed() == ["new"]


def test_queue_is_not_created_in_its_former_pool_after_an_undone_move_back(
    pools: PooledContractStore,
) -> None:
    pools.post("old", delay=0)
    current, former = pools.route()
    move_queue(pools, former)
    move_queue(pools, current)

    async def fails(*endpoints: Any) -> int:
        raise errors.StoreUnavailable(former)

    with pytest.raises(errors.StoreUnavailable):
        move_queue(pools, former, copy=fails)
    # The route of another worker, which has not been notified of the moves.
    old_route = pools.run(pools.driver.router.stores.get(former)).driver
    with pytest.raises(errors.MoveLocked):
        pools.run(
            old_route.messages.post(
                pools.project,
                "q",
                new_messages(["new"], TTL, 0),
                client=CLIENT,
                default_ttl=TTL,
                size=0,
            )
        )
    assert pools.listed() == ["old"]
    move_queue(pools, former)
    assert pools.listed() == ["old"]


@pytest.mark.parametrize("after", in_gate([0, 1]))
@pytest.mark.parametrize("script", STEPS)
def test_move_killed_at_any_script_is_completed_or_undone(
    pools: PooledContractStore, script: str, after: int
) -> None:
    held, _ = fill(pools, 2500)
    before = everything(pools)
    source, target = pools.route()
    if _dies(pools, source, target, script, after):
        # Meanwhile clients see the complete queue, or are told to retry.
        pools.clock.tick(0)
        pools.driver.router.invalidate(None)
        try:
            assert everything(pools) == before
        except errors.MoveLocked:
            assert pools.pool_of() == source
    mover = pools.driver.mover
    pools.run(mover.settle_all())
    assert pools.run(pools.driver.control.catalogue.moves()) == []
    assert everything(pools) == before
    if pools.pool_of() == source:
        pools.run(mover.move(pools.project, "q", source, target))
    assert pools.pool_of() == target
    assert everything(pools) == before
    assert len(pools.held(held) or []) == 20
    found = left_over(pools)
    assert sorted(found) == sorted(set(found))
    assert [queue.name for queue in pools.queues().items] == ["q"]


@contextlib.contextmanager
def _movers_client(
    store: PooledContractStore, wrap: Callable[[AsyncClient], WrappedClient]
) -> Iterator[None]:
    """Wraps the clients that movers use."""
    catalogue = store.driver.control.catalogue
    transfers: list[Any] = [driver.transfer for driver, _ in store._parts]
    before = [part.client for part in (*transfers, catalogue)]
    for part in (*transfers, catalogue):
        part.client = wrap(part.client)
    try:
        yield
    finally:
        for part, client in zip((*transfers, catalogue), before, strict=True):
            part.client = client


def _dies(store: PooledContractStore, source: str, target: str, script: str, after: int) -> bool:
    """Moves with a mover that dies before *script*; False: it was not called that often."""
    crash = Crash(script, after)
    with _movers_client(store, lambda client: CrashBeforeScript(client, crash)):
        try:
            store.run(store.driver.mover.move(store.project, "q", source, target))
        except (ProcessDied, BaseExceptionGroup):
            return True
    return False


class _WaitBeforeScript(WrappedClient):
    """A client that waits for something else before it sends a certain script, once."""

    def __init__(
        self, client: AsyncClient, script: str, waits: list[Callable[[], Awaitable[object]]]
    ) -> None:
        super().__init__(client)
        self._script = script
        self._waits = waits

    async def call(self, call: RedisCommand) -> Any:
        if isinstance(call, Call) and call.script.name == self._script and self._waits:
            await self._waits.pop()()
        return await super().call(call)


class _FilledQueue:
    """A queue that is to move from *source* to *target*, and what it has."""

    def __init__(self, store: PooledContractStore) -> None:
        fill(store, 100)
        self._store = store
        self._content = everything(store)
        self.source, self.target = store.route()

    def assert_settled(self, settlement: Settlement) -> None:
        """The queue is whole, in the pool that the settlement says, and can move again."""
        store = self._store
        assert store.pool_of() == (self.target if settlement is Settlement.FINISH else self.source)
        assert everything(store) == self._content
        assert store.run(store.driver.control.catalogue.moves()) == []
        assert move_queue(store, store.other_pool()) > 100


def _interrupted(
    store: PooledContractStore,
    queue: _FilledQueue,
    script: str,
    interrupt: Callable[[], Awaitable[object]],
) -> None:
    """Moves with a mover before whose *script* something else is done."""
    waits = [interrupt]
    with (
        _movers_client(store, lambda client: _WaitBeforeScript(client, script, waits)),
        contextlib.suppress(errors.MoveLocked),
    ):
        store.run(store.driver.mover.move(store.project, "q", queue.source, queue.target))
    assert waits == []


class _CancelledAfterScript(WrappedClient):
    """A client whose caller is cancelled when a certain script has run, once."""

    def __init__(self, client: AsyncClient, script: str, left: list[str]) -> None:
        super().__init__(client)
        self._script = script
        self._left = left

    async def call(self, call: RedisCommand) -> Any:
        answer = await super().call(call)
        if isinstance(call, Call) and call.script.name == self._script and self._left:
            self._left.clear()
            raise asyncio.CancelledError
        return answer


@pytest.mark.parametrize(
    "script",
    [
        *("move_begin", "transfer_begin_import", "transfer_freeze", "transfer_seal", "move_commit"),
        "transfer_tombstone",
    ],
)
def test_move_that_is_cancelled_is_undone_or_finished_at_once(
    pools: PooledContractStore, script: str
) -> None:
    queue, left = _FilledQueue(pools), [script]
    with (
        _movers_client(pools, lambda client: _CancelledAfterScript(client, script, left)),
        pytest.raises(asyncio.CancelledError),
    ):
        pools.run(pools.driver.mover.move(pools.project, "q", queue.source, queue.target))
    assert left == []
    is_over = script in ("transfer_seal", "move_commit", "transfer_tombstone")
    queue.assert_settled(Settlement.FINISH if is_over else Settlement.UNDO)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_move_that_another_process_settles_loses_nothing(
    pools: PooledContractStore, state: MoveState
) -> None:
    queue = _FilledQueue(pools)
    _interrupted(pools, queue, _NEXT_SCRIPT[state.name], pools.driver.mover.settle_all)
    queue.assert_settled(state.settlement)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_move_left_in_a_state_is_settled_as_the_table_says(
    pools: PooledContractStore, state: MoveState
) -> None:
    queue = _FilledQueue(pools)
    assert _dies(pools, queue.source, queue.target, _NEXT_SCRIPT[state.name], 0)
    locks = [_lock_kind(pools, queue.source), _lock_kind(pools, queue.target)]
    assert locks == [state.source, state.target]
    pools.run(pools.driver.mover.settle_all())
    queue.assert_settled(state.settlement)


async def _withdraw(store: PooledContractStore) -> None:
    """Withdraws the move on record, and does no more: as a process that dies then."""
    catalogue = store.driver.control.catalogue
    [(_, move)] = [found for found in await catalogue.moves() if found[0].project == store.project]
    assert await catalogue.withdraw(store.project, "q", move.token)


def test_withdrawn_move_is_not_committed(pools: PooledContractStore) -> None:
    queue = _FilledQueue(pools)
    _interrupted(pools, queue, "transfer_seal", lambda: _withdraw(pools))
    queue.assert_settled(Settlement.UNDO)


def test_sealed_move_that_was_withdrawn_is_undone(pools: PooledContractStore) -> None:
    # Given a mover that dies when it has sealed the queue, after the move was withdrawn
    queue = _FilledQueue(pools)
    assert _dies(pools, queue.source, queue.target, "move_commit", 0)
    pools.run(_withdraw(pools))
    assert _lock_kind(pools, queue.source) is LockKind.GONE
    # When another process settles it, then the queue is in use where it was
    pools.run(pools.driver.mover.settle_all())
    queue.assert_settled(Settlement.UNDO)


def _lock_kind(store: PooledContractStore, pool: str) -> LockKind | None:
    transfer = store.run(store.driver.router.stores.get(pool)).driver.transfer
    assert transfer
    lock = store.run(transfer.move_lock(store.project, "q"))
    return None if lock is None else lock.kind


def test_move_to_invalid_pool_changes_nothing(pools: PooledContractStore) -> None:
    fill(pools, 100)
    before = everything(pools)
    source = pools.pool_of()
    with pytest.raises(errors.NoSuchPool):
        move_queue(pools, "nowhere")
    with pytest.raises(errors.QueueNotInPool):
        pools.run(pools.driver.mover.move(pools.project, "q", pools.other_pool(), source))
    assert everything(pools) == before
    assert pools.run(pools.driver.control.catalogue.moves()) == []


def test_concurrent_moves_of_one_queue_do_no_harm(pools: PooledContractStore) -> None:
    fill(pools, 2500)
    before = everything(pools)
    source, target = pools.route()

    async def both() -> list[Any]:
        mover = pools.driver.mover
        return await asyncio.gather(
            *(mover.move(pools.project, "q", source, target) for _ in range(3)),
            return_exceptions=True,
        )

    outcomes = pools.run(both())
    for outcome in outcomes:
        assert isinstance(outcome, (int, errors.MoveLocked, errors.QueueNotInPool)), outcome
    pools.run(pools.driver.mover.settle_all())
    assert everything(pools) == before
    found = left_over(pools)
    assert sorted(found) == sorted(set(found))


def test_stopped_mover_releases_leader_role(pools: PooledContractStore, pools_uri: str) -> None:
    async def stopped(turns: int) -> None:
        tending = asyncio.create_task(pools.driver.jobs.run_pending())
        for _ in range(turns):
            await asyncio.sleep(0)
        tending.cancel()
        await asyncio.gather(tending, return_exceptions=True)

    control_uri = pools_uri.removeprefix(POOLED).split("|")[0]
    with (
        opened_pools(pools_uri, pools.project) as other_process,
        contextlib.closing(blocking.client(control_uri, PATIENT)) as operator,
    ):
        control = other_process.driver.control
        for turns in range(60):
            operator.command("SCRIPT", "FLUSH")  # an unknown script takes two round trips
            pools.run(stopped(turns))
            assert other_process.run(control.lead("mover", 1)), turns
            other_process.run(control.resign("mover"))


def change_pool(store: PooledContractStore, name: str, **changes: Any) -> None:
    pool = store.run(store.driver.control.pools.get(name))
    assert pool
    changed = msgspec.structs.replace(pool, **changes)
    store.run(store.driver.control.pools.put(changed, canonical=pool.uri))


def drained(store: PooledContractStore, name: str) -> list[tuple[Any, Any]]:
    change_pool(store, name, draining=True)

    async def drain() -> list[tuple[Any, Any]]:
        return [step async for step in store.driver.jobs.drain(name)]

    return store.run(drain())


def test_draining_empties_a_pool(pools: PooledContractStore) -> None:
    names = [f"q{number:03}" for number in range(150)]
    for name in names:
        pools.post(name, queue=name)
    control = pools.driver.control
    done, messages = dict(metrics.MOVES.rows())[("done",)][0], metrics.MOVED.total
    moved = drained(pools, "p1")
    assert dict(metrics.MOVES.rows())[("done",)] == [done + len(moved)]
    assert metrics.MOVED.total == messages + sum(count for _, count in moved)
    assert dict(metrics.MOVES_RUNNING.rows()) == {(): [0]}
    ours = [placed.queue for placed, _ in moved if placed.project == pools.project]
    assert 0 < len(ours) < 150
    assert all(count == 1 for placed, count in moved if placed.project == pools.project)
    assert pools.run(control.catalogue.count("p1")) == 0
    assert all(pools.listed(name) == [name] for name in names)
    assert [queue.name for queue in pools.queues(limit=200).items] == names
    pools.run(control.pools.delete("p1"))
    assert pools.listed("q000") == ["q000"]


def test_draining_last_pool_of_a_flavor_keeps_its_queues(pools: PooledContractStore) -> None:
    control = pools.driver.control
    pools.run(control.flavors.put("fast", ["p1"]))
    pools.create("q", _flavor="fast")
    before = pools.pool_of()
    failed = dict(metrics.MOVES.rows())[("failed",)][0]
    try:
        ((_, why),) = [step for step in drained(pools, "p1") if step[0].project == pools.project]
        assert isinstance(why, errors.CannotMove)
        assert '"fast" has no other pool' in why.text
        assert dict(metrics.MOVES.rows())[("failed",)] > [failed]
        assert pools.pool_of() == before == "p1"
    finally:
        pools.run(control.flavors.delete("fast"))


@pytest.fixture
def elsewhere(pools: PooledContractStore, pools_uri: str) -> Iterator[PooledContractStore]:
    """The same store in another process: *pools* knows the list of pools from before."""
    with opened_pools(pools_uri, pools.project) as store:
        pools.post("the list is cached now, and news wait while this loop stands still")
        yield store


def test_flavor_is_used_before_its_news_arrive(
    pools: PooledContractStore, elsewhere: PooledContractStore
) -> None:
    flavors = elsewhere.driver.control.flavors
    elsewhere.run(flavors.put("new", ["p2"]))
    pools.create("other", _flavor="new")
    assert pools.pool_of("other") == "p2"
    elsewhere.run(flavors.delete("new"))


def test_pool_is_used_before_its_news_arrive(
    pools: PooledContractStore, elsewhere: PooledContractStore
) -> None:
    source = elsewhere.pool_of()
    with servers.redis_server() as server:
        added = Pool(name="p3", uri=server.uri, weight=0)
        elsewhere.run(elsewhere.driver.control.pools.put(added, canonical=server.uri))
        move = pools.driver.mover.move
        assert pools.run(move(pools.project, "q", source, "p3")) == 1
        assert pools.run(move(pools.project, "q", "p3", source)) == 1
        elsewhere.run(elsewhere.driver.control.pools.delete("p3"))


def spread(pools: PooledContractStore) -> list[Any]:
    """Rebalances; returns every step."""
    jobs = pools.driver.control.jobs
    pools.run(jobs.put(REBALANCE_JOB, Job(running=True)))

    async def steps() -> list[Any]:
        return [step async for step in pools.driver.jobs.rebalance()]

    return pools.run(steps())


def counts(pools: PooledContractStore) -> list[int]:
    found = pools.run(pools.driver.jobs.counts())
    return [found[name] for name in (DEFAULT_POOL, "p1", "p2")]


def test_queues_are_spread_by_weight_and_by_flavor(pools_uri: str, project: str) -> None:
    with opened_pools(pools_uri, project) as pools:
        pools.reset()
        control = pools.driver.control
        names = [f"q{number:02}" for number in range(30)]
        for name in names:
            pools.post(name, queue=name)
        change_pool(pools, "p1", weight=200)
        assert all(isinstance(outcome, int) for _, outcome in spread(pools))
        assert counts(pools) == [0, 20, 10]
        assert spread(pools) == []
        pools.run(control.flavors.put("fast", ["p2"]))
        queue = pools.existing_queue(names[0])
        pools.run(pools.driver.queues.update(project, queue, {"_flavor": "fast"}))
        assert [placed.pool for placed, _ in spread(pools)].count("p2") >= 9
        assert counts(pools) == [0, 29, 1]
        assert pools.pool_of(names[0]) == "p2"
        assert all(pools.listed(name) == [name] for name in names)
        pools.run(control.flavors.delete("fast"))
        pools.run(control.jobs.end(REBALANCE_JOB))
        pools.reset()


def test_rebalance_stops_when_its_job_is_removed(pools: PooledContractStore) -> None:
    for number in range(20):
        pools.post("x", queue=f"q{number}")
    change_pool(pools, "p1", weight=0)
    pools.run(pools.driver.control.jobs.put(REBALANCE_JOB, Job(running=True)))

    async def begun() -> int:
        moved = 0
        async for _ in pools.driver.jobs.rebalance():
            moved += 1
            await pools.driver.control.jobs.end(REBALANCE_JOB)
        return moved

    assert pools.run(begun()) == 1


def test_move_lock_of_dead_mover_expires(pools: PooledContractStore) -> None:
    pools.post("a")
    source = pools.pool_of()
    transfer = pools.run(pools.driver.router.stores.get(source)).driver.transfer
    assert transfer
    record = Move(token="0" * 32, source=source, target=pools.other_pool())
    pools.run(pools.driver.control.catalogue.begin(pools.project, "q", record))
    pools.run(transfer.freeze(pools.project, "q", record.token))
    with pytest.raises(errors.MoveLocked):
        pools.post("b")
    pools.command("PEXPIRE", keys.of_queue(pools.project, "q").move_lock, 1)
    servers.wait_for(
        lambda: pools.run(transfer.move_lock(pools.project, "q")) is None, "the move lock to expire"
    )
    pools.post("b")
    assert pools.listed() == ["a", "b"]
    pools.run(pools.driver.mover.settle_all())


@pytest.mark.usefixtures("patient")
def test_watcher_of_moved_queue_is_notified_of_a_gap_and_continues(
    pools: PooledContractStore,
) -> None:
    pools.create()
    follower = LiveRecorder(pools)
    pools.post("a")
    assert follower.wait(1) == ["a"]
    move_queue(pools, pools.other_pool())
    pools.wait_for(lambda: follower.gaps > 0, "a gap")
    pools.post("b")
    assert follower.wait(2) == ["a", "b"]
    assert [message.rank for message in follower.messages] == [1, 2]
    assert [message.rank for message in history_page(pools).messages] == [1, 2]


@pytest.mark.parametrize("attempts", [0, 127, 128, 70_000])
def test_delivery_that_is_tried_again_is_due_after_a_move(
    pools: PooledContractStore, attempts: int
) -> None:
    pools.create()
    id = subscribe(pools)
    pools.post("a", "b")
    taker = Taker(pools)
    assert taker.take()
    step = taker.step()
    waiting, late = pend(step, id, attempts=attempts)
    late = msgspec.structs.replace(late, due=pools.clock() + 99_000)
    taker.step(SettledDeliveries([step.entries[0].id], pending=[waiting, late]))
    move_queue(pools, pools.other_pool())
    new = Taker(pools, "two")
    assert new.take()
    step = new.step()
    assert ([each.id for each in step.due], step.holds) == ([late.id], [id])


def test_moved_queue_keeps_its_deliveries(pools: PooledContractStore) -> None:
    pools.create()
    id = subscribe(pools)
    taker = Taker(pools)
    assert taker.take()
    pools.post("a", "b")
    step = taker.step()
    waiting, failed = pend(step, id, attempts=3)
    counts = [(id, DeliveryCount(delivered=7, error="late", status=504))]
    taker.step(
        SettledDeliveries(
            [step.entries[0].id],
            pending=[waiting],
            failed=[failed],
            holds=[(id, pools.clock() + 99_000)],
            counts=counts,
        )
    )
    for n in range(50):
        pools.post(f"c{n}")
    move_queue(pools, pools.other_pool())
    new = Taker(pools, "two")
    assert new.is_due()
    assert new.take()
    step = new.step()
    assert entered(step) == [f"c{n}" for n in range(50)]
    assert step.holds == [id]
    (found,) = new.backlog(id)
    assert (found.id, found.attempts) == (waiting.id, 3)
    assert (state(pools, id).delivered, state(pools, id).error) == (7, "late")
    assert pools.run(of_subscriptions(pools).replay(pools.project, "q", id)) == 1


def test_queue_moves_with_the_count_of_its_bytes(pools: PooledContractStore) -> None:
    pools.upgrade()
    pools.create(_max_bytes=200)
    pools.post("a", "b", "c")
    pools.claim(limit=1)
    target = pools.other_pool()
    move_queue(pools, target)
    assert pools.pool_of() == target
    assert findings(pools) == []
    with pytest.raises(errors.QueueFull):
        pools.post("d")


def test_limit_of_bytes_does_not_move_to_a_store_of_older_releases(
    pools: PooledContractStore,
) -> None:
    pools.upgrade()
    pools.create(_max_bytes=200)
    pools.post("a")
    source, target = pools.pool_of(), pools.other_pool()
    older = {client.uri: client for client in pools.clients()}[pools.uri_of(target)]
    pools.run(older.command("HSET", control_keys.CONTROL.format, "needs", formats.BYTES - 1))
    with pytest.raises(errors.CannotMove) as refusal:
        move_queue(pools, target)
    assert '"_max_bytes"' in str(refusal.value)
    assert (pools.pool_of(), pools.listed()) == (source, ["a"])


def test_overflow_that_waits_to_become_dead_letters_moves_with_its_queue(
    pools: PooledContractStore,
) -> None:
    pools.create(_max_messages=1, _overflow="dead_letter", _dead_letter_queue="dead")
    pools.post("a")
    pools.post("b")
    move_queue(pools, pools.other_pool())
    assert pools.listed() == ["b"]
    pools.clock.tick(1)
    for _ in range(2):  # it is parked in the new store, and then sent
        pools.sweep(0)
    assert pools.listed("dead") == ["a"]
    assert pools.listed() == ["b"]
    assert pools.stats().counters.dead_lettered == 1
