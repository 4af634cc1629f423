# SPDX-License-Identifier: Apache-2.0
"""Pools for stock Zaqar: those that the service of our own has.

Its own store, which stock Zaqar calls the message store, is a pool to stock too, the
default pool: it can be looked up by its name, is in no list, and cannot be changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
from zaqar import storage
from zaqar.common import errors as zaqar_errors
from zaqar.storage import errors as storage_errors

from zaqar_redis import errors
from zaqar_redis.keyspace import uris
from zaqar_redis.records import Pool
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.upstream import options as known_options
from zaqar_redis.upstream.stores import run

#: Queues that are looked for when their pool is to be deleted.
_CHECKED = 1000
_CHANGEABLE = ("uri", "weight", "flavor", "options")


class PoolHasQueues(storage_errors.PoolInUseByFlavor):
    """Stock Zaqar forgets such queues; to refuse is the same 403 as for a flavor.

    Its transport says "This pool is used by flavors …" with what is named here.
    """

    def __init__(self, pool: str, count: object) -> None:
        super().__init__(pool, f"or queues (of these: {count})")


class DefaultPool(storage_errors.PoolAlreadyExists):
    msg_format = 'The pool "default" is the message store: choose another name.'


class ForeignPool(storage_errors.PoolCapabilitiesMismatch):
    """Stock Zaqar would open another driver, whose messages nobody else finds."""

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
        """All of our stores have the same.  Raises ForeignPool.

        API: an address without a scheme passes here, and fails when it is connected to.
        """
        if ":/" in uri and urlsplit(uri).scheme not in known_options.SCHEMES:
            raise ForeignPool
        return True

    def _list(
        self, marker: str | None = None, limit: int = 10, detailed: bool = False
    ) -> Iterator[Any]:
        found = run(self.driver.stores.pools.list()).items
        pools = [pool for pool in found if pool.name > (marker or "")]
        page = pools[:limit] if limit else pools
        yield (_shown(pool, detailed) for pool in page)
        yield page[-1].name if page else None

    def _get(self, name: str, detailed: bool = False) -> dict[str, Any]:
        return _shown(self._default if name == DEFAULT else self._known(name), detailed)

    def _get_pools_by_flavor(
        self, flavor: dict[str, Any] | None = None, detailed: bool = False
    ) -> Iterator[dict[str, Any]]:
        """API: without a flavor, all pools.  Those that are draining take no queues.

        New queues that no pool takes are the default pool's.
        """
        name = (flavor or {}).get("name")
        pools = [
            pool
            for pool in run(self.driver.stores.pools.list()).items
            if name in (None, pool.flavor) and not pool.draining
        ]
        if name is None and not any(pool.weight for pool in pools):
            pools.append(self._default)
        return (_shown(pool, detailed) for pool in pools)

    def _exists(self, name: str) -> bool:
        return run(self.driver.stores.pools.get(name)) is not None

    def _create(
        self,
        name: str,
        weight: int,
        uri: str,
        flavor: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        if name == DEFAULT:
            raise DefaultPool
        known = run(self.driver.stores.pools.get(name))
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
        self._put(msgspec.structs.replace(self._known(name), **changes))

    def _delete(self, name: str) -> None:
        if name == DEFAULT:
            raise PoolHasQueues(name, run(self.driver.stores.catalogue.count(name)))
        self._forget_places_of_no_queue(name)
        try:
            run(self.driver.stores.pools.delete(name))
        except errors.FlavorEmptied as needed:
            raise storage_errors.PoolInUseByFlavor(name, needed.fields["flavor"]) from None
        except errors.PoolInUse as needed:
            raise PoolHasQueues(name, needed.fields["count"]) from None
        self.driver.stores.forget()

    def _drop_all(self) -> None:
        self.driver.stores.drop_pools()

    def _forget_places_of_no_queue(self, name: str) -> None:
        """Stock maps queues before it makes them, and may leave such an entry behind."""
        pool = run(self.driver.stores.pools.get(name))
        catalogue = self.driver.stores.catalogue
        try:
            queues = self.driver.stores.opened(pool).queues if pool else None
        except zaqar_errors.ConfigurationError:
            queues = None  # no queue was ever there
        for placed in run(catalogue.queues_of(name, "", _CHECKED)):
            project, queue = placed.project, placed.queue
            try:
                there = queues is not None and run(queues.get(project, queue)) is not None
            except storage_errors.ConnectionError:
                return  # the store is away, and nobody knows what is in it
            if not there:
                run(catalogue.deleted(project, queue))
                run(catalogue.release(project, queue, name))

    @property
    def _default(self) -> Pool:
        # Any weight will do: it is chosen when there is no other.
        return Pool(name=DEFAULT, uri=self.driver.stores.home.uri, weight=1)

    def _known(self, name: str) -> Pool:
        pool = run(self.driver.stores.pools.get(name))
        if pool is None:
            raise storage_errors.PoolDoesNotExist(name)
        return pool

    def _put(self, pool: Pool) -> None:
        pools = self.driver.stores.pools
        try:
            run(pools.put(pool, canonical=uris.spelt(pool.uri), with_flavor=False))
        except errors.UriTaken:
            raise storage_errors.PoolAlreadyExists from None
        self.driver.stores.forget()


def _shown(pool: Pool, detailed: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": pool.name,
        "uri": uris.for_stock(pool.uri),
        "weight": pool.weight,
        "flavor": pool.flavor or None,
    }
    if detailed:
        document["options"] = dict(pool.options)
    return document
