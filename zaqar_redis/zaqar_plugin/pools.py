# SPDX-License-Identifier: Apache-2.0
"""Pools for stock Zaqar: the same that our own service has.

The service's own store, which stock Zaqar calls the message store, is a pool to stock too:
the default pool.  It can be read by its name, is in no list, and cannot be changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
from zaqar import storage
from zaqar.storage import errors as storage_errors

from zaqar_redis import errors
from zaqar_redis.keyspace import uris
from zaqar_redis.pool_records import Pool
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.zaqar_plugin import options as known_options
from zaqar_redis.zaqar_plugin.stores import run_verb

#: Queues that are checked for existence when their pool is to be deleted.
_CHECKED = 1000
_CHANGEABLE = ("uri", "weight", "flavor", "options")


class PoolHasQueues(storage_errors.PoolInUseByFlavor):
    """A pool with queues is to be deleted: answered with 403, as if a flavor used it.

    Stock Zaqar would lose the queues.  Its transport writes "This pool is used by flavors …"
    with the text that is given here.
    """

    def __init__(self, pool: str, count: object) -> None:
        super().__init__(pool, f"or queues (of these: {count})")


class DefaultPool(storage_errors.PoolAlreadyExists):
    msg_format = 'The pool "default" is the message store: choose another name.'


class ForeignPool(storage_errors.PoolCapabilitiesMismatch):
    """A URI for which stock Zaqar would open another driver, unknown to our service."""

    msg_format = (
        'The value of "uri" must begin with one of {schemes}: pools of this management store '
        "are opened by the driver zaqar-redis."
    )

    def __init__(self) -> None:
        super().__init__(schemes=", ".join(f"{each}://" for each in known_options.SCHEMES))


class PoolsController(storage.PoolsBase):
    def _check_capabilities(
        self, uri: str, flavor: dict[str, Any] | None = None, name: str | None = None
    ) -> bool:
        """Returns True: all our stores have the same capabilities.  Raises ForeignPool.

        API: a URI without a scheme passes here, and fails at the first connection.
        """
        if ":/" in uri and urlsplit(uri).scheme not in known_options.SCHEMES:
            raise ForeignPool
        return True

    def _list(
        self, marker: str | None = None, limit: int = 10, detailed: bool = False
    ) -> Iterator[Any]:
        found = run_verb(self.driver.stores.pools.list()).items
        pools = [pool for pool in found if pool.name > (marker or "")]
        page = pools[:limit] if limit else pools
        yield (_shown(pool, detailed) for pool in page)
        yield page[-1].name if page else None

    def _get(self, name: str, detailed: bool = False) -> dict[str, Any]:
        return _shown(self._default if name == DEFAULT_POOL else self._find(name), detailed)

    def _get_pools_by_flavor(
        self, flavor: dict[str, Any] | None = None, detailed: bool = False
    ) -> Iterator[dict[str, Any]]:
        """API: without a flavor, all pools; never those that are draining.

        New queues go to the default pool when no other pool takes any.
        """
        name = (flavor or {}).get("name")
        pools = [
            pool
            for pool in run_verb(self.driver.stores.pools.list()).items
            if name in (None, pool.flavor) and not pool.draining
        ]
        if name is None and not any(pool.weight for pool in pools):
            pools.append(self._default)
        return (_shown(pool, detailed) for pool in pools)

    def _exists(self, name: str) -> bool:
        return run_verb(self.driver.stores.pools.get(name)) is not None

    def _create(
        self,
        name: str,
        weight: int,
        uri: str,
        flavor: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        if name == DEFAULT_POOL:
            raise DefaultPool
        known = run_verb(self.driver.stores.pools.get(name))
        self._put(
            Pool(
                name=name,
                uri=uri,
                weight=weight,
                flavor=flavor or "",
                options=options or {},
                draining=known.draining if known else False,
            )
        )

    def _update(self, name: str, **kwargs: Any) -> None:
        changes = {field: kwargs[field] for field in _CHANGEABLE if kwargs.get(field) is not None}
        if not changes:
            raise AssertionError(f"one of {', '.join(_CHANGEABLE)} must be given")
        self._put(msgspec.structs.replace(self._find(name), **changes))

    def _delete(self, name: str) -> None:
        if name == DEFAULT_POOL:
            raise PoolHasQueues(name, run_verb(self.driver.stores.catalogue.count(name)))
        self._forget_stale_entries(name)
        try:
            run_verb(self.driver.stores.pools.delete(name))
        except errors.FlavorEmptied as needed:
            raise storage_errors.PoolInUseByFlavor(name, needed.fields["flavor"]) from None
        except errors.PoolInUse as needed:
            raise PoolHasQueues(name, needed.fields["count"]) from None
        self.driver.stores.invalidate()

    def _drop_all(self) -> None:
        self.driver.stores.drop_pools()

    def _forget_stale_entries(self, name: str) -> None:
        """Stock maps queues before it creates them, and may leave such an entry behind."""
        catalogue = self.driver.stores.catalogue
        for placed in run_verb(catalogue.queues_of(name, "", _CHECKED)):
            project, queue = placed.project, placed.queue
            try:
                exists = self.driver.stores.has_queue(name, project, queue)
            except storage_errors.ConnectionError:
                return  # the store is unreachable: the entries may be good
            if not exists:
                run_verb(catalogue.deleted(project, queue))
                run_verb(catalogue.release(project, queue, name))

    @property
    def _default(self) -> Pool:
        # Any weight above 0 will do: it is the only candidate then.
        return Pool(name=DEFAULT_POOL, uri=self.driver.stores.default.uri, weight=1)

    def _find(self, name: str) -> Pool:
        pool = run_verb(self.driver.stores.pools.get(name))
        if pool is None:
            raise storage_errors.PoolDoesNotExist(name)
        return pool

    def _put(self, pool: Pool) -> None:
        pools = self.driver.stores.pools
        try:
            run_verb(pools.put(pool, canonical=uris.normalize(pool.uri), with_flavor=False))
        except errors.UriTaken:
            raise storage_errors.PoolAlreadyExists from None
        self.driver.stores.invalidate()


def _shown(pool: Pool, detailed: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": pool.name,
        "uri": uris.to_zaqar_uri(pool.uri),
        "weight": pool.weight,
        "flavor": pool.flavor or None,
    }
    if detailed:
        document["options"] = dict(pool.options)
    return document
