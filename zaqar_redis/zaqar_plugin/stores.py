# SPDX-License-Identifier: Apache-2.0
"""The storage verbs for threads: stores of one Redis each, and the router between them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeVar

from zaqar.common import errors as zaqar_errors
from zaqar.storage import errors as storage_errors

from zaqar_redis import clock, errors
from zaqar_redis.keyspace import envelope, keys, uris
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.keyspace.client import BlockingClient
from zaqar_redis.keyspace.script import Steps, Verb, verb
from zaqar_redis.records import NewMessage, Pool, PostResult
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.pools.router import choose_by_weight
from zaqar_redis.storage.redis import posting
from zaqar_redis.storage.redis.catalogue import RedisCatalogue
from zaqar_redis.storage.redis.claims import RedisClaims
from zaqar_redis.storage.redis.messages import RedisMessages
from zaqar_redis.storage.redis.pools import RedisFlavors, RedisPools
from zaqar_redis.storage.redis.queues import RedisQueues
from zaqar_redis.storage.redis.subscriptions import RedisSubscriptions
from zaqar_redis.storage.redis.topics import RedisTopics

T = TypeVar("T")

#: Seconds for which the list of pools is cached, as in stock Zaqar.
_POOLS_TTL_SECONDS, _EXPIRED = 10.0, float("-inf")


def run_verb(steps: Verb[T]) -> T:
    """Runs a verb, blocking.  Raises zaqar's ConnectionError when the store is unreachable."""
    try:
        return steps.run()
    except errors.Unavailable as error:
        raise storage_errors.ConnectionError from error


class PassthroughMessages(RedisMessages):
    """Messages whose bodies are stored as they come: stock Zaqar encrypts them itself."""

    @verb
    def post_raw(
        self,
        project: str,
        queue: str,
        drafts: Sequence[NewMessage],
        *,
        client: str,
        default_ttl: int,
    ) -> Steps[PostResult]:
        return posting.post(
            self._now(),
            project,
            queue,
            drafts,
            client=envelope.client_bytes(client),
            default_ttl=default_ttl,
            size=0,
            encrypted=True,
        )


class PluginStore:
    """One Redis.  Raises zaqar's ConfigurationError when its URI cannot be used."""

    def __init__(self, uri: str, settings: BatchSettings, connections: int) -> None:
        try:
            self.uri = uris.to_redis_uri(uri)
            self.client = BlockingClient(self.uri, settings, connections)
        except errors.BadConfiguration as error:
            raise zaqar_errors.ConfigurationError(str(error)) from error
        now = clock.store
        self.queues = RedisQueues(self.client, now)
        self.messages = PassthroughMessages(self.client, now)
        self.claims = RedisClaims(self.client, now, self.messages.dead_letter)
        self.subscriptions = RedisSubscriptions(self.client, now)
        self.topics = RedisTopics(self.client)

    def is_alive(self) -> bool:
        try:
            return bool(self.client.command("PING"))
        except errors.Unavailable:
            return False

    def route_dead_letters(self, dead_letter: Any) -> None:
        self.messages.dead_letter_route = self.claims.dead_letter_route = dead_letter

    def open_sibling(self, uri: str) -> PluginStore:
        """Returns a store at *uri* with the same settings.  Raises ConfigurationError."""
        return PluginStore(uri, self.client.settings, self.client.connections)

    def close(self) -> None:
        self.client.close()


class PluginRouter:
    """The management store, the default pool, and the pools that its catalogue names.

    As in our own service, the default pool is the message store.
    """

    def __init__(self, management: PluginStore, default: PluginStore, pooling: bool) -> None:
        self.management = management
        self.default = default
        self.pools = RedisPools(management.client)
        self.flavors = RedisFlavors(management.client)
        self.catalogue = RedisCatalogue(management.client, clock.store)
        self._pooling = pooling
        self._known: dict[str, Pool] = {}
        self._loaded_at = _EXPIRED
        self._opened: dict[str, PluginStore] = {}

    def store_of(self, project: str, queue: str) -> PluginStore:
        """Returns the store that a queue is in, or would be in, as our own service routes it."""
        if not self._pooling:
            return self.default
        pool = run_verb(self.catalogue.locate(project, queue)).pool
        return self.default if pool is None else self.store_of_pool(pool)

    def pool_of(self, project: str, queue: str) -> str | None:
        """Returns the pool that a queue is in; None when it is in none, or was deleted."""
        located = run_verb(self.catalogue.locate(project, queue))
        if located.pool is not None and not located.deleted:
            return located.pool
        # It may be older than the catalogue, or have been created anew since.
        pool = located.pool or DEFAULT_POOL
        return pool if self.has_queue(pool, project, queue) else None

    def has_queue(self, pool: str, project: str, queue: str) -> bool:
        """Returns whether the store of a pool has the queue, whatever the catalogue says."""
        try:
            return run_verb(self.store_of_pool(pool).queues.get(project, queue)) is not None
        except zaqar_errors.ConfigurationError:
            return False  # such a store never had a queue

    def assign_store(self, project: str, queue: str) -> PluginStore:
        """Returns the store of a queue, after assigning it to a pool if it has none."""
        if not self._pooling:
            return self.default
        while True:
            located = run_verb(self.catalogue.locate(project, queue))
            if located.pool is not None and not located.deleted:
                return self.store_of_pool(located.pool)
            pools = run_verb(self.pools.list())
            name = self.pool_of(project, queue)
            if name is None:
                pool = choose_by_weight(pools.items, "")
                name = pool.name if pool else DEFAULT_POOL
            run_verb(self.catalogue.assign(project, queue, name, pools.version))

    def store_of_pool(self, name: str) -> PluginStore:
        """Returns the store of a pool, or the default pool's when the pool does not exist."""
        if name == DEFAULT_POOL:
            return self.default
        pool = self.pools_by_name().get(name)
        if pool is None:
            self.invalidate()  # it may be new
            pool = self.pools_by_name().get(name)
        return self.default if pool is None else self.opened(pool)

    def stores_with_queues(self, project: str) -> list[PluginStore]:
        """Returns the stores that may have queues of the project, the default pool's first."""
        if not self._pooling:
            return [self.default]
        names = run_verb(self.catalogue.pools_of(project))
        return list(dict.fromkeys([self.default, *map(self.store_of_pool, names)]))

    def pools_by_name(self) -> dict[str, Pool]:
        """Returns all pools by name."""
        if time.monotonic() > self._loaded_at + _POOLS_TTL_SECONDS:
            self._known = {pool.name: pool for pool in run_verb(self.pools.list()).items}
            self._loaded_at = time.monotonic()
        return self._known

    def invalidate(self) -> None:
        """Drops the cached list of pools: they have changed."""
        self._loaded_at = _EXPIRED

    def opened(self, pool: Pool) -> PluginStore:
        store = self._opened.get(pool.uri)
        if store is None:
            store = self._opened[pool.uri] = self.default.open_sibling(pool.uri)
        return store

    def drop_pools(self) -> None:
        """Deletes all pools, also those in use."""
        self.management.client.command("UNLINK", keys.CONTROL.pools)
        self.invalidate()

    def drop_catalogue(self) -> None:
        """Deletes all entries of the catalogue; the queues stay."""
        command = self.management.client.command
        cursor: Any = b"0"
        while True:
            cursor, found = command("SCAN", cursor, "MATCH", keys.ControlKeys.prefix + b"*")
            if entries := [key for key in found if keys.is_catalogue_key(key)]:
                command("UNLINK", *entries)
            if cursor in (b"0", 0):
                return

    def close(self) -> None:
        for store in dict.fromkeys((self.management, self.default, *self._opened.values())):
            store.close()


def open_store(options: Any) -> PluginStore:
    """Returns the store that a group of options names.

    The options are read at once: with pools, stock Zaqar changes them later.
    """
    settings = BatchSettings(timeout=options.timeout, connect_timeout=options.connect_timeout)
    return PluginStore(options.uri, settings, options.max_connections)
