# SPDX-License-Identifier: Apache-2.0
"""Pools and flavors in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from zaqar_redis import errors
from zaqar_redis.keyspace import control_keys
from zaqar_redis.keyspace.script import RedisCommand, Script, Steps, verb
from zaqar_redis.pool_records import Flavor, Pool, PoolsSnapshot
from zaqar_redis.storage.control import POOLS_MAX
from zaqar_redis.storage.redis.resource import RedisResource

_POOL_PUT = Script("pool_put")
_POOL_LIST = Script("pool_list")
_POOL_DELETE = Script("pool_delete")
_FLAVOR_PUT = Script("flavor_put")
_FLAVOR_LIST = Script("flavor_list")
_FLAVOR_DESCRIBE = Script("flavor_describe")
_FLAVOR_DELETE = Script("flavor_delete")


class RedisPools(RedisResource):
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
            control_keys.CONTROL,
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
        stored = yield RedisCommand("HGET", control_keys.CONTROL.pools, name)
        return _pool(name, stored) if stored is not None else None

    @verb
    def list(self) -> Steps[PoolsSnapshot]:
        version, flat = yield _POOL_LIST(control_keys.CONTROL)
        return PoolsSnapshot(version=int(version or 0), items=tuple(_pools(flat)))

    @verb
    def delete(self, name: str) -> Steps[None]:
        outcome, *about = yield _POOL_DELETE(control_keys.CatalogueKeys("", name), name=name)
        if outcome == b"used":
            raise errors.PoolInUse(pool=name, count=about[0])
        _refused(outcome, about, "pools")


class RedisFlavors(RedisResource):
    @verb
    def put(self, name: str, pools: Sequence[str]) -> Steps[bool]:
        outcome, *about = yield _FLAVOR_PUT(control_keys.CONTROL, *pools, name=name, most=POOLS_MAX)
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
            control_keys.CONTROL, name=name, about=msgspec.json.encode(about), most=POOLS_MAX
        )
        _refused(outcome, (), "flavors")

    @verb
    def delete(self, name: str) -> Steps[None]:
        yield _FLAVOR_DELETE(control_keys.CONTROL, name=name)

    @verb
    def list(self) -> Steps[Sequence[Flavor]]:
        return (yield from _flavors())


def _flavors() -> Steps[list[Flavor]]:
    described, flat = yield _FLAVOR_LIST(control_keys.CONTROL)
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
