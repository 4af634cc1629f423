# SPDX-License-Identifier: Apache-2.0
"""What every store guarantees for deliveries to the subscribers of its queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.support.stores import TTL, ContractStore, PooledContractStore, names
from zaqar_redis import errors
from zaqar_redis.records import Forwarding, NewMessage, SubscriptionChanges
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.deliveries import (
    Deliveries,
    DeliveryCount,
    DeliveryLease,
    DeliveryReads,
    DeliveryState,
    DeliveryStep,
    PendingDelivery,
    SettledDeliveries,
    SubscriptionDeliveries,
)

LEASE_MS = 30_000
HOOK = "http://example.org/hook"
NOTHING = SettledDeliveries()


class Taker:
    """A notifier that has taken a queue, as the store sees it."""

    def __init__(self, store: ContractStore, token: str = "one", queue: str = "q") -> None:
        self._store = store
        self._lease = DeliveryLease(token, LEASE_MS)
        self._queue = queue
        self.after = b"0"

    @property
    def _at(self) -> tuple[str, str]:
        return self._store.project, self._queue

    @property
    def _deliveries(self) -> Deliveries:
        store, queue = self._store, self._queue
        (driver,) = [each for each in _stores(store) if _has_queue(store, each, queue)]
        assert driver.deliveries
        return driver.deliveries

    def take(self) -> bool:
        return self._store.run(self._deliveries.take(*self._at, self._lease))

    def maybe_step(
        self, settled: SettledDeliveries = NOTHING, limit: int = 100
    ) -> DeliveryStep | None:
        reads = DeliveryReads(self.after, limit, 100)
        step = self._store.run(self._deliveries.step(*self._at, self._lease, settled, reads))
        if step is not None and step.entries:
            self.after = step.entries[-1].id
        return step

    def step(self, settled: SettledDeliveries = NOTHING) -> DeliveryStep:
        found = self.maybe_step(settled)
        assert found is not None
        return found

    def backlog(self, subscription: str, after: str = "") -> Sequence[PendingDelivery]:
        return self._store.run(self._deliveries.backlog(*self._at, subscription, after, 100))

    def waiting(self, limit: int = 100) -> Sequence[str]:
        return self._store.run(self._deliveries.waiting(*self._at, "", limit))

    def hints(self) -> Sequence[str]:
        """Returns the list of those that come from now on."""
        hints: list[str] = []

        def listen(project: str, queue: str) -> None:
            if project == self._store.project:
                hints.append(queue)

        self._store.run(self._deliveries.watch(listen))
        return hints

    def keep(self, seconds: int) -> None:
        """Lets time pass, and has nothing to do meanwhile."""
        for _ in range(0, seconds, LEASE_MS // 2000):
            self._store.clock.tick(LEASE_MS // 2000)
            self.step()

    def release(self) -> None:
        self._store.run(self._deliveries.release(*self._at, self._lease))

    def made(self, *ids: str) -> int:
        return self._store.run(self._deliveries.made(*self._at, ids))

    def is_due(self, late_ms: int = 0) -> bool:
        deliveries = self._deliveries

        async def found() -> list[tuple[str, str]]:
            return [each async for each in deliveries.due(late_ms)]

        return self._at in self._store.run(found())


def _stores(store: ContractStore) -> list[Driver]:
    if isinstance(store, PooledContractStore):
        found = store.run(store.driver.stores()).values()
        return [each for each in found if each is not None]
    return [store.driver]


def _has_queue(store: ContractStore, driver: Driver, queue: str) -> bool:
    try:
        return store.run(driver.queues.get(store.project, queue)) is not None
    except errors.MoveLocked:
        return False


def of_subscriptions(store: ContractStore) -> SubscriptionDeliveries:
    assert store.driver.subscription_deliveries
    return store.driver.subscription_deliveries


def subscribe(
    store: ContractStore, subscriber: str = HOOK, ttl: int = 600, queue: str = "q", **how: Any
) -> str:
    how = {"delivers": True, **how}
    create = store.subscriptions.create
    id = store.run(create(store.project, queue, subscriber, ttl=ttl, options={}, **how))
    assert id
    return id


def update(store: ContractStore, id: str, **changes: Any) -> None:
    changed = SubscriptionChanges(**changes)
    assert store.run(store.subscriptions.update(store.project, "q", id, changed))


def unsubscribe(store: ContractStore, id: str) -> None:
    store.run(store.subscriptions.delete(store.project, "q", id))


def state(store: ContractStore, id: str) -> DeliveryState:
    (found,) = store.run(of_subscriptions(store).states(store.project, "q", [id]))
    return found


@pytest.fixture
def subscription(store: ContractStore) -> str:
    store.create()
    return subscribe(store)


@pytest.fixture
def taker(store: ContractStore, subscription: str) -> Taker:
    taker = Taker(store)
    assert taker.take()
    return taker


def entered(step: DeliveryStep) -> list[str]:
    return [
        name for entry in step.entries for name in names(each.message for each in entry.messages)
    ]


def pend(step: DeliveryStep, id: str, **fields: Any) -> list[PendingDelivery]:
    """Returns the messages of a step as pending deliveries."""
    return [
        PendingDelivery(
            id, f"{stored.message.rank:016d}", stored.message.expires, entry.epoch, stored, **fields
        )
        for entry in step.entries
        for stored in entry.messages
    ]


@pytest.mark.usefixtures("subscription")
def test_deliveries_that_nobody_takes_are_late(store: ContractStore) -> None:
    taker = Taker(store)
    store.post("a")
    assert taker.is_due()
    assert not taker.is_due(late_ms=60_000)
    store.clock.tick(61)
    assert taker.is_due(late_ms=60_000)
    assert taker.take()
    assert not taker.is_due(late_ms=60_000)


def test_posts_are_entered_in_order_each_once(store: ContractStore, taker: Taker) -> None:
    store.post("a", "b")
    store.post("c")
    step = taker.step()
    assert entered(step) == ["a", "b", "c"]
    assert [len(entry.messages) for entry in step.entries] == [2, 1]
    assert step.version
    assert entered(taker.step()) == []
    taker.after = b"0"
    assert entered(taker.step(SettledDeliveries([step.entries[0].id]))) == ["c"]


def test_post_tells_a_notifier_that_has_read_all_whatever_is_not_settled(
    store: ContractStore, taker: Taker
) -> None:
    hints = taker.hints()

    def is_told(body: str, times: int) -> None:
        store.post(body)
        store.wait_for(lambda: len(hints) >= times, "the hint")

    is_told("a", 1)
    assert entered(taker.step()) == ["a"]  # a slow subscriber has not got it yet
    for times in range(2, 5):
        assert not taker.step().entries
        is_told(f"b{times}", times)
        assert entered(taker.step()) == [f"b{times}"]
    assert len(hints) == 4


def test_post_does_not_tell_a_notifier_that_reads_on(store: ContractStore, taker: Taker) -> None:
    hints = taker.hints()
    store.post("a")
    assert entered(taker.step()) == ["a"]
    store.post("b")  # the next step of the notifier reads it
    assert taker.maybe_step(limit=0)
    store.post("c")  # it has no room, and reads when it has some
    assert entered(taker.step()) == ["b", "c"]
    assert not taker.step().entries
    store.post("d")
    store.wait_for(lambda: len(hints) >= 2, "the hint")
    assert len(hints) == 2


def test_large_post_is_entered_in_parts(store: ContractStore, taker: Taker) -> None:
    store.post_many(2500)
    assert taker.is_due()
    step = taker.step()
    assert entered(step) == [str(n) for n in range(2500)]
    assert len(step.entries) == 3


@pytest.mark.parametrize("delivers", [False, True])
def test_posts_are_entered_only_for_subscriptions_that_notifiers_serve(
    store: ContractStore, delivers: bool
) -> None:
    store.create()
    subscribe(store, delivers=delivers)
    store.post("a")
    taker = Taker(store)
    assert taker.is_due() == delivers
    assert taker.take()
    assert entered(taker.step()) == ["a"] * delivers


def test_posts_are_not_entered_after_the_last_subscription_ended(
    store: ContractStore, subscription: str
) -> None:
    unsubscribe(store, subscription)
    store.post("a")
    assert not Taker(store).is_due()


def test_subscription_for_deliveries_needs_its_queue(store: ContractStore) -> None:
    with pytest.raises(errors.NotFound):
        subscribe(store)


@pytest.mark.parametrize("change", ["create", "update", "delete"])
def test_version_changes_with_the_subscriptions(
    store: ContractStore, taker: Taker, subscription: str, change: str
) -> None:
    other = subscribe(store, "http://example.org/other")
    before = taker.step().version
    if change == "create":
        subscribe(store, "http://example.org/third")
    elif change == "update":
        update(store, subscription, ttl=900)
    else:
        unsubscribe(store, other)
    assert taker.step().version not in (before, 0)


def test_queue_has_one_notifier_until_its_lease_ends(store: ContractStore, taker: Taker) -> None:
    other = Taker(store, "other")
    assert not other.take()
    assert other.maybe_step() is None
    # A lease ends by the clock of Redis, which no test can set.
    taker.release()
    assert other.take()
    assert taker.maybe_step() is None


def test_what_is_not_settled_is_due_again_after_a_release(
    store: ContractStore, taker: Taker
) -> None:
    store.post("a")
    taker.step()
    taker.release()
    assert taker.is_due()
    other = Taker(store, "other")
    assert other.take()
    step = other.step()
    assert entered(step) == ["a"]
    other.step(SettledDeliveries([step.entries[0].id]))
    other.release()
    assert not other.is_due()


def test_release_of_what_is_due_tells_other_notifiers(store: ContractStore, taker: Taker) -> None:
    store.post("a")
    taker.step()
    hints = taker.hints()
    taker.release()
    store.wait_for(lambda: "q" in hints, "the hint")


def test_deliveries_that_were_made_after_a_release_are_made_once(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    store.post("a", "b")
    step = taker.step()
    made, waits = pend(step, subscription)
    until = store.clock() + 9000
    holds = [(subscription, until)]
    taker.step(SettledDeliveries([step.entries[0].id], pending=[made, waits], holds=holds))
    taker.release()
    hints = taker.hints()
    assert [taker.made(made.id), taker.made(made.id)] == [1, 0]
    assert state(store, subscription) == DeliveryState(delivered=1, pending=1)
    store.wait_for(lambda: "q" in hints, "the hint")
    other = Taker(store, "other")
    assert other.take()
    assert other.step().holds == [subscription]  # it needs not wait any more
    assert [each.id for each in other.backlog(subscription)] == [waits.id]


def test_pending_delivery_is_read_when_it_is_due(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    store.post("a", "b")
    step = taker.step()
    now = store.clock()
    soon, late = pend(step, subscription, attempts=2, status=503, error="busy: ☃")
    soon = msgspec.structs.replace(soon, due=now + 5000)
    late = msgspec.structs.replace(late, due=now + 9000)
    after = taker.step(SettledDeliveries([step.entries[0].id], pending=[soon, late]))
    assert (after.due, after.next_due) == ([], now + 5000)
    assert state(store, subscription).pending == 2
    store.clock.tick(5)
    (read,) = taker.step().due
    assert (read.id, read.attempts, read.status, read.error) == (soon.id, 2, 503, "busy: ☃")
    assert read.stored is not None
    assert names([read.stored.message]) == ["a"]
    assert taker.step().due == []  # it has been handed out
    taker.step(SettledDeliveries(made=[read.id]))
    assert state(store, subscription).pending == 1


def test_delivery_that_is_stored_and_made_in_one_step_does_not_wait(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    store.post("a", "b")
    step = taker.step()
    made, waits = pend(step, subscription)
    entries = [step.entries[0].id]
    taker.step(SettledDeliveries(entries, made=[made.id], pending=[made, waits]))
    assert [each.id for each in taker.backlog(subscription)] == [waits.id]


def test_waiting_deliveries_are_read_in_order_when_their_subscription_is_due(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    other = subscribe(store, "http://example.org/other")
    store.post_many(12)
    step = taker.step()
    waiting = [*pend(step, subscription), *pend(step, other)]
    now = store.clock()
    taker.step(
        SettledDeliveries(
            [entry.id for entry in step.entries],
            pending=waiting,
            holds=[(subscription, now + 1000), (other, now + 60_000)],
        )
    )
    store.clock.tick(1)
    step = taker.step()
    assert (step.due, step.holds) == ([], [subscription])
    found = taker.backlog(subscription)
    assert [names([each.stored.message]) for each in found if each.stored] == [
        [str(n)] for n in range(12)
    ]
    assert [each.id for each in taker.backlog(subscription, found[9].id)] == [
        each.id for each in found[10:]
    ]
    taker.step(SettledDeliveries(made=[each.id for each in found], holds=[(subscription, None)]))
    assert taker.backlog(subscription) == []
    assert len(taker.backlog(other)) == 12


def test_state_counts_deliveries_and_shows_the_last_failure(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    assert state(store, subscription) == DeliveryState()
    count = DeliveryCount(delivered=3, failed=1, retried=2, error="gone ☃", status=404)
    taker.step(SettledDeliveries(counts=[(subscription, count)]))
    taker.step(SettledDeliveries(counts=[(subscription, DeliveryCount(delivered=1))]))
    assert state(store, subscription) == DeliveryState(4, 1, 2, 0, store.clock(), "gone ☃", 404)


def test_state_shows_since_when_every_attempt_has_failed(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    fails = SettledDeliveries(counts=[(subscription, DeliveryCount(retried=1, error="busy"))])
    taker.step(fails)
    since = store.clock()
    store.clock.tick(9)
    taker.step(fails)
    assert state(store, subscription).failing_since == since
    taker.step(SettledDeliveries(counts=[(subscription, DeliveryCount())]))  # of a notice
    assert state(store, subscription).failing_since == 0
    taker.step(fails)
    taker.step(SettledDeliveries(counts=[(subscription, DeliveryCount(delivered=1))]))
    assert state(store, subscription).failing_since == 0


def test_notice_that_fails_is_the_last_failure_and_no_failing_subscription(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    counts = [(subscription, DeliveryCount(error="busy", status=503))]
    taker.step(SettledDeliveries(counts=counts))
    found = state(store, subscription)
    assert (found.error, found.status, found.failing_since) == ("busy", 503, 0)


def test_message_that_expires_while_attempts_fail_leaves_their_error(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    expired = SettledDeliveries(counts=[(subscription, DeliveryCount(failed=1))])
    taker.step(expired)
    found = state(store, subscription)
    assert (found.error, found.failing_since) == ("it expired before it was delivered", 0)
    fails = DeliveryCount(retried=1, error="busy", status=503)
    taker.step(SettledDeliveries(counts=[(subscription, fails)]))
    failed_at = store.clock()
    store.clock.tick(9)
    taker.step(expired)
    found = state(store, subscription)
    assert (found.failed, found.failed_at, found.error, found.status) == (2, failed_at, "busy", 503)
    taker.step(SettledDeliveries(counts=[(subscription, DeliveryCount(delivered=1))]))
    taker.step(expired)
    assert state(store, subscription).error == "it expired before it was delivered"


def test_failed_delivery_is_tried_again_by_a_replay(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    store.post("a", "b")
    step = taker.step()
    counts = [(subscription, DeliveryCount(failed=2))]
    taker.step(
        SettledDeliveries([step.entries[0].id], failed=pend(step, subscription), counts=counts)
    )
    assert (state(store, subscription).failed, state(store, subscription).pending) == (2, 0)
    taker.release()
    replay = of_subscriptions(store).replay
    assert store.run(replay(store.project, "q", subscription)) == 2
    assert store.run(replay(store.project, "q", subscription)) == 0
    assert (state(store, subscription).failed, state(store, subscription).pending) == (0, 2)
    assert taker.is_due()
    assert taker.take()
    assert taker.step().holds == [subscription]
    assert [each.replayed for each in taker.backlog(subscription)] == [True, True]


def test_replay_leaves_what_has_expired(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    store.post("a", ttl=60)
    store.post("b", ttl=600)
    step = taker.step()
    entries = [each.id for each in step.entries]
    taker.step(SettledDeliveries(entries, failed=pend(step, subscription)))
    store.clock.tick(61)
    replay = of_subscriptions(store).replay
    assert store.run(replay(store.project, "q", subscription)) == 1


def test_stored_messages_are_delivered_once_more(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    store.post("a", delay=5, attributes={"n": 1})
    store.post("b", "c")
    first, second = taker.step().entries
    waiting, given_up = pend(DeliveryStep(0, 1, [second], [], [], None), subscription)
    counts = [(subscription, DeliveryCount(failed=1))]
    taker.step(SettledDeliveries([first.id, second.id], (), [waiting], [given_up], counts=counts))
    taker.release()
    messages = store.page(delayed=True).items
    enqueue = of_subscriptions(store).enqueue_messages
    assert store.run(enqueue(store.project, "q", subscription, messages)) == 2
    assert store.run(enqueue(store.project, "q", subscription, messages)) == 0
    assert store.run(enqueue(store.project, "q", "none", messages)) == 0
    assert (state(store, subscription).failed, state(store, subscription).pending) == (0, 3)
    assert taker.is_due()
    assert taker.take()
    assert taker.step().holds == [subscription]
    found = taker.backlog(subscription)
    assert [each.replayed for each in found] == [True, False, True]
    assert [each.stored for each in found] == [*first.messages, *second.messages]
    assert {each.epoch for each in found} == {first.epoch}


def test_subscription_that_goes_on_while_its_notifier_finds_nothing_is_due(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    nothing_waits = SettledDeliveries(holds=[(subscription, None)])
    update(store, subscription, paused=True)
    update(store, subscription, paused=False)
    assert taker.step(nothing_waits).holds == [subscription]
    step = taker.step(nothing_waits)
    assert (step.holds, step.next_due) == ([], None)


def test_notice_is_due_at_once(store: ContractStore, taker: Taker, subscription: str) -> None:
    send = of_subscriptions(store).send_notice
    assert store.run(send(store.project, "q", subscription, b'{"a": 1}', 60))
    assert state(store, subscription).pending == 0  # it is no message
    (notice,) = taker.step().due
    assert (notice.notice, notice.stored, notice.expires) == (
        b'{"a": 1}',
        None,
        store.clock() + 60_000,
    )
    assert not store.run(send(store.project, "q", "unknown", b"{}", 60))


@pytest.mark.parametrize("end", ["delete", "purge", "expire"])
def test_what_waits_for_a_subscription_that_ends_is_due_to_be_dropped(
    store: ContractStore, taker: Taker, subscription: str, end: str
) -> None:
    store.post("a")
    step = taker.step()
    taker.step(SettledDeliveries([step.entries[0].id], pending=pend(step, subscription)))
    if end == "delete":
        unsubscribe(store, subscription)
    elif end == "purge":
        store.run(store.subscriptions.purge(store.project, "q"))
        assert taker.backlog(subscription) == []
        return
    else:
        store.clock.tick(601)
        store.sweep(0)
    step = taker.step()
    assert (step.version, step.holds) == (0, [subscription])


@pytest.mark.parametrize("end", ["delete", "purge"])
def test_purged_and_deleted_queue_has_no_deliveries(
    store: ContractStore, taker: Taker, subscription: str, end: str
) -> None:
    store.post("a", "b")
    step = taker.step()
    taker.step(SettledDeliveries(pending=pend(step, subscription)[:1]))
    queues = store.driver.queues
    store.run((queues.delete if end == "delete" else queues.purge)(store.project, "q"))
    store.create()
    other = Taker(store, "other" if end == "delete" else "one")
    assert other.take()
    assert entered(other.step()) == []
    assert other.backlog(subscription) == []


def test_deliveries_that_nobody_makes_expire_with_their_messages(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    store.post("a")
    step = taker.step()
    pending = pend(step, subscription)
    taker.step(SettledDeliveries([step.entries[0].id], pending=pending, failed=pending))
    store.post("b")
    taker.release()
    store.clock.tick(TTL + 1)
    assert store.sweep(0)
    other = Taker(store, "other")
    assert other.take()
    assert entered(other.step()) == []
    assert other.backlog(subscription) == []


def test_delivery_that_expires_while_it_waits_has_failed(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    update(store, subscription, ttl=10 * TTL)
    store.post("a", "b")
    step = taker.step()
    waits, given_up = pend(step, subscription)
    counts = [(subscription, DeliveryCount(failed=1))]
    taker.step(SettledDeliveries([step.entries[0].id], (), [waits], [given_up], counts=counts))
    store.clock.tick(TTL + 1)
    store.sweep(0)
    assert state(store, subscription).pending == 1  # its notifier may have it in memory
    store.clock.tick(300)
    store.sweep(0)
    found = state(store, subscription)
    assert (found.failed, found.pending, found.failed_at) == (2, 0, store.clock())
    assert found.error == "it expired before it was delivered"


def test_delivery_of_a_subscription_that_has_ended_is_not_counted(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    unsubscribe(store, subscription)
    count = DeliveryCount(delivered=1, error="gone", status=410)
    taker.step(SettledDeliveries(counts=[(subscription, count)]))
    assert state(store, subscription) == DeliveryState()


def test_entry_expires_with_the_last_of_its_messages(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    update(store, subscription, ttl=10 * TTL)
    messages = [NewMessage(b'"a"', ttl=60, delay=0), NewMessage(b'"b"', ttl=5 * TTL, delay=0)]
    store.send(messages)
    store.clock.tick(2 * TTL)
    store.sweep(0)
    assert entered(taker.step()) == ["a", "b"]
    store.clock.tick(4 * TTL)
    store.sweep(0)
    taker.after = b"0"
    assert entered(taker.step()) == []


def test_purge_takes_the_queue_from_its_notifier(store: ContractStore, taker: Taker) -> None:
    store.post("a")
    taker.step()
    store.run(store.driver.queues.purge(store.project, "q"))
    store.post("b")
    assert taker.maybe_step() is None
    other = Taker(store, "other")
    assert other.take()
    assert entered(other.step()) == ["b"]


def test_next_notifier_learns_for_whom_something_waits(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    other = subscribe(store, "http://example.org/other")
    subscribe(store, "http://example.org/idle")
    store.post("a", "b")
    step = taker.step()
    late = store.clock() + 60_000
    taker.step(
        SettledDeliveries(
            [step.entries[0].id],
            pending=[*pend(step, subscription), *pend(step, other)],
            holds=[(other, late)],
        )
    )
    assert taker.waiting() == sorted([subscription, other])
    assert taker.waiting(1) == [min(subscription, other)]
    assert taker.step().holds == [subscription]  # the other one has its time


def test_replay_before_a_hold_ends_is_due(
    store: ContractStore, taker: Taker, subscription: str
) -> None:
    store.post("a")
    step = taker.step()
    taker.step(SettledDeliveries([step.entries[0].id], failed=pend(step, subscription)))
    assert store.run(of_subscriptions(store).replay(store.project, "q", subscription)) == 1
    ended = SettledDeliveries(holds=[(subscription, None)])
    assert taker.step(ended).holds == [subscription]
    taker.step(ended)
    taker.release()
    assert not taker.is_due()


def test_resumed_subscription_is_due(store: ContractStore, taker: Taker, subscription: str) -> None:
    update(store, subscription, paused=True)
    store.post("a")
    step = taker.step()
    taker.step(SettledDeliveries([step.entries[0].id], pending=pend(step, subscription)))
    taker.release()
    assert not taker.is_due()
    update(store, subscription, paused=False)
    assert taker.is_due()
    assert taker.take()
    assert taker.step().holds == [subscription]


# -- forwarding ------------------------------------------------------------------------------


def forward(store: ContractStore, *ranks: int, writer: str = "w", **fields: Any) -> None:
    messages = [NewMessage(b'"%d"' % rank, ttl=TTL, delay=0, **fields) for rank in ranks]
    store.run(
        store.driver.messages.forward(store.project, "q", messages, by=Forwarding(writer, ranks))
    )


def test_forwarded_message_is_appended_once(store: ContractStore) -> None:
    forward(store, 3, 7)
    forward(store, 3, 7)
    forward(store, 3, 7, 8, 9)
    forward(store, 7, writer="other")
    assert store.visible() == ["3", "7", "8", "9", "7"]


def test_forwarded_message_is_as_it_was(store: ContractStore) -> None:
    forward(store, 1, attributes={"a": 1}, checksum=b"c" * 16, hops=3)
    (found,) = store.page().items
    assert (found.attributes, found.checksum, found.hops) == ({"a": 1}, b"c" * 16, 3)


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"_max_messages_post_size": 2}, errors.BadRequest),
        ({"_enable_encrypt_messages": True}, errors.EncryptionRequired),
    ],
)
def test_forwarded_message_that_a_queue_does_not_take_changes_nothing(
    store: ContractStore, metadata: dict[str, Any], error: type[Exception]
) -> None:
    store.create(**metadata)
    with pytest.raises(error):
        forward(store, 1)
    assert store.counts() == (0, 0, 0)


def test_subscribed_queue_enters_forwarded_messages(store: ContractStore, taker: Taker) -> None:
    forward(store, 1, 2)
    assert entered(taker.step()) == ["1", "2"]


def test_dead_letter_is_entered(store: ContractStore, taker: Taker) -> None:
    store.create("jobs", _dead_letter_queue="q", _max_claim_count=1)
    store.post("a", queue="jobs")
    store.claim(queue="jobs")
    store.clock.tick(100)
    store.claim(queue="jobs")
    assert entered(taker.step()) == ["a"]
