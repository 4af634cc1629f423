# SPDX-License-Identifier: Apache-2.0
"""The storage verbs for threads: stores of one Redis each, and the router between them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from zaqar.common import errors as zaqar_errors
from zaqar.storage import errors as storage_errors

from zaqar_redis import errors, message_fields
from zaqar_redis.keyspace import blocking, control_keys, envelope, uris
from zaqar_redis.keyspace.script import Steps, Verb, verb
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.records import NewMessage, PostResult
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.pools.controllers import RoutedQueues
from zaqar_redis.storage.pools.pool_stores import Route
from zaqar_redis.storage.pools.retry import RetryPolicy
from zaqar_redis.storage.pools.router import Router
from zaqar_redis.storage.redis import posting
from zaqar_redis.storage.redis.blocking import BlockingRedisControl, BlockingRedisStore
from zaqar_redis.storage.redis.messages import RedisMessages

T = TypeVar("T")

#: Seconds for which pools and routes are cached, as in stock Zaqar.
_ROUTE_TTL_SECONDS = 10.0
_CONTROL_KEYS = control_keys.ControlKeys.prefix + b"*"


def run_verb(steps: Verb[T]) -> T:
    """Runs a verb, blocking.

    Raises zaqar's ConnectionError when a store is unreachable, and its ConfigurationError when
    the URI of a pool cannot be used.
    """
    try:
        return steps.run()
    except errors.Unavailable as error:
        raise storage_errors.ConnectionError from error
    except errors.BadConfiguration as error:
        raise zaqar_errors.ConfigurationError(str(error)) from error


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
        post = functools.partial(
            posting.post,
            self._now(),
            project,
            queue,
            client=envelope.client_bytes(client),
            default_ttl=default_ttl,
            size=0,
            encrypted=True,
        )
        try:
            return (yield from post(drafts=drafts))
        except errors.DedupIdsRequired:
            return (yield from post(drafts=message_fields.identified(drafts, drafts)))


class PluginStore(BlockingRedisStore):
    """One Redis."""

    messages: PassthroughMessages

    def __init__(self, uri: str, settings: BatchSettings, connections: int) -> None:
        """Raises BadConfiguration when the URI cannot be used."""
        self.uri = uris.to_redis_uri(uri)
        client = blocking.client(self.uri, settings, connections)
        super().__init__(client, PassthroughMessages)

    def is_alive(self) -> bool:
        try:
            self.ping().run()
        except errors.Unavailable:
            return False
        return True

    def open_sibling(self, uri: str) -> PluginStore:
        """Returns a store at *uri* with the same settings.  Raises BadConfiguration."""
        return PluginStore(uri, self.client.settings, self.client.connections)


class PluginRouter:
    """The management store, the default pool, and the pools that its catalogue names.

    As in our own service, the default pool is the message store.
    """

    def __init__(
        self, management: PluginStore, default: PluginStore, pooling: bool, retry: RetryPolicy
    ) -> None:
        self.management = management
        self.default = default
        control = BlockingRedisControl(management.client)
        self.pools = control.pools
        self.flavors = control.flavors
        self.catalogue = control.catalogue
        self._pooling = pooling
        self._router = Router(
            default,
            control,
            lambda pool: default.open_sibling(pool.uri),
            retry,
            cache_ttl=_ROUTE_TTL_SECONDS,
        )
        self.dead_letter = self._router.dead_letter
        #: the queues of all pools
        self.queues = RoutedQueues(self._router) if pooling else default.queues

    def run(
        self,
        project: str,
        queue: str,
        act: Callable[[PluginStore], Verb[T]],
        first: Route[PluginStore] | None = None,
    ) -> T:
        """Returns the result of *act* on the store of a queue, as our own service routes it.

        Without pools that is the store of *first*, or the default pool.
        """
        if not self._pooling:
            return run_verb(act((first or self._router.stores.default).driver))
        return run_verb(self._router.route(project, queue, act, first=first))

    def store_of(self, project: str, queue: str) -> PluginStore:
        """Returns the store that a queue is in, or would be in."""
        if not self._pooling:
            return self.default
        return run_verb(self._router.find(project, queue)).driver

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
            store = run_verb(self._router.stores.get(pool)).driver
            return run_verb(store.queues.get(project, queue)) is not None
        except zaqar_errors.ConfigurationError:
            return False  # such a store never had a queue

    def invalidate(self) -> None:
        """Drops what is cached: pools have changed."""
        self._router.invalidate(None)

    def drop_pools(self) -> None:
        """Deletes all pools, also those in use."""
        self.management.client.command("UNLINK", control_keys.CONTROL.pools)
        self.invalidate()

    def drop_catalogue(self) -> None:
        """Deletes all entries of the catalogue; the queues stay."""
        for node in self.management.client.nodes():
            cursor: Any = b"0"
            while True:
                cursor, found = node.command("SCAN", cursor, "MATCH", _CONTROL_KEYS)
                if entries := [key for key in found if control_keys.is_catalogue_key(key)]:
                    node.command("UNLINK", *entries)
                if cursor in (b"0", 0):
                    break

    def close(self) -> None:
        self._router.stores.close().run()
        self.management.client.close()


def open_store(options: Any) -> PluginStore:
    """Returns the store that a group of options names.  Raises zaqar's ConfigurationError.

    The options are read at once: with pools, stock Zaqar changes them later.
    """
    settings = BatchSettings(timeout=options.timeout, connect_timeout=options.connect_timeout)
    try:
        return PluginStore(options.uri, settings, options.max_connections)
    except errors.BadConfiguration as error:
        raise zaqar_errors.ConfigurationError(str(error)) from error
