# SPDX-License-Identifier: Apache-2.0
"""Pools, flavors and the catalogue in Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any

import msgspec

from zaqar_redis import clock, errors
from zaqar_redis.clock import Clock
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Script, Steps, verb
from zaqar_redis.records import CatalogueEntry, CheckResult, Flavor, Job, Move, Pool, QueueLocation
from zaqar_redis.records import PoolsSnapshot as AllPools
from zaqar_redis.storage.control import DEFAULT_POOL, POOLS_MAX, ChangeListener
from zaqar_redis.storage.redis import identity
from zaqar_redis.storage.redis.control_checker import RedisControlChecker
from zaqar_redis.storage.redis.feed import PubSubChannels
from zaqar_redis.storage.redis.roles import RedisRoles

_POOL_PUT = Script("pool_put")
_POOL_GET = Script("pool_get")
_POOL_LIST = Script("pool_list")
_POOL_DELETE = Script("pool_delete")
_FLAVOR_PUT = Script("flavor_put")
_FLAVOR_LIST = Script("flavor_list")
_FLAVOR_DESCRIBE = Script("flavor_describe")
_FLAVOR_DELETE = Script("flavor_delete")
_PUT = Script("catalogue_put")
_LOCATE = Script("catalogue_locate")
_RESERVE_EPOCH = Script("catalogue_reserve_epoch")
_ASSIGN = Script("catalogue_assign")
_MARK_DELETED = Script("catalogue_mark_deleted")
_DELETED = Script("catalogue_deleted")
_RELEASE = Script("catalogue_release")
_POOLS_OF = Script("catalogue_pools")
_QUEUES_OF = Script("catalogue_queues")
_COUNT = Script("catalogue_count")
_BEGIN = Script("move_begin")
_COMMIT = Script("move_commit")
_END = Script("move_end")
_MOVES = Script("move_list")
_JOB_PUT = Script("job_put")
_JOB_GET = Script("job_get")
_JOB_END = Script("job_end")

#: Seconds for which a reserved epoch is kept: as long as in the stores.
_RESERVED_EPOCH_TTL_SECONDS = 86_400


class RedisPools:
    def __init__(self, client: Any) -> None:
        self.client = client

    @verb
    def put(
        self,
        pool: Pool,
        *,
        canonical: str,
        version: int | None = None,
        with_flavor: bool = True,
    ) -> Steps[bool | None]:
        record = {"uri": pool.uri, "weight": pool.weight, "options": pool.options}
        outcome, *about = yield _POOL_PUT(
            keys.CONTROL,
            name=pool.name,
            flavor=pool.flavor,
            draining=int(pool.draining),
            canonical=canonical,
            record=msgspec.msgpack.encode(record),
            most=POOLS_MAX,
            known="" if version is None else version,
            with_flavor=int(with_flavor),
        )
        if outcome == b"changed":
            return None
        if outcome == b"taken":
            raise errors.UriTaken(pool=about[0].decode())
        _refused(outcome, about, "pools")
        return bool(outcome == b"created")

    @verb
    def get(self, name: str) -> Steps[Pool | None]:
        stored = yield _POOL_GET(keys.CONTROL, name=name)
        return _pool(name, stored) if stored is not None else None

    @verb
    def list(self) -> Steps[AllPools]:
        version, flat = yield _POOL_LIST(keys.CONTROL)
        return AllPools(version=int(version or 0), items=tuple(_pools(flat)))

    @verb
    def delete(self, name: str) -> Steps[None]:
        outcome, *about = yield _POOL_DELETE(keys.CatalogueKeys("", name), name=name)
        if outcome == b"used":
            raise errors.PoolInUse(pool=name, count=about[0])
        _refused(outcome, about, "pools")


class RedisFlavors:
    def __init__(self, client: Any) -> None:
        self.client = client

    @verb
    def put(self, name: str, pools: Sequence[str]) -> Steps[bool]:
        outcome, *about = yield _FLAVOR_PUT(keys.CONTROL, *pools, name=name, most=POOLS_MAX)
        if outcome == b"missing":
            raise errors.NoSuchPool(name=about[0].decode())
        _refused(outcome, about, "flavors")
        return bool(outcome == b"created")

    @verb
    def get(self, name: str) -> Steps[Flavor | None]:
        flavors = yield from _flavors()
        return next((flavor for flavor in flavors if flavor.name == name), None)

    @verb
    def describe(self, name: str, about: Any) -> Steps[None]:
        outcome = yield _FLAVOR_DESCRIBE(
            keys.CONTROL, name=name, about=msgspec.json.encode(about), most=POOLS_MAX
        )
        _refused(outcome, (), "flavors")

    @verb
    def delete(self, name: str) -> Steps[None]:
        yield _FLAVOR_DELETE(keys.CONTROL, name=name)

    @verb
    def list(self) -> Steps[Sequence[Flavor]]:
        return (yield from _flavors())


def _flavors() -> Steps[list[Flavor]]:
    described, flat = yield _FLAVOR_LIST(keys.CONTROL)
    about = dict(zip(described[::2], described[1::2], strict=True))
    members: dict[str, list[str]] = {name.decode(): [] for name in about}
    for pool in _pools(flat):
        if pool.flavor in members:
            members[pool.flavor].append(pool.name)
    return [
        Flavor(
            name=name,
            pools=tuple(members[name]),
            capabilities=msgspec.json.decode(about[name.encode()]),
        )
        for name in sorted(members)
    ]


class RedisCatalogue:
    def __init__(self, client: Any, now: Clock) -> None:
        self.client = client
        self._now = now

    @verb
    def locate(self, project: str, queue: str) -> Steps[QueueLocation]:
        entry = keys.entry(project, queue)
        pool, move, deleted, reserved_epoch = yield _LOCATE(keys.EntryKeys(entry), queue=entry)
        return QueueLocation(
            pool=pool.decode() if pool is not None else None,
            move=_move(move) if move is not None else None,
            deleted=deleted is not None,
            reserved_epoch=(reserved_epoch or b"").decode(),
        )

    @verb
    def reserve_epoch(self, project: str, queue: str) -> Steps[QueueLocation]:
        entry = keys.entry(project, queue)
        pool, *epoch = yield _RESERVE_EPOCH(
            keys.EntryKeys(entry),
            queue=entry,
            epoch=identity.new_epoch(),
            kept=_RESERVED_EPOCH_TTL_SECONDS,
        )
        if pool is not None:
            return QueueLocation(pool.decode())
        return QueueLocation(None, reserved_epoch=epoch[0].decode())

    @verb
    def assign(
        self, project: str, queue: str, pool: str, version: int, expected_epoch: str | None = None
    ) -> Steps[str | None]:
        entry = keys.entry(project, queue)
        current_pool = yield _ASSIGN(
            keys.CatalogueKeys(project, pool, queue=entry),
            queue=entry,
            pool=pool,
            known=version,
            expected_epoch="*" if expected_epoch is None else expected_epoch,
        )
        return current_pool.decode() if current_pool is not None else None

    @verb
    def put(self, project: str, queue: str, pool: str) -> Steps[None]:
        entry = keys.entry(project, queue)
        done = 0
        while not done:
            current_pool, *_ = yield _LOCATE(keys.EntryKeys(entry), queue=entry)
            origin = "" if current_pool is None else current_pool.decode()
            done = yield _PUT(
                keys.CatalogueKeys(project, pool, origin, entry),
                queue=entry,
                pool=pool,
                origin=origin,
            )

    @verb
    def deleted(self, project: str, queue: str) -> Steps[None]:
        yield _MARK_DELETED(keys.CONTROL, now=self._now(), queue=keys.entry(project, queue), gone=1)

    @verb
    def alive(self, project: str, queue: str) -> Steps[None]:
        yield _MARK_DELETED(keys.CONTROL, now=self._now(), queue=keys.entry(project, queue), gone=0)

    @verb
    def deleted_since(self, age: int, skip: int, limit: int) -> Steps[Sequence[CatalogueEntry]]:
        flat = yield _DELETED(keys.CONTROL, now=self._now(), age=age, after=skip, limit=limit)
        return [_placed(entry, pool) for entry, pool in zip(flat[::2], flat[1::2], strict=True)]

    @verb
    def release(self, project: str, queue: str, pool: str) -> Steps[bool]:
        done = yield _RELEASE(
            keys.CatalogueKeys(project, pool), queue=keys.entry(project, queue), pool=pool
        )
        return bool(done)

    @verb
    def pools_of(self, project: str) -> Steps[dict[str, int]]:
        flat = yield _POOLS_OF(keys.CatalogueKeys(project, DEFAULT_POOL))
        return {
            pool.decode(): int(count) for pool, count in zip(flat[::2], flat[1::2], strict=True)
        }

    @verb
    def queues_of(self, pool: str, after: str, limit: int) -> Steps[Sequence[CatalogueEntry]]:
        entries = yield _QUEUES_OF(keys.CatalogueKeys("", pool), after=after, limit=limit)
        return [_placed(entry, pool.encode()) for entry in entries]

    @verb
    def count(self, pool: str) -> Steps[int]:
        return int((yield _COUNT(keys.CatalogueKeys("", pool))))

    @verb
    def begin(self, project: str, queue: str, move: Move) -> Steps[Move | None]:
        outcome, *about = yield _BEGIN(
            keys.CatalogueKeys(project, move.source),
            queue=keys.entry(project, queue),
            token=move.token,
            source=move.source,
            target=move.target,
            default_pool=DEFAULT_POOL,
        )
        if outcome == b"elsewhere":
            raise errors.QueueNotInPool(queue=queue, pool=about[0].decode())
        if outcome == b"target":
            raise errors.NoSuchPool(name=move.target)
        return _move(about[0]) if outcome == b"earlier" else None

    @verb
    def commit(self, project: str, queue: str, move: Move) -> Steps[bool]:
        done = yield _COMMIT(
            keys.CatalogueKeys(project, move.target, move.source),
            queue=keys.entry(project, queue),
            token=move.token,
        )
        return bool(done)

    @verb
    def end(self, project: str, queue: str, token: str) -> Steps[None]:
        yield _END(keys.CONTROL, queue=keys.entry(project, queue), token=token)

    @verb
    def moves(self) -> Steps[Sequence[tuple[CatalogueEntry, Move]]]:
        flat = yield _MOVES(keys.CONTROL)
        found = []
        for entry, stored in zip(flat[::2], flat[1::2], strict=True):
            move = _move(stored)
            found.append((_placed(entry, move.source.encode()), move))
        return found


class RedisJobs:
    def __init__(self, client: Any) -> None:
        self.client = client

    @verb
    def put(self, name: str, job: Job) -> Steps[None]:
        yield _JOB_PUT(keys.CONTROL, name=name, report=msgspec.json.encode(job))

    @verb
    def get(self, name: str) -> Steps[Job | None]:
        report = yield _JOB_GET(keys.CONTROL, name=name)
        return msgspec.json.decode(report, type=Job) if report is not None else None

    @verb
    def end(self, name: str) -> Steps[None]:
        yield _JOB_END(keys.CONTROL, name=name)


class RedisControl:
    """The control store in one Redis, for a running event loop."""

    def __init__(self, client: keyspace.AsyncClient, now: Clock = clock.store) -> None:
        self._client = client
        self._channels = PubSubChannels(client, _changed, None)
        self._process = identity.new_claim()
        self.pools = RedisPools(client)
        self.flavors = RedisFlavors(client)
        self.catalogue = RedisCatalogue(client, now)
        self.jobs = RedisJobs(client)
        self._roles = RedisRoles(client)

    async def start(self) -> None:
        await self._client.start()

    async def close(self) -> None:
        await self._channels.close()
        await self._client.close()

    async def ping(self) -> None:
        await self._client.command("PING")

    async def installation(self) -> str:
        key = keys.CONTROL.installation
        await self._client.command("SET", key, identity.new_claim(), "NX")
        stored: bytes = await self._client.command("GET", key)
        return stored.decode()

    async def watch(self, news: ChangeListener) -> None:
        await self._channels.watch(keys.CONTROL.news, news)

    def check(self, pools: Collection[str], repair: bool) -> AsyncIterator[CheckResult]:
        return RedisControlChecker(self._client).check(pools, repair)

    async def lead(self, role: str, seconds: float) -> bool:
        return await self._roles.take(role, self._process, seconds)

    async def resign(self, role: str) -> None:
        await self._roles.leave(role, self._process)


def _changed(announced: bytes) -> tuple[str, str] | None:
    what, _, entry = announced.partition(b" ")
    return keys.queue_of(entry) if what == b"queue" else None


def _refused(outcome: bytes, about: Sequence[Any], what: str) -> None:
    if outcome == b"last":
        raise errors.FlavorEmptied(flavor=about[0].decode())
    if outcome == b"many":
        raise errors.LimitExceeded(what=what, most=POOLS_MAX)


def _pools(flat: Sequence[bytes]) -> list[Pool]:
    found = [
        _pool(name.decode(), stored) for name, stored in zip(flat[::2], flat[1::2], strict=True)
    ]
    return sorted(found, key=lambda pool: pool.name)


def _pool(name: str, stored: bytes) -> Pool:
    flavor, draining, _, record = stored.split(b"\n", 3)
    return Pool(
        name=name,
        flavor=flavor.decode(),
        draining=draining == b"1",
        **msgspec.msgpack.decode(record),
    )


def _move(stored: bytes) -> Move:
    token, source, target, committed = stored.decode().split(" ")
    return Move(token=token, source=source, target=target, committed=committed == "1")


def _placed(entry: bytes, pool: bytes) -> CatalogueEntry:
    project, queue = keys.queue_of(entry)
    return CatalogueEntry(project=project, queue=queue, pool=pool.decode(), marker=entry.decode())


def create(uri: str, options: Mapping[str, Any]) -> RedisControl:
    """The entry point of the control stores; the options are those of the driver."""
    return RedisControl(keyspace.client(uri, keyspace.settings(options)))
