# SPDX-License-Identifier: Apache-2.0
"""What every store promises about queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.stores import Store, names
from zaqar_redis.records import Queue, Stats

#: Two places (project, queue) that are easily taken for one another.
LOOKALIKES = [
    (("a", "b.c"), ("a.b", "c")),
    (("a/b", "c"), ("a", "b/c")),
    (("a}", "{b"), ("a}/{b", "")),
    (("a%2Fb", "c"), ("a/b", "c")),
    (("", "a"), ("a", "a")),
    (("a:messages", "b"), ("a", "messages:b")),
    (("queues", "a"), ("queues:a", "a")),
    (("a", "b"), ("A", "B")),
    (("é", "q"), ("e\u0301", "q")),
]


def test_a_new_queue_is_made_once(store: Store) -> None:
    assert store.create(color="red")
    assert not store.create(color="blue")
    assert store.known().metadata == {"color": "red"}


def test_metadata_comes_back_as_it_went_in(store: Store) -> None:
    metadata: dict[str, Any] = {
        "text": "größe ☃ \u0000",
        "list": [1, 2.5, None, {"a": True}],
        "": -(2**63),
    }
    store.create(**metadata)
    assert store.known().metadata == metadata
    assert store.known().name == "q"


def test_a_queue_knows_when_it_was_made(store: Store) -> None:
    store.clock.tick(1.234)
    store.create()
    assert store.known().created == store.clock.now


def test_a_missing_queue_is_none(store: Store) -> None:
    assert store.queue() is None


def test_a_queue_is_made_by_its_first_post(store: Store) -> None:
    store.post("a")
    assert store.known().metadata == {}
    assert [queue.name for queue in store.queues().items] == ["q"]
    assert not store.create()


def test_an_update_replaces_all_metadata(store: Store) -> None:
    store.create(a=1, b=2)
    queues = store.driver.queues
    assert store.run(queues.update(store.project, store.known(), {"b": 3, "c": 4}))
    assert store.known().metadata == {"b": 3, "c": 4}


def test_an_update_does_not_undo_somebody_elses(store: Store) -> None:
    store.create(a=1)
    as_read = store.known()
    queues = store.driver.queues
    assert store.run(queues.update(store.project, as_read, {"a": 2}))
    assert not store.run(queues.update(store.project, as_read, {"a": 3}))
    assert store.known().metadata == {"a": 2}


@pytest.mark.parametrize("again", [False, True])
def test_an_update_does_not_touch_another_life_of_the_queue(store: Store, again: bool) -> None:
    store.create(a=1)
    as_read = store.known()
    store.run(store.driver.queues.delete(store.project, "q"))
    if again:
        store.create(b=1)
    assert not store.run(store.driver.queues.update(store.project, as_read, {"a": 2}))
    found = store.queue()
    assert (found.metadata if found else None) == ({"b": 1} if again else None)


def test_reserved_attributes_work_from_the_update_on_and_no_longer(store: Store) -> None:
    store.create(_default_message_ttl=120)
    queues = store.driver.queues
    store.post("first", ttl=None)
    assert store.run(queues.update(store.project, store.known(), {"_default_message_ttl": 240}))
    store.post("second", ttl=None)
    assert store.run(queues.update(store.project, store.known(), {}))
    store.post("third", ttl=None)
    assert [message.ttl for message in store.page().items] == [120, 240, 3600]


def test_deleting_takes_messages_and_claims_along(store: Store) -> None:
    ids = store.post("a", "b", "c").ids
    claim = store.claim(limit=2).claim_id
    store.run(store.driver.queues.delete(store.project, "q"))
    assert store.queue() is None
    assert store.queues().items == []
    assert store.stats() == Stats()
    assert store.get(*ids) == []
    assert store.held(claim) is None
    store.post("new")
    assert (store.stats().total, store.stats().claimed) == (1, 0)
    assert store.held(claim) is None
    assert store.listed() == ["new"]


def test_deleting_is_idempotent(store: Store) -> None:
    for _ in range(2):
        store.run(store.driver.queues.delete(store.project, "q"))
    store.create()
    for _ in range(2):
        store.run(store.driver.queues.delete(store.project, "q"))
    assert store.run(store.driver.queues.count(store.project)) == 0


def test_queues_are_listed_by_name_in_pages(store: Store) -> None:
    made = ["a", "a.b", "a-b", "a_b", "B", "0", "z" * 64, "aa", "Service.one", "queues_set"]
    for name in made:
        store.create(name)
    found: list[str] = []
    marker = ""
    while page := store.queues(marker, 3).items:
        assert len(page) == min(3, len(made) - len(found))
        found += [queue.name for queue in page]
        marker = store.queues(marker, 3).marker
    assert found == sorted(made)
    assert store.run(store.driver.queues.count(store.project)) == len(made)


def test_a_page_has_a_marker_unless_it_is_empty(store: Store) -> None:
    store.create("a")
    assert store.queues().marker == "a"
    assert store.queues("a").marker == ""


def test_a_listing_goes_on_behind_a_queue_that_is_gone(store: Store) -> None:
    for name in "abc":
        store.create(name)
    store.run(store.driver.queues.delete(store.project, "b"))
    assert [queue.name for queue in store.queues("b").items] == ["c"]


def test_only_wanted_queues_fill_a_page(store: Store) -> None:
    for number in range(230):
        store.create(f"q{number:03}", even=number % 2 == 0, tenth=number % 100 == 99)
    tenth = store.queues("", 10, lambda queue: bool(queue.metadata["tenth"]))
    assert [queue.name for queue in tenth.items] == ["q099", "q199"]
    even = store.queues("q100", 3, lambda queue: bool(queue.metadata["even"]))
    assert [queue.name for queue in even.items] == ["q102", "q104", "q106"]
    assert even.marker == "q106"


@pytest.mark.parametrize(("one", "other"), LOOKALIKES)
def test_places_that_look_alike_are_kept_apart(
    store: Store, one: tuple[str, str], other: tuple[str, str]
) -> None:
    # Before: the two share nothing, whatever the texts that name them.
    places = [(f"{store.project}{project}", queue) for project, queue in (one, other)]
    for number, (project, queue) in enumerate(places):
        store.project = project
        store.post(f"of {number}", queue=queue)
    for number, (project, queue) in enumerate(places):
        store.project = project
        assert [found.name for found in store.queues().items] == [queue]
        assert store.listed(queue) == [f"of {number}"]
    (project, queue), (store.project, other_queue) = places
    store.run(store.driver.queues.delete(project, queue))
    assert store.listed(other_queue) == ["of 1"]
    assert store.run(store.driver.queues.count(store.project)) == 1


def test_statistics_of_nothing_are_zeros(store: Store) -> None:
    assert store.stats() == Stats()
    store.create()
    assert store.stats() == Stats()


def test_statistics_count_and_name_the_ends(store: Store) -> None:
    ids = store.post("a", "b").ids + store.post("c").ids
    store.clock.tick(10)
    claim = store.claim(limit=1)
    stats = store.stats()
    assert (stats.total, stats.claimed, stats.free) == (3, 1, 2)
    assert stats.oldest
    assert stats.newest
    assert (stats.oldest.id, stats.newest.id) == (ids[0], ids[2])
    assert (stats.oldest.claim_id, stats.newest.claim_id) == (claim.claim_id, None)
    assert (stats.oldest.age, stats.oldest.created) == (10, store.clock.now - 10_000)


def test_statistics_count_neither_expired_messages_nor_lapsed_claims(store: Store) -> None:
    store.post_many(350, ttl=60)
    store.post_many(350, ttl=600)
    for _ in range(4):
        store.claim(limit=100, ttl=61)
    assert store.stats().claimed == 400
    store.clock.tick(61)
    # The claimed ones live on for the grace of their claims; nobody holds them.
    assert (store.stats().total, store.stats().claimed) == (700, 0)
    store.clock.tick(61)
    assert (store.stats().total, store.stats().claimed) == (350, 0)
    store.clock.tick(600)
    assert store.stats() == Stats()


def test_purging_leaves_the_queue_and_its_metadata(store: Store) -> None:
    store.create(color="red", _default_message_ttl=120)
    first, *_ = store.post("a", "b", ttl=None).ids
    claim = store.claim(limit=1).claim_id
    store.run(store.driver.queues.purge(store.project, "q"))
    assert store.stats() == Stats()
    assert store.held(claim) is None
    assert store.known().metadata == {"color": "red", "_default_message_ttl": 120}
    store.post("c", ttl=None)
    # Whoever reads along goes on behind what was purged.
    page = store.page(first)
    assert (names(page.items), page.items[0].ttl) == (["c"], 120)


def test_purging_is_idempotent_and_makes_no_queue(store: Store) -> None:
    for _ in range(2):
        store.run(store.driver.queues.purge(store.project, "q"))
    assert store.queue() is None


@pytest.mark.parametrize("script", ["project_add", "queue_listed"])
def test_a_queue_whose_maker_died_is_listed_by_the_next_to_touch_it(
    store: Store, script: str
) -> None:
    with store.dying_before(script):
        store.create()
    assert not store.create()
    assert [queue.name for queue in store.queues().items] == ["q"]
    with store.dying_before(script):
        store.post("a", queue="posted")
    store.post("b", queue="posted")
    assert [queue.name for queue in store.queues().items] == ["posted", "q"]
    assert store.listed("posted") == ["a", "b"]


def test_a_queue_whose_deleter_died_is_not_listed(store: Store) -> None:
    for name in "abc":
        store.create(name)
    with store.dying_before("project_remove"):
        store.run(store.driver.queues.delete(store.project, "b"))
    assert [queue.name for queue in store.queues(limit=2).items] == ["a", "c"]
    assert store.run(store.driver.queues.count(store.project)) == 2


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 20, 100])
def test_pages_of_any_size_hold_every_queue_once_and_in_order(store: Store, limit: int) -> None:
    every = [f"{letter}{number:02}" for letter in "abc" for number in range(20)]
    for name in every:
        store.create(name, odd=int(name[1:]) % 2)

    def pages(wanted: Callable[[Queue], bool] | None) -> list[str]:
        found: list[str] = []
        after = ""
        while True:
            page = store.queues(after, limit, wanted)
            found += [queue.name for queue in page.items]
            assert page.marker == (found[-1] if page.items else "")
            if len(page.items) < limit:
                return found
            after = page.marker

    assert pages(None) == every
    assert pages(lambda queue: queue.metadata["odd"] == 1) == [
        name for name in every if int(name[1:]) % 2
    ]
