# SPDX-License-Identifier: Apache-2.0
"""Channels over several Redis: where each is, and what happens when one Redis is away."""

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

from tests import servers
from tests.realtime.conftest import Backend, Heard, OwnedClock, engine, started
from zaqar_redis import conf as configuration
from zaqar_redis import errors
from zaqar_redis.cli import configured
from zaqar_redis.keyspace import keys
from zaqar_redis.realtime.engine import Keep, Published, Since
from zaqar_redis.realtime.engines.sharded import shard

KEEP = Keep(size=10, ttl=60, meta_ttl=3600)
NAMES = [f"default/channel-{number}" for number in range(1000)]


class House:
    """An engine over two Redis."""

    def __init__(self, redis: list[servers.RedisServer], backend: Backend) -> None:
        self.redis = redis
        self.backend = backend
        self.engine = backend.engine

    def on(self, number: int) -> str:
        """A channel that is on that Redis."""
        return next(name for name in NAMES if shard(name, len(self.redis)) == number)

    def publish(self, channel: str, payload: bytes = b"x") -> Published:
        return self.backend.run(self.engine.history.publish(channel, payload, KEEP))

    def works(self, channel: str) -> bool:
        try:
            self.publish(channel)
        except errors.StoreUnavailable:
            return False
        return True

    def soon(self, condition: Callable[[], bool], what: str) -> None:
        """Unlike `servers.wait_for` it lets the engine work."""
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, what
            self.backend.run(asyncio.sleep(0.02))


@pytest.fixture
def house() -> Iterator[House]:
    with contextlib.ExitStack() as stack:
        redis = [stack.enter_context(servers.redis_server()) for _ in range(2)]
        backend = stack.enter_context(started(*(server.uri for server in redis)))
        yield House(redis, backend)


def test_the_hash_is_that_of_the_paper() -> None:
    # Values of the authors' program, as other implementations check theirs by them.
    known = {(1, 1): 0, (42, 57): 43, (0xDEAD10CC, 666): 361, (256, 1024): 520}
    assert {each: jump.hash(*each) for each in known} == known


def test_a_channel_stays_where_it_was_once_put() -> None:
    places = [shard(name, 5) for name in ("default/news", "default/é", "p/$private:a#1,2", "")]
    assert places == [3, 0, 1, 2]


def test_one_more_takes_its_share_and_nothing_else_moves() -> None:
    names = [f"default/channel-{number}" for number in range(20_000)]
    for count in range(1, 6):
        moved = [name for name in names if shard(name, count) != shard(name, count + 1)]
        assert {shard(name, count + 1) for name in moved} == {count}
        assert len(moved) / len(names) == pytest.approx(1 / (count + 1), rel=0.1)


def test_channels_are_spread_over_all(house: House) -> None:
    for name in NAMES:
        house.publish(name)
    held = Counter[int]()
    for number, server in enumerate(house.redis):
        with server.client() as client:
            found = {key for key in client.keys("*") if key.endswith(b":history")}
        here = [each for each in NAMES if shard(each, 2) == number]
        assert found == {keys.of_channel(each).history for each in here}
        held[number] = len(found)
    assert min(held.values()) > len(NAMES) * 0.4


def test_while_one_is_away_channels_of_the_other_go_on(house: House) -> None:
    lost, other = house.on(0), house.on(1)
    for channel in (lost, other):
        house.backend.run(house.engine.bus.subscribe(channel))
    house.redis[0].signal(signal.SIGKILL)
    house.soon(lambda: not house.works(lost), "the loss to be noticed")
    history, presence = house.engine.history, house.engine.presence
    for work in (
        lambda: history.publish(lost, b"x", KEEP),
        lambda: history.history(lost, Since(), KEEP),
        lambda: presence.present(lost),
        lambda: house.engine.bus.publish_join(lost, b"x"),
    ):
        with pytest.raises(errors.StoreUnavailable):
            house.backend.run(work())
    house.backend.heard.news.clear()
    published = house.publish(other)
    house.backend.hears(("publication", other, b"x", published.position))
    house.redis[0].start()
    house.soon(lambda: ("gap",) in house.backend.heard.news, "the listener to come back")
    house.soon(lambda: house.works(lost), "the channel to come back")
    published = house.publish(lost, b"again")
    expected = ("publication", lost, b"again", published.position)
    house.soon(lambda: expected in house.backend.heard.news, "the publication")


@pytest.mark.parametrize("away", [0, 1])
def test_nodes_hear_each_other_while_one_is_away(house: House, away: int) -> None:
    other, heard = engine([server.uri for server in house.redis], OwnedClock()), Heard()
    house.backend.run(other.start("other", heard))
    try:
        tell = house.engine.bus.publish_control
        assert house.backend.run(tell(b"both are there")) == 2
        house.redis[away].signal(signal.SIGKILL)
        assert house.backend.run(tell(b"to all")) == 2
        assert house.backend.run(tell(b"to one", "other")) == 1
        house.redis[away].start()
        house.soon(lambda: house.works(house.on(away)), "it to come back")
        assert house.backend.run(tell(b"once")) == 2
        expected = [b"both are there", b"to all", b"to one", b"once"]
        house.soon(lambda: len(heard.news) >= len(expected), "all to be heard")
        house.backend.run(asyncio.sleep(0.1))  # what comes twice comes now
        assert heard.news == [("control", each) for each in expected]
        house.backend.hears(*[("control", each) for each in expected if each != b"to one"])
        house.redis[1 - away].signal(signal.SIGKILL)
        house.redis[away].signal(signal.SIGKILL)
        house.soon(lambda: not house.works(house.on(0)), "the loss to be noticed")
        house.soon(lambda: not house.works(house.on(1)), "the loss to be noticed")
        with pytest.raises(errors.StoreUnavailable):
            house.backend.run(tell(b"nobody hears it"))
    finally:
        house.backend.run(other.close())


@pytest.mark.parametrize("uri", ["http://example.org", "memory://", "embedded://"])
def test_an_unusable_uri_is_told_with_the_option(uri: str) -> None:
    conf: cfg.ConfigOpts = configuration.load([], [])
    conf.set_override("uris", ["redis://127.0.0.1", uri], group="channels")
    with pytest.raises(errors.BadConfiguration, match=r"\[channels\] uris"):
        configured.channels(conf, "redis://127.0.0.1")
