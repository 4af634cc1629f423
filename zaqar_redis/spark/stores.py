# SPDX-License-Identifier: Apache-2.0
"""The stores of queues, for planners and tasks: the service's store, and its pools.

Planners read the catalogue; tasks get a location, and look it up again only when the queue
has moved.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from zaqar_redis import clock, errors
from zaqar_redis.keyspace import embedded, uris
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.keyspace.client import BlockingClient, CommandRefused, redact_password
from zaqar_redis.keyspace.script import Verb
from zaqar_redis.records import IdempotencyKey, NewMessage, Queue
from zaqar_redis.spark.options import SourceOptions
from zaqar_redis.storage import pools
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.control import DEFAULT_POOL
from zaqar_redis.storage.redis.catalogue import RedisCatalogue
from zaqar_redis.storage.redis.messages import RedisMessages
from zaqar_redis.storage.redis.pools import RedisPools
from zaqar_redis.storage.redis.queues import RedisQueues

T = TypeVar("T")

#: Names of queues that are read at once.
_PAGE = 100
#: Timeouts of one answer for which a store may be unreachable before a task gives up.
_RETRY_TIMEOUTS = 3
#: Seconds for which the location of a queue is cached: far fewer than the store that it
#: has left keeps the tombstone.
_LOCATION_TTL_SECONDS = 10.0
#: Seconds between tries at an unreachable store, at first and at most.
_RETRY_DELAY_SECONDS, _RETRY_DELAY_MAX_SECONDS = 0.05, 1.0
#: Connections of a process: planners and tasks work with one thing at a time.
_CONNECTIONS = 8


@dataclass(frozen=True)
class StoreConfig:
    """What is needed to find queues; serialized to tasks."""

    uri: str
    control_uri: str
    project: str
    #: seconds for an answer
    timeout: float


class StoreUnreachable(errors.StoreUnavailable):
    """The store of a queue was unreachable for longer than the timeout."""

    message = (
        'The store of the queue "{queue}" of the project "{project}" cannot be reached: {why}; '
        'it was tried again for three times as long as the option "timeout" says'
    )
    code = 1707


@dataclass(frozen=True)
class StoreLocation:
    """The pool and store of a queue."""

    pool: str
    uri: str


def store_config(options: SourceOptions) -> StoreConfig:
    """Returns the configuration that options give.  Raises BadConfiguration."""
    uri = _validated_uri("uri", options.uri())
    control = options["controlUri"]
    return StoreConfig(
        uri=uri,
        control_uri=_validated_uri("controlUri", control) if control else uri,
        project=options["project"],
        timeout=options["timeout"],
    )


def _validated_uri(name: str, uri: str) -> str:
    try:
        scheme = urlsplit(uri).scheme
        if scheme == "memory":
            raise errors.BadConfiguration("memory:// is within one process; Spark has several")
        if scheme == "embedded":
            return embedded.DataDirectory(uri).uri
        plain = uris.to_redis_uri(uri)
        BlockingClient(plain, BatchSettings())
    except (errors.BadConfiguration, ValueError) as error:
        raise errors.BadConfiguration(f'option "{name}": {error}') from error
    return plain


class StoreConnections:
    """Connections to stores, opened when they are needed.  For one process."""

    def __init__(self, config: StoreConfig) -> None:
        self.config = config
        self._settings = BatchSettings(
            timeout=config.timeout, connect_timeout=min(config.timeout, 5.0)
        )
        self._clients: dict[str, BlockingClient] = {}
        self._pools: dict[str, str] = {}
        #: by queue: its location, and until when that is cached (monotonic)
        self._locations: dict[str, tuple[StoreLocation, float]] = {}
        control = self.client(config.control_uri)
        self._control_pools = RedisPools(control)
        self._catalogue = RedisCatalogue(control, clock.store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def client(self, uri: str) -> BlockingClient:
        client = self._clients.get(uri)
        if client is None:
            client = BlockingClient(uri, self._settings, _CONNECTIONS)
            self._clients[uri] = client
        return client

    def check(self, *, wait: bool = False) -> None:
        """Raises BadConfiguration that names the option when the store cannot be used.

        With *wait*, a short outage is not an error.
        """
        for name, uri in (("uri", self.config.uri), ("controlUri", self.config.control_uri)):
            try:
                if wait:
                    self._retry(partial(self._probe, uri))
                else:
                    self._probe(uri)
            except errors.Unavailable as error:
                why = f": {error.__cause__}" if error.__cause__ else ""
                raise errors.BadConfiguration(
                    f'option "{name}": {redact_password(uri)} cannot be reached{why}'
                ) from error
            except CommandRefused as error:
                raise errors.BadConfiguration(
                    f'option "{name}": {redact_password(uri)} refuses: {error}'
                ) from error

    def _probe(self, uri: str) -> None:
        self.client(uri).command("PING")
        if uri == self.config.control_uri:
            self._catalogue.locate(self.config.project, "").run()

    def location(self, queue: str, *, make: bool = False) -> StoreLocation:
        """Returns the location of a queue, or the default pool; *make* assigns a pool."""
        pool = self._pool(queue)
        if pool is None and make:
            self.wait_until_available(queue, make=True)
            pool = self._pool(queue)
        return StoreLocation(pool or DEFAULT_POOL, self.uri_of(pool or DEFAULT_POOL))

    def _pool(self, queue: str) -> str | None:
        return self._catalogue.locate(self.config.project, queue).run().pool

    def _cached_location(self, queue: str, make: bool) -> StoreLocation:
        """Returns the same, from the cache where it is fresh."""
        found, until = self._locations.get(queue) or (None, 0.0)
        if found is None or time.monotonic() > until:
            found = self.location(queue, make=make)
            if make or found.pool != DEFAULT_POOL:  # else a post may assign a pool any moment
                self._locations[queue] = found, time.monotonic() + _LOCATION_TTL_SECONDS
        return found

    def dead_letter(
        self,
        project: str,
        queue: str,
        message: NewMessage,
        *,
        client: bytes,
        idempotency_key: IdempotencyKey,
    ) -> Verb[None]:
        """Returns the verb that posts a dead letter to its queue."""
        store = self.client(self.location(queue, make=True).uri)
        return RedisMessages(store, clock.store).dead_letter(
            project, queue, message, client=client, idempotency_key=idempotency_key
        )

    def uri_of(self, pool: str) -> str:
        """Returns the URI of a pool.  Raises StoreUnavailable when the pool does not exist."""
        if pool == DEFAULT_POOL:
            return self.config.uri
        if pool not in self._pools:
            self._pools = {
                known.name: uris.to_redis_uri(known.uri)
                for known in self._control_pools.list().run().items
            }
        try:
            return self._pools[pool]
        except KeyError:
            raise errors.StoreUnavailable(pool) from KeyError(f'there is no pool "{pool}"')

    def queues(self) -> list[str]:
        """Returns the names of all queues of the project, sorted."""
        pools = {DEFAULT_POOL, *self._catalogue.pools_of(self.config.project).run()}
        found: set[str] = set()
        for pool in pools:
            found.update(queue.name for queue in self._list_queues(self.uri_of(pool)))
        return sorted(found)

    def _list_queues(self, uri: str) -> Iterator[Queue]:
        queues = RedisQueues(self.client(uri), clock.store)
        after = ""
        while True:
            page = queues.list(self.config.project, after, _PAGE, None).run()
            yield from page.items
            if len(page.items) < _PAGE:
                return
            after = page.marker

    def wait_until_available(self, queue: str, *, make: bool) -> None:
        """Waits until a queue that is being moved, or has no pool yet, can be used.

        With *make*, a queue that has no pool is assigned one, as a post would do.
        Raises StoreUnavailable.
        """
        asyncio.run(self._wait_until_available(queue, make))

    async def _wait_until_available(self, queue: str, make: bool) -> None:
        driver = pools.create(
            self.config.uri, self.config.control_uri, {"timeout": self.config.timeout}
        )
        project = self.config.project

        async def reach(store: Driver) -> Any:
            return await store.queues.get(project, queue)

        await driver.start()
        try:
            await driver.router.route(project, queue, reach, make=make)
        finally:
            await driver.close()

    def with_retry(self, queue: str, act: Callable[[StoreLocation], T], *, make: bool = False) -> T:
        """Returns what *act* returns for the queue's location; retries after a move or outage.

        *act* must be idempotent.  Raises StoreUnreachable when the timeout has passed.
        """
        try:
            return self._retry(
                lambda: act(self._cached_location(queue, make)),
                partial(self.wait_until_available, queue, make=make),
            )
        except errors.Unavailable as error:
            why = error.__cause__ or error
            raise StoreUnreachable(queue=queue, project=self.config.project, why=why) from error

    def _retry(
        self, act: Callable[[], T], wait_until_available: Callable[[], None] | None = None
    ) -> T:
        """Returns what *act* returns, retried until the timeout; waits at move locks."""
        end = time.monotonic() + _RETRY_TIMEOUTS * self.config.timeout
        pause = _RETRY_DELAY_SECONDS
        while True:
            try:
                return act()
            except errors.Unavailable as error:
                self._locations.clear()  # it may have moved
                if time.monotonic() + pause > end:
                    raise
                if wait_until_available is not None and isinstance(error, errors.MoveLocked):
                    wait_until_available()
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, _RETRY_DELAY_MAX_SECONDS)
