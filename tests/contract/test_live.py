# SPDX-License-Identifier: Apache-2.0
"""What stores guarantee whose queues can be watched while messages are posted."""

from __future__ import annotations

import asyncio
import signal

import pytest
import redis

from tests.contract.conftest import SUBSCRIBE_TIMEOUT
from tests.support import servers
from tests.support.backends import Backend
from tests.support.stores import (
    CLIENT,
    PATIENT,
    POOLED,
    TTL,
    ContractStore,
    names,
    new_messages,
    opened,
    opened_pools,
    other_process,
)
from zaqar_redis import errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.pool_records import Pool
from zaqar_redis.records import Message, NewMessage, PostedBatch
from zaqar_redis.storage.redis.bulk.dead_letters import RedisDeadLetters
from zaqar_redis.storage.watched import HistoryPage, Live

pytestmark = pytest.mark.usefixtures("patient")


class LiveRecorder:
    """Records the messages it receives, and the number of notices of a gap."""

    def __init__(self, store: ContractStore, queue: str = "q", *, watch: bool = True) -> None:
        self._store = store
        self._queue = queue
        self.messages: list[Message] = []
        self.epochs: set[str] = set()
        self.gaps = 0
        self.watcher = self._record  # watchers are compared by identity
        if watch:
            self.watch()
        self.gaps = 0

    @property
    def _live(self) -> Live:
        assert self._store.driver.live
        return self._store.driver.live

    def _record(self, batch: PostedBatch | None) -> None:
        if batch is None:
            self.gaps += 1
            return
        self.epochs.add(batch.epoch)
        self.messages += batch.messages

    def watch(self) -> None:
        self._store.run(self._live.watch(self._store.project, self._queue, self.watcher))

    async def watch_from_position(self) -> HistoryPage:
        """Watches, and then reads the position: the order that channels use."""
        await self._live.watch(self._store.project, self._queue, self.watcher)
        self.gaps = 0
        return await self._live.history(
            self._store.project, self._queue, first=1, last=1, limit=0, reverse=False
        )

    def expect(self, at: HistoryPage, last: int) -> None:
        """Expects each message after the position *at* up to rank *last*, and no gap."""
        expected = list(range(at.rank + 1, last + 1))

        def received() -> list[int]:
            return [message.rank for message in self.messages if message.rank > at.rank]

        self._store.wait_for(lambda: len(received()) >= len(expected), f"{expected} after {at}")
        assert (received(), self.gaps) == (expected, 0)

    def stop(self) -> None:
        self._live.unwatch(self._store.project, self._queue, self.watcher)

    def wait(self, number: int) -> list[str]:
        """Waits for so many messages; returns their names."""
        self._store.wait_for(lambda: len(self.messages) >= number, "messages")
        return names(self.messages)


def history_page(
    store: ContractStore,
    first: int = 1,
    last: int = 2**53,
    limit: int = 100,
    *,
    reverse: bool = False,
    queue: str = "q",
) -> HistoryPage:
    assert store.driver.live
    return store.run(
        store.driver.live.history(
            store.project, queue, first=first, last=last, limit=limit, reverse=reverse
        )
    )


def test_watcher_receives_every_message_in_order(store: ContractStore) -> None:
    store.create()
    follower = LiveRecorder(store)
    store.post("a", "b")
    with opened(store.uri, store.project) as other:
        other.post("c", ttl=60)
    assert follower.wait(3) == ["a", "b", "c"]
    assert [message.rank for message in follower.messages] == [1, 2, 3]
    assert [message.ttl for message in follower.messages][2] == 60
    assert follower.epochs == {history_page(store).epoch}
    assert [message.id for message in follower.messages] == [
        message.id for message in history_page(store).messages
    ]


@pytest.mark.transports
def test_watcher_receives_posts_larger_than_one_command(store: ContractStore) -> None:
    store.create()
    follower = LiveRecorder(store)
    store.post_many(2500)
    assert follower.wait(2500) == [str(number) for number in range(2500)]
    assert [message.rank for message in follower.messages] == list(range(1, 2501))


@pytest.mark.transports
def test_watcher_receives_delayed_and_large_messages(store: ContractStore) -> None:
    store.create(_default_message_delay=30)
    follower = LiveRecorder(store)
    store.post("later")
    store.post("☃" * 100, delay=0)
    assert follower.wait(2) == ["later", "☃" * 100]
    assert [message.delay for message in follower.messages] == [30, 0]


def test_watcher_receives_messages_popped_at_once(store: ContractStore) -> None:
    store.create()
    follower = LiveRecorder(store)
    store.post("a")
    assert store.pop() == ["a"]
    assert follower.wait(1) == ["a"]


def test_stopped_watcher_receives_nothing(store: ContractStore) -> None:
    store.create()
    gone, stays = LiveRecorder(store), LiveRecorder(store)
    gone.stop()
    gone.stop()
    store.post("a")
    stays.wait(1)
    assert gone.messages == []


def test_watcher_receives_messages_of_its_queue_and_project_only(store: ContractStore) -> None:
    for queue in ("q", "other"):
        store.create(queue)
    follower, mark = LiveRecorder(store), LiveRecorder(store, "other")
    project, store.project = store.project, store.project + "-other"
    store.post("a")
    store.project = project
    store.post("b", queue="other")
    assert mark.wait(1) == ["b"]
    assert follower.messages == []


def test_watcher_of_missing_queue_receives_its_first_message(store: ContractStore) -> None:
    follower = LiveRecorder(store)
    page = history_page(store)
    store.post("a")
    assert store.pop() == ["a"]  # before any reader could see it
    store.post("b", "c")
    assert follower.wait(3) == ["a", "b", "c"]
    assert [message.rank for message in follower.messages] == [1, 2, 3]
    assert follower.epochs == {page.epoch} == {history_page(store).epoch}
    assert follower.gaps == 0


def test_watcher_started_during_queue_creation_misses_nothing_after_its_position(
    store: ContractStore,
) -> None:
    async def posts(other: ContractStore, queue: str) -> None:
        for _ in range(3):
            await other.driver.messages.post(
                store.project,
                queue,
                new_messages(["m"], TTL, None),
                client=CLIENT,
                default_ttl=TTL,
                size=0,
            )

    async def both(follower: LiveRecorder, other: ContractStore, queue: str) -> HistoryPage:
        return (await asyncio.gather(follower.watch_from_position(), posts(other, queue)))[0]

    with other_process(store) as other:
        for number in range(20):
            queue = f"q{number}"
            follower = LiveRecorder(store, queue, watch=False)
            at = store.run(both(follower, other, queue))
            follower.expect(at, 3)
            assert follower.epochs <= {at.epoch} == {history_page(store, queue=queue).epoch}
            follower.stop()


def test_watched_queue_may_be_created_in_a_pool_added_later(
    redis_server: Backend, own_redis: str, project: str
) -> None:
    # Databases of its own: others use the first, and have other pools.
    default, first, other = f"{own_redis}?db=1", f"{own_redis}?db=2", redis_server.client()
    with opened_pools(f"{POOLED}{default}|{first}", project) as store:
        follower = LiveRecorder(store)
        page = history_page(store)
        for pool in (
            Pool(name="p2", uri=redis_server.uri, weight=1),
            Pool(name="p1", uri=first, weight=0),
        ):
            store.run(store.driver.control.pools.put(pool, canonical=pool.uri))
        feed = keys.of_queue(project, "q").feed
        store.wait_for(lambda: other.pubsub_numsub(feed)[0][1] == 1, "a subscriber in Redis")
        # It may have been created there before.
        store.wait_for(lambda: follower.gaps > 0, "a notice that messages may be missed")
        store.post("a")
        assert follower.wait(1) == ["a"]
        assert follower.epochs == {page.epoch}
        assert other.exists(keys.of_queue(project, "q").queue)
        other.close()


def test_queue_created_in_a_pool_that_confirms_the_watch_late_is_watched_from_the_first_message(
    own_redis: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        servers.redis_server() as slow,
        opened(f"{POOLED}{own_redis}?db=3|{slow.uri}", project) as store,
    ):
        LiveRecorder(store, "other").stop()  # all connections are there
        monkeypatch.setattr(SUBSCRIBE_TIMEOUT, 1.0)
        follower = LiveRecorder(store, watch=False)
        slow.signal(signal.SIGSTOP)
        try:
            at = store.run(follower.watch_from_position())
        finally:
            slow.signal(signal.SIGCONT)
        # Nobody is told in time that the queue has a pool.
        redis.Redis.from_url(own_redis).client_kill_filter(_type="pubsub")
        store.post("a")
        assert store.pop() == ["a"]  # before any reader could see it
        store.post("b", "c")
        assert follower.wait(3) == ["a", "b", "c"]
        assert follower.epochs == {at.epoch}
        assert slow.client().exists(keys.of_queue(project, "q").queue)


def test_history_page_is_read_by_rank(store: ContractStore) -> None:
    missing_queue = history_page(store)
    assert missing_queue == HistoryPage(missing_queue.epoch, 0, []) == history_page(store)
    store.post(*"abcde")
    store.delete(store.page(limit=2).items[1].id, force=True)
    whole = history_page(store)
    assert (names(whole.messages), whole.rank) == (list("acde"), 5)
    assert names(history_page(store, first=3, limit=2).messages) == ["c", "d"]
    assert names(history_page(store, last=3, limit=2, reverse=True).messages) == ["c", "a"]
    assert history_page(store, limit=0) == HistoryPage(whole.epoch, 5, [])


def test_history_page_has_claimed_and_delayed_but_no_expired_messages(store: ContractStore) -> None:
    store.create(_default_message_delay=30)
    store.post("short", ttl=60)
    store.post("held", "later")
    store.post("now", delay=0)
    assert store.claim(ttl=100).messages
    store.clock.tick(61)
    assert names(history_page(store).messages) == ["held", "later", "now"]


def test_history_page_of_large_messages_is_cut_short(store: ContractStore) -> None:
    for number in range(8):
        store.post(str(number) * 300_000)
    found = history_page(store)
    assert 0 < len(found.messages) < 8
    received = history_page(store, first=found.messages[-1].rank + 1)
    assert received.messages[0].rank == found.messages[-1].rank + 1


@pytest.mark.transports
def test_watcher_is_notified_of_a_gap_after_lost_connection_and_continues(
    redis_server: Backend, project: str
) -> None:
    with opened(redis_server.uri, project) as store:
        store.create()
        follower = LiveRecorder(store)
        redis_server.client().client_kill_filter(_type="pubsub")
        store.wait_for(lambda: follower.gaps > 0, "a gap")
        follower.watch()
        store.post("a")
        assert follower.wait(1) == ["a"]


def test_watch_fails_while_store_is_unreachable(
    project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SUBSCRIBE_TIMEOUT, 1.0)
    with servers.redis_server() as server, opened(server.uri, project) as store:
        server.signal(signal.SIGSTOP)
        try:
            with pytest.raises(errors.StoreUnavailable):
                LiveRecorder(store)
        finally:
            server.signal(signal.SIGCONT)


def test_each_incarnation_of_a_queue_has_its_own_epoch_reserved_before_creation(
    store: ContractStore,
) -> None:
    seen = set()
    for _ in range(3):
        for begin in (store.create, lambda: store.post("a")):
            before = history_page(store).epoch
            begin()
            assert history_page(store).epoch == before
            seen.add(history_page(store).epoch)
            store.run(store.driver.queues.delete(store.project, "q"))
    assert len(seen) == 6


def test_watcher_receives_redriven_dead_letters(redis_server: Backend, project: str) -> None:
    with opened(redis_server.uri, project) as store:
        store.create()
        follower = LiveRecorder(store)
        client = keyspace.client(redis_server.uri, PATIENT)
        store.run(client.start())
        dead_letters = RedisDeadLetters(client, store.clock)
        tail = envelope.tail(NewMessage(body=b'"back"'), bytes(16))
        assert store.run(dead_letters.post(project, "q", [("id", 60, tail)])) == 1
        store.run(client.close())
        assert follower.wait(1) == ["back"]
        assert follower.epochs == {history_page(store).epoch}
