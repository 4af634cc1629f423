# SPDX-License-Identifier: Apache-2.0
"""Redis is lost, or a node: sockets stay or come back, and nothing is missed unsaid."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence

from tests import servers
from tests.realtime import crowd
from tests.realtime.someone import LEFT_BEHIND
from zaqar_redis.realtime.engines.sharded import shard

pytestmark = LEFT_BEHIND


def test_redis_that_comes_back_with_its_data_costs_nothing() -> None:
    async def story(redis: servers.RedisServer, service: servers.Service) -> None:
        async with crowd.gathered([redis.uri], service) as house:
            for _ in range(2):
                redis.signal(signal.SIGKILL)
                await house.refusals()
                await asyncio.to_thread(redis.start)
                await house.more()
            await house.pause()
            await house.check()
            house.check_sockets()

    with (
        servers.redis_server(fsync="always") as redis,
        servers.service(redis.uri, workers=2, options=crowd.OPTIONS) as service,
    ):
        asyncio.run(story(redis, service))


def test_redis_that_comes_back_empty_is_told_to_everybody() -> None:
    async def story(redis: servers.RedisServer, service: servers.Service) -> None:
        async with crowd.gathered([redis.uri], service) as house:
            redis.signal(signal.SIGKILL)
            await house.refusals()
            await asyncio.to_thread(redis.start)
            await house.more()
            await house.pause()
            await house.check(lives=2)
            house.check_sockets()

    with (
        servers.redis_server() as redis,
        servers.service(redis.uri, workers=2, options=crowd.OPTIONS) as service,
    ):
        asyncio.run(story(redis, service))


def test_redis_that_comes_back_older_is_told_to_everybody() -> None:
    async def story(redis: servers.RedisServer, service: servers.Service) -> None:
        async with crowd.gathered([redis.uri], service) as house:
            with redis.client() as client:
                client.save()
            await house.more(50)
            away = house.members[0]
            await away.client.disconnect()
            redis.signal(signal.SIGKILL)
            await asyncio.to_thread(redis.start)
            await house.more(100)  # offsets that were given before are given again
            await away.client.connect()
            await crowd.until(
                lambda: all(len(each.stretches) == 2 for each in house.subscribers),
                "everybody to be told",
            )
            await house.more()
            await house.pause()
            await house.check(lives=2)
            house.check_sockets(house.members[1:])

    with (
        servers.redis_server() as redis,
        servers.service(redis.uri, workers=2, options=crowd.OPTIONS) as service,
    ):
        asyncio.run(story(redis, service))


def test_redis_that_stood_still_costs_nothing() -> None:
    async def story(redis: servers.RedisServer, service: servers.Service) -> None:
        async with crowd.gathered([redis.uri], service) as house:
            redis.signal(signal.SIGSTOP)
            await house.refusals()
            redis.signal(signal.SIGCONT)
            await house.more()
            await house.pause()
            await house.check()
            house.check_sockets()

    options = crowd.OPTIONS | {"redis": {"timeout": 1.0}}
    with (
        servers.redis_server() as redis,
        servers.service(redis.uri, workers=2, options=options) as service,
    ):
        asyncio.run(story(redis, service))


def test_what_nobody_listened_to_is_found_soon() -> None:
    async def story(redis: servers.RedisServer, service: servers.Service) -> None:
        async with crowd.gathered([redis.uri], service) as house:
            with redis.client() as client:
                for _ in range(5):
                    assert client.client_kill_filter(_type="pubsub") > 0
                    await house.more(15)
                await house.pause()
                # Now nothing follows that could show the hole.
                assert client.client_kill_filter(_type="pubsub") > 0
                for publisher in house.publishers.values():
                    assert await publisher.publish()
            await house.has_heard_all()
            await house.check()
            house.check_sockets()
            assert all(2500 in subscriber.codes for subscriber in house.subscribers)

    with (
        servers.redis_server() as redis,
        servers.service(redis.uri, workers=2, options=crowd.OPTIONS) as service,
    ):
        asyncio.run(story(redis, service))


def test_one_of_several_redis_is_lost_alone() -> None:
    async def story(redis: Sequence[servers.RedisServer], service: servers.Service) -> None:
        async with crowd.gathered([each.uri for each in redis], service) as house:
            lost, other = sorted(crowd.CHANNELS, key=lambda name: shard(f"default/{name}", 2))
            redis[0].signal(signal.SIGKILL)
            before = house.publishers[other].refused
            await crowd.until(lambda: house.publishers[lost].refused > 10, "refusals")
            assert house.publishers[other].refused == before == 0
            await asyncio.to_thread(redis[0].start)
            await house.more()
            await house.pause()
            await house.check()
            house.check_sockets()

    with (
        servers.redis_server(fsync="always") as first,
        servers.redis_server(fsync="always") as second,
        servers.redis_server() as queues,
    ):
        uris = {"uris": f"{first.uri}, {second.uri}"}
        options = {"channels": crowd.OPTIONS["channels"] | uris}
        with servers.service(queues.uri, workers=2, options=options) as service:
            asyncio.run(story([first, second], service))


def test_clients_of_a_killed_node_come_back_and_miss_nothing() -> None:
    async def story(
        redis: servers.RedisServer, killed: servers.Service, other: servers.Service
    ) -> None:
        async with crowd.gathered([redis.uri], killed, other, each=3) as house:
            theirs, others = house.members[:3], house.members[3:]
            for _ in range(2):
                before = {member.id for member in theirs}
                (worker,) = killed.workers()
                os.kill(worker, signal.SIGKILL)
                await crowd.until(
                    lambda gone=before: gone.isdisjoint(each.id for each in theirs),  # type: ignore[misc]  # mypy: lambda defaults
                    "the clients to come back",
                )
                await house.more()
            await house.pause()
            await house.check()
            house.check_sockets(others)

            async def only_those_that_live_are_present() -> bool:
                for channel in crowd.CHANNELS:
                    found = await others[0].client.presence(channel)
                    if set(found.clients) != {each.id for each in house.members}:
                        return False
                return True

            await crowd.until(only_those_that_live_are_present, "presence of the dead to fade")

    options = {"channels": crowd.OPTIONS["channels"] | {"presence_ttl": 3}}
    with (
        servers.redis_server() as redis,
        servers.service(redis.uri, options=options) as killed,
        servers.service(redis.uri, options=options) as other,
    ):
        asyncio.run(story(redis, killed, other))
