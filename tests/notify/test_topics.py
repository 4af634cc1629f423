# SPDX-License-Identifier: Apache-2.0
"""Topics with subscriptions: each subscriber gets every message, however short the history is."""

from __future__ import annotations

from tests.support import servers
from tests.support.backends import Backend
from tests.support.notifiers import notifier
from tests.support.stores import opened
from zaqar_redis import rules


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
