# SPDX-License-Identifier: Apache-2.0
"""What stores promise that give hints."""

from __future__ import annotations

import signal

from tests import servers
from tests.contract.stores import Store, opened
from zaqar_redis.storage.driver import Feed


class Ear:
    """Remembers the hints it was given."""

    def __init__(self, store: Store, queue: str = "q") -> None:
        self.heard: list[int] = []
        self._store = store
        self._queue = queue
        self.hint = self.heard.append  # one object: it is told apart by itself

    @property
    def _feed(self) -> Feed:
        assert self._store.driver.feed
        return self._store.driver.feed

    def watch(self) -> Ear:
        self._store.create(self._queue)
        return self.watch_unmade()

    def watch_unmade(self) -> Ear:
        self._store.run(self._feed.watch(self._store.project, self._queue, self.hint))
        self.heard.clear()
        return self

    def unwatch(self) -> None:
        self._feed.unwatch(self._store.project, self._queue, self.hint)

    def wait(self, number: int = 1) -> None:
        """Until hints have spoken of *number* messages."""
        self._store.wait_for(lambda: sum(self.heard) >= number, "a hint")
        assert sum(self.heard) == number


def test_a_post_hints_at_how_many_came(store: Store) -> None:
    ear = Ear(store).watch()
    store.post("a", "b", "c")
    ear.wait(3)


def test_what_others_post_is_hinted_at(store: Store) -> None:
    ear = Ear(store).watch()
    with opened(store.uri, store.project) as other:
        other.post("a", "b")
    ear.wait(2)


def test_a_queue_may_be_watched_before_it_is_made(store: Store) -> None:
    ear = Ear(store).watch_unmade()
    store.post("a")
    store.wait_for(lambda: len(ear.heard) > 0, "a hint, of whatever number")


def test_nothing_is_missed_once_watch_has_returned(store: Store) -> None:
    ears = []
    for number in range(50):
        ears.append(Ear(store, f"q{number}").watch())
        store.post("a", queue=f"q{number}")
    for ear in ears:
        ear.wait()


def test_a_release_hints_at_what_it_frees(store: Store) -> None:
    store.post("a", "b", "c")
    claim = store.claim(limit=2).claim_id
    ear = Ear(store).watch()
    store.release(claim)
    ear.wait(2)


def test_lapsed_claims_and_ended_delays_are_hinted_at_when_found(store: Store) -> None:
    store.create(_default_message_delay=30)
    store.post("later", "later too")
    store.post("held", delay=0)
    assert store.claim(ttl=60).messages
    ear = Ear(store).watch()
    store.clock.tick(61)
    store.stats()
    ear.wait(3)


def test_a_release_that_frees_nothing_hints_at_nothing(store: Store) -> None:
    store.post("a")
    claim = store.claim().claim_id
    store.clock.tick(60)
    ear, mark = Ear(store).watch(), Ear(store, "mark").watch()
    store.release(claim)
    store.post("b", queue="mark")
    mark.wait()
    assert ear.heard == []


def test_hints_are_of_the_queue_that_is_watched(store: Store) -> None:
    ear, mark = Ear(store).watch(), Ear(store, "mark").watch()
    store.post("a", queue="other")
    project, store.project = store.project, store.project + "-other"
    store.post("a")
    store.project = project
    store.post("a", queue="mark")
    mark.wait()
    assert ear.heard == []


def test_everybody_who_watches_is_told(store: Store) -> None:
    ears = [Ear(store).watch() for _ in range(3)]
    store.post("a")
    for ear in ears:
        ear.wait()


def test_who_stopped_watching_is_not_told(store: Store) -> None:
    gone, stays = Ear(store).watch(), Ear(store).watch()
    gone.unwatch()
    gone.unwatch()
    store.post("a")
    stays.wait()
    assert gone.heard == []


def test_a_queue_may_be_watched_again(store: Store) -> None:
    ear = Ear(store)
    for _ in range(3):
        ear.watch()
        store.post("a")
        ear.wait()
        ear.unwatch()


def test_what_nobody_watches_any_more_is_let_go_and_may_come_back(store: Store) -> None:
    # More queues than are kept subscribed when nobody watches them.
    for number in range(300):
        ear = Ear(store, f"q{number}").watch()
        ear.unwatch()
    for number in (0, 299):
        ear = Ear(store, f"q{number}").watch()
        store.post("a", queue=f"q{number}")
        ear.wait()


def test_hints_come_again_after_the_store_was_away(project: str) -> None:
    with servers.redis_server() as server, opened(server.uri, project) as store:
        before = Ear(store).watch_unmade()
        server.signal(signal.SIGKILL)
        meanwhile = Ear(store, "meanwhile").watch_unmade()
        server.start()
        store.wait_until_back()
        store.wait_for(lambda: 0 in before.heard, "word that hints may have been lost")
        after = Ear(store, "after").watch_unmade()
        again = Ear(store, "meanwhile").watch_unmade()
        for queue in ("q", "meanwhile", "after"):
            store.post("a", queue=queue)
        for ear in (before, meanwhile, again, after):
            ear.wait()


def test_who_watched_while_the_store_was_away_is_told_later(project: str) -> None:
    with servers.redis_server() as server, opened(server.uri, project) as store:
        server.signal(signal.SIGKILL)
        first = Ear(store).watch_unmade()
        server.start()
        store.wait_until_back()
        second = Ear(store).watch_unmade()
        store.post("a")
        for ear in (first, second):
            ear.wait()
