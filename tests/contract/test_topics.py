# SPDX-License-Identifier: Apache-2.0
"""What every store promises about topics."""

from __future__ import annotations

from typing import Any

from tests.contract.stores import Store
from zaqar_redis.records import Page, Topic
from zaqar_redis.storage.driver import Topics


def of(store: Store) -> Topics:
    return store.driver.topics


def create(store: Store, topic: str, **metadata: Any) -> bool:
    return store.run(of(store).create(store.project, topic, metadata))


def got(store: Store, topic: str) -> dict[str, Any] | None:
    return store.run(of(store).get(store.project, topic))


def page(store: Store, after: str = "", limit: int = 10) -> Page[Topic]:
    return store.run(of(store).list(store.project, after, limit))


def test_a_topic_is_made_once(store: Store) -> None:
    metadata: dict[str, Any] = {"text": "größe ☃ \u0000", "list": [1, 2.5, None]}
    assert got(store, "t") is None
    assert create(store, "t", **metadata)
    assert not create(store, "t", color="blue")
    assert got(store, "t") == metadata


def test_metadata_is_replaced(store: Store) -> None:
    assert not store.run(of(store).update(store.project, "t", {"a": 1}))
    assert got(store, "t") is None
    create(store, "t", color="blue")
    assert store.run(of(store).update(store.project, "t", {"a": 1}))
    assert got(store, "t") == {"a": 1}


def test_deleting_is_idempotent(store: Store) -> None:
    create(store, "t")
    for _ in range(2):
        store.run(of(store).delete(store.project, "t"))
        assert got(store, "t") is None
    assert page(store) == Page(items=[], marker="")


def test_topics_are_listed_by_name_in_pages(store: Store) -> None:
    for number in reversed(range(15)):
        create(store, f"t{number:02}", number=number)
    first = page(store)
    assert [topic.name for topic in first.items] == [f"t{number:02}" for number in range(10)]
    assert first.marker == "t09"
    rest = page(store, first.marker, 20).items
    assert rest == [Topic(name=f"t{n:02}", metadata={"number": n}) for n in range(10, 15)]


def test_topics_are_of_their_project_and_are_no_queues(store: Store) -> None:
    create(store, "same", color="blue")
    store.create("same")
    assert store.known("same").metadata == {}
    for project in ("", store.project + "2", "control", f"{store.project}/same"):
        assert store.run(of(store).get(project, "same")) is None
        assert store.run(of(store).create(project, "same", {}))
        store.run(of(store).delete(project, "same"))
    assert got(store, "same") == {"color": "blue"}
