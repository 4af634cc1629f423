# SPDX-License-Identifier: Apache-2.0
"""Redis or a node is lost: sockets stay or reconnect, and no loss goes unreported."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator

import pytest

from tests.realtime import crowd
from tests.realtime.sdk_client import IGNORE_UNCLOSED_SOCKETS
from tests.support import servers
from zaqar_redis.realtime.buses.sharded import shard

pytestmark = IGNORE_UNCLOSED_SOCKETS


@contextlib.asynccontextmanager
async def fleet_on_redis(
    fsync: str | None = None, options: dict[str, dict[str, object]] = crowd.OPTIONS
) -> AsyncIterator[tuple[servers.RedisServer, crowd.SubscriberFleet]]:
    """A fleet of two workers, and their Redis."""
    with (
        servers.redis_server(fsync=fsync) as redis,
        servers.service(redis.uri, workers=2, options=options) as service,
    ):
        async with crowd.subscriber_fleet([redis.uri], service) as fleet:
            yield redis, fleet


@pytest.mark.nightly
async def test_redis_restart_with_data_loses_nothing() -> None:
    async with fleet_on_redis(fsync="always") as (redis, fleet):
        for _ in range(2):
            redis.signal(signal.SIGKILL)
            await fleet.wait_for_refused()
            await asyncio.to_thread(redis.start)
            await fleet.wait_for_acknowledged()
        await fleet.finish()


async def test_redis_restart_without_data_resubscribes_everybody() -> None:
    async with fleet_on_redis() as (redis, fleet):
        redis.signal(signal.SIGKILL)
        await fleet.wait_for_refused()
        await asyncio.to_thread(redis.start)
        await fleet.wait_for_epochs(2)
        await fleet.wait_for_acknowledged()
        await fleet.finish(epochs=2)


@pytest.mark.nightly
async def test_redis_restart_from_old_snapshot_resubscribes_everybody() -> None:
    async with fleet_on_redis() as (redis, fleet):
        with redis.client() as client:
            client.save()
        await fleet.wait_for_acknowledged(50)
        disconnected = fleet.members[0]
        await disconnected.client.disconnect()
        redis.signal(signal.SIGKILL)
        await asyncio.to_thread(redis.start)
        await fleet.wait_for_acknowledged(100)  # reuses offsets of the lost publications
        await disconnected.client.connect()
        await fleet.wait_for_epochs(2)
        await fleet.wait_for_acknowledged()
        await fleet.finish(epochs=2, members=fleet.members[1:])


async def test_paused_redis_loses_nothing() -> None:
    options = crowd.OPTIONS | {"redis": {"timeout": 1.0}}
    async with fleet_on_redis(options=options) as (redis, fleet):
        redis.signal(signal.SIGSTOP)
        await fleet.wait_for_refused()
        redis.signal(signal.SIGCONT)
        await fleet.wait_for_acknowledged()
        await fleet.finish()


async def test_publications_lost_by_pubsub_are_recovered_by_position_check() -> None:
    async with fleet_on_redis() as (redis, fleet):
        with redis.client() as client:
            listeners = len(client.client_list(_type="pubsub"))

            async def cut_off() -> None:
                # On a busy machine they need longer to come back than some publications.
                await crowd.until(
                    lambda: len(client.client_list(_type="pubsub")) >= listeners, "all listeners"
                )
                assert client.client_kill_filter(_type="pubsub") > 0

            for _ in range(5):
                await cut_off()
                await fleet.wait_for_acknowledged(15)
            await fleet.pause()
            # No later publication reveals the gap.
            await cut_off()
            for publisher in fleet.publishers.values():
                assert await publisher.publish()
        await fleet.wait_until_all_received()
        await fleet.check()
        fleet.check_sockets()
        assert all(2500 in subscriber.codes for subscriber in fleet.subscribers)


@pytest.mark.nightly
async def test_lost_shard_affects_only_its_channels() -> None:
    with (
        servers.redis_server(fsync="always") as first,
        servers.redis_server(fsync="always") as second,
        servers.redis_server() as queues,
    ):
        uris = [first.uri, second.uri]
        options = {"channels": crowd.OPTIONS["channels"] | {"uris": ", ".join(uris)}}
        with servers.service(queues.uri, workers=2, options=options) as service:
            async with crowd.subscriber_fleet(uris, service) as fleet:
                lost, other = sorted(
                    crowd.CHANNELS, key=lambda name: shard(f"default/{name}".encode(), 2)
                )
                first.signal(signal.SIGKILL)
                before = fleet.publishers[other].refused
                await crowd.until(lambda: fleet.publishers[lost].refused > 10, "refusals")
                assert fleet.publishers[other].refused == before == 0
                await asyncio.to_thread(first.start)
                await fleet.wait_for_acknowledged()
                await fleet.finish()


async def test_clients_of_a_killed_node_come_back_and_miss_nothing() -> None:
    options = {"channels": crowd.OPTIONS["channels"] | {"presence_ttl": 3}}
    with (
        servers.redis_server() as redis,
        servers.service(redis.uri, options=options) as killed,
        servers.service(redis.uri, options=options) as other,
    ):
        async with crowd.subscriber_fleet([redis.uri], killed, other, each=3) as fleet:
            theirs, others = fleet.members[:3], fleet.members[3:]
            for _ in range(2):
                before = {member.id for member in theirs}
                (worker,) = killed.workers()
                os.kill(worker, signal.SIGKILL)
                await crowd.until(
                    lambda gone=before: gone.isdisjoint(each.id for each in theirs),  # type: ignore[misc]  # mypy: lambda defaults
                    "the clients to reconnect",
                )
                await fleet.wait_for_acknowledged()
            await fleet.finish(members=others)

            async def only_live_clients_are_present() -> bool:
                for channel in crowd.CHANNELS:
                    found = await others[0].client.presence(channel)
                    if set(found.clients) != {each.id for each in fleet.members}:
                        return False
                return True

            await crowd.until(only_live_clients_are_present, "presence of lost clients to expire")
