# SPDX-License-Identifier: Apache-2.0
"""Histories of the figures of queues: true, small, as long-lived as their queues."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.contract.conftest import BACKENDS
from tests.contract.test_deliveries import Taker, subscribe, update
from tests.support.stores import CLIENT, POOLED, PooledContractStore, opened_pools
from zaqar_redis import errors
from zaqar_redis.figures import Alarm, LargeQueue
from zaqar_redis.service import queue_history, stores
from zaqar_redis.service.history_steps import HistoryStep
from zaqar_redis.service.queue_history import HistoryService, HistorySettings
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.deliveries import DeliveryCount, SettledDeliveries


@pytest.fixture(scope="module", params=["memory", pytest.param("pooled", marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """A store with a control store, in one Redis in memory or in several real ones."""
    with BACKENDS[request.param]() as uri:
        yield uri if uri.startswith(POOLED) else f"{POOLED}{uri}"


@pytest.fixture
def pooled(address: str, project: str) -> Iterator[PooledContractStore]:
    with opened_pools(address, project) as store:
        store.reset()
        yield store


def service(store: PooledContractStore, **settings: int) -> HistoryService:
    made = HistorySettings(**{"interval": 10, **settings})
    return HistoryService(store.driver, made, store.clock)


def sample(store: PooledContractStore, history: HistoryService, seconds: float = 10) -> None:
    store.clock.tick(seconds)
    store.run(history.sample())


def read(store: PooledContractStore, history: HistoryService) -> list[HistoryStep]:
    return store.run(history.read(store.project, "q", 24))


def read_project(store: PooledContractStore, history: HistoryService) -> list[HistoryStep]:
    return store.run(history.read_project(store.project, 24))


def stored(store: PooledContractStore, queue: str = "q") -> int:
    """Returns how many points the history of a queue has."""
    return len(store.run(store.driver.control.histories.read(store.project, queue)))


def alarms(store: PooledContractStore, history: HistoryService) -> Sequence[Alarm]:
    return store.run(history.alarms(store.project))


def test_history_tells_what_happened_between_points(pooled: PooledContractStore) -> None:
    history = service(pooled)
    pooled.post("a", "b", "c")
    sample(pooled, history)
    ids = pooled.post("d", "e").ids
    pooled.claim(limit=1)
    pooled.delete(ids[0])
    sample(pooled, history)
    last = read(pooled, history)[-1]
    assert (last.free, last.claimed, last.total, last.oldest) == (3, 1, 4, 20)
    assert (last.posted, last.claims, last.deleted) == (2, 1, 1)


def test_idle_queue_costs_nothing_and_its_history_has_no_gap(pooled: PooledContractStore) -> None:
    history = service(pooled)
    pooled.post("a")
    for _ in range(6):
        sample(pooled, history)
    assert stored(pooled) == 1
    pooled.post("b")
    sample(pooled, history)
    assert stored(pooled) == 2
    began = read(pooled, history)[0].at
    steps = [(each.at - began, each.total, each.posted) for each in read(pooled, history)]
    # Constant until just before the second message.
    assert steps == [(0, 1, 0), (50, 1, 0), (60, 2, 1)]


def test_history_goes_up_to_now(pooled: PooledContractStore) -> None:
    history = service(pooled)
    pooled.post("a")
    sample(pooled, history)
    pooled.clock.tick(5)
    pooled.post("b")
    assert [each.posted for each in read(pooled, history)] == [0, 1]


def test_history_of_the_last_hours_begins_with_what_was_before(pooled: PooledContractStore) -> None:
    history = service(pooled, interval=900)
    pooled.post("a", ttl=86_400)
    sample(pooled, history, 900)
    for _ in range(8):
        sample(pooled, history, 900)
    pooled.post("b")
    sample(pooled, history, 900)
    found = pooled.run(history.read(pooled.project, "q", 1))
    assert [(each.at - found[0].at, each.total, each.posted) for each in found] == [
        (0, 1, 0),
        (2700, 1, 0),
        (3600, 2, 1),
    ]


def test_another_process_goes_on_where_the_last_one_stopped(pooled: PooledContractStore) -> None:
    pooled.post("a")
    sample(pooled, service(pooled))
    sample(pooled, service(pooled))
    assert stored(pooled) == 1
    pooled.post("b")
    sample(pooled, service(pooled))
    assert stored(pooled) == 2


def test_history_is_as_long_as_the_options_say(pooled: PooledContractStore) -> None:
    history = service(pooled, interval=900, hours=1)
    for _ in range(7):
        pooled.post("a")
        sample(pooled, history, 900)
    assert stored(pooled) == 4


def test_busiest_queues_get_points_and_the_others_in_time(pooled: PooledContractStore) -> None:
    history = service(pooled, queues_max=2)
    for number in range(1, 5):
        pooled.post("a", queue=f"queue-{number}")
    queues = [f"queue-{number}" for number in range(1, 5)]
    sample(pooled, history)
    sample(pooled, history)
    assert [stored(pooled, queue) for queue in queues] == [1] * 4
    for number in range(1, 5):
        pooled.post_many(number, queue=f"queue-{number}")
    sample(pooled, history)
    assert [stored(pooled, queue) for queue in queues] == [1, 1, 2, 2]
    sample(pooled, history)
    assert [stored(pooled, queue) for queue in queues] == [2] * 4


def test_history_of_a_deleted_queue_is_deleted(pooled: PooledContractStore) -> None:
    history = service(pooled)
    pooled.post("a", "b", "c")
    sample(pooled, history)
    pooled.run(pooled.driver.queues.delete(pooled.project, "q"))
    assert stored(pooled) == 0
    with pytest.raises(errors.NotFound, match="Queue q does not exist"):
        read(pooled, history)


def test_queue_that_was_created_again_has_no_negative_rates(pooled: PooledContractStore) -> None:
    history = service(pooled)
    pooled.post("a", "b", "c")
    pooled.claim()
    sample(pooled, history)
    # A point that came later than the deletion.
    histories = pooled.driver.control.histories
    late = pooled.run(histories.read(pooled.project, "q"))
    pooled.run(pooled.driver.queues.delete(pooled.project, "q"))
    pooled.run(histories.append(pooled.project, {"q": late[-1]}, 10, 3600))
    pooled.post("d")
    sample(pooled, history)
    assert [(each.posted, each.claims) for each in read(pooled, history)] == [(0, 0), (1, 0)]


def test_history_of_a_project_adds_up_its_queues(pooled: PooledContractStore) -> None:
    history = service(pooled)
    pooled.post("a", "b")
    sample(pooled, history)
    pooled.post("c", "d", queue="other")
    pooled.claim(limit=1)
    sample(pooled, history)
    pooled.post("e", queue="other")
    sample(pooled, history)
    found = read_project(pooled, history)
    assert [(each.free, each.claimed, each.total) for each in found] == [
        (2, 0, 2),
        (3, 1, 4),
        (4, 1, 5),
    ]
    assert [(each.posted, each.claims) for each in found] == [(0, 0), (2, 1), (1, 0)]
    assert [each.oldest for each in found] == [10, 20, 30]


def test_history_of_an_idle_project_goes_up_to_now(pooled: PooledContractStore) -> None:
    history = service(pooled)
    pooled.post("a")
    for _ in range(3):
        sample(pooled, history)
    pooled.clock.tick(30)
    found = read_project(pooled, history)
    assert [(each.at - found[0].at, each.total, each.posted) for each in found] == [
        (0, 1, 0),
        (40, 1, 0),
        (50, 1, 0),
    ]


def test_history_of_a_project_has_no_peak_when_queues_are_deleted_or_another_process_goes_on(
    pooled: PooledContractStore,
) -> None:
    history = service(pooled)
    pooled.post("a", "b", "c", queue="kept")
    pooled.post("a", "b", "c")
    sample(pooled, history)
    pooled.post("d", "e", queue="kept")
    sample(pooled, history)
    pooled.run(pooled.driver.queues.delete(pooled.project, "q"))
    sample(pooled, history)
    pooled.post("f", queue="kept")
    other = service(pooled)
    sample(pooled, other)
    pooled.post("g", queue="kept")
    sample(pooled, other)
    found = read_project(pooled, history)
    assert [(each.total, each.posted) for each in found] == [(6, 0), (8, 2), (5, 0), (6, 0), (7, 1)]
    pooled.run(pooled.driver.queues.delete(pooled.project, "kept"))
    sample(pooled, other)
    last = read_project(pooled, history)[-1]
    assert (last.total, last.posted) == (0, 0)


@pytest.mark.parametrize("address", ["pooled"], indirect=True)
@pytest.mark.slow
def test_history_of_a_project_has_no_peak_after_a_store_was_away(
    pooled: PooledContractStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = service(pooled)
    queues = [f"queue-{number}" for number in range(12)]  # some in each pool
    for queue in queues:
        pooled.post("a", "b", queue=queue)
    sample(pooled, history)
    is_there = stores.open_store

    async def open_store(driver: Driver, name: str) -> Driver:
        if name == "p1":
            raise errors.StoreUnavailable()
        return await is_there(driver, name)

    with monkeypatch.context() as patch:
        patch.setattr(queue_history, "open_store", open_store)
        for _ in range(3):
            sample(pooled, history)
    for queue in queues:
        pooled.post("c", queue=queue)
    sample(pooled, history)
    found = read_project(pooled, history)
    assert {(each.total, each.posted) for each in found} == {(24, 0), (36, 12)}


@pytest.mark.parametrize("address", ["pooled"], indirect=True)
@pytest.mark.slow
def test_history_goes_on_when_the_queue_moves(pooled: PooledContractStore) -> None:
    history = service(pooled)
    pooled.post("a", "b")
    sample(pooled, history)
    source = pooled.run(pooled.driver.control.catalogue.locate(pooled.project, "q")).pool
    target = "p1" if source != "p1" else "p2"
    pooled.run(pooled.driver.mover.move(pooled.project, "q", source or "", target))
    pooled.post("c")
    sample(pooled, history)
    assert [(each.total, each.posted) for each in read(pooled, history)] == [(2, 0), (3, 1)]
    assert [(each.total, each.posted) for each in read_project(pooled, history)] == [(2, 0), (3, 1)]


def test_claim_that_holds_the_oldest_message_too_long_is_an_alarm(
    pooled: PooledContractStore,
) -> None:
    history = service(pooled, stuck_after=300)
    pooled.post("a", "b")
    claim = pooled.claim(limit=1, ttl=120, client=CLIENT).claim_id
    sample(pooled, history)
    for _ in range(3):
        pooled.clock.tick(100)
        assert pooled.renew(claim, ttl=120)
        sample(pooled, history, 0)
    (alarm,) = alarms(pooled, history)
    assert alarm.subject == "queue q"
    assert f"held by claim {claim} of client {CLIENT} for 5 min" in alarm.text
    pooled.release(claim)
    sample(pooled, history)
    assert alarms(pooled, history) == []


def test_dead_letter_queue_that_grows_is_an_alarm(pooled: PooledContractStore) -> None:
    history = service(pooled)
    pooled.create(_dead_letter_queue="failed", _max_claim_count=1)
    pooled.post("a", queue="failed")
    for _ in range(3):
        sample(pooled, history)
    assert alarms(pooled, history) == []
    pooled.post("b", "c", queue="failed")
    sample(pooled, history)
    (alarm,) = alarms(pooled, history)
    assert alarm.text.startswith("The dead-letter queue failed of q has grown from 1 to 3 messages")
    for _ in range(10):  # it does not grow any more
        sample(pooled, history)
    assert alarms(pooled, history) == []


def test_dead_letter_queue_that_shrinks_is_no_alarm_until_it_grows_again(
    pooled: PooledContractStore,
) -> None:
    history = service(pooled)
    pooled.create(_dead_letter_queue="failed", _max_claim_count=1)
    pooled.create("failed")

    def growth() -> list[str]:
        sample(pooled, history)
        return re.findall(r"has grown from (\d+ to \d+) messages", str(alarms(pooled, history)))

    assert [growth(), growth()] == [[], []]
    ids = pooled.post("a", "b", "c", queue="failed").ids
    assert growth() == ["0 to 3"]
    for number, each in enumerate(ids):
        pooled.delete(each, queue="failed")
        assert (number, growth()) == (number, [])
    assert growth() == []  # it stays empty
    pooled.post("d", "e", queue="failed")
    assert growth() == ["0 to 2"]


@pytest.mark.parametrize(("queue", "name"), [("q", "queue q"), ("topic:t", "topic t")])
def test_subscription_whose_attempts_all_fail_for_five_minutes_is_an_alarm(
    pooled: PooledContractStore, queue: str, name: str
) -> None:
    history = service(pooled)
    pooled.create(queue)
    id = subscribe(pooled, queue=queue)
    taker = Taker(pooled, queue=queue)
    assert taker.take()

    def count(**counts: Any) -> None:
        taker.step(SettledDeliveries(counts=[(id, DeliveryCount(**counts))]))

    def found() -> list[str]:
        sample(pooled, history)
        assert {each.subject for each in alarms(pooled, history)} <= {name}
        return [each.text for each in alarms(pooled, history)]

    count(failed=1, error="https://example.org answered 404", status=404)
    assert found() == []
    taker.keep(300)  # nothing more was posted: it may have been that message
    assert found() == []
    count(retried=1, error="https://example.org answered 503", status=503)
    (text,) = found()
    assert text.startswith(f"Subscription {id} of {name} has got nothing for 5 min 30 s")
    assert "10 s ago: https://example.org answered 503." in text
    count(retried=1, delivered=1, error="https://example.org answered 503")
    assert found() == []


def test_messages_that_expire_are_an_alarm_of_queues_that_ask_for_it(
    pooled: PooledContractStore,
) -> None:
    history = service(pooled)
    pooled.create(_on_expiry="alarm")
    for queue in ("q", "other"):
        pooled.post("a", "b", queue=queue, ttl=60)
    sample(pooled, history)
    assert alarms(pooled, history) == []
    sample(pooled, history, 60)
    (alarm,) = alarms(pooled, history)
    assert alarm.text.startswith("2 messages of queue q have expired within minutes")
    for _ in range(10):  # none has expired since
        sample(pooled, history)
    assert alarms(pooled, history) == []


def test_alarm_about_subscriptions_names_one_and_counts_the_others(
    pooled: PooledContractStore,
) -> None:
    history = service(pooled)
    pooled.create()
    ids = [subscribe(pooled, f"http://example.org/{number}") for number in range(3)]
    taker = Taker(pooled)
    assert taker.take()

    def fail() -> None:
        failed = DeliveryCount(retried=1, error="no")
        taker.step(SettledDeliveries(counts=[(id, failed) for id in ids]))

    def found() -> str:
        sample(pooled, history)
        return " ".join(each.text for each in alarms(pooled, history))

    fail()
    taker.keep(300)
    fail()
    assert f"Subscription {ids[0]} " in found()
    assert "2 more of its subscriptions get nothing" in found()
    pooled.run(pooled.subscriptions.delete(pooled.project, "q", ids[0]))
    assert f"Subscription {ids[1]} " in found()
    update(pooled, ids[1], subscriber="http://example.org/moved")
    assert found().startswith(f"Subscription {ids[2]} ")
    assert "more of its subscriptions" not in found()


def test_alarms_of_a_project_are_not_shown_to_others(pooled: PooledContractStore) -> None:
    histories = pooled.driver.control.histories
    alarm = Alarm("info", "queue q", "text", "remedy")
    pooled.run(histories.put_alarms({"one": [alarm], "two": []}, {}, 60))
    assert pooled.run(histories.alarms("one")) == [alarm]
    assert pooled.run(histories.alarms("two")) == []
    assert pooled.run(histories.alarms("three")) == []
    pooled.run(histories.put_alarms({}, {}, 60))
    assert pooled.run(histories.alarms("one")) == []


def test_largest_queues_are_those_that_take_most_memory(pooled: PooledContractStore) -> None:
    history = service(pooled)
    pooled.create("empty")
    pooled.post("small", queue="queue-1")  # the oldest one tells nothing of the others
    for number, (messages, size) in enumerate([(9, 10), (1, 9000), (2, 10), (3, 10), (1, 10)]):
        pooled.post(*["x" * size] * messages, queue=f"queue-{number}")
    sample(pooled, history)
    largest = pooled.run(history.largest_queues())
    found = sorted((each for queues in largest.values() for each in queues), key=_by_memory)[-3:]
    assert [(each.name, each.messages) for each in found] == [
        ("queue-3", 3),
        ("queue-0", 9),
        ("queue-1", 2),
    ]
    assert {each.project for each in found} == {pooled.project}
    assert 10_000 < found[-1].memory < 10_500
    for queues in largest.values():
        assert [*queues] == sorted(queues, key=_by_memory, reverse=True)[:3]


@pytest.mark.parametrize("address", ["pooled"], indirect=True)
@pytest.mark.slow
def test_full_control_store_still_takes_alarms_and_largest_queues(
    pooled: PooledContractStore,
) -> None:
    history, control = service(pooled), pooled.driver.control
    assert pooled.run(control.lead("history", 60))
    pooled.post("a")
    pooled.command("CONFIG", "SET", "maxmemory", 1)
    try:
        assert pooled.run(control.lead("history", 60))
        with pytest.raises(errors.StoreUnavailable):
            sample(pooled, history)
    finally:
        pooled.command("CONFIG", "SET", "maxmemory", 0)
    assert stored(pooled) == 0
    largest = pooled.run(history.largest_queues())
    assert [each.name for queues in largest.values() for each in queues] == ["q"]


def _by_memory(queue: LargeQueue) -> int:
    return queue.memory
