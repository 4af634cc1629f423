# SPDX-License-Identifier: Apache-2.0
"""What every store guarantees for topics: they are queues that are listed by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.test_figures import parts
from tests.support.stores import CLIENT, OTHER_CLIENT, ContractStore, names
from zaqar_redis import rules
from zaqar_redis.keyspace.keys import of_queue
from zaqar_redis.records import Page, Queue

T = rules.topic("t")


def create(store: ContractStore, topic: str, **metadata: Any) -> bool:
    return store.run(store.driver.queues.create(store.project, rules.topic(topic), metadata))


def page(store: ContractStore, after: str = "", limit: int = 10) -> Page[Queue]:
    listing = store.driver.queues.list(
        store.project, rules.TOPIC_PREFIX + after, limit, None, topics=True
    )
    return store.run(listing)


def change(store: ContractStore, **metadata: Any) -> None:
    queues = store.driver.queues
    assert store.run(queues.update(store.project, store.existing_queue(T), metadata))


def history(store: ContractStore) -> list[str]:
    return names(store.page(queue=T, limit=1000, delayed=True).items)


def test_topics_and_queues_of_the_same_names_are_listed_apart(store: ContractStore) -> None:
    for name in ("same", "topic", "topic-", "topics"):
        store.create(queue=name)
        assert create(store, name, of="topics")
    found = page(store)
    expected = ["topic:same", "topic:topic", "topic:topic-", "topic:topics"]
    assert [(topic.name, topic.metadata) for topic in found.items] == [
        (name, {"of": "topics"}) for name in expected
    ]
    assert found.marker == "topic:topics"
    listed = store.queues().items
    assert [(queue.name, queue.metadata) for queue in listed] == [
        (name, {}) for name in ("same", "topic", "topic-", "topics")
    ]
    assert store.run(store.driver.queues.count(store.project)) == 4


def test_topics_are_listed_by_name_in_pages(store: ContractStore) -> None:
    for number in reversed(range(15)):
        create(store, f"t{number:02}")
    first = page(store)
    assert [topic.name for topic in first.items] == [f"topic:t{n:02}" for n in range(10)]
    rest = page(store, "t09", 20).items
    assert [topic.name for topic in rest] == [f"topic:t{n:02}" for n in range(10, 15)]


def test_posting_creates_the_topic_and_deleting_it_unlists_it(store: ContractStore) -> None:
    store.post("a", queue=T)
    assert [topic.name for topic in page(store).items] == [T]
    assert store.queues().items == []
    for _ in range(2):
        store.run(store.driver.queues.delete(store.project, T))
        assert page(store) == Page(items=[], marker="")
    assert store.queue(T) is None


def test_topics_are_listed_apart_from_queues_for_figures(store: ContractStore) -> None:
    create(store, "t")
    for part in parts(store):
        assert store.run(part.names(store.project, "", 10)) == []
    listed = [store.run(part.names(store.project, "", 10, topics=True)) for part in parts(store)]
    assert [name for names in listed for name in names] == [T]


def test_topics_are_swept_although_the_index_is_lost(store: ContractStore) -> None:
    store.post("a", queue=T, ttl=60)
    store.command("DEL", of_queue(store.project, T).sweep_index)
    store.clock.tick(61)
    assert store.sweep(0) >= 1
    assert store.stats(T).total == 0


def test_history_is_read_backwards_in_pages(store: ContractStore) -> None:
    posted = store.post(*"abcdef", queue=T)
    store.post("later", queue=T, delay=60)
    first = store.page(limit=3, queue=T, reverse=True)
    assert names(first.items) == ["f", "e", "d"]
    rest = store.page(first.marker, limit=10, queue=T, reverse=True)
    assert names(rest.items) == ["c", "b", "a"]
    assert store.page(rest.marker, queue=T, reverse=True).items == []
    last, *_ = store.page(queue=T, reverse=True, delayed=True).items
    assert names([last]) == ["later"]
    assert store.page(posted.ids[0], queue="another", reverse=True).items == []


def test_a_page_backwards_is_filled_across_hidden_messages(store: ContractStore) -> None:
    store.post("others", client=OTHER_CLIENT)
    store.post_many(1200)
    assert names(store.page(limit=2, hide=CLIENT, reverse=True).items) == ["others"]
    assert names(store.page(limit=2, reverse=True).items) == ["1199", "1198"]


@pytest.mark.parametrize("size", [1, 3])
def test_history_keeps_the_newest_messages(store: ContractStore, size: int) -> None:
    create(store, "t", _history_size=size)
    store.post("a", queue=T)
    store.post("b", "c", queue=T, delay=60)
    store.post("d", queue=T)
    store.post("e", queue=T, ttl=60)
    assert history(store) == ["a", "b", "c", "d", "e"][-size:]
    assert store.stats(T).counters.expired == 5 - size
    assert store.stats(T).counters.deleted == 0
    store.clock.tick(61)
    store.sweep(0)
    assert history(store) == ["b", "c", "d", "e"][-size:-1]


def test_a_post_larger_than_the_history_is_cut(store: ContractStore) -> None:
    create(store, "t", _history_size=10)
    posted = store.post_many(2500, queue=T)
    assert history(store) == [str(number) for number in range(2490, 2500)]
    assert len(posted.ids) == 2500
    assert store.page(posted.ids[0], queue=T, limit=1).items[0].id == posted.ids[2490]


def test_a_changed_size_takes_effect_with_the_next_posts(store: ContractStore) -> None:
    create(store, "t")
    store.post_many(1500, queue=T)
    change(store, _history_size=100)
    for name in ("x", "y"):
        store.post(name, queue=T)
    assert len(history(store)) == 100
    change(store)
    store.post("z", queue=T)
    assert len(history(store)) == 101


def test_queues_have_no_bounded_history(store: ContractStore) -> None:
    store.create(_history_size=1)
    store.post("a", "b")
    assert names(store.page().items) == ["a", "b"]


def test_topics_of_projects_are_apart(store: ContractStore) -> None:
    create(store, "same", color="blue")
    queues, name = store.driver.queues, rules.topic("same")
    for project in ("", store.project + "2", "control", f"{store.project}:topics"):
        assert store.run(queues.get(project, name)) is None
        assert store.run(queues.create(project, name, {}))
        store.run(queues.delete(project, name))
    assert store.existing_queue(name).metadata == {"color": "blue"}
