# SPDX-License-Identifier: Apache-2.0
"""What every store guarantees for queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.stores import ContractStore, names
from zaqar_redis.records import MessageCounters, Queue, QueueSize, Stats

#: Pairs of (project, queue) that are easily confused.
LOOKALIKES = [
    (("a", "b.c"), ("a.b", "c")),
    (("a/b", "c"), ("a", "b/c")),
    (("a", "b"), ("a/b", "b")),
    (("a}", "{b"), ("a}/{b", "")),
    (("a%2Fb", "c"), ("a/b", "c")),
    (("", "a"), ("a", "a")),
    (("a:messages", "b"), ("a", "messages:b")),
    (("queues", "a"), ("queues:a", "a")),
    (("a", "b"), ("A", "B")),
    (("é", "q"), ("e\u0301", "q")),
]


@pytest.mark.transports
def test_queue_is_created_once(store: ContractStore) -> None:
    assert store.create(color="red")
    assert not store.create(color="blue")
    assert store.existing_queue().metadata == {"color": "red"}


def test_metadata_is_read_as_it_was_written(store: ContractStore) -> None:
    metadata: dict[str, Any] = {
        "text": "größe ☃ \u0000",
        "list": [1, 2.5, None, {"a": True}],
        "": -(2**63),
    }
    store.create(**metadata)
    assert store.existing_queue().metadata == metadata
    assert store.existing_queue().name == "q"


def test_queue_has_its_time_of_creation(store: ContractStore) -> None:
    store.clock.tick(1.234)
    store.create()
    assert store.existing_queue().created == store.clock.now


def test_get_of_a_missing_queue_returns_none(store: ContractStore) -> None:
    assert store.queue() is None


def test_first_post_creates_the_queue(store: ContractStore) -> None:
    store.post("a")
    assert store.existing_queue().metadata == {}
    assert [queue.name for queue in store.queues().items] == ["q"]
    assert not store.create()


def test_an_update_replaces_all_metadata(store: ContractStore) -> None:
    store.create(a=1, b=2)
    queues = store.driver.queues
    assert store.run(queues.update(store.project, store.existing_queue(), {"b": 3, "c": 4}))
    assert store.existing_queue().metadata == {"b": 3, "c": 4}


def test_update_based_on_outdated_metadata_is_rejected(store: ContractStore) -> None:
    store.create(a=1)
    as_read = store.existing_queue()
    queues = store.driver.queues
    assert store.run(queues.update(store.project, as_read, {"a": 2}))
    assert not store.run(queues.update(store.project, as_read, {"a": 3}))
    assert store.existing_queue().metadata == {"a": 2}


@pytest.mark.parametrize("again", [False, True])
def test_update_of_recreated_queue_is_rejected(store: ContractStore, again: bool) -> None:
    store.create(a=1)
    as_read = store.existing_queue()
    store.run(store.driver.queues.delete(store.project, "q"))
    if again:
        store.create(b=1)
    assert not store.run(store.driver.queues.update(store.project, as_read, {"a": 2}))
    found = store.queue()
    assert (found.metadata if found else None) == ({"b": 1} if again else None)


def test_reserved_attributes_apply_from_the_update_that_sets_them(store: ContractStore) -> None:
    store.create(_default_message_ttl=120)
    queues = store.driver.queues
    store.post("first", ttl=None)
    assert store.run(
        queues.update(store.project, store.existing_queue(), {"_default_message_ttl": 240})
    )
    store.post("second", ttl=None)
    assert store.run(queues.update(store.project, store.existing_queue(), {}))
    store.post("third", ttl=None)
    assert [message.ttl for message in store.page().items] == [120, 240, 3600]


def test_delete_removes_messages_and_claims(store: ContractStore) -> None:
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


def test_deleting_is_idempotent(store: ContractStore) -> None:
    for _ in range(2):
        store.run(store.driver.queues.delete(store.project, "q"))
    store.create()
    for _ in range(2):
        store.run(store.driver.queues.delete(store.project, "q"))
    assert store.run(store.driver.queues.count(store.project)) == 0


@pytest.mark.transports
def test_queues_are_listed_by_name_in_pages(store: ContractStore) -> None:
    created = ["a", "a.b", "a-b", "a_b", "B", "0", "z" * 64, "aa", "Service.one", "queues_set"]
    for name in created:
        store.create(name)
    found: list[str] = []
    marker = ""
    while page := store.queues(marker, 3).items:
        assert len(page) == min(3, len(created) - len(found))
        found += [queue.name for queue in page]
        marker = store.queues(marker, 3).marker
    assert found == sorted(created)
    assert store.run(store.driver.queues.count(store.project)) == len(created)


def test_page_has_a_marker_unless_it_is_empty(store: ContractStore) -> None:
    store.create("a")
    assert store.queues().marker == "a"
    assert store.queues("a").marker == ""


def test_listing_continues_after_a_deleted_marker_queue(store: ContractStore) -> None:
    for name in "abc":
        store.create(name)
    store.run(store.driver.queues.delete(store.project, "b"))
    assert [queue.name for queue in store.queues("b").items] == ["c"]


def test_filtered_pages_are_filled_with_matching_queues(store: ContractStore) -> None:
    for number in range(230):
        store.create(f"q{number:03}", even=number % 2 == 0, tenth=number % 100 == 99)
    tenth = store.queues("", 10, lambda queue: bool(queue.metadata["tenth"]))
    assert [queue.name for queue in tenth.items] == ["q099", "q199"]
    even = store.queues("q100", 3, lambda queue: bool(queue.metadata["even"]))
    assert [queue.name for queue in even.items] == ["q102", "q104", "q106"]
    assert even.marker == "q106"


@pytest.mark.parametrize(("one", "other"), LOOKALIKES)
def test_project_and_queue_pairs_that_concatenate_alike_are_distinct(
    store: ContractStore, one: tuple[str, str], other: tuple[str, str]
) -> None:
    # The two share nothing, whatever their names.
    pairs = [(f"{store.project}{project}", queue) for project, queue in (one, other)]
    for number, (project, queue) in enumerate(pairs):
        store.project = project
        store.post(f"of {number}", queue=queue)
    for number, (project, queue) in enumerate(pairs):
        store.project = project
        assert [found.name for found in store.queues().items] == [queue]
        assert store.listed(queue) == [f"of {number}"]
    (project, queue), (store.project, other_queue) = pairs
    store.run(store.driver.queues.delete(project, queue))
    assert store.listed(other_queue) == ["of 1"]
    assert store.run(store.driver.queues.count(store.project)) == 1


def test_statistics_of_empty_or_missing_queue_are_zeros(store: ContractStore) -> None:
    assert store.stats() == Stats()
    store.create()
    assert store.stats() == Stats()


def test_statistics_have_counts_and_oldest_and_newest_message(store: ContractStore) -> None:
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


def test_statistics_ignore_expired_messages_and_claims(store: ContractStore) -> None:
    store.post_many(350, ttl=60)
    store.post_many(350, ttl=600)
    for _ in range(4):
        store.claim(limit=100, ttl=61)
    assert store.stats().claimed == 400
    store.clock.tick(61)
    # The claimed ones live on for the grace of their claims, but are free.
    assert (store.stats().total, store.stats().claimed) == (700, 0)
    store.clock.tick(61)
    assert (store.stats().total, store.stats().claimed) == (350, 0)
    store.clock.tick(600)
    assert store.stats() == Stats(
        counters=MessageCounters(posted=700, claimed=400, released=400, expired=700)
    )


def test_counters_tell_where_messages_went(store: ContractStore) -> None:
    store.create(_max_claim_count=1, _dead_letter_queue="dead")
    ids = store.post("deleted", "popped", "acknowledged").ids
    store.delete(ids[0])
    assert store.pop(limit=1) == ["popped"]
    claim = store.claim()
    store.delete(ids[2], claims=[claim.claim_id])
    assert store.stats().counters == MessageCounters(posted=3, claimed=1, deleted=3)
    store.post("expires", ttl=60)
    store.post("released", "lapsed", ttl=600)
    store.clock.tick(60)
    store.release(store.claim(limit=1).claim_id)
    store.claim(limit=1, ttl=60)
    store.clock.tick(60)
    # Both were claimed as often as they may be: asking for more moves them.
    assert store.claim().messages == ()
    expected = MessageCounters(
        posted=6, claimed=3, released=2, deleted=3, expired=1, dead_lettered=2
    )
    assert store.stats().counters == expected
    store.post("purged", "purged")
    store.run(store.driver.queues.purge(store.project, "q"))
    assert store.stats().counters == replace(expected, posted=8, purged=2)
    assert store.stats("dead").counters == MessageCounters(posted=2)
    store.run(store.driver.queues.delete(store.project, "q"))
    assert store.stats().counters == MessageCounters()


def test_oldest_and_newest_message_follow_expiry(store: ContractStore) -> None:
    first, second, third = (store.post("x", ttl=ttl).ids[0] for ttl in (60, 200, 100))

    def ends() -> list[str]:
        found = store.stats()
        return [message.id for message in (found.oldest, found.newest) if message]

    assert ends() == [first, third]
    store.clock.tick(60)
    assert ends() == [second, third]
    store.clock.tick(40)
    assert ends() == [second, second]
    assert store.counts() == (1, 0, 1)


def test_statistics_count_delayed_messages(store: ContractStore) -> None:
    store.create(_default_message_delay=30)
    store.post("a", "b")
    assert (store.stats().delayed, store.stats().free) == (2, 2)
    store.clock.tick(30)
    assert (store.stats().delayed, store.stats().free) == (0, 2)


def test_purge_leaves_the_queue_and_its_metadata(store: ContractStore) -> None:
    store.create(color="red", _default_message_ttl=120)
    first, *_ = store.post("a", "b", ttl=None).ids
    claim = store.claim(limit=1).claim_id
    store.run(store.driver.queues.purge(store.project, "q"))
    assert store.stats() == Stats(counters=MessageCounters(posted=2, claimed=1, purged=2))
    assert store.held(claim) is None
    assert store.existing_queue().metadata == {"color": "red", "_default_message_ttl": 120}
    store.post("c", ttl=None)
    # A reader's marker continues after the purged messages.
    page = store.page(first)
    assert (names(page.items), page.items[0].ttl) == (["c"], 120)


def test_purge_is_idempotent_and_does_not_create_the_queue(store: ContractStore) -> None:
    for _ in range(2):
        store.run(store.driver.queues.purge(store.project, "q"))
    assert store.queue() is None


@pytest.mark.parametrize("script", ["ZADD", "HDEL"])
def test_queue_created_by_crashed_process_is_listed_at_next_use(
    store: ContractStore, script: str
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


def test_queue_deleted_by_a_crashed_process_is_not_listed(store: ContractStore) -> None:
    for name in "abc":
        store.create(name)
    with store.dying_before("ZREM"):
        store.run(store.driver.queues.delete(store.project, "b"))
    assert [queue.name for queue in store.queues(limit=2).items] == ["a", "c"]
    assert store.run(store.driver.queues.count(store.project)) == 2


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 20, 100])
def test_pages_of_any_size_list_every_queue_once_and_in_order(
    store: ContractStore, limit: int
) -> None:
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


def test_size_counts_messages_of_all_states_and_their_bytes(store: ContractStore) -> None:
    def size(queue: str = "q") -> QueueSize:
        return store.run(store.driver.queues.size(store.project, queue))

    assert size() == QueueSize(0, 0)
    store.create()
    assert size() == QueueSize(0, 0)
    store.post("x" * 1000)
    [envelope] = [size().bytes]
    assert 1000 < envelope < 1200
    store.post("x" * 1000, delay=60)
    store.claim(1)
    for _ in range(98):
        store.post("x" * 1000, queue="q")
    assert size() == QueueSize(100, 100 * envelope)
    store.post("y" * 1000, queue="other")
    assert size().messages == 100
    store.pop(100)
    assert size().messages == 2  # the one that is claimed, and the one that is delayed


def test_size_of_messages_of_many_sizes_is_about_right(store: ContractStore) -> None:
    store.post(*("x" * 100 for _ in range(500)), *("x" * 10_000 for _ in range(500)))
    sizes = [store.run(store.driver.queues.size(store.project, "q")) for _ in range(20)]
    assert {size.messages for size in sizes} == {1000}
    mean = sum(size.bytes for size in sizes) / len(sizes)
    assert 4_000_000 < mean < 6_200_000
