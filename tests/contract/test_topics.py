# SPDX-License-Identifier: Apache-2.0
"""What every store guarantees for topics."""

from __future__ import annotations

from typing import Any

from tests.support.stores import ContractStore
from zaqar_redis.records import Page, Topic
from zaqar_redis.storage.contract import Topics


def topics_of(store: ContractStore) -> Topics:
    return store.driver.topics


def create(store: ContractStore, topic: str, **metadata: Any) -> bool:
    return store.run(topics_of(store).create(store.project, topic, metadata))


def get(store: ContractStore, topic: str) -> dict[str, Any] | None:
    return store.run(topics_of(store).get(store.project, topic))


def page(store: ContractStore, after: str = "", limit: int = 10) -> Page[Topic]:
    return store.run(topics_of(store).list(store.project, after, limit))


def test_topic_is_created_once(store: ContractStore) -> None:
    metadata: dict[str, Any] = {"text": "größe ☃ \u0000", "list": [1, 2.5, None]}
    assert get(store, "t") is None
    assert create(store, "t", **metadata)
    assert not create(store, "t", color="blue")
    assert get(store, "t") == metadata


def test_metadata_is_replaced(store: ContractStore) -> None:
    assert not store.run(topics_of(store).update(store.project, "t", {"a": 1}))
    assert get(store, "t") is None
    create(store, "t", color="blue")
    assert store.run(topics_of(store).update(store.project, "t", {"a": 1}))
    assert get(store, "t") == {"a": 1}


def test_deleting_is_idempotent(store: ContractStore) -> None:
    create(store, "t")
    for _ in range(2):
        store.run(topics_of(store).delete(store.project, "t"))
        assert get(store, "t") is None
    assert page(store) == Page(items=[], marker="")


def test_topics_are_listed_by_name_in_pages(store: ContractStore) -> None:
    for number in reversed(range(15)):
        create(store, f"t{number:02}", number=number)
    first = page(store)
    assert [topic.name for topic in first.items] == [f"t{number:02}" for number in range(10)]
    assert first.marker == "t09"
    rest = page(store, first.marker, 20).items
    assert rest == [Topic(name=f"t{n:02}", metadata={"number": n}) for n in range(10, 15)]


def test_topics_are_separate_by_project_and_from_queues(store: ContractStore) -> None:
    create(store, "same", color="blue")
    store.create("same")
    assert store.existing_queue("same").metadata == {}
    for project in ("", store.project + "2", "control", f"{store.project}/same"):
        assert store.run(topics_of(store).get(project, "same")) is None
        assert store.run(topics_of(store).create(project, "same", {}))
        store.run(topics_of(store).delete(project, "same"))
    assert get(store, "same") == {"color": "blue"}
