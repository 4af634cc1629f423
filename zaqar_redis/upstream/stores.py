# SPDX-License-Identifier: Apache-2.0
"""The storage verbs for threads: one Redis each, and which one a queue lives in."""

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
from zaqar_redis.records import Draft, Pool, Posted
from zaqar_redis.storage.control import DEFAULT
from zaqar_redis.storage.drivers.redis import control, posting
from zaqar_redis.storage.drivers.redis.claims import Claims
from zaqar_redis.storage.drivers.redis.messages import Messages
from zaqar_redis.storage.drivers.redis.queues import Queues
from zaqar_redis.storage.drivers.redis.subscriptions import Subscriptions
from zaqar_redis.storage.drivers.redis.topics import Topics
from zaqar_redis.storage.pooled.places import choose

T = TypeVar("T")

#: Seconds for which the list of pools is believed, as stock Zaqar believes its cache.
_BELIEVED, _NEVER = 10.0, float("-inf")


def run(asked: Verb[T]) -> T:
    """Do it now.  Raises zaqar's ConnectionError when the store is away."""
    try:
        return asked.run()
    except errors.Unavailable as away:
        raise storage_errors.ConnectionError from away


class PlainMessages(Messages):
    """Stock Zaqar encrypts bodies itself: they are stored as they come."""

    @verb
    def post_as_they_are(
        self, project: str, queue: str, drafts: Sequence[Draft], *, client: str, default_ttl: int
    ) -> Steps[Posted]:
        return posting.post(
            self._now(),
            project,
            queue,
            drafts,
            client=envelope.client_bytes(client),
            default_ttl=default_ttl,
            size=0,
            sealed=True,
        )


class Store:
    """One Redis.  Raises zaqar's ConfigurationError when its URI cannot be used."""

    def __init__(self, uri: str, settings: BatchSettings, connections: int) -> None:
        try:
            self.uri = uris.understood(uri)
            self.client = BlockingClient(self.uri, settings, connections)
        except errors.BadConfiguration as error:
            raise zaqar_errors.ConfigurationError(str(error)) from error
        now = clock.store
        self.queues = Queues(self.client, now)
        self.messages = PlainMessages(self.client, now)
        self.claims = Claims(self.client, now, self.messages.bury)
        self.subscriptions = Subscriptions(self.client, now)
        self.topics = Topics(self.client)

    def is_alive(self) -> bool:
        try:
            return bool(self.client.command("PING"))
        except errors.Unavailable:
            return False

    def route_letters(self, bury: Any) -> None:
        self.messages.letters = self.claims.letters = bury

    def beside(self, uri: str) -> Store:
        """Another one, with the same settings.  Raises ConfigurationError."""
        return Store(uri, self.client.settings, self.client.connections)

    def close(self) -> None:
        self.client.close()


class Stores:
    """The management store, the default pool, and the pools that its catalogue names.

    As in the service of our own, the default pool is the message store: *home*.
    """

    def __init__(self, management: Store, home: Store, pooling: bool) -> None:
        self.management = management
        self.home = home
        self.pools = control.Pools(management.client)
        self.flavors = control.Flavors(management.client)
        self.catalogue = control.Catalogue(management.client, clock.store)
        self._pooling = pooling
        self._known: dict[str, Pool] = {}
        self._asked = _NEVER
        self._opened: dict[str, Store] = {}

    def of(self, project: str, queue: str) -> Store:
        """Where the queue is, or would be: as the service of our own has it."""
        if not self._pooling:
            return self.home
        pool = run(self.catalogue.locate(project, queue)).pool
        return self.home if pool is None else self.named(pool)

    def pool_of(self, project: str, queue: str) -> str | None:
        """The pool that the queue is in; None: it is in none, or was deleted."""
        located = run(self.catalogue.locate(project, queue))
        if located.pool is not None and not located.deleted:
            return located.pool
        # It may be older than the catalogue, or have been made anew since.
        pool = located.pool or DEFAULT
        return pool if self.has(pool, project, queue) else None

    def has(self, pool: str, project: str, queue: str) -> bool:
        """Whether the queue is in the store of this pool, whatever the catalogue says."""
        try:
            return run(self.named(pool).queues.get(project, queue)) is not None
        except zaqar_errors.ConfigurationError:
            return False  # no queue was ever there

    def placed(self, project: str, queue: str) -> Store:
        """The store of a queue, which is given a place if it has none."""
        if not self._pooling:
            return self.home
        while True:
            located = run(self.catalogue.locate(project, queue))
            if located.pool is not None and not located.deleted:
                return self.named(located.pool)
            pools = run(self.pools.list())
            name = self.pool_of(project, queue)
            if name is None:
                pool = choose(pools.items, "")
                name = pool.name if pool else DEFAULT
            run(self.catalogue.assign(project, queue, name, pools.version))

    def named(self, name: str) -> Store:
        """The store of a pool, or the default pool's when there is none of this name."""
        if name == DEFAULT:
            return self.home
        pool = self.known().get(name)
        if pool is None:
            self.forget()  # it may be new
            pool = self.known().get(name)
        return self.home if pool is None else self.opened(pool)

    def with_queues_of(self, project: str) -> list[Store]:
        """The default pool's, and those of the pools that the project has queues in."""
        if not self._pooling:
            return [self.home]
        names = run(self.catalogue.pools_of(project))
        return list(dict.fromkeys([self.home, *map(self.named, names)]))

    def known(self) -> dict[str, Pool]:
        """All pools by name."""
        if time.monotonic() > self._asked + _BELIEVED:
            self._known = {pool.name: pool for pool in run(self.pools.list()).items}
            self._asked = time.monotonic()
        return self._known

    def forget(self) -> None:
        """Pools have changed."""
        self._asked = _NEVER

    def opened(self, pool: Pool) -> Store:
        store = self._opened.get(pool.uri)
        if store is None:
            store = self._opened[pool.uri] = self.home.beside(pool.uri)
        return store

    def drop_pools(self) -> None:
        """Forget all pools, whoever needs them."""
        self.management.client.command("UNLINK", keys.CONTROL.pools)
        self.forget()

    def drop_catalogue(self) -> None:
        """Forget where every queue is; the queues stay."""
        command = self.management.client.command
        cursor: Any = b"0"
        while True:
            cursor, found = command("SCAN", cursor, "MATCH", keys.ControlKeys.prefix + b"*")
            if places := [key for key in found if keys.is_of_places(key)]:
                command("UNLINK", *places)
            if cursor in (b"0", 0):
                return

    def close(self) -> None:
        for store in dict.fromkeys((self.management, self.home, *self._opened.values())):
            store.close()


def opened(options: Any) -> Store:
    """The store that a group of options names.

    Read at once: with pools, stock Zaqar changes the options under its drivers' hands.
    """
    settings = BatchSettings(timeout=options.timeout, connect_timeout=options.connect_timeout)
    return Store(options.uri, settings, options.max_connections)
