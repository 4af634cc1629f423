# SPDX-License-Identifier: Apache-2.0
"""What stores promise that need sweeping."""

from __future__ import annotations

import pytest

from tests import servers
from tests.contract.stores import Store, opened
from zaqar_redis.keyspace import keys
from zaqar_redis.records import Stats


@pytest.fixture
def empty(store: Store) -> Store:
    """The sweeper looks at every queue: only those of this test shall be there."""
    store.reset()
    return store


def _next_turn(store: Store) -> None:
    store.command("DEL", keys.SWEEPER)


def _kept(store: Store, project: str, queue: str) -> int:
    """Messages that take up room, whether or not anybody may still see them."""
    return sum(store.command("HLEN", keys.of_queue(project, queue).bodies))


def test_messages_that_expired_in_idle_queues_are_removed(empty: Store) -> None:
    for queue in ("a", "b", "c.d"):
        empty.post_many(350, queue=queue, ttl=60)
        empty.post("stays", queue=queue, ttl=600)
    empty.clock.tick(61)
    assert empty.sweep() == 3 * 350
    for queue in ("a", "b", "c.d"):
        assert _kept(empty, empty.project, queue) == 1
        assert empty.listed(queue) == ["stays"]


def test_queues_of_every_project_are_swept(empty: Store) -> None:
    projects = ["", "plain", "a/b", "{a}", "%", "ü"]
    for project in projects:
        empty.project = project
        empty.post("old", ttl=60)
    empty.clock.tick(61)
    assert empty.sweep() == len(projects)
    assert [_kept(empty, project, "q") for project in projects] == [0] * len(projects)


def test_many_queues_are_swept_in_one_round(empty: Store) -> None:
    for number in range(205):
        empty.post("old", queue=f"q{number}", ttl=60)
    empty.clock.tick(61)
    assert empty.sweep() == 205


def test_lapsed_claims_and_ended_delays_are_settled(empty: Store) -> None:
    empty.create(_default_message_delay=30)
    empty.post("later")
    empty.post("now", delay=0)
    taken = empty.claim()
    assert len(taken.messages) == 1
    empty.clock.tick(61)
    # A claim, the message it held, and the message that was delayed.
    assert empty.sweep() == 3
    assert empty.listed() == ["later", "now"]
    assert empty.stats().claimed == 0


def test_what_is_alive_is_left_alone(empty: Store) -> None:
    empty.create(_default_message_delay=300)
    empty.post("later")
    empty.post("held", "free", delay=0)
    claim = empty.claim(limit=1, ttl=600).claim_id
    empty.clock.tick(60)
    before = empty.stats()
    assert empty.sweep() == 0
    assert empty.stats() == before != Stats()
    assert empty.held(claim) == ["held"]


def test_a_turn_lasts_as_long_as_was_asked(empty: Store) -> None:
    with opened(empty.uri, empty.project) as other:
        empty.sweep(0.01)
        empty.post("old", ttl=60)
        empty.clock.tick(61)
        other.clock.now = empty.clock.now
        servers.wait_for(lambda: other.sweep() == 1, "the next turn")


def test_one_process_sweeps_at_a_time(empty: Store) -> None:
    with opened(empty.uri, empty.project) as other:
        empty.post("old", ttl=60)
        empty.clock.tick(61)
        other.clock.now = empty.clock.now
        assert empty.sweep() == 1
        empty.post("old", ttl=60)
        empty.clock.tick(61)
        other.clock.now = empty.clock.now
        assert other.sweep() == 0
        _next_turn(other)
        assert other.sweep() == 1
