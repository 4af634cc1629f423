# SPDX-License-Identifier: Apache-2.0
"""Subscriptions of queues to queues and topics: each message comes once and in order."""

from __future__ import annotations

import random

import pytest

from tests.contract.test_deliveries import state
from tests.notify.deliveries import subscribe
from tests.support import servers
from tests.support.backends import Backend
from tests.support.notifiers import notifier
from tests.support.stores import ContractStore, opened
from zaqar_redis import rules

#: A process that was killed is replaced soon.
OPTIONS = {"notification": {"lease": 1}}


@pytest.mark.nightly
def test_killed_notifiers_forward_each_message_once_and_in_order(
    server: servers.RedisServer, store: ContractStore
) -> None:
    chosen = random.Random(18)
    targets = ["copy1", "copy2", "copy3"]
    for target in targets:
        subscribe(store, f"queue:{target}")
    with notifier(server.uri, OPTIONS) as one, notifier(server.uri, OPTIONS) as other:
        posted = 0
        for _ in range(6):
            for _ in range(chosen.randrange(1, 40)):
                number = chosen.randrange(1, 30)
                store.post(*(str(n) for n in range(posted, posted + number)))
                posted += number
            chosen.choice([one, other]).restart()
        expected = [str(n) for n in range(posted)]
        for target in targets:
            store.wait_for_messages(posted, queue=target)
            assert store.listed(target) == expected


def test_killed_store_loses_and_doubles_no_delivery(
    server: servers.RedisServer, store: ContractStore
) -> None:
    subscribe(store, "queue:copy")
    with notifier(server.uri, OPTIONS):
        for n in range(100):
            store.post(str(n))
        server.stop()
        server.start()
        store.wait_until_back()
        store.post("100")
        expected = [str(n) for n in range(101)]
        store.wait_for_messages(101, queue="copy")
        assert store.listed("copy") == expected


def test_loop_of_subscriptions_ends_and_says_so(
    server: servers.RedisServer, store: ContractStore
) -> None:
    id = subscribe(store, "queue:q")
    with notifier(server.uri, OPTIONS):
        store.post("a")
        servers.wait_for(lambda: state(store, id).failed == 1, "the end of the loop")
        assert store.visible() == ["a"] * 9
        assert "loop" in state(store, id).error


def test_message_that_the_other_queue_does_not_take_fails_alone(
    server: servers.RedisServer, store: ContractStore
) -> None:
    store.create("small", _max_messages_post_size=50)
    id = subscribe(store, "queue:small")
    store.post("a", "x" * 100, "b")
    with notifier(server.uri, OPTIONS) as running:
        servers.wait_for(lambda: store.listed("small") == ["a", "b"], "the small ones")
        servers.wait_for(lambda: state(store, id).failed == 1, "the failure")
        assert "too large" in state(store, id).error
        store.run(store.driver.queues.delete(store.project, "small"))
        assert store.driver.subscription_deliveries
        replay = store.driver.subscription_deliveries.replay
        assert store.run(replay(store.project, "q", id)) == 1
        servers.wait_for(lambda: len(store.listed("small")) == 1, "the replayed one")
        assert running.end() == 0
    assert state(store, id).pending == 0


def test_full_queue_gets_the_messages_once_it_has_room(
    server: servers.RedisServer, store: ContractStore
) -> None:
    store.create("small", _max_messages=2)
    policy = {"minimum_delay": 1, "maximum_delay": 30, "retries_with_no_delay": 300}
    id = subscribe(store, "queue:small", _retry_policy=policy)
    with notifier(server.uri, OPTIONS):
        store.post("a", "b")
        servers.wait_for(lambda: store.listed("small") == ["a", "b"], "the first two")
        store.post("c", "d")
        servers.wait_for(lambda: "at most 2" in state(store, id).error, "a refusal")
        assert store.pop(2, "small") == ["a", "b"]
        servers.wait_for(lambda: store.listed("small") == ["c", "d"], "the others")
        store.pop(2, "small")
        many = [str(n) for n in range(5)]
        store.post(*many)
        taken: list[str] = []
        while len(taken) < 5:
            servers.wait_for(lambda: bool(store.visible("small")), "the next ones")
            taken += store.pop(2, "small")
        assert taken == many
        assert state(store, id).failed == 0


def test_published_messages_reach_every_subscribed_queue(
    redis_server: Backend, project: str
) -> None:
    topic, targets = rules.topic("news"), ["one", "two"]
    expected = [str(number) for number in range(30)]
    with opened(redis_server.uri, project) as store:
        store.clock.now = 0  # processes share the store's
        queues, subscriptions = store.driver.queues, store.driver.subscriptions
        assert subscriptions
        store.run(queues.create(project, topic, {"_history_size": 1}))
        for target in targets:
            subscriber = f"queue:{target}"
            created = subscriptions.create(
                project, topic, subscriber, ttl=600, options={}, delivers=True
            )
            assert store.run(created)
        for number in expected:
            store.post(number, queue=topic)
        with notifier(redis_server.uri):
            servers.wait_for(
                lambda: all(store.listed(target) == expected for target in targets),
                "all messages in all targets",
            )
        assert store.listed(topic) == expected[-1:]
        assert [queue.name for queue in store.queues().items] == targets
