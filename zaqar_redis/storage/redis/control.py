# SPDX-License-Identifier: Apache-2.0
"""The control store in Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, cast

import msgspec

from zaqar_redis import clock
from zaqar_redis.check_records import CheckResult
from zaqar_redis.figures import StoreStatus
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import control_keys, keys, settings
from zaqar_redis.keyspace.ping import ping
from zaqar_redis.keyspace.script import RedisCommand, Script, Steps, verb
from zaqar_redis.pool_records import Job
from zaqar_redis.storage.control import ChangeListener
from zaqar_redis.storage.redis import identity
from zaqar_redis.storage.redis.access_keys import RedisAccessKeys
from zaqar_redis.storage.redis.catalogue import RedisCatalogue
from zaqar_redis.storage.redis.control_checker import RedisControlChecker
from zaqar_redis.storage.redis.feed import PubSubChannels
from zaqar_redis.storage.redis.figures import RedisFigures
from zaqar_redis.storage.redis.histories import RedisHistories
from zaqar_redis.storage.redis.ownership import RedisFormatMark
from zaqar_redis.storage.redis.pools import RedisFlavors, RedisPools
from zaqar_redis.storage.redis.quotas import RedisQuotas
from zaqar_redis.storage.redis.resource import RedisResource
from zaqar_redis.storage.redis.schedules import RedisSchedules

_TAKE = Script("role_take")
_LEAVE = Script("role_leave")


class RedisJobs(RedisResource):
    @verb
    def put(self, name: str, job: Job) -> Steps[None]:
        yield RedisCommand("HSET", control_keys.CONTROL.jobs, name, msgspec.json.encode(job))

    @verb
    def get(self, name: str) -> Steps[Job | None]:
        report = yield RedisCommand("HGET", control_keys.CONTROL.jobs, name)
        return msgspec.json.decode(report, type=Job) if report is not None else None

    @verb
    def end(self, name: str) -> Steps[None]:
        yield RedisCommand("HDEL", control_keys.CONTROL.jobs, name)


class RedisRoles(RedisResource):
    """Roles that one process at a time has."""

    @verb
    def take(self, role: str, process: str, seconds: float) -> Steps[bool]:
        """Takes or renews the role for *seconds*; returns False when another process has it."""
        taken = yield _TAKE(
            control_keys.RoleKeys(role), process=process, period=int(seconds * 1000)
        )
        return bool(taken)

    @verb
    def leave(self, role: str, process: str) -> Steps[None]:
        """Gives the role up, for another process to take.  Idempotent."""
        yield _LEAVE(control_keys.RoleKeys(role), process=process)


class RedisControl:
    """The control store in one Redis, for a running event loop."""

    def __init__(self, client: keyspace.AsyncClient, now: clock.Clock = clock.store) -> None:
        self._client = client
        self._channels = PubSubChannels(client, _changed, None)
        self._process = identity.new_claim()
        self.pools = RedisPools(client)
        self.flavors = RedisFlavors(client)
        self.catalogue = RedisCatalogue(client, now)
        self.jobs = RedisJobs(client)
        self.quotas = RedisQuotas(client, now)
        self.access_keys = RedisAccessKeys(client, now)
        self.histories = RedisHistories(client)
        self.schedules = RedisSchedules(client, now)
        self.format = RedisFormatMark(client)
        self._figures = RedisFigures(client, now)
        self._roles = RedisRoles(client)

    async def start(self) -> None:
        await self._client.start()

    async def close(self) -> None:
        await self._channels.close()
        await self._client.close()

    async def ping(self) -> None:
        await ping(self._client)

    async def status(self) -> StoreStatus | None:
        return await self._figures.status()

    async def installation(self) -> str:
        key = control_keys.CONTROL.installation
        stored: bytes | None = await self._client.command("GET", key)
        if stored is None:  # a full store refuses SET even if there is nothing to set
            await self._client.command("SET", key, identity.new_claim(), "NX")
            stored = await self._client.command("GET", key)
        return cast(bytes, stored).decode()

    async def watch(self, news: ChangeListener) -> None:
        if await self._channels.watch(control_keys.CONTROL.news, news):
            news(None)  # earlier changes are unknown; else it comes with the confirmation

    def check(self, pools: Collection[str], repair: bool) -> AsyncIterator[CheckResult]:
        return RedisControlChecker(self._client).check(pools, repair)

    async def lead(self, role: str, seconds: float) -> bool:
        return await self._roles.take(role, self._process, seconds)

    async def resign(self, role: str) -> None:
        await self._roles.leave(role, self._process)


def _changed(announced: bytes) -> tuple[str, str] | None:
    what, _, entry = announced.partition(b" ")
    return keys.queue_of(entry) if what == b"queue" else None


def create(uri: str, options: Mapping[str, Any]) -> RedisControl:
    """The entry point of the control stores; the options are those of the driver."""
    return RedisControl(keyspace.client(uri, settings.from_options(options)))
