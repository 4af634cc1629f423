# SPDX-License-Identifier: Apache-2.0
"""Channels over several Redis: the shard of each, and the loss of one Redis."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator

import jump
import pytest
from oslo_config import cfg

from tests.realtime.conftest import EngineHarness, RecordingEventHandler, engine, started
from tests.support import servers
from tests.support.clock import ManualClock
from zaqar_redis import clock, errors
from zaqar_redis import conf as configuration
from zaqar_redis.cli import service_factory
from zaqar_redis.keyspace import keys
from zaqar_redis.realtime.bus import BusSettings
from zaqar_redis.realtime.buses.sharded import shard
from zaqar_redis.realtime.engine import Dedup, HistoryFilter, HistoryOptions, Published
from zaqar_redis.realtime.load import load_bus

KEEP = HistoryOptions(size=10, ttl=60, meta_ttl=3600)
NAMES = [f"default/channel-{number}" for number in range(1000)]


class ShardedHarness:
    """A sharded engine over two Redis."""

    def __init__(self, redis: list[servers.RedisServer], backend: EngineHarness) -> None:
        self.redis = redis
        self.backend = backend
        self.engine = backend.engine

    def on(self, number: int) -> str:
        """Returns a channel of the numbered Redis."""
        return next(name for name in NAMES if shard(name.encode(), len(self.redis)) == number)

    def publish(self, channel: str, payload: bytes = b"x") -> Published:
        return self.backend.run(self.engine.history.publish(channel, payload, KEEP))

    def works(self, channel: str) -> bool:
        try:
            self.publish(channel)
        except errors.StoreUnavailable:
            return False
        return True

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits with the event loop running, unlike `servers.wait_for`."""
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, what
            self.backend.run(asyncio.sleep(0.02))


@pytest.fixture
def harness(runner: asyncio.Runner) -> Iterator[ShardedHarness]:
    with contextlib.ExitStack() as stack:
        redis = [stack.enter_context(servers.redis_server()) for _ in range(2)]
        backend = stack.enter_context(started(runner, *(server.uri for server in redis)))
        yield ShardedHarness(redis, backend)


def test_jump_hash_matches_published_values() -> None:
    # Values of the authors' program, which other implementations check too.
    known = {(1, 1): 0, (42, 57): 43, (0xDEAD10CC, 666): 361, (256, 1024): 520}
    assert {each: jump.hash(*each) for each in known} == known


def test_shard_of_a_channel_never_changes() -> None:
    shards = [
        shard(name.encode(), 5) for name in ("default/news", "default/é", "p/$private:a#1,2", "")
    ]
    assert shards == [3, 0, 1, 2]


def test_added_shard_takes_its_share_and_no_other_channel_moves() -> None:
    names = [f"default/channel-{number}" for number in range(20_000)]
    for count in range(1, 6):
        moved = [
            name for name in names if shard(name.encode(), count) != shard(name.encode(), count + 1)
        ]
        assert {shard(name.encode(), count + 1) for name in moved} == {count}
        assert len(moved) / len(names) == pytest.approx(1 / (count + 1), rel=0.1)


def test_channels_are_spread_over_all_shards(harness: ShardedHarness) -> None:
    for name in NAMES:
        harness.publish(name)
    counts = Counter[int]()
    for number, server in enumerate(harness.redis):
        with server.client() as client:
            found = {key for key in client.keys("*") if key.endswith(b":history")}
        on_shard = [each for each in NAMES if shard(each.encode(), 2) == number]
        assert found == {keys.of_channel(each).history for each in on_shard}
        counts[number] = len(found)
    assert min(counts.values()) > len(NAMES) * 0.4


def test_channels_of_healthy_shard_work_while_another_is_unavailable(
    harness: ShardedHarness,
) -> None:
    lost, other = harness.on(0), harness.on(1)
    for channel in (lost, other):
        harness.backend.run(harness.engine.events.subscribe(channel))
    harness.redis[0].signal(signal.SIGKILL)
    harness.wait_until(lambda: not harness.works(lost), "the loss to be noticed")
    history, presence = harness.engine.history, harness.engine.presence
    for work in (
        lambda: history.publish(lost, b"x", KEEP),
        lambda: history.history(lost, HistoryFilter(), KEEP),
        lambda: presence.clients(lost),
        lambda: harness.engine.events.publish_join(lost, b"x"),
    ):
        with pytest.raises(errors.StoreUnavailable):
            harness.backend.run(work())
    harness.backend.handler.events.clear()
    published = harness.publish(other)
    harness.backend.expect_events(("publication", other, b"x", published.position))
    harness.redis[0].start()
    harness.wait_until(
        lambda: ("gap",) in harness.backend.handler.events, "the listener to reconnect"
    )
    harness.wait_until(lambda: harness.works(lost), "the channel to work again")
    published = harness.publish(lost, b"again")
    expected = ("publication", lost, b"again", published.position)
    harness.wait_until(lambda: expected in harness.backend.handler.events, "the publication")


async def test_publication_with_a_key_that_was_not_sent_is_sent_when_it_is_repeated(
    harness: ShardedHarness,
) -> None:
    lost, key = harness.on(1), Dedup(key="k")
    with servers.redis_server() as store:
        handler = RecordingEventHandler()
        bus = load_bus([server.uri for server in harness.redis], BusSettings())
        node = engine([store.uri], clock.store, bus)
        await node.start("node", handler)
        await node.events.subscribe(lost)
        harness.redis[1].signal(signal.SIGKILL)
        with pytest.raises(errors.BusUnavailable):
            await node.history.publish(lost, b"x", None, key)
        harness.redis[1].start()
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(errors.BusUnavailable):
                    assert (await node.history.publish(lost, b"x", None, key)).new
                    break
                await asyncio.sleep(0.05)
        assert not (await node.history.publish(lost, b"x", None, key)).new
        await node.close()


@pytest.mark.parametrize("lost_shard", [0, 1])
def test_control_messages_arrive_while_one_shard_is_unavailable(
    harness: ShardedHarness, lost_shard: int
) -> None:
    other, handler = (
        engine([server.uri for server in harness.redis], ManualClock()),
        RecordingEventHandler(),
    )
    harness.backend.run(other.start("other", handler))
    try:
        publish_control = harness.engine.events.publish_control
        assert harness.backend.run(publish_control(b"both are up")) == 2
        harness.redis[lost_shard].signal(signal.SIGKILL)
        assert harness.backend.run(publish_control(b"to all")) == 2
        assert harness.backend.run(publish_control(b"to one", "other")) == 1
        harness.redis[lost_shard].start()
        harness.wait_until(lambda: harness.works(harness.on(lost_shard)), "the shard to work again")
        assert harness.backend.run(publish_control(b"once")) == 2
        expected = [b"both are up", b"to all", b"to one", b"once"]
        harness.wait_until(
            lambda: ("control", b"once") in handler.events, "the last control message"
        )
        harness.backend.run(asyncio.sleep(0.1))  # time for duplicates to arrive
        to_all = [each for each in expected if each != b"to one"]
        for received, wanted in ((handler, expected), (harness.backend.handler, to_all)):
            events = [event for event in received.events if event != ("gap",)]
            assert events == [("control", each) for each in wanted]
        harness.redis[1 - lost_shard].signal(signal.SIGKILL)
        harness.redis[lost_shard].signal(signal.SIGKILL)
        harness.wait_until(lambda: not harness.works(harness.on(0)), "the loss to be noticed")
        harness.wait_until(lambda: not harness.works(harness.on(1)), "the loss to be noticed")
        with pytest.raises(errors.StoreUnavailable):
            harness.backend.run(publish_control(b"to nobody"))
    finally:
        harness.backend.run(other.close())


@pytest.mark.parametrize("uri", ["http://example.org", "memory://", "embedded://"])
def test_unusable_uri_is_reported_with_its_option(uri: str) -> None:
    conf: cfg.ConfigOpts = configuration.load([], [])
    conf.set_override("uris", ["redis://127.0.0.1", uri], group="channels")
    with pytest.raises(errors.BadConfiguration, match=r"\[channels\] uris"):
        service_factory.channels(conf, "redis://127.0.0.1")
