# SPDX-License-Identifier: Apache-2.0
"""What stores guarantee that send hints."""

from __future__ import annotations

import signal

import pytest

from tests.contract.conftest import SUBSCRIBE_TIMEOUT
from tests.support import servers
from tests.support.stores import ContractStore, opened
from zaqar_redis.storage.watched import Feed

pytestmark = pytest.mark.usefixtures("patient")


class HintRecorder:
    """Records the hints it receives."""

    def __init__(self, store: ContractStore, queue: str = "q") -> None:
        self.counts: list[int] = []
        self._store = store
        self._queue = queue
        self.hint = self.counts.append  # watchers are compared by identity

    @property
    def _feed(self) -> Feed:
        assert self._store.driver.feed
        return self._store.driver.feed

    def watch(self) -> HintRecorder:
        self._store.create(self._queue)
        return self.watch_missing()

    def watch_missing(self) -> HintRecorder:
        self._store.run(self._feed.watch(self._store.project, self._queue, self.hint))
        self.counts.clear()
        return self

    def watch_in_vain(self, monkeypatch: pytest.MonkeyPatch) -> HintRecorder:
        """Watches a queue while its store is away."""
        with monkeypatch.context() as patched:
            patched.setattr(SUBSCRIBE_TIMEOUT, 1.0)
            return self.watch_missing()

    def unwatch(self) -> None:
        self._feed.unwatch(self._store.project, self._queue, self.hint)

    def wait(self, number: int = 1) -> None:
        """Waits until hints have announced *number* messages."""
        self._store.wait_for(lambda: sum(self.counts) >= number, "a hint")
        assert sum(self.counts) == number


def test_post_sends_hint_with_message_count(store: ContractStore) -> None:
    recorder = HintRecorder(store).watch()
    store.post("a", "b", "c")
    recorder.wait(3)


@pytest.mark.transports
def test_post_by_another_process_sends_hint(store: ContractStore) -> None:
    recorder = HintRecorder(store).watch()
    with opened(store.uri, store.project) as other:
        other.post("a", "b")
    recorder.wait(2)


def test_missing_queue_can_be_watched_before_its_creation(store: ContractStore) -> None:
    recorder = HintRecorder(store).watch_missing()
    store.post("a")
    store.wait_for(lambda: len(recorder.counts) > 0, "a hint of any number")


def test_post_right_after_watch_returns_sends_hint(store: ContractStore) -> None:
    ears = []
    for number in range(50):
        ears.append(HintRecorder(store, f"q{number}").watch())
        store.post("a", queue=f"q{number}")
    for recorder in ears:
        recorder.wait()


def test_release_sends_hint_with_released_count(store: ContractStore) -> None:
    store.post("a", "b", "c")
    claim = store.claim(limit=2).claim_id
    recorder = HintRecorder(store).watch()
    store.release(claim)
    recorder.wait(2)


def test_expired_claims_and_delays_send_hint_when_settled(store: ContractStore) -> None:
    store.create(_default_message_delay=30)
    store.post("later", "later too")
    store.post("held", delay=0)
    assert store.claim(ttl=60).messages
    recorder = HintRecorder(store).watch()
    store.clock.tick(61)
    store.stats()
    recorder.wait(3)


def test_release_of_expired_claim_sends_no_hint(store: ContractStore) -> None:
    store.post("a")
    claim = store.claim().claim_id
    store.clock.tick(60)
    recorder, mark = HintRecorder(store).watch(), HintRecorder(store, "mark").watch()
    store.release(claim)
    store.post("b", queue="mark")
    mark.wait()
    assert recorder.counts == []


def test_hints_reach_watchers_of_their_queue_only(store: ContractStore) -> None:
    recorder, mark = HintRecorder(store).watch(), HintRecorder(store, "mark").watch()
    store.post("a", queue="other")
    project, store.project = store.project, store.project + "-other"
    store.post("a")
    store.project = project
    store.post("a", queue="mark")
    mark.wait()
    assert recorder.counts == []


def test_every_watcher_of_a_queue_gets_the_hint(store: ContractStore) -> None:
    ears = [HintRecorder(store).watch() for _ in range(3)]
    store.post("a")
    for recorder in ears:
        recorder.wait()


def test_stopped_watcher_gets_no_hint(store: ContractStore) -> None:
    gone, stays = HintRecorder(store).watch(), HintRecorder(store).watch()
    gone.unwatch()
    gone.unwatch()
    store.post("a")
    stays.wait()
    assert gone.counts == []


def test_a_queue_can_be_watched_again(store: ContractStore) -> None:
    recorder = HintRecorder(store)
    for _ in range(3):
        recorder.watch()
        store.post("a")
        recorder.wait()
        recorder.unwatch()


def test_unwatched_queues_are_unsubscribed_and_can_be_watched_again(store: ContractStore) -> None:
    # More queues than stay subscribed without a watcher.
    for number in range(300):
        recorder = HintRecorder(store, f"q{number}").watch()
        recorder.unwatch()
    for number in (0, 299):
        recorder = HintRecorder(store, f"q{number}").watch()
        store.post("a", queue=f"q{number}")
        recorder.wait()


def test_hints_resume_after_a_store_outage(project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with servers.redis_server() as server, opened(server.uri, project) as store:
        before = HintRecorder(store).watch_missing()
        server.signal(signal.SIGKILL)
        meanwhile = HintRecorder(store, "meanwhile").watch_in_vain(monkeypatch)
        server.start()
        store.wait_until_back()
        store.wait_for(lambda: 0 in before.counts, "the notice that hints may have been lost")
        after = HintRecorder(store, "after").watch_missing()
        again = HintRecorder(store, "meanwhile").watch_missing()
        for queue in ("q", "meanwhile", "after"):
            store.post("a", queue=queue)
        for recorder in (before, meanwhile, again, after):
            recorder.wait()


def test_watch_begun_during_outage_gets_hints_after_recovery(
    project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with servers.redis_server() as server, opened(server.uri, project) as store:
        server.signal(signal.SIGKILL)
        first = HintRecorder(store).watch_in_vain(monkeypatch)
        server.start()
        store.wait_until_back()
        second = HintRecorder(store).watch_missing()
        store.post("a")
        for recorder in (first, second):
            recorder.wait()
