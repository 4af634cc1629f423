# SPDX-License-Identifier: Apache-2.0
"""What stores promise whose queues can be followed while messages are posted."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests import servers
from tests.contract.stores import (
    CLIENT,
    POOLED,
    TTL,
    PooledStore,
    Store,
    beside,
    drafts,
    names,
    opened,
)
from zaqar_redis import errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.records import Arrived, Draft, Message, Past, Pool
from zaqar_redis.storage.driver import Live
from zaqar_redis.storage.drivers.redis.letters import Letters


class Follower:
    """Remembers the messages it was told of, and how often some may have been missed."""

    def __init__(self, store: Store, queue: str = "q", *, watch: bool = True) -> None:
        self._store = store
        self._queue = queue
        self.messages: list[Message] = []
        self.epochs: set[str] = set()
        self.gaps = 0
        self.watcher = self._hear  # one object: it is told apart by itself
        if watch:
            self.watch()
        self.gaps = 0

    @property
    def _live(self) -> Live:
        assert self._store.driver.live
        return self._store.driver.live

    def _hear(self, news: Arrived | None) -> None:
        if news is None:
            self.gaps += 1
            return
        self.epochs.add(news.epoch)
        self.messages += news.messages

    def watch(self) -> None:
        self._store.run(self._live.watch(self._store.project, self._queue, self.watcher))

    async def follows(self) -> Past:
        """Watch, and then look where it is: as channels do."""
        await self._live.watch(self._store.project, self._queue, self.watcher)
        self.gaps = 0
        return await self._live.history(
            self._store.project, self._queue, first=1, last=1, limit=0, reverse=False
        )

    def hears(self, at: Past, last: int) -> None:
        """Each message behind the position *at* up to the *last*, and no gap."""
        expected = list(range(at.rank + 1, last + 1))

        def behind() -> list[int]:
            return [message.rank for message in self.messages if message.rank > at.rank]

        self._store.wait_for(lambda: len(behind()) >= len(expected), f"{expected} behind {at}")
        assert (behind(), self.gaps) == (expected, 0)

    def stop(self) -> None:
        self._live.unwatch(self._store.project, self._queue, self.watcher)

    def wait(self, number: int) -> list[str]:
        """Until it was told of so many messages; their names."""
        self._store.wait_for(lambda: len(self.messages) >= number, "messages")
        return names(self.messages)


def past(
    store: Store,
    first: int = 1,
    last: int = 2**53,
    limit: int = 100,
    *,
    reverse: bool = False,
    queue: str = "q",
) -> Past:
    assert store.driver.live
    return store.run(
        store.driver.live.history(
            store.project, queue, first=first, last=last, limit=limit, reverse=reverse
        )
    )


def test_who_follows_a_queue_is_told_of_every_message_in_order(store: Store) -> None:
    store.create()
    follower = Follower(store)
    store.post("a", "b")
    with opened(store.uri, store.project) as other:
        other.post("c", ttl=60)
    assert follower.wait(3) == ["a", "b", "c"]
    assert [message.rank for message in follower.messages] == [1, 2, 3]
    assert [message.ttl for message in follower.messages][2] == 60
    assert follower.epochs == {past(store).epoch}
    assert [message.id for message in follower.messages] == [
        message.id for message in past(store).messages
    ]


def test_more_messages_than_one_command_takes_are_all_told(store: Store) -> None:
    store.create()
    follower = Follower(store)
    store.post_many(2500)
    assert follower.wait(2500) == [str(number) for number in range(2500)]
    assert [message.rank for message in follower.messages] == list(range(1, 2501))


def test_messages_of_every_kind_are_told(store: Store) -> None:
    store.create(_default_message_delay=30)
    follower = Follower(store)
    store.post("later")
    store.post("☃" * 100, delay=0)
    assert follower.wait(2) == ["later", "☃" * 100]
    assert [message.delay for message in follower.messages] == [30, 0]


def test_a_claimed_or_deleted_message_was_told_all_the_same(store: Store) -> None:
    store.create()
    follower = Follower(store)
    store.post("a")
    assert store.pop() == ["a"]
    assert follower.wait(1) == ["a"]


def test_who_stopped_following_is_told_nothing(store: Store) -> None:
    store.create()
    gone, stays = Follower(store), Follower(store)
    gone.stop()
    gone.stop()
    store.post("a")
    stays.wait(1)
    assert gone.messages == []


def test_queues_and_projects_are_followed_apart(store: Store) -> None:
    for queue in ("q", "other"):
        store.create(queue)
    follower, mark = Follower(store), Follower(store, "other")
    project, store.project = store.project, store.project + "-other"
    store.post("a")
    store.project = project
    store.post("b", queue="other")
    assert mark.wait(1) == ["b"]
    assert follower.messages == []


def test_a_queue_that_is_made_later_is_followed_from_its_first_message_on(store: Store) -> None:
    follower = Follower(store)
    known = past(store)
    store.post("a")
    assert store.pop() == ["a"]  # before anybody could read it
    store.post("b", "c")
    assert follower.wait(3) == ["a", "b", "c"]
    assert [message.rank for message in follower.messages] == [1, 2, 3]
    assert follower.epochs == {known.epoch} == {past(store).epoch}
    assert follower.gaps == 0


def test_who_comes_while_a_queue_is_made_misses_nothing_behind_its_position(store: Store) -> None:
    async def posts(other: Store, queue: str) -> None:
        for _ in range(3):
            await other.driver.messages.post(
                store.project,
                queue,
                drafts(["m"], TTL, None),
                client=CLIENT,
                default_ttl=TTL,
                size=0,
            )

    async def both(follower: Follower, other: Store, queue: str) -> Past:
        return (await asyncio.gather(follower.follows(), posts(other, queue)))[0]

    with beside(store) as other:
        for number in range(20):
            queue = f"q{number}"
            follower = Follower(store, queue, watch=False)
            at = store.run(both(follower, other, queue))
            follower.hears(at, 3)
            assert follower.epochs <= {at.epoch} == {past(store, queue=queue).epoch}
            follower.stop()


def test_a_pool_that_is_made_while_a_queue_is_followed_may_get_it(
    redis_server: servers.RedisServer, own_redis: str, project: str
) -> None:
    home, other = f"{own_redis}?db=1", redis_server.client()
    with opened(f"{POOLED}{own_redis}|{home}", project) as store:
        assert isinstance(store, PooledStore)
        follower = Follower(store)
        known = past(store)
        for pool in (
            Pool(name="p2", uri=redis_server.uri, weight=1),
            Pool(name="p1", uri=home, weight=0),
        ):
            store.run(store.driver.control.pools.put(pool, canonical=pool.uri))
        feed = keys.of_queue(project, "q").feed
        store.wait_for(lambda: other.pubsub_numsub(feed)[0][1] == 1, "a listener")
        store.post("a")
        assert follower.wait(1) == ["a"]
        assert follower.epochs == {known.epoch}
        assert other.exists(keys.of_queue(project, "q").queue)
        other.close()


def test_the_past_is_read_by_rank(store: Store) -> None:
    unborn = past(store)
    assert unborn == Past(unborn.epoch, 0, []) == past(store)
    store.post(*"abcde")
    store.delete(store.page(limit=2).items[1].id, force=True)
    whole = past(store)
    assert (names(whole.messages), whole.rank) == (list("acde"), 5)
    assert names(past(store, first=3, limit=2).messages) == ["c", "d"]
    assert names(past(store, last=3, limit=2, reverse=True).messages) == ["c", "a"]
    assert past(store, limit=0) == Past(whole.epoch, 5, [])


def test_the_past_has_claimed_and_delayed_messages_but_no_expired_ones(store: Store) -> None:
    store.create(_default_message_delay=30)
    store.post("short", ttl=60)
    store.post("held", "later")
    store.post("now", delay=0)
    assert store.claim(ttl=100).messages
    store.clock.tick(61)
    assert names(past(store).messages) == ["held", "later", "now"]


def test_a_page_of_large_messages_is_short(store: Store) -> None:
    for number in range(8):
        store.post(str(number) * 300_000)
    found = past(store)
    assert 0 < len(found.messages) < 8
    behind = past(store, first=found.messages[-1].rank + 1)
    assert behind.messages[0].rank == found.messages[-1].rank + 1


def test_a_lost_connection_is_told_and_followed_by_more(
    redis_server: servers.RedisServer, project: str
) -> None:
    with opened(redis_server.uri, project) as store:
        store.create()
        follower = Follower(store)
        redis_server.client().client_kill_filter(_type="pubsub")
        store.wait_for(lambda: follower.gaps > 0, "a gap")
        follower.watch()
        store.post("a")
        assert follower.wait(1) == ["a"]


def test_without_a_store_nobody_is_promised_anything(
    redis_server: servers.RedisServer, project: str
) -> None:
    with opened(redis_server.uri, project) as store:
        redis_server.signal(signal.SIGSTOP)
        try:
            with pytest.raises(errors.StoreUnavailable):
                Follower(store)
        finally:
            redis_server.signal(signal.SIGCONT)


def test_each_life_of_a_queue_has_an_epoch_of_its_own_known_before_it_begins(
    store: Store,
) -> None:
    seen = set()
    for _ in range(3):
        for begin in (store.create, lambda: store.post("a")):
            before = past(store).epoch
            begin()
            assert past(store).epoch == before
            seen.add(past(store).epoch)
            store.run(store.driver.queues.delete(store.project, "q"))
    assert len(seen) == 6


def test_letters_that_go_back_to_their_queue_are_told(
    redis_server: servers.RedisServer, project: str
) -> None:
    with opened(redis_server.uri, project) as store:
        store.create()
        follower = Follower(store)
        client = keyspace.client(redis_server.uri, BatchSettings())
        store.run(client.start())
        letters = Letters(client, store.clock)
        tail = envelope.tail(Draft(body=b'"back"'), bytes(16))
        assert store.run(letters.post(project, "q", [("id", 60, tail)])) == 1
        store.run(client.close())
        assert follower.wait(1) == ["back"]
        assert follower.epochs == {past(store).epoch}
