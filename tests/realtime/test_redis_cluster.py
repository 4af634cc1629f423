# SPDX-License-Identifier: Apache-2.0
"""The bus over a Redis Cluster, whose primaries fail and whose slots move."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest
from redis.crc import key_slot

from tests.realtime.crowd import until
from tests.realtime.test_buses import NODES, RecordingNode, two_nodes
from tests.support import servers
from tests.support.redis_cluster import redis_cluster
from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.realtime.bus import BusSettings
from zaqar_redis.realtime.buses.redis_cluster import RedisClusterBus


def slot_of(channel: bytes) -> int:
    return key_slot(keys.of_bus_channel(channel))


def channel_on(primary: int) -> bytes:
    """Returns a channel whose slot the test's cluster gives to this primary."""
    first, end = 16384 * primary // 3, 16384 * (primary + 1) // 3
    return next(
        channel
        for channel in (b"p/%d" % number for number in range(1000))
        if first <= slot_of(channel) < end
    )


async def send_until_received(sender: RecordingNode, receiver: RecordingNode, name: bytes) -> None:
    """Sends on a channel until a message arrives that was sent."""
    end = time.monotonic() + 40
    receiver.received.clear()
    while (name, b"again") not in receiver.received:
        assert time.monotonic() < end, f"nothing arrives on {name!r}"
        with contextlib.suppress(errors.Unavailable):
            await sender.bus.send(name, b"again")
        await asyncio.sleep(0.05)


async def expect_once(sender: RecordingNode, receiver: RecordingNode, name: bytes) -> None:
    await asyncio.sleep(0.3)  # an adjustment in progress
    receiver.received.clear()
    await sender.bus.send(name, b"once")
    await until(lambda: (name, b"once") in receiver.received, "the message")
    await asyncio.sleep(0.02)  # one too many would come now
    # Those from before may still have been under way.
    assert [each for each in receiver.received if each[1] != b"again"] == [(name, b"once")]


@pytest.mark.nightly
async def test_channels_of_nodes_and_of_other_primaries_pass_while_one_is_down() -> None:
    with redis_cluster() as cluster:
        async with two_nodes([cluster.uri]) as (a, b):
            await b.bus.subscribe(channel_on(0))
            await b.bus.subscribe(channel_on(1))
            cluster.primaries[0].kill()
            for number in range(20):
                await a.bus.send(NODES, b"%d" % number)
            await b.expect(*((NODES, b"%d" % number) for number in range(20)))
            a.bus.publish(channel_on(0), b"lost")
            with pytest.raises(errors.Unavailable):
                await a.bus.send(channel_on(0), b"lost")
            await expect_once(a, b, b.own)


@pytest.mark.nightly
async def test_channels_of_a_primary_that_fails_over_are_subscribed_on_its_replica() -> None:
    with redis_cluster(replicas=1) as cluster:
        async with two_nodes([cluster.uri]) as (a, b):
            for primary in range(3):
                await b.bus.subscribe(channel_on(primary))
            cluster.primaries[0].kill()
            for primary in range(3):
                await send_until_received(a, b, channel_on(primary))
                await expect_once(a, b, channel_on(primary))
            await expect_once(a, b, NODES)
            assert b.gaps >= 1


async def test_channel_whose_slot_moves_is_subscribed_where_it_is_then() -> None:
    with redis_cluster() as cluster:
        name, stays = channel_on(0), channel_on(1)
        async with two_nodes([cluster.uri]) as (a, b):
            await b.bus.subscribe(name)
            await b.bus.subscribe(stays)
            cluster.move_slot(slot_of(name), cluster.primaries[0], cluster.primaries[1])
            await send_until_received(a, b, name)
            await expect_once(a, b, name)
            await expect_once(a, b, stays)
            await expect_once(a, b, NODES)
            assert b.gaps >= 1
            await b.bus.unsubscribe(name)
            await b.bus.subscribe(b"p/after")
            await a.bus.send(name, b"silent")
            await expect_once(a, b, b"p/after")


def test_option_that_is_wrong_in_the_uri_of_a_cluster_is_refused() -> None:
    with pytest.raises(errors.BadConfiguration, match="colour"):
        RedisClusterBus("redis+cluster://127.0.0.1:7000?colour=blue", BusSettings())


async def test_server_that_is_no_cluster_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with servers.redis_server() as server:
        node = RecordingNode([f"redis+cluster://127.0.0.1:{server.open_port()}"], "a")
        await node.start()
        assert not node.bus.live
        with pytest.raises(errors.BusUnavailable):
            await node.bus.subscribe(b"p/news")
        assert node.bus.publish(b"p/news", b"x") is None
        await node.bus.stop()
    (line,) = [text for text in caplog.messages if "slots" in text]
    assert "cluster support disabled" in line
